//! `/api/v1/status`: a summary of the gateway. With `settled=true`, the answer waits until all earlier edits are in
//! force.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;

use super::admin_query::{AdminError, AdminQuery, AdminState};
use crate::engine::views::dependencies::read_issuers;
use crate::engine::views::status::StatusView;

/// How long a status waits for issuers whose keys were not read yet.
const ISSUERS: Duration = Duration::from_secs(1);

#[derive(Deserialize, JsonSchema)]
pub(super) struct StatusQuery {
    /// Whether to wait until every earlier edit is in force and all plugins are loaded or have failed to load. Default:
    /// false.
    #[serde(default)]
    settled: bool,
}

pub(super) async fn status(
    State(engine): AdminState,
    AdminQuery(StatusQuery { settled }): AdminQuery<StatusQuery>,
) -> Result<Json<StatusView>, AdminError> {
    if settled {
        let settled = engine.readings().settle().await;
        // If the edits are not in force, there is no point in waiting for plugins to load.
        settled.map_err(|why| AdminError(StatusCode::CONFLICT, "NotSettled", why.to_string()))?;
        engine.views.endpoints_followed().await;
        engine.loads.wait_for_loads().await;
    }
    // It goes on in the background: what is not known soon is shown by a later request.
    let reading = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { read_issuers(&engine.views).await }
    });
    if settled {
        let _ = reading.await;
    } else {
        let _ = tokio::time::timeout(ISSUERS, reading).await;
    }
    Ok(Json(engine.views.status()))
}
