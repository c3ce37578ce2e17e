//! Decides who may use the admin port. Health and metrics are open to anyone except web pages. If
//! `spec.admin.authentication` is set, the rest needs a token that it accepts; otherwise, programs on this machine may use
//! it. The operator's token admits to the report alone.

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
use super::audited_change::AdminClient;
use crate::domain::identity::{Identity, IdentityMethod};
use crate::domain::ports::{Credential, Unproved};
use crate::domain::refusal::Fault;
use crate::engine::Engine;
use crate::transport::{Peer, peer_address};

/// Checks a bearer token. The error says why the token is not accepted, and does not contain any part of the token.
pub type CheckToken = Arc<dyn Fn(String) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Paths that are open to anyone, because the kubelet and scrapers come from other addresses and send no token.
const OPEN: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

pub(super) struct AdminAccess {
    pub(super) engine: Arc<Engine>,
    /// Checks the tokens of the operator; `None` if there is no operator.
    pub(super) check: Option<CheckToken>,
}

/// The only path that a request with the operator's token may use, so that a stolen token reveals only what the operator
/// reads.
const REPORT: &str = "/api/v1/report";

/// Passes a request on if its sender may use the admin API, else answers it with an error.
pub(super) async fn guard(State(guard): State<Arc<AdminAccess>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match admit(&parts, &guard).await {
        Ok(identity) => {
            let (engine, address) = (Arc::clone(&guard.engine), peer_address(&parts.extensions));
            parts.extensions.insert(AdminClient { engine, identity, address });
            next.run(Request::from_parts(parts, body)).await
        }
        Err(refused) => refused,
    }
}

/// Returns the identity of a client that may send a request. That of the operator, and of clients of open paths, is `local`: they
/// can change nothing.
async fn admit(parts: &Parts, access: &AdminAccess) -> Result<Arc<Identity>, Response> {
    let peer = parts.extensions.get();
    let identity = if OPEN.contains(&parts.uri.path()) {
        // Prevents a web page from reading the open paths through DNS rebinding.
        if peer.is_some_and(Peer::is_here) {
            check_host(parts).map_err(forbidden)?;
        }
        Identity::local()
    } else {
        admit_peer(peer, parts, access).await?
    };
    if parts.headers.contains_key(header::ORIGIN) {
        return Err(forbidden("pages may not use the admin API"));
    }
    Ok(identity)
}

const NO_TOKEN: &str = "a bearer token is needed; commands of hawsepipe send the one of --token-file FILE";

async fn admit_peer(peer: Option<&Peer>, parts: &Parts, access: &AdminAccess) -> Result<Arc<Identity>, Response> {
    let (headers, snapshot) = (&parts.headers, access.engine.in_force.snapshot());
    let authenticates = snapshot.plan().gateway.admin_authentication;
    if !authenticates && peer.is_some_and(Peer::is_here) {
        return check_host(parts).map(|()| Identity::local()).map_err(forbidden);
    }
    if !authenticates && access.check.is_none() {
        return Err(unauthorized("only programs on this machine are served"));
    }
    let token = bearer(headers).ok_or_else(|| unauthorized(NO_TOKEN))?;
    let of_operator = match &access.check {
        Some(check) if !authenticates || parts.uri.path() == REPORT => check(token.to_owned()).await,
        _ => Err(String::new()),
    };
    match of_operator {
        Ok(()) if parts.uri.path() == REPORT => Ok(Identity::local()),
        Ok(()) => Err(forbidden(&format!("the operator's token admits to {REPORT} alone"))),
        Err(_) if authenticates => {
            let (credentials, from) = (access.engine.credentials(), peer_address(&parts.extensions));
            let proved = credentials.prove(&snapshot.linked.admin_methods, Credential::Bearer(token), from).await;
            let namespace = &snapshot.plan().gateway.key.namespace;
            let identity = proved.map_err(|why| {
                let fault = match &why {
                    Unproved::Rejected(fault, why) => (*fault, &**why),
                    Unproved::Unavailable(why) => (Fault::Unavailable, &**why),
                };
                let facts = credentials.facts(&snapshot.linked.admin_methods, Credential::Bearer(token));
                access.engine.gate.refuse_credential("admin", fault, facts, peer_address(&parts.extensions));
                unproved(why)
            })?;
            match foreign(&identity, namespace) {
                None => Ok(identity),
                Some(why) => Err(forbidden(&why)),
            }
        }
        Err(why) => Err(not_accepted(&why)),
    }
}

/// Returns why a service account may not use the admin API: it is of another namespace than the gateway, and any pod of a cluster
/// can have a token for any audience.
fn foreign(identity: &Identity, namespace: &str) -> Option<String> {
    let is_here = identity.subject.starts_with(&format!("system:serviceaccount:{namespace}:"));
    let subject = &identity.subject;
    (identity.method == IdentityMethod::TokenReview && !is_here)
        .then(|| format!("{subject} may not use this admin API: only service accounts of namespace {namespace} may"))
}

fn unproved(why: Unproved) -> Response {
    match why {
        Unproved::Rejected(_, why) => not_accepted(&why),
        Unproved::Unavailable(why) => {
            let message = format!("the token cannot be checked: {why}");
            AdminError(StatusCode::SERVICE_UNAVAILABLE, "Unavailable", message).into_response()
        }
    }
}

fn not_accepted(why: &str) -> Response {
    unauthorized(&format!("the token is not accepted: {why}"))
}

/// Whether `Host` names this machine.
fn check_host(parts: &Parts) -> Result<(), access::Turned> {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    access::check_host(&parts.uri, &parts.headers, &[], &[], loopback)
}

/// Returns the token of the only `Authorization: Bearer` (RFC 6750).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut sent = headers.get_all(header::AUTHORIZATION).iter();
    let (scheme, token) = sent.next().filter(|_| sent.next().is_none())?.to_str().ok()?.split_once(' ')?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_accounts_of_other_namespaces_are_refused() {
        let of = |method, subject: &str| Identity::new(method, "", subject.to_owned()).unwrap();
        for (subject, is_refused) in [
            ("system:serviceaccount:mcp:admin", false),
            ("system:serviceaccount:mcp-other:admin", true),
            ("system:serviceaccount:web:mcp", true),
        ] {
            let refused = foreign(&of(IdentityMethod::TokenReview, subject), "mcp");
            assert_eq!(refused.is_some(), is_refused, "{subject}: {refused:?}");
        }
        assert_eq!(foreign(&Identity::local(), "mcp"), None, "the token of a Secret");
    }
}
