//! `/api/v1/status`: the gateway in one look, and whether what was written is in force.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;

use super::admin_query::{AdminError, AdminQuery, AdminState};

/// Query of the status.
#[derive(Deserialize)]
pub(super) struct StatusQuery {
    /// Whether to wait until every earlier edit is in force.
    #[serde(default)]
    settled: bool,
}

pub(super) async fn status(
    State(engine): AdminState,
    AdminQuery(StatusQuery { settled }): AdminQuery<StatusQuery>,
) -> Result<impl IntoResponse, AdminError> {
    if settled {
        let settled = engine.readings().settle().await;
        // What cannot be answered is not waited for.
        settled.map_err(|why| AdminError(StatusCode::CONFLICT, "NotSettled", why.to_string()))?;
        engine.wait_for_loads().await;
    }
    Ok(Json(engine.status()))
}
