//! Requests to authorization servers: for their metadata (OpenID Connect Discovery, RFC 8414), and for what it names.
//! Redirects are not followed.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, HeaderValue, PROXY_AUTHORIZATION};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;

use super::outbound::{AddressGuard, OutboundSettings, TlsNames, TlsSettings, authorization, connector, tls_advice};
use crate::domain::causes::causes;
use crate::domain::quoted::Quoted;

/// How long an issuer has to answer one request.
const ANSWER: Duration = Duration::from_secs(5);
/// The longest answer that is read, in bytes.
const MAX_ANSWER: usize = 256 << 10;

/// The metadata of an issuer.
#[derive(Deserialize)]
pub struct Metadata {
    issuer: String,
    /// The URL of the keys.
    pub jwks_uri: Option<String>,
    /// The URL of the token endpoint.
    pub token_endpoint: Option<String>,
    /// How clients can authenticate at the token endpoint; `None` means by Basic.
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// Fetches the metadata of an issuer.
///
/// # Errors
/// The reason why there is none. It contains no query of a URL.
pub async fn metadata(issuer: &str, guard: &AddressGuard) -> Result<Metadata, String> {
    let [first, second] = metadata_uris(issuer);
    let json = match get(&first, guard).await {
        Ok(json) => json,
        Err(why) => get(&second, guard).await.map_err(|other| format!("no metadata: {why}; {other}"))?,
    };
    let metadata: Metadata =
        serde_json::from_slice(&json).map_err(|_| "its metadata is no JSON object with an issuer".to_owned())?;
    if metadata.issuer != issuer {
        return Err(other_issuer(issuer, &metadata.issuer));
    }
    let named = [&metadata.jwks_uri, &metadata.token_endpoint];
    if issuer.starts_with("https://") && named.into_iter().flatten().any(|url| !url.starts_with("https://")) {
        return Err("its metadata names a URL that is not https".to_owned());
    }
    Ok(metadata)
}

/// Says that metadata is of another issuer. Both are compared as they are written (RFC 8414, 3.3).
fn other_issuer(expected: &str, found: &str) -> String {
    let hint = match expected.trim_end_matches('/') == found.trim_end_matches('/') {
        true => ". They differ by the slash at the end: write the issuer as its metadata does",
        false => "",
    };
    format!("its metadata is of another issuer: expected {}, found {}{hint}", Quoted(expected, 256), Quoted(found, 256))
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

/// Fetches a document.
///
/// # Errors
/// The reason why there is none. It contains no query of the URL.
pub async fn get(url: &str, guard: &AddressGuard) -> Result<Bytes, String> {
    let mut request = Request::new(Full::<Bytes>::default());
    *request.method_mut() = Method::GET;
    match exchange(url, request, Some(guard)).await? {
        (StatusCode::OK, body) => Ok(body),
        (status, _) => Err(format!("{}: the answer is {status}", place(url))),
    }
}

/// Sends a request to a URL, and returns the status and the body of its answer.
///
/// # Errors
/// The reason why there is no answer. It contains no query of the URL.
pub async fn exchange(
    url: &str,
    mut request: Request<Full<Bytes>>,
    guard: Option<&AddressGuard>,
) -> Result<(StatusCode, Bytes), String> {
    let uri: Uri = url.parse().map_err(|_| "a URL of it is not valid".to_owned())?;
    let tls = (uri.scheme_str() == Some("https")).then(TlsSettings::default);
    let (connect_timeout, guard) = (Some(ANSWER), guard.cloned());
    let connector = connector(OutboundSettings { tls, connect_timeout, guard, ..OutboundSettings::default() })?;
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
    request.headers_mut().extend(authorization(&uri).map(|value| (PROXY_AUTHORIZATION, value)));
    *request.uri_mut() = uri;
    let exchange = async {
        let answer = client.request(request).await;
        let answer = answer.map_err(|error| causes(&error) + &tls_advice(&error, TlsNames::SYSTEM));
        let (head, body) = answer?.into_parts();
        let body = Limited::new(body, MAX_ANSWER).collect().await;
        let body = body.map_err(|error| format!("the answer cannot be read: {}", causes(&*error)))?;
        Ok((head.status, body.to_bytes()))
    };
    let answer = tokio::time::timeout(ANSWER, exchange).await;
    answer
        .unwrap_or_else(|_| Err(format!("no answer within {ANSWER:?}")))
        .map_err(|why| format!("{}: {why}", place(url)))
}

/// Returns the host and the path of a URL, for messages.
pub fn place(url: &str) -> String {
    let Some(uri) = url.parse::<Uri>().ok() else { return String::new() };
    let authority = uri.authority().map_or("", |it| it.as_str());
    // If a `/`, `?` or `#` of a password ends the host, the beginning of the password is taken for a host or a port.
    if url.split_once(authority).is_some_and(|(_, rest)| rest.contains('@')) {
        return authority.split([':', '@']).next().unwrap_or_default().to_owned();
    }
    let authority = authority.rsplit('@').next().unwrap_or_default();
    format!("{authority}{}", uri.path())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_place_has_no_part_of_a_password() {
        for (url, place) in [
            ("http://c:4318/v1/logs?key=hunter2", "c:4318/v1/logs"),
            ("http://me:hunter2@c/v1", "c/v1"),
            ("http://me:1/ter2@c/v1", "me"),
            ("http://me:1?ter2@c/v1", "me"),
            ("http://me:1#ter2@c/v1", "me"),
        ] {
            assert_eq!(super::place(url), place, "{url}");
        }
        for url in ["http://me:hun@ter2@c/v1", "http://me:hun/ter2@c", "http://me:@hun/ter2@c"] {
            let place = super::place(url);
            assert!(!place.contains("hun") && !place.contains("ter2"), "{url}: {place}");
        }
    }

    #[test]
    fn metadata_of_another_issuer_names_both() {
        let slash = super::other_issuer("https://a.example", "https://a.example/");
        assert!(
            slash.contains("\"https://a.example\"")
                && slash.contains("\"https://a.example/\"")
                && slash.contains("slash"),
            "{slash}"
        );
        let other = super::other_issuer("https://a.example", "https://b.example");
        assert!(other.contains("https://b.example") && !other.contains("slash"), "{other}");
    }

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
