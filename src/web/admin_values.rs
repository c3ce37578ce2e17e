//! The values that plugins store, in the admin API: their partitions, never the values.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::admin_query::{AdminError, AdminJson, AdminQuery, AdminState};
use super::openapi::Changed;
use crate::domain::values::{PartitionFilter, PartitionView, ValueError};

/// Which partitions are meant.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Partitions {
    /// The plugin, given as `namespace/name`.
    plugin: String,
    /// Only partitions of this caller.
    principal: Option<String>,
    /// Only the partition of this conversation.
    conversation: Option<String>,
}

impl Partitions {
    /// # Errors
    /// If a member is empty: it would mean all partitions.
    fn filter(self) -> Result<PartitionFilter, AdminError> {
        let Self { plugin, principal, conversation } = self;
        let is_empty = |text: &Option<String>| text.as_ref().is_some_and(String::is_empty);
        let empty = match () {
            () if plugin.is_empty() => "plugin",
            () if is_empty(&principal) => "principal",
            () if is_empty(&conversation) => "conversation",
            () => return Ok(PartitionFilter { plugin, principal, conversation }),
        };
        let message = format!("{empty} is empty: leave it out, or give a value");
        Err(AdminError(StatusCode::BAD_REQUEST, "InvalidQuery", message))
    }
}

/// The partitions of a plugin.
#[derive(Serialize, JsonSchema)]
pub(super) struct PartitionList {
    items: Vec<PartitionView>,
}

/// What was erased.
#[derive(Serialize, JsonSchema)]
pub(super) struct Erased {
    /// The number of partitions.
    erased: u64,
}

fn unavailable(why: ValueError) -> AdminError {
    AdminError(StatusCode::SERVICE_UNAVAILABLE, "StoreUnavailable", why.to_string())
}

/// Lists the partitions of a plugin, with their sizes.
pub(super) async fn list(
    State(engine): AdminState,
    AdminQuery(wanted): AdminQuery<Partitions>,
) -> Result<Json<PartitionList>, AdminError> {
    let items = engine.views.partitions(&wanted.filter()?).await.map_err(unavailable)?;
    Ok(Json(PartitionList { items }))
}

/// Erases partitions of a plugin with all their values.
pub(super) async fn erase(
    State(engine): AdminState,
    AdminJson(wanted): AdminJson<Partitions>,
) -> Result<Changed<Erased>, AdminError> {
    let target = format!("values of plugin {}", wanted.plugin);
    let erased = engine.views.erase_partitions(&wanted.filter()?).await.map_err(unavailable)?;
    Ok(Changed(Erased { erased }, target))
}
