//! `/api/v1/invocations`: creates invocations of tools, shows them, and cancels them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Json, Router, routing};
use serde::Deserialize;

use super::admin_query::{AdminError, AdminJson, AdminQuery, AdminState, NoFields};
use crate::domain::invocation::{Invocation, NewInvocation};
use crate::engine::Engine;
use crate::engine::invocations::{InvocationEntry, InvokeError};

/// The longest time that a client can wait for the end of an invocation with one request.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Returns the routes of single invocations.
pub(super) fn routes() -> Router<Arc<Engine>> {
    Router::new().route("/invocations/{id}", routing::get(get)).route("/invocations/{id}/cancel", routing::post(cancel))
}

pub(super) async fn create(
    State(engine): AdminState,
    AdminJson(new): AdminJson<NewInvocation>,
) -> Result<(StatusCode, Json<Invocation>), AdminError> {
    let refused = |error: InvokeError| {
        let (status, reason) = match error {
            InvokeError::UnknownServer(..) => (StatusCode::NOT_FOUND, "UpstreamNotFound"),
            InvokeError::InvalidSection(_) => (StatusCode::BAD_REQUEST, "InvalidSection"),
            InvokeError::InvalidParameters => (StatusCode::BAD_REQUEST, "InvalidBody"),
            InvokeError::Full => (StatusCode::SERVICE_UNAVAILABLE, "TooManyInvocations"),
        };
        AdminError(status, reason, error.to_string())
    };
    engine.invoke(new).map(|entry| (StatusCode::CREATED, Json(entry.view()))).map_err(refused)
}

#[derive(Deserialize)]
struct WaitQuery {
    /// How many seconds to wait for the end of the invocation, at most [`MAX_WAIT`]. Default: 0.
    #[serde(default)]
    wait: u64,
}

async fn get(
    State(engine): AdminState,
    Path(id): Path<String>,
    AdminQuery(WaitQuery { wait }): AdminQuery<WaitQuery>,
) -> Result<Json<Invocation>, AdminError> {
    let entry = find(&engine, &id)?;
    let _ = tokio::time::timeout(Duration::from_secs(wait).min(MAX_WAIT), entry.wait()).await;
    Ok(Json(entry.view()))
}

async fn cancel(
    State(engine): AdminState,
    Path(id): Path<String>,
    AdminJson(NoFields {}): AdminJson<NoFields>,
) -> Result<Json<Invocation>, AdminError> {
    let entry = find(&engine, &id)?;
    entry.cancel().await;
    Ok(Json(entry.view()))
}

fn find(engine: &Engine, id: &str) -> Result<Arc<InvocationEntry>, AdminError> {
    engine.invocations().find(id).ok_or_else(|| {
        let message = format!("there is no invocation {id:.60}: the gateway keeps the last 1000 of this process");
        AdminError(StatusCode::NOT_FOUND, "InvocationNotFound", message)
    })
}
