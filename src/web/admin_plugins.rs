//! The plugins of the plan, in the admin API.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::admin_query::{AdminError, AdminQuery, AdminState, PageResult, limit, list_query, page};
use crate::domain::plugin::PluginKind;
use crate::engine::views::plugins::PluginView;

list_query!(PluginsQuery {
    /// Only plugins of this type.
    r#type
});

/// Lists the plugins of the plan.
pub(super) async fn plugins(
    State(engine): AdminState,
    AdminQuery(wanted): AdminQuery<PluginsQuery>,
) -> PageResult<impl Serialize + JsonSchema> {
    let mut plugins = engine.views.plugins();
    if let Some(kind) = &wanted.r#type {
        check_type(kind)?;
        plugins.retain(|plugin| plugin.r#type == kind);
    }
    page(plugins, (wanted.limit, wanted.cursor), |plugin| &plugin.plugin)
}

/// The query for one plugin.
#[derive(Deserialize, JsonSchema)]
pub(super) struct PluginQuery {
    /// The namespace of the plugin. Default: that of the gateway.
    namespace: Option<String>,
}

/// Returns one plugin.
pub(super) async fn plugin(
    State(engine): AdminState,
    Path((kind, id)): Path<(String, String)>,
    AdminQuery(wanted): AdminQuery<PluginQuery>,
) -> Result<Json<PluginView>, AdminError> {
    let known = PluginKind::named(check_type(&kind)?);
    let found = known.and_then(|kind| engine.views.plugin(kind, wanted.namespace.as_deref(), &id));
    let missing = || format!("the plan has no plugin {id:.128} of type {kind}: see /api/v1/plugins");
    found.map(Json).ok_or_else(|| AdminError(StatusCode::NOT_FOUND, "PluginNotFound", missing()))
}

/// Checks that there is such a type of plugins.
fn check_type(kind: &str) -> Result<&str, AdminError> {
    if PluginKind::NAMES.contains(&kind) {
        return Ok(kind);
    }
    let message = format!("{kind:.64} is no type of plugins: one of {}", PluginKind::NAMES.join(", "));
    Err(AdminError(StatusCode::BAD_REQUEST, "InvalidQuery", message))
}
