//! Decides who may use the admin port. Health and metrics are open to anyone except web pages. Programs on this machine
//! may use the rest, unless `spec.admin.authentication` is set. Other requests need a token, and get nothing but the
//! report.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;

use super::access;
use super::admin_query::AdminError;
use crate::engine::Engine;
use crate::transport::Peer;

/// Checks a bearer token. The error says why the token is not accepted, and does not contain any part of the token.
pub type CheckToken = Arc<dyn Fn(String) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Paths that are open to anyone, because the kubelet and scrapers come from other addresses and send no token.
const OPEN: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

pub(super) struct AdminAccess {
    pub(super) engine: Arc<Engine>,
    /// Checks the tokens of requests whose address is not trusted. If it is `None`, such requests are refused.
    pub(super) check: Option<CheckToken>,
}

/// The only path that a request with a token may use, so that a stolen token reveals only what the operator reads.
const REPORT: &str = "/api/v1/report";

/// Passes a request on if its sender may use the admin API, else answers it with an error.
pub(super) async fn guard(State(guard): State<Arc<AdminAccess>>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let trusts_loopback = !guard.engine.snapshot().plan().gateway.admin_authentication;
    match admit(&parts, trusts_loopback, guard.check.as_ref()).await {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(refused) => refused,
    }
}

async fn admit(parts: &Parts, trusts_loopback: bool, check: Option<&CheckToken>) -> Result<(), Response> {
    let peer = parts.extensions.get();
    if OPEN.contains(&parts.uri.path()) {
        // Prevents a web page from reading the open paths through DNS rebinding.
        if peer.is_some_and(Peer::is_here) {
            check_host(&parts.headers).map_err(forbidden)?;
        }
    } else {
        admit_peer(peer, trusts_loopback, parts, check).await?;
    }
    if parts.headers.contains_key(header::ORIGIN) {
        return Err(forbidden("pages may not use the admin API"));
    }
    Ok(())
}

async fn admit_peer(
    peer: Option<&Peer>,
    trusts_loopback: bool,
    parts: &Parts,
    check: Option<&CheckToken>,
) -> Result<(), Response> {
    let headers = &parts.headers;
    if trusts_loopback && peer.is_some_and(Peer::is_here) {
        return check_host(headers).map_err(forbidden);
    }
    let Some(check) = check else {
        return Err(unauthorized(match trusts_loopback {
            true => "only programs on this machine are served",
            false => {
                "spec.admin.authentication of the MCPGateway is set, and this gateway knows nobody whose token it could \
                 check: only /healthz, /readyz and /metrics are served. Leave it out to serve programs on this machine"
            }
        }));
    };
    let token = bearer(headers).ok_or_else(|| unauthorized("a bearer token is needed"))?;
    check(token.to_owned()).await.map_err(|why| unauthorized(&format!("the token is not accepted: {why}")))?;
    if parts.uri.path() != REPORT {
        return Err(forbidden(&format!("the operator's token admits to {REPORT} alone")));
    }
    Ok(())
}

/// Whether `Host` names this machine.
fn check_host(headers: &HeaderMap) -> Result<(), access::Turned> {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    access::check_host(headers, &[], &[], loopback)
}

/// Returns the token of `Authorization: Bearer` (RFC 6750).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn forbidden(why: &str) -> Response {
    AdminError(StatusCode::FORBIDDEN, "Forbidden", why.to_owned()).into_response()
}

fn unauthorized(why: &str) -> Response {
    let mut response = AdminError(StatusCode::UNAUTHORIZED, "Unauthorized", why.to_owned()).into_response();
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// Answers a request whose method its path does not have. The router adds the header `Allow`.
pub(super) async fn other_method() -> AdminError {
    let message = "this path of the admin API does not have this method; MCP clients use the address that the gateway logs as \
                   its MCP endpoint";
    AdminError(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message.to_owned())
}
