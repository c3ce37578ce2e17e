//! Determines who sent a request, before its body is read (MCP 2026-07-28, authorization; RFC 6750).

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;

use super::protected_resource::metadata_url;
use super::response::{MissingScopes, refuse};
use crate::domain::identity::{Identity, IdentityMethod};
use crate::domain::plan::GatewayPlan;
use crate::domain::ports::{Authenticate, Credential, Methods, Unproved};
use crate::domain::refusal::{Fault, TokenFacts};
use crate::domain::secret::SecretText;
use crate::engine::Engine;

const TWICE: &str = "the request has several Authorization headers: send one";
const TWO_KEYS: &str = "the request has several API keys, or a token besides: send one";
const IN_QUERY: &str = "the request has a token in its query: send it in the Authorization header";
const NOT_BEARER: &str = "the Authorization header has no bearer token: send `Authorization: Bearer TOKEN`";
const NOT_KEY: &str = "the header for the API key has no key";

/// An error code of RFC 6750, 3.1. Requests without credentials get none.
#[derive(Clone, Copy)]
enum Code {
    None,
    InvalidRequest,
    InvalidToken,
}

impl Code {
    /// Returns the fault of a request without a credential that could be checked.
    fn fault(self) -> Fault {
        if matches!(self, Self::None) { Fault::NoCredentials } else { Fault::InvalidRequest }
    }
}

/// Why a client is not known, for operators, and the response.
pub(super) struct Unknown {
    fault: Fault,
    why: String,
    facts: TokenFacts,
    response: Response,
}

impl Unknown {
    /// Counts and logs the refusal, and returns the response.
    pub(super) fn noted(self, engine: &Engine, listener: &str, address: IpAddr) -> Response {
        engine.gate.refuse_credential(listener, (self.fault, &self.why), self.facts, address);
        self.response
    }
}

/// Returns the identity of the client that sent a request, or the response that refuses the request. `methods` are those of
/// the gateway, with their keys. `from` is the address of the client.
pub(super) async fn authenticate(
    credentials: &dyn Authenticate,
    gateway: &GatewayPlan,
    methods: &Methods,
    (headers, query): (&HeaderMap, Option<&str>),
    from: IpAddr,
) -> Result<Arc<Identity>, Box<Unknown>> {
    let refused = |status, code: Code, why: &str| {
        let (fault, facts) = (code.fault(), TokenFacts::default());
        Err(Box::new(Unknown { fault, why: why.to_owned(), facts, response: refusal(gateway, status, code, why) }))
    };
    if !gateway.authenticates() {
        return match gateway.serves_anonymous() {
            true => Ok(Identity::anonymous()),
            false => refused(StatusCode::UNAUTHORIZED, Code::None, "this gateway accepts no credentials yet"),
        };
    }
    if has_token(query.unwrap_or_default()) {
        return refused(StatusCode::BAD_REQUEST, Code::InvalidRequest, IN_QUERY);
    }
    let key_header = gateway.authentication.api_keys.as_ref().and_then(|keys| keys.header.as_deref());
    let credential = match credential(headers, key_header) {
        Ok(Some(credential)) => credential,
        Ok(None) if gateway.serves_anonymous() => return Ok(Identity::anonymous()),
        Ok(None) => return refused(StatusCode::UNAUTHORIZED, Code::None, &needed(gateway, key_header)),
        Err(why @ (TWICE | TWO_KEYS)) => return refused(StatusCode::BAD_REQUEST, Code::InvalidRequest, why),
        Err(why) => return refused(StatusCode::UNAUTHORIZED, Code::InvalidRequest, why),
    };
    let name = if matches!(credential, Credential::ApiKey(_)) { "API key" } else { "token" };
    let unproved = match credentials.prove(methods, credential, from).await {
        Ok(identity) => return Ok(identity),
        Err(unproved) => unproved,
    };
    let (status, code, fault, why) = match unproved {
        Unproved::Rejected(fault, why) => {
            (StatusCode::UNAUTHORIZED, Code::InvalidToken, fault, format!("the {name} is not accepted: {why}"))
        }
        Unproved::Unavailable(why) => {
            let why = format!("the {name} cannot be checked: {why}");
            (StatusCode::SERVICE_UNAVAILABLE, Code::None, Fault::Unavailable, why)
        }
    };
    let (response, facts) = (refusal(gateway, status, code, &why), credentials.facts(methods, credential));
    Err(Box::new(Unknown { fault, why, facts, response }))
}

/// Says what a client without credentials has to send.
fn needed(gateway: &GatewayPlan, key_header: Option<&str>) -> String {
    let of_key = key_header.map(|header| format!("an API key: send `{header}: KEY`"));
    let methods = &gateway.authentication;
    let takes_bearers = key_header.is_none() || !methods.jwt.is_empty() || methods.token_review.is_some();
    let of_token = takes_bearers.then(|| "a token: send `Authorization: Bearer TOKEN`".to_owned());
    let all: Vec<_> = of_token.into_iter().chain(of_key).collect();
    format!("this gateway needs {}", all.join(", or "))
}

/// Returns the credential of a request; `None` if it has none. `key_header` is the header that is only for API keys.
fn credential<'h>(headers: &'h HeaderMap, key_header: Option<&str>) -> Result<Option<Credential<'h>>, &'static str> {
    let token = bearer(headers)?;
    let mut keys = key_header.into_iter().flat_map(|name| headers.get_all(name));
    let Some(key) = keys.next() else { return Ok(token.map(Credential::Bearer)) };
    if token.is_some() || keys.next().is_some() {
        return Err(TWO_KEYS);
    }
    let key = key.to_str().map(str::trim).ok().filter(|key| !key.is_empty()).ok_or(NOT_KEY)?;
    Ok(Some(Credential::ApiKey(key)))
}

/// Returns the bearer token of a request; `None` if it has no `Authorization`.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, &'static str> {
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    let Some(first) = sent.next() else { return Ok(None) };
    if sent.next().is_some() {
        return Err(TWICE);
    }
    let (scheme, token) = first.to_str().ok().and_then(|text| text.split_once(' ')).ok_or(NOT_BEARER)?;
    let token = token.trim_matches(' ');
    // API keys can have other characters than tokens.
    let is_valid = scheme.eq_ignore_ascii_case("bearer")
        && !token.is_empty()
        && token.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
    if is_valid { Ok(Some(token)) } else { Err(NOT_BEARER) }
}

/// Returns the bearer token by which a client has proved its identity here.
pub(super) fn proved_token(headers: &HeaderMap, identity: &Identity) -> Option<Arc<SecretText>> {
    let is_by_token = matches!(identity.method, IdentityMethod::Jwt | IdentityMethod::TokenReview);
    let token = bearer(headers).ok().flatten().filter(|_| is_by_token)?;
    Some(Arc::new(SecretText::new(token)))
}

/// Whether a query has a token (RFC 6750, 2.3).
fn has_token(query: &str) -> bool {
    query.split('&').any(|pair| pair.split('=').next() == Some("access_token"))
}

/// Returns the response to a request whose client is not known. It tells where clients find out how to get a token.
fn refusal(gateway: &GatewayPlan, status: StatusCode, code: Code, why: &str) -> Response {
    let mut response = refuse(status, why);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        return response;
    }
    let text = why.replace(['"', '\\'], "'");
    let error = match code {
        Code::None => None,
        Code::InvalidRequest => Some("invalid_request"),
        Code::InvalidToken => Some("invalid_token"),
    };
    challenge(gateway, &mut response, error.map(|error| format!("error=\"{error}\", error_description=\"{text}\"")));
    response
}

/// Adds to a response whose client lacks scopes how it gets a token with them (RFC 6750, 3.1).
pub(super) fn ask_for_scopes(gateway: &GatewayPlan, response: &mut Response) {
    if let Some(MissingScopes(scopes)) = response.extensions_mut().remove() {
        challenge(gateway, response, Some(format!("error=\"insufficient_scope\", scope=\"{scopes}\"")));
    }
}

fn challenge(gateway: &GatewayPlan, response: &mut Response, error: Option<String>) {
    let resource = gateway.authentication.resource.as_ref();
    let metadata = resource.map(|resource| format!("resource_metadata=\"{}\"", metadata_url(resource)));
    let parts: Vec<_> = metadata.into_iter().chain(error).collect();
    let challenge = if parts.is_empty() { "Bearer".to_owned() } else { format!("Bearer {}", parts.join(", ")) };
    if let Ok(challenge) = HeaderValue::try_from(challenge) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_another_has_checked_or_that_is_a_key_is_not_kept() {
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static("Bearer abc"))]);
        let of = |method| Identity::new(method, "i", "ann".into()).unwrap();
        for (identity, is_kept) in [
            (of(IdentityMethod::Jwt), true),
            (of(IdentityMethod::TokenReview), true),
            (of(IdentityMethod::ApiKey), false),
            (Identity::forwarded("jwt:1", "ann"), false),
        ] {
            let token = proved_token(&headers, &identity);
            assert_eq!(token.is_some(), is_kept, "{:?}", identity.method);
            assert!(!format!("{token:?}").contains("abc"));
        }
    }

    #[test]
    fn a_token_is_read_from_one_header_only() {
        let of = |values: &[&str]| {
            let pairs = values.iter().map(|value| (header::AUTHORIZATION, HeaderValue::from_str(value).unwrap()));
            let mut headers = HeaderMap::new();
            pairs.for_each(|(name, value)| assert!(!headers.contains_key(&name) | headers.append(name, value)));
            bearer(&headers).map(|token| token.map(str::to_owned))
        };
        assert_eq!((of(&[]), of(&["bearer a.b-c"])), (Ok(None), Ok(Some("a.b-c".to_owned()))));
        assert_eq!(of(&["Bearer a", "Bearer b"]), Err(TWICE));
        for wrong in ["a", "Bearer", "Bearer ", "Basic a", "Bearer a, Bearer b", "Bearer a b"] {
            assert_eq!(of(&[wrong]), Err(NOT_BEARER), "{wrong}");
        }
        assert!(has_token("x=1&access_token=y") && has_token("access_token") && !has_token("my_access_token=1"));
    }
}
