//! Fetches the metadata of issuers (OpenID Connect Discovery, RFC 8414) and their keys.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;

use super::key_set::KeySet;
use crate::domain::causes::causes;
use crate::transport::outbound::{OutboundSettings, TlsSettings, authorization, connector};

/// How long an issuer has to answer one request.
const ANSWER: Duration = Duration::from_secs(5);
/// The longest answer that is read, in bytes.
const MAX_ANSWER: usize = 256 << 10;

/// The metadata of an issuer.
#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

/// Fetches the keys of an issuer, at `jwks_uri` or at the URL that its metadata names.
///
/// # Errors
/// The reason why there are none. It contains no query of a URL.
pub(super) async fn keys(issuer: &str, jwks_uri: Option<&str>) -> Result<KeySet, String> {
    let uri = match jwks_uri {
        Some(uri) => uri.to_owned(),
        None => jwks_uri_of(issuer).await?,
    };
    let json = get(&uri).await?;
    KeySet::read(&json).map_err(|why| format!("its key set cannot be used: {why}"))
}

async fn jwks_uri_of(issuer: &str) -> Result<String, String> {
    let [first, second] = metadata_uris(issuer);
    let json = match get(&first).await {
        Ok(json) => json,
        Err(why) => get(&second).await.map_err(|other| format!("no metadata: {why}; {other}"))?,
    };
    let metadata: Metadata =
        serde_json::from_slice(&json).map_err(|_| "its metadata lacks issuer or jwks_uri".to_owned())?;
    if metadata.issuer != issuer {
        return Err("its metadata is that of another issuer".to_owned());
    }
    if issuer.starts_with("https://") && !metadata.jwks_uri.starts_with("https://") {
        return Err("its metadata names keys at a URL that is not https".to_owned());
    }
    Ok(metadata.jwks_uri)
}

/// Returns the URLs of the metadata: of OpenID Connect Discovery, 4, and of RFC 8414, 3.
fn metadata_uris(issuer: &str) -> [String; 2] {
    let issuer = issuer.trim_end_matches('/');
    let (scheme, rest) = issuer.split_once("://").unwrap_or(("https", issuer));
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    [
        format!("{issuer}/.well-known/openid-configuration"),
        format!("{scheme}://{host}/.well-known/oauth-authorization-server{path}"),
    ]
}

/// Fetches a document. Redirects are not followed.
async fn get(url: &str) -> Result<Bytes, String> {
    let uri: Uri = url.parse().map_err(|_| "a URL of it is not valid".to_owned())?;
    let place = format!("{}{}", uri.authority().map_or("", |it| it.as_str()), uri.path());
    let tls = (uri.scheme_str() == Some("https")).then(TlsSettings::default);
    let connector = connector(OutboundSettings { tls, connect_timeout: Some(ANSWER), ..OutboundSettings::default() })?;
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
    let mut request = Request::new(Full::<Bytes>::default());
    *request.method_mut() = Method::GET;
    request.headers_mut().insert(header::ACCEPT, header::HeaderValue::from_static("application/json"));
    request.headers_mut().extend(authorization(&uri).map(|value| (header::PROXY_AUTHORIZATION, value)));
    *request.uri_mut() = uri;
    let exchange = async {
        let (head, body) = client.request(request).await.map_err(|error| causes(&error))?.into_parts();
        if head.status != StatusCode::OK {
            return Err(format!("the answer is {}", head.status));
        }
        let body = Limited::new(body, MAX_ANSWER).collect().await;
        Ok(body.map_err(|error| format!("the answer cannot be read: {}", causes(&*error)))?.to_bytes())
    };
    let answer = tokio::time::timeout(ANSWER, exchange).await;
    answer.unwrap_or_else(|_| Err(format!("no answer within {ANSWER:?}"))).map_err(|why| format!("{place}: {why}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn metadata_is_where_both_specifications_say() {
        for (issuer, urls) in [
            (
                "https://a.example",
                ["openid-configuration", "oauth-authorization-server"].map(|name| format!("/.well-known/{name}")),
            ),
            (
                "https://a.example/t/1/",
                [
                    "/t/1/.well-known/openid-configuration".to_owned(),
                    "/.well-known/oauth-authorization-server/t/1".to_owned(),
                ],
            ),
        ] {
            assert_eq!(super::metadata_uris(issuer), urls.map(|path| format!("https://a.example{path}")));
        }
    }
}
