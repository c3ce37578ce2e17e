//! Determines who sent a request, before its body is read (MCP 2026-07-28, authorization; RFC 6750).

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;

use super::protected_resource::metadata_url;
use super::response::refuse;
use crate::domain::identity::Identity;
use crate::domain::plan::GatewayPlan;
use crate::domain::ports::{Authenticate, Unproved};

const TWICE: &str = "the request has several Authorization headers: send one";
const IN_QUERY: &str = "the request has a token in its query: send it in the Authorization header";
const NOT_BEARER: &str = "the Authorization header has no bearer token: send `Authorization: Bearer TOKEN`";
const NEEDED: &str = "this gateway needs a token: send `Authorization: Bearer TOKEN`";

/// An error code of RFC 6750, 3.1. Requests without credentials get none.
#[derive(Clone, Copy)]
enum Code {
    None,
    InvalidRequest,
    InvalidToken,
}

/// Returns the identity of the client that sent a request, or the response that refuses the request.
pub(super) async fn authenticate(
    credentials: &dyn Authenticate,
    gateway: &GatewayPlan,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Arc<Identity>, Box<Response>> {
    let refused = |status, code, why: &str| Err(Box::new(refusal(gateway, status, code, why)));
    if !gateway.authenticates() {
        return match gateway.serves_anonymous() {
            true => Ok(Identity::anonymous()),
            false => refused(StatusCode::UNAUTHORIZED, Code::None, "this gateway accepts no credentials yet"),
        };
    }
    if has_token(query.unwrap_or_default()) {
        return refused(StatusCode::BAD_REQUEST, Code::InvalidRequest, IN_QUERY);
    }
    let token = match bearer(headers) {
        Ok(Some(token)) => token,
        Ok(None) if gateway.serves_anonymous() => return Ok(Identity::anonymous()),
        Ok(None) => return refused(StatusCode::UNAUTHORIZED, Code::None, NEEDED),
        Err(TWICE) => return refused(StatusCode::BAD_REQUEST, Code::InvalidRequest, TWICE),
        Err(why) => return refused(StatusCode::UNAUTHORIZED, Code::InvalidRequest, why),
    };
    match credentials.bearer(&gateway.authentication, token).await {
        Ok(identity) => Ok(identity),
        Err(Unproved::Rejected(why)) => {
            let why = format!("the token is not accepted: {why}");
            refused(StatusCode::UNAUTHORIZED, Code::InvalidToken, &why)
        }
        Err(Unproved::Unavailable(why)) => {
            let why = format!("the token cannot be checked: {why}");
            refused(StatusCode::SERVICE_UNAVAILABLE, Code::None, &why)
        }
    }
}

/// Returns the bearer token of a request; `None` if it has no credentials.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, &'static str> {
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    let Some(first) = sent.next() else { return Ok(None) };
    if sent.next().is_some() {
        return Err(TWICE);
    }
    let (scheme, token) = first.to_str().ok().and_then(|text| text.split_once(' ')).ok_or(NOT_BEARER)?;
    let token = token.trim_matches(' ');
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let is_valid = scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.bytes().all(is_token);
    if is_valid { Ok(Some(token)) } else { Err(NOT_BEARER) }
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
    let resource = gateway.authentication.resource.as_ref();
    let mut parts: Vec<_> =
        resource.map(|resource| format!("resource_metadata=\"{}\"", metadata_url(resource))).into_iter().collect();
    let error = match code {
        Code::None => None,
        Code::InvalidRequest => Some("invalid_request"),
        Code::InvalidToken => Some("invalid_token"),
    };
    let text = why.replace(['"', '\\'], "'");
    parts.extend(error.map(|error| format!("error=\"{error}\", error_description=\"{text}\"")));
    let challenge = if parts.is_empty() { "Bearer".to_owned() } else { format!("Bearer {}", parts.join(", ")) };
    if let Ok(challenge) = HeaderValue::try_from(challenge) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

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
