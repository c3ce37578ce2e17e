//! Requests of access tokens at a token endpoint (RFC 6749, 4.4; RFC 8693).

use std::sync::Mutex;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use serde::Deserialize;
use tokio::time::Instant;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::access_token::AccessToken;
use crate::domain::plan::OAuthPlan;
use crate::domain::secret::{Mask, SecretText};
use crate::domain::upstream::UpstreamError;
use crate::transport::issuer;
use crate::transport::outbound::AddressGuard;

/// How long the metadata of an issuer is used.
const METADATA: Duration = Duration::from_secs(60 * 60);
/// The longest part of what a token endpoint says of an error that is shown, in characters.
const SAID: usize = 200;
/// The identifier of access tokens (RFC 8693, 3).
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

/// The token endpoint of one server's `external.oauth`.
#[derive(Debug)]
pub(in crate::upstream) struct TokenEndpoint {
    plan: OAuthPlan,
    secret: SecretText,
    guard: AddressGuard,
    /// The endpoint that the issuer's metadata names, and when that was read.
    named: Mutex<Option<(Endpoint, Instant)>>,
}

#[derive(Clone, Debug)]
struct Endpoint {
    url: String,
    /// Whether the gateway sends its secret in the body, because the issuer takes no Basic authentication.
    posts_secret: bool,
}

/// The error of a token endpoint (RFC 6749, 5.2).
#[derive(Deserialize)]
struct TokenError {
    error: String,
    #[serde(default)]
    error_description: String,
}

impl TokenEndpoint {
    /// Creates the endpoint. It is not asked yet.
    pub(in crate::upstream) fn new(plan: OAuthPlan, secret: SecretText, guard: AddressGuard) -> Self {
        Self { plan, secret, guard, named: Mutex::default() }
    }

    /// Requests a token for the gateway itself.
    pub(super) async fn request(&self) -> Result<AccessToken, UpstreamError> {
        let scope = self.plan.scopes.join(" ");
        let mut form = vec![("grant_type", "client_credentials")];
        form.extend(resource(&self.plan));
        form.extend((!scope.is_empty()).then_some(("scope", &*scope)));
        self.post(&form, None).await
    }

    /// Requests a token for the server in exchange for the token `of` a user (RFC 8693, 2.1).
    pub(super) async fn exchange(&self, of: &SecretText) -> Result<AccessToken, UpstreamError> {
        let scope = self.plan.scopes.join(" ");
        let mut form = vec![
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token", of.expose()),
            ("subject_token_type", ACCESS_TOKEN),
            ("requested_token_type", ACCESS_TOKEN),
        ];
        form.extend(target(&self.plan));
        form.extend((!scope.is_empty()).then_some(("scope", &*scope)));
        self.post(&form, Some(of)).await
    }

    async fn post(&self, form: &[(&str, &str)], of: Option<&SecretText>) -> Result<AccessToken, UpstreamError> {
        let place = issuer::place(self.plan.url().map_or("", |url| url));
        let lacks = |is_refused, why| UpstreamError::NoToken { is_refused, why: format!("{place}: {why}") };
        let endpoint = self.endpoint().await.map_err(|why| lacks(false, why))?;
        let request = self.rendered(&endpoint, form).map_err(|why| lacks(true, why))?;
        let issued = Instant::now();
        let (status, body) = match issuer::exchange(&endpoint.url, request, Some(&self.guard)).await {
            Ok(answer) => answer,
            Err(why) => {
                // The issuer may have moved its endpoint.
                *self.named.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
                return Err(lacks(false, why));
            }
        };
        match status {
            StatusCode::OK => AccessToken::read(&body, issued, of).map_err(|why| lacks(false, why)),
            status => Err(lacks(status.is_client_error(), self.refusal(status, &body, of))),
        }
    }

    /// Returns the request, in which the gateway proves who it is (RFC 6749, 2.3.1).
    fn rendered(&self, endpoint: &Endpoint, form: &[(&str, &str)]) -> Result<Request<Full<Bytes>>, String> {
        let (id, secret) = (&*self.plan.client_id, self.secret.expose());
        let mut body = Serializer::new(String::new());
        body.extend_pairs(form);
        let mut request = Request::new(Full::default());
        *request.method_mut() = Method::POST;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        if endpoint.posts_secret {
            body.extend_pairs([("client_id", id), ("client_secret", secret)]);
        } else {
            let [id, secret] = [id, secret].map(|text| byte_serialize(text.as_bytes()).collect::<String>());
            let basic = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(format!("{id}:{secret}"))));
            let mut basic = basic.map_err(|_| "the client secret cannot be in a header".to_owned())?;
            basic.set_sensitive(true);
            headers.insert(AUTHORIZATION, basic);
        }
        Ok(request.map(|_: Full<Bytes>| Full::from(body.finish())))
    }

    /// Returns the endpoint that the plan or the issuer's metadata names.
    async fn endpoint(&self) -> Result<Endpoint, String> {
        if let Some(url) = &self.plan.token_url {
            return Ok(Endpoint { url: url.clone(), posts_secret: false });
        }
        let known = self.named.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        if let Some((endpoint, read)) = known
            && read.elapsed() < METADATA
        {
            return Ok(endpoint);
        }
        let found = issuer::metadata(self.plan.url().map_or("", |url| url), &self.guard).await?;
        let url = found.token_endpoint.ok_or_else(|| "its metadata lacks token_endpoint".to_owned())?;
        let methods = found.token_endpoint_auth_methods_supported.unwrap_or_default();
        let takes = |method: &str| methods.iter().any(|known| known == method);
        let posts_secret = takes("client_secret_post") && !takes("client_secret_basic");
        let endpoint = Endpoint { url, posts_secret };
        let known = Some((endpoint.clone(), Instant::now()));
        *self.named.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = known;
        Ok(endpoint)
    }

    /// Returns what a token endpoint says of an error, without secrets.
    fn refusal(&self, status: StatusCode, body: &[u8], of: Option<&SecretText>) -> String {
        let Ok(TokenError { error, error_description }) = serde_json::from_slice(body) else {
            return format!("the answer is {status}");
        };
        let said = [error, error_description].join(" ");
        let said = Mask::of(of.into_iter().chain([&self.secret])).printable(said.trim().as_bytes());
        format!("the answer is {status}: {}", said.chars().take(SAID).collect::<String>())
    }
}

/// Returns the parameter of an exchange that names the server.
fn target(plan: &OAuthPlan) -> Option<(&'static str, &str)> {
    let audience = plan.exchange.as_ref().and_then(|exchange| exchange.audience.as_deref());
    audience.map(|audience| ("audience", audience)).or_else(|| resource(plan))
}

/// Returns the resource indicator (RFC 8707), unless the plan has an empty one.
fn resource(plan: &OAuthPlan) -> Option<(&'static str, &str)> {
    Some(("resource", &*plan.resource)).filter(|(_, resource)| !resource.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::plan::ExchangePlan;

    #[test]
    fn an_exchange_names_the_audience_or_else_the_resource() {
        let of = |audience: Option<&str>| OAuthPlan {
            issuer: None,
            token_url: Some("https://login.test/token".into()),
            client_id: "gateway".into(),
            scopes: Vec::new(),
            resource: "https://mcp.test/mcp".into(),
            exchange: Some(ExchangePlan { audience: audience.map(str::to_owned) }),
        };
        assert_eq!(target(&of(Some("jira"))), Some(("audience", "jira")));
        assert_eq!(target(&of(None)), Some(("resource", "https://mcp.test/mcp")));
    }
}
