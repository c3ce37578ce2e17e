//! `/api/v1/status`: a summary of the gateway. On request, it is returned only once all edits are in force.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;

use super::admin_query::{AdminError, AdminQuery, AdminState};

/// The query of `/status`.
#[derive(Deserialize)]
pub(super) struct StatusQuery {
    /// Whether to wait until every earlier edit is in force; default false.
    #[serde(default)]
    settled: bool,
}

pub(super) async fn status(
    State(engine): AdminState,
    AdminQuery(StatusQuery { settled }): AdminQuery<StatusQuery>,
) -> Result<impl IntoResponse, AdminError> {
    if settled {
        let settled = engine.readings().settle().await;
        // If this fails, there is no point in waiting for plugins to load.
        settled.map_err(|why| AdminError(StatusCode::CONFLICT, "NotSettled", why.to_string()))?;
        engine.wait_for_loads().await;
    }
    Ok(Json(engine.status()))
}
