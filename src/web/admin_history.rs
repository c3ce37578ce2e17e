//! Lists of recorded calls and executions in the admin API.

use std::marker::PhantomData;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::admin_query::{AdminError, AdminQuery, AdminState, limit, page_size};
use crate::domain::history::{HistoryFilter, HistoryQuery, RecordKind};
use crate::domain::item::ItemKind;
use crate::domain::record::{CallRecord, PluginExecution};
use crate::engine::Engine;

/// The query parameters. Without a filter, all records are listed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct HistoryParams {
    /// The number of items on the page.
    #[serde(deserialize_with = "limit")]
    limit: Option<usize>,
    /// `next` of the previous page; absent for the first page.
    cursor: Option<String>,
    /// A plugin, as `namespace/name` or by name alone.
    plugin: Option<String>,
    /// A chain, as `namespace/name` or by name alone.
    chain: Option<String>,
    /// The name of the upstream.
    upstream: Option<String>,
    /// A tool, prompt or resource, by the upstream's own name for it or its URI; a tool also by the name that clients see.
    tool: Option<String>,
    /// The method.
    method: Option<String>,
    /// The id of the call.
    request: Option<String>,
    /// The first 8 characters of the id of the session.
    session: Option<String>,
    /// The principal of the caller.
    principal: Option<String>,
    /// The issuer of the caller's token.
    issuer: Option<String>,
    /// The method that has proved the caller's identity.
    identity: Option<String>,
    /// The outcome of the call, or the status of the execution.
    outcome: Option<String>,
    /// Only what ended at this time or later, in Unix milliseconds.
    since: Option<u64>,
    /// Only what ended before this time, in Unix milliseconds.
    until: Option<u64>,
}

/// A page of records of the type `T`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HistoryOf{T}")]
pub(super) struct HistoryList<T> {
    #[schemars(with = "Vec<T>")]
    items: Vec<Box<RawValue>>,
    /// The cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// Why older items can be missing; absent if none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete: Option<String>,
    #[serde(skip)]
    of: PhantomData<T>,
}

impl HistoryParams {
    fn query(self) -> Result<HistoryQuery, AdminError> {
        let limit = page_size(self.limit)?;
        let after = self.cursor.map(|cursor| {
            let message = "the cursor is not `next` of a page of this list: list from the start".to_owned();
            cursor.parse().map_err(|()| AdminError(StatusCode::BAD_REQUEST, "InvalidCursor", message))
        });
        // Records have URIs without what can be a secret.
        let shown = self.tool.as_deref().filter(|name| name.contains(':'));
        let shown = shown.map(|uri| ItemKind::Resource.shown(uri));
        let filter = HistoryFilter {
            plugin: self.plugin,
            chain: self.chain,
            upstream: self.upstream,
            tool: self.tool.into_iter().chain(shown).collect(),
            method: self.method,
            request: self.request,
            session: self.session,
            principal: self.principal,
            issuer: self.issuer,
            identity: self.identity,
            outcome: self.outcome,
            since: self.since,
            until: self.until,
        };
        Ok(HistoryQuery { filter, after: after.transpose()?, limit })
    }
}

pub(super) async fn calls(
    State(engine): AdminState,
    AdminQuery(params): AdminQuery<HistoryParams>,
) -> Result<Json<HistoryList<CallRecord>>, AdminError> {
    list(&engine, RecordKind::Calls, params).await
}

pub(super) async fn executions(
    State(engine): AdminState,
    AdminQuery(params): AdminQuery<HistoryParams>,
) -> Result<Json<HistoryList<PluginExecution>>, AdminError> {
    list(&engine, RecordKind::Executions, params).await
}

async fn list<T>(
    engine: &Engine,
    kind: RecordKind,
    mut params: HistoryParams,
) -> Result<Json<HistoryList<T>>, AdminError> {
    // Records have the server's own name.
    let listed = params.tool.as_deref().filter(|_| params.upstream.is_none());
    if let Some((upstream, own)) = listed.and_then(|name| engine.views.tool_listed_as(name)) {
        (params.upstream, params.tool) = (Some(upstream), Some(own));
    }
    let page = engine.history().list(kind, &params.query()?).await;
    let next = page.next.map(|position| position.to_string());
    Ok(Json(HistoryList { items: page.items, next, incomplete: page.incomplete, of: PhantomData }))
}
