//! Adds a row to the audit trail for each change that a client makes by the admin API.

use std::net::IpAddr;
use std::sync::Arc;

use axum::RequestExt;
use axum::extract::{RawPathParams, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::StatusCode;

use super::admin_query::{AdminError, ErrorReason};
use crate::domain::audit::AuditAdmin;
use crate::domain::identity::Identity;
use crate::engine::Engine;

/// The maximum number of characters of an id in a row.
const MAX_ID: usize = 200;

/// Who sent a request to the admin API; an extension of the request.
#[derive(Clone)]
pub(super) struct AdminClient {
    pub(super) engine: Arc<Engine>,
    pub(super) identity: Arc<Identity>,
    pub(super) address: IpAddr,
}

/// What a request is about, where its path does not say it; an extension of the response.
#[derive(Clone)]
pub(super) struct Target(pub(super) String);

/// The row of a change. If it is dropped before the change has ended, as when the client leaves, the row says that the outcome is
/// not known.
struct Change {
    engine: Arc<Engine>,
    row: Option<AuditAdmin>,
}

impl Drop for Change {
    fn drop(&mut self) {
        if let Some(row) = self.row.take() {
            drop(self.engine.audit.admin(row));
        }
    }
}

/// Passes a request on that changes something, and adds a row about it.
pub(super) async fn audited(action: &'static str, mut request: Request, next: Next) -> Response {
    let Some(AdminClient { engine, identity, address }) = request.extensions_mut().remove() else {
        let message = "the sender of the request is not known".to_owned();
        return AdminError(StatusCode::INTERNAL_SERVER_ERROR, "Internal", message).into_response();
    };
    let row = AuditAdmin {
        at: engine.now(),
        action,
        by: identity.subject.clone(),
        method: identity.method.as_str(),
        issuer: identity.issuer.clone(),
        via: "admin API",
        address: Some(address.to_canonical().to_string()),
        target: target(&engine, &mut request).await,
        outcome: "unknown",
    };
    let mut change = Change { engine, row: Some(row) };
    let response = next.run(request).await;
    if let Some(row) = change.row.take() {
        let extensions = response.extensions();
        let outcome = match extensions.get() {
            Some(ErrorReason(reason)) => reason,
            None if response.status().is_success() => "done",
            None => "failed",
        };
        let target = extensions.get().map_or(row.target, |Target(target)| target.clone());
        change.engine.audit.admin(AuditAdmin { target, outcome, ..row }).await;
    }
    response
}

/// Returns what the path of a request names: a session, a call, a run or an invocation, or else the gateway.
async fn target(engine: &Engine, request: &mut Request) -> String {
    let kind = request.uri().path().split('/').nth(3).unwrap_or_default().trim_end_matches('s').to_owned();
    let named = request.extract_parts::<RawPathParams>().await.ok();
    let id = named.and_then(|named| named.iter().next().map(|(_, id)| id.chars().take(MAX_ID).collect::<String>()));
    id.map_or_else(|| format!("gateway {}", engine.in_force.snapshot().plan().gateway.key), |id| format!("{kind} {id}"))
}
