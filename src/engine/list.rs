//! Pages of the lists of tools, prompts, resources and templates that the upstreams offer.

use std::time::Duration;

use serde_json::value::RawValue;

use super::Engine;
use super::request::Endpoint;
use crate::domain::item::ItemKind;
use crate::domain::plan::{PrefixMode, UpstreamPlan};
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::engine::plan::snapshot::{Lookup, Snapshot};
use crate::engine::upstreams::probing::first_try;

/// The maximum number of items on a page.
const PAGE: usize = 200;

/// One page of a list.
#[derive(Debug)]
pub struct Page {
    /// The definitions as one JSON array.
    pub items: Box<RawValue>,
    /// The cursor of the next page; `None` on the last page.
    pub next_cursor: Option<String>,
}

impl Engine {
    /// Returns one page of the list of this kind. First waits until the upstreams that were never contacted have been tried
    /// once, for at most the list timeout.
    ///
    /// # Errors
    /// `-32602` if the cursor does not belong to the current list.
    pub async fn list(&self, endpoint: Endpoint<'_>, kind: ItemKind, cursor: Option<&str>) -> Result<Page, RpcError> {
        self.wait_for_lists(&self.snapshot(), &endpoint, kind).await;
        let snapshot = self.snapshot();
        let definitions = endpoint.definitions(&snapshot, kind);
        let revision = snapshot.list_revisions.of(kind);
        let from = cursor.map_or(Ok(0), |cursor| offset(cursor, revision, definitions.len()))?;
        let page = &definitions[from..definitions.len().min(from + PAGE)];
        let mut items = String::with_capacity(page.iter().map(|d| d.get().len() + 1).sum::<usize>() + 2);
        items.push('[');
        for (index, definition) in page.iter().enumerate() {
            if index > 0 {
                items.push(',');
            }
            items.push_str(definition.get());
        }
        items.push(']');
        let next = from + page.len();
        let next_cursor = (next < definitions.len()).then(|| format!("{revision}.{next}"));
        let items = RawValue::from_string(items)
            .map_err(|e| RpcError::new(crate::domain::rpc::INTERNAL_ERROR, format!("an item's definition: {e}")))?;
        Ok(Page { items, next_cursor })
    }

    /// Waits until the list of this kind of each upstream of this endpoint has been tried once, for at most the list
    /// timeout.
    pub(super) async fn wait_for_lists(&self, snapshot: &Snapshot, endpoint: &Endpoint<'_>, kind: ItemKind) {
        let deadline = list_timeout(snapshot);
        let serves = |plan: &UpstreamPlan| match endpoint {
            Endpoint::All => true,
            Endpoint::One(name) => *name == plan.key.name,
        };
        let untried = || self.untried(&self.snapshot(), kind, serves).next().is_some();
        let _ = tokio::time::timeout(deadline, self.wait_while(untried)).await;
    }

    /// Waits until the upstreams that could have this item have been tried once, for at most as long as a first try can
    /// take. This can be longer than the list timeout, because a list can leave an upstream out, but a call needs the
    /// upstream of its item. A resource that a template fits waits for at most the list timeout, because its upstream is
    /// known; only another one could list it.
    pub(super) async fn wait_for_item(&self, snapshot: &Snapshot, endpoint: &Endpoint<'_>, kind: ItemKind, name: &str) {
        let prefix = snapshot.plan().gateway.prefix;
        let may_have = |plan: &UpstreamPlan| match endpoint {
            Endpoint::One(upstream) => *upstream == plan.key.name,
            Endpoint::All => {
                prefix != PrefixMode::Always
                    || !kind.has_name()
                    || name.strip_prefix(&*plan.key.name).is_some_and(|rest| rest.starts_with("__"))
            }
        };
        let Some(longest) = self.untried(snapshot, kind, may_have).map(first_try).max() else { return };
        let limit = match endpoint.find(snapshot, kind, name) {
            Lookup::Unknown => longest + list_timeout(snapshot),
            Lookup::Found(_) | Lookup::Ambiguous(..) => list_timeout(snapshot),
        };
        // Uses the newest plan, because an upstream that was deleted meanwhile will never be tried.
        let untried = || {
            let newest = self.snapshot();
            !matches!(endpoint.find(&newest, kind, name), Lookup::Found(found) if found.is_listed)
                && self.untried(&newest, kind, may_have).next().is_some()
        };
        let _ = tokio::time::timeout(limit, self.wait_while(untried)).await;
    }

    fn untried<'s>(
        &self,
        snapshot: &'s Snapshot,
        kind: ItemKind,
        wanted: impl Fn(&UpstreamPlan) -> bool,
    ) -> impl Iterator<Item = &'s UpstreamPlan> {
        let upstreams = snapshot.linked.upstreams.iter().filter(|upstream| upstream.refusing.is_none());
        let plans = upstreams.map(|upstream| &upstream.target.plan);
        let tried = move |plan: &UpstreamPlan| {
            let state = self.state.upstream(&plan.key);
            state.tried
                && (kind == ItemKind::Tool || state.others.tried(kind))
                && !snapshot.filters.are_running(&plan.key, kind)
        };
        plans.filter(move |plan| plan.enabled && wanted(plan) && !tried(plan))
    }

    async fn wait_while(&self, holds: impl Fn() -> bool) {
        let (mut lists, mut tried, mut plans) = (self.lists(), self.tried.subscribe(), self.plans());
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

fn list_timeout(snapshot: &Snapshot) -> Duration {
    Duration::from_millis(u64::from(snapshot.plan().gateway.limits.list_timeout_ms))
}

fn offset(cursor: &str, list_revision: &str, length: usize) -> Result<usize, RpcError> {
    let offset =
        cursor.strip_prefix(list_revision).and_then(|rest| rest.strip_prefix('.')).and_then(|n| n.parse().ok());
    offset.filter(|offset| *offset < length).ok_or_else(|| {
        RpcError::new(INVALID_PARAMS, "the cursor is not of this list, which may have changed: list from the start")
    })
}
