//! `tools/list`: pages of the tools that the upstreams offer.

use std::time::Duration;

use serde_json::value::RawValue;

use super::Engine;
use super::request::Endpoint;
use crate::domain::item::ItemKind;
use crate::domain::plan::{PrefixMode, UpstreamPlan};
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::engine::plan::snapshot::Snapshot;
use crate::engine::upstreams::probing::first_try;

/// The maximum number of tools on a page.
const PAGE: usize = 200;

/// One page of tools.
#[derive(Debug)]
pub struct ToolPage {
    /// The definitions as one JSON array.
    pub tools: Box<RawValue>,
    /// The cursor of the next page; `None` on the last page.
    pub next_cursor: Option<String>,
}

impl Engine {
    /// Returns one page of the tool list. First waits until the upstreams that were never contacted have been tried
    /// once, for at most the list timeout.
    ///
    /// # Errors
    /// `-32602` if the cursor does not belong to the current list.
    pub async fn list_tools(&self, endpoint: Endpoint<'_>, cursor: Option<&str>) -> Result<ToolPage, RpcError> {
        self.wait_for_lists(&self.snapshot(), &endpoint).await;
        let snapshot = self.snapshot();
        let definitions = endpoint.definitions(&snapshot, ItemKind::Tool);
        let from = cursor.map_or(Ok(0), |cursor| offset(cursor, &snapshot.list_revision, definitions.len()))?;
        let page = &definitions[from..definitions.len().min(from + PAGE)];
        let mut tools = String::with_capacity(page.iter().map(|d| d.get().len() + 1).sum::<usize>() + 2);
        tools.push('[');
        for (index, definition) in page.iter().enumerate() {
            if index > 0 {
                tools.push(',');
            }
            tools.push_str(definition.get());
        }
        tools.push(']');
        let next = from + page.len();
        let next_cursor = (next < definitions.len()).then(|| format!("{}.{next}", snapshot.list_revision));
        let tools = RawValue::from_string(tools)
            .map_err(|e| RpcError::new(crate::domain::rpc::INTERNAL_ERROR, format!("a tool's definition: {e}")))?;
        Ok(ToolPage { tools, next_cursor })
    }

    /// Waits until each upstream of this endpoint has been tried once, for at most the list timeout.
    pub(super) async fn wait_for_lists(&self, snapshot: &Snapshot, endpoint: &Endpoint<'_>) {
        let deadline = Duration::from_millis(u64::from(snapshot.plan().gateway.limits.list_timeout_ms));
        let serves = |plan: &UpstreamPlan| match endpoint {
            Endpoint::All => true,
            Endpoint::One(name) => *name == plan.key.name,
        };
        let untried = || self.untried(&self.snapshot(), serves).next().is_some();
        let _ = tokio::time::timeout(deadline, self.wait_while(untried)).await;
    }

    /// Waits until the upstreams that could have this tool have been tried once, for at most as long as a first try can
    /// take. This can be longer than the list timeout, because a list can leave an upstream out, but a call needs the
    /// upstream of its tool.
    pub(super) async fn wait_for_tool(&self, snapshot: &Snapshot, endpoint: &Endpoint<'_>, name: &str) {
        let prefix = snapshot.plan().gateway.prefix;
        let may_have = |plan: &UpstreamPlan| match endpoint {
            Endpoint::One(upstream) => *upstream == plan.key.name,
            Endpoint::All => {
                prefix != PrefixMode::Always
                    || name.strip_prefix(&*plan.key.name).is_some_and(|rest| rest.starts_with("__"))
            }
        };
        let Some(longest) = self.untried(snapshot, may_have).map(first_try).max() else { return };
        // Uses the newest plan, because an upstream that was deleted meanwhile will never be tried.
        let untried = || {
            let newest = self.snapshot();
            endpoint.route(&newest, ItemKind::Tool, name).is_none() && self.untried(&newest, may_have).next().is_some()
        };
        let _ = tokio::time::timeout(longest, self.wait_while(untried)).await;
    }

    fn untried<'s>(
        &self,
        snapshot: &'s Snapshot,
        wanted: impl Fn(&UpstreamPlan) -> bool,
    ) -> impl Iterator<Item = &'s UpstreamPlan> {
        let upstreams = snapshot.linked.upstreams.iter().filter(|upstream| upstream.refusing.is_none());
        let plans = upstreams.map(|upstream| &upstream.target.plan);
        plans.filter(move |plan| plan.enabled && wanted(plan) && !self.state.upstream(&plan.key).tried)
    }

    async fn wait_while(&self, holds: impl Fn() -> bool) {
        let (mut lists, mut tried, mut plans) = (self.tool_lists(), self.tried.subscribe(), self.plans());
        while holds() {
            let told = tokio::select! {
                told = lists.changed() => told,
                told = tried.changed() => told,
                told = plans.changed() => told,
            };
            if told.is_err() {
                return;
            }
        }
    }
}

fn offset(cursor: &str, list_revision: &str, length: usize) -> Result<usize, RpcError> {
    let offset =
        cursor.strip_prefix(list_revision).and_then(|rest| rest.strip_prefix('.')).and_then(|n| n.parse().ok());
    offset.filter(|offset| *offset < length).ok_or_else(|| {
        RpcError::new(INVALID_PARAMS, "the cursor is not of this list, which may have changed: list from the start")
    })
}
