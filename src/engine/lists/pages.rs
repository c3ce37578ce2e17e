//! Pages of the lists of tools, prompts, resources and templates that the upstreams offer.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::Lists;
use crate::domain::caching::Caching;
use crate::domain::ids::ObjectKey;
use crate::domain::item::ItemKind;
use crate::domain::plan::{PrefixMode, UpstreamPlan};
use crate::domain::route::Route;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::domain::section::Place;
use crate::engine::lists::probing::first_try;
use crate::engine::plan::bound_section::invalid_section;
use crate::engine::plan::snapshot::{Lookup, Snapshot};
use crate::engine::request::{Caller, Endpoint, ItemName};

/// One page of a list.
#[derive(Debug)]
pub struct ListPage {
    /// The definitions as one JSON array.
    pub items: Arc<RawValue>,
    /// The same for clients of the legacy era.
    pub legacy_items: Arc<RawValue>,
    /// The cursor of the next page; `None` on the last page.
    pub next_cursor: Option<String>,
    /// What the servers whose items are in the list say about its caching.
    pub caching: Caching,
}

impl Lists {
    /// Returns one page of the list of this kind. First waits until the upstreams that were never contacted have been tried
    /// once, for at most the list timeout. `meta` is `params._meta`: it can name a section, in which one upstream is visible. The
    /// list has what the rules of the gateway let this client see.
    ///
    /// # Errors
    /// `-32602` if the cursor does not belong to the current list, or the section is not valid.
    pub async fn list_for(
        &self,
        caller: &Caller,
        endpoint: Endpoint<'_>,
        kind: ItemKind,
        cursor: Option<&str>,
        meta: Option<&RawValue>,
    ) -> Result<ListPage, RpcError> {
        let place = Place::of_meta(meta).map_err(|why| invalid_section(&why))?;
        self.wait_for_lists(&self.in_force.snapshot(), &endpoint, kind).await;
        let snapshot = self.in_force.snapshot();
        let upstream = endpoint.upstream(&snapshot);
        let visible = snapshot.bound_section(place.as_ref()).map(|section| section.index());
        let has_own = endpoint.lists_own_tools(&snapshot, kind);
        let client = (&caller.identity, &*caller.session);
        let permitted = if has_own { None } else { snapshot.permitted_in_turn(client, kind).await };
        let is_shown = |route: &Route| {
            visible.is_none_or(|visible| visible == route.upstream)
                && permitted.as_ref().is_none_or(|permitted| permitted.has(route))
        };
        let digest = permitted.as_ref().map(|permitted| permitted.digest.clone());
        let definitions = || endpoint.definitions(&snapshot, kind, is_shown);
        let pages = snapshot.serialized.pages((upstream, visible, kind, digest.clone()), &self.budget, definitions);
        let revision = revision_of(snapshot.list_revisions.of(kind), visible, digest.as_deref());
        let number = cursor.map_or(Some(0), |cursor| page_number(cursor, &revision));
        let (number, page) = number.and_then(|number| Some((number, pages.page(number)?))).ok_or_else(|| {
            let message = "the cursor is not of this list, which may have changed: list from the start";
            RpcError::new(INVALID_PARAMS, message)
        })?;
        let next_cursor = pages.page(number + 1).map(|_| format!("{revision}.{}", number + 1));
        let (items, legacy_items) = (Arc::clone(&page.modern), Arc::clone(&page.legacy));
        let caching = self.caching(&snapshot, endpoint, kind, visible);
        // What is in the list depends on where its client is, and who.
        let is_private = caching.is_private || place.is_some() || permitted.is_some();
        let caching = Caching { is_private, ..caching };
        Ok(ListPage { items, legacy_items, next_cursor, caching })
    }

    /// Returns what the servers whose items are in a list say about its caching. What the gateway lists itself changes only
    /// with the plan.
    fn caching(&self, snapshot: &Snapshot, endpoint: Endpoint<'_>, kind: ItemKind, visible: Option<usize>) -> Caching {
        if endpoint.lists_own_tools(snapshot, kind) {
            return Caching::default();
        }
        let only = endpoint.upstream(snapshot);
        let upstreams = snapshot.linked.upstreams.iter().enumerate();
        let is_listed = |index: usize| [only, visible].iter().flatten().all(|only| *only == index);
        let plans = upstreams.filter(|(index, _)| is_listed(*index)).map(|(_, up)| &up.target.plan);
        let said = plans.filter(|plan| plan.enabled).filter_map(|plan| self.catalogues.caching(&plan.key, kind));
        said.fold(Caching::default(), Caching::and)
    }

    /// Waits until the list of this kind of each upstream of this endpoint has been tried once, for at most the list
    /// timeout.
    pub(in crate::engine) async fn wait_for_lists(&self, snapshot: &Snapshot, endpoint: &Endpoint<'_>, kind: ItemKind) {
        let deadline = list_timeout(snapshot);
        let serves = |plan: &UpstreamPlan| match endpoint {
            Endpoint::All => true,
            Endpoint::One(name) => *name == plan.key.name,
        };
        let is_named = matches!(endpoint, Endpoint::One(_));
        let untried = || self.untried(&self.in_force.snapshot(), kind, serves, is_named).next().is_some();
        let _ = tokio::time::timeout(deadline, self.in_force.wait_while(untried)).await;
    }

    /// Waits until the upstreams that could have this item have been tried once, for at most as long as a first try can
    /// take. This can be longer than the list timeout, because a list can leave an upstream out, but a call needs the
    /// upstream of its item. A resource that a template fits waits for at most the list timeout, because its upstream is
    /// known; only another one could list it.
    pub(in crate::engine) async fn wait_for_item(&self, snapshot: &Snapshot, item: ItemName<'_>) {
        let ItemName { endpoint, kind, name } = item;
        let is_named = matches!(endpoint, Endpoint::One(_))
            || snapshot.plan().gateway.prefix == PrefixMode::Always && kind.has_name();
        let is_tool_of = |plan: &UpstreamPlan| match plan.pipeline() {
            Some(pipeline) => kind == ItemKind::Tool && pipeline.tool_name() == name,
            None => name.strip_prefix(&*plan.key.name).is_some_and(|rest| rest.starts_with("__")),
        };
        let may_have = |plan: &UpstreamPlan| match endpoint {
            Endpoint::One(upstream) => upstream == plan.key.name,
            Endpoint::All => !is_named || is_tool_of(plan),
        };
        if is_named && matches!(item.find(snapshot), Lookup::Unknown) {
            let upstreams = snapshot.linked.upstreams.iter().map(|upstream| &upstream.target.plan);
            upstreams.filter(|plan| may_have(plan)).for_each(|plan| {
                self.retry_probe(&plan.key);
            });
        }
        let Some(longest) = self.untried(snapshot, kind, may_have, is_named).map(first_try).max() else { return };
        let limit = match item.find(snapshot) {
            Lookup::Unknown | Lookup::Undecided(_) => longest + list_timeout(snapshot),
            Lookup::Found(_) | Lookup::Ambiguous(..) => list_timeout(snapshot),
        };
        // Uses the newest plan, because an upstream that was deleted meanwhile will never be tried.
        let untried = || {
            let newest = self.in_force.snapshot();
            !matches!(item.find(&newest), Lookup::Found(found) if found.is_listed)
                && self.untried(&newest, kind, may_have, is_named).next().is_some()
        };
        let _ = tokio::time::timeout(limit, self.in_force.wait_while(untried)).await;
    }

    /// Returns the `wanted` upstreams whose first try has not ended, or which have definitions that chains have never seen.
    /// `is_named` tells whether the request names the one that it is about: else nobody waits for chains that take longer
    /// than the list timeout, since they would hold up what is about others each time.
    fn untried<'s>(
        &self,
        snapshot: &'s Snapshot,
        kind: ItemKind,
        wanted: impl Fn(&UpstreamPlan) -> bool,
        is_named: bool,
    ) -> impl Iterator<Item = &'s UpstreamPlan> {
        let upstreams = snapshot.linked.upstreams.iter().filter(|upstream| upstream.lists());
        let plans = upstreams.map(|upstream| &upstream.target.plan);
        let (now, limit) = (self.clock.monotonic(), list_timeout(snapshot));
        let is_late = move |plan: &UpstreamPlan| !is_named && self.catalogues.filtered.are_late(&plan.key, now, limit);
        let tried = move |plan: &UpstreamPlan| {
            let key = &plan.key;
            self.catalogues.was_tried(key, kind) && (!snapshot.filters.are_running(key, kind) || is_late(plan))
        };
        plans.filter(move |plan| plan.enabled && !tried(plan) && wanted(plan))
    }

    /// The names of the visible upstreams whose tools are not known: no list of theirs was ever read, or the chains over it have not
    /// run.
    pub(in crate::engine) fn upstreams_without_tools<'s>(
        &self,
        snapshot: &'s Snapshot,
        is_visible: impl Fn(usize) -> bool,
    ) -> Vec<&'s str> {
        let is_unknown = |key: &ObjectKey| {
            !self.catalogues.upstream(key).knows_tools() || snapshot.filters.are_running(key, ItemKind::Tool)
        };
        let upstreams = snapshot.linked.upstreams.iter().enumerate();
        let upstreams = upstreams.filter(|(index, upstream)| upstream.lists() && is_visible(*index));
        let plans =
            upstreams.map(|(_, upstream)| &upstream.target.plan).filter(|plan| plan.enabled && is_unknown(&plan.key));
        plans.map(|plan| &*plan.key.name).collect()
    }
}

fn list_timeout(snapshot: &Snapshot) -> Duration {
    Duration::from_millis(u64::from(snapshot.plan().gateway.limits.list_timeout_ms))
}

/// Returns the revision of a list of which only the items of the upstream `visible` and those of `permitted` are shown.
fn revision_of(list: &str, visible: Option<usize>, permitted: Option<&str>) -> String {
    let visible = visible.map(|visible| format!("-{visible}")).unwrap_or_default();
    let permitted = permitted.map(|digest| format!("-{digest}")).unwrap_or_default();
    format!("{list}{visible}{permitted}")
}

/// Returns the number of the page that a cursor leads to; `None` if it is not of a list with this revision.
fn page_number(cursor: &str, list_revision: &str) -> Option<usize> {
    cursor.strip_prefix(list_revision)?.strip_prefix('.')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_of_one_list_as_one_client_sees_it() {
        let revisions = [
            revision_of("abc", None, None),
            revision_of("abc", Some(1), None),
            revision_of("abc", None, Some("f00")),
            revision_of("abc", Some(1), Some("f00")),
        ];
        for (at, revision) in revisions.iter().enumerate() {
            let cursor = format!("{revision}.7");
            let readers = revisions.iter().enumerate().filter(|(_, other)| page_number(&cursor, other).is_some());
            assert_eq!(readers.map(|(reader, _)| reader).collect::<Vec<_>>(), [at], "{cursor}");
            assert_eq!(page_number(&cursor, revision), Some(7));
        }
        for cursor in ["", "abc", "abc.", "abc.-1", "abc.x", "ab.1"] {
            assert_eq!(page_number(cursor, "abc"), None, "{cursor}");
        }
    }
}
