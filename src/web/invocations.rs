//! `/api/v1/invocations`: creates invocations of tools, shows them, and cancels them.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use super::admin_query::{AdminError, AdminJson, AdminQuery, AdminState, NoFields};
use super::openapi::Created;
use crate::domain::invocation::{Invocation, NewInvocation};
use crate::engine::Engine;
use crate::engine::in_flight::MAX_INVOCATIONS;
use crate::engine::in_flight::invocation::InvocationEntry;
use crate::engine::invocations::InvokeError;

/// The longest time that a client can wait for the end of an invocation with one request.
const MAX_WAIT: Duration = Duration::from_secs(60);

pub(super) async fn create(
    State(engine): AdminState,
    AdminJson(new): AdminJson<NewInvocation>,
) -> Result<Created<Invocation>, AdminError> {
    let refused = |error: InvokeError| {
        let (status, reason) = match error {
            InvokeError::UnknownServer(..) => (StatusCode::NOT_FOUND, "UpstreamNotFound"),
            InvokeError::InvalidSection(_) => (StatusCode::BAD_REQUEST, "InvalidSection"),
            InvokeError::InvalidParameters => (StatusCode::BAD_REQUEST, "InvalidBody"),
            InvokeError::Full => (StatusCode::SERVICE_UNAVAILABLE, "TooManyInvocations"),
        };
        AdminError(status, reason, error.to_string())
    };
    let created = |entry: Arc<InvocationEntry>| {
        let invocation = entry.view();
        let target = format!("invocation {} of {:.256}", invocation.id, invocation.tool_name);
        Created(invocation, target)
    };
    engine.invocations.invoke(new).map(created).map_err(refused)
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct WaitQuery {
    /// How many seconds to wait for the end of the invocation, at most 60. Default: 0.
    #[serde(default)]
    wait: u64,
}

pub(super) async fn get(
    State(engine): AdminState,
    Path(id): Path<String>,
    AdminQuery(WaitQuery { wait }): AdminQuery<WaitQuery>,
) -> Result<Json<Invocation>, AdminError> {
    let entry = find(&engine, &id)?;
    let _ = tokio::time::timeout(Duration::from_secs(wait).min(MAX_WAIT), entry.wait()).await;
    Ok(Json(entry.view()))
}

pub(super) async fn cancel(
    State(engine): AdminState,
    Path(id): Path<String>,
    AdminJson(NoFields {}): AdminJson<NoFields>,
) -> Result<Json<Invocation>, AdminError> {
    let entry = find(&engine, &id)?;
    entry.cancel().await;
    Ok(Json(entry.view()))
}

fn find(engine: &Engine, id: &str) -> Result<Arc<InvocationEntry>, AdminError> {
    engine.gate.in_flight.invocations.find(id).ok_or_else(|| {
        let message =
            format!("there is no invocation {id:.60}: the gateway keeps the last {MAX_INVOCATIONS} of this process");
        AdminError(StatusCode::NOT_FOUND, "InvocationNotFound", message)
    })
}
