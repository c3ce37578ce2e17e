//! What outlives a snapshot: tool lists, health, sessions, calls in flight.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use dashmap::DashMap;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::readings::Readings;
use crate::domain::budget::{NoRoom, Reservation};
use crate::domain::ids::ObjectKey;
use crate::domain::limits::Tracker;
use crate::domain::report::PendingReport;
use crate::domain::seen::SeenNames;
use crate::domain::tool::Listed;
use crate::engine::access::sessions::SessionTable;
use crate::engine::upstreams::state::{ToolList, UpstreamState};

/// Everything that a new plan leaves as it is.
#[derive(Default)]
pub struct EngineState {
    upstreams: DashMap<ObjectKey, UpstreamState>,
    /// Names of tools that upstreams were ever seen to have.
    pub(super) seen: watch::Sender<Arc<SeenNames>>,
    /// Those of them that every process of the gateway gets at its start; none where nobody keeps them for others.
    pub(super) published: ArcSwapOption<SeenNames>,
    /// Legacy sessions.
    pub sessions: SessionTable,
    /// Calls of this process.
    pub(super) calls: Arc<Tracker>,
    /// Executions off the path of their call.
    pub(super) background: Arc<Tracker>,
    /// Cancelled to end calls in flight (`stopMode: Cancel`). It is replaced when calls may run again.
    pub(super) cut: ArcSwap<CancellationToken>,
    /// Set when the process is about to end.
    pub(super) draining: std::sync::atomic::AtomicBool,
    /// Readings of the manifests that somebody waits for.
    pub readings: Readings,
    /// What should run and cannot.
    pub(super) pending: ArcSwapOption<PendingReport>,
}

impl EngineState {
    /// The last good tool list of an upstream.
    pub(super) fn tools(&self, upstream: &ObjectKey) -> Option<Arc<ToolList>> {
        self.upstreams.get(upstream)?.tools.clone()
    }

    /// A copy of what is known of an upstream.
    pub fn upstream(&self, upstream: &ObjectKey) -> UpstreamState {
        self.upstreams.get(upstream).map(|state| state.clone()).unwrap_or_default()
    }

    /// Keeps what becomes known of an upstream from now on.
    pub(super) fn track(&self, upstream: &ObjectKey) {
        self.upstreams.entry(upstream.clone()).or_default();
    }

    /// Whether anything is kept of an upstream.
    pub(super) fn knows(&self, upstream: &ObjectKey) -> bool {
        self.upstreams.contains_key(upstream)
    }

    /// Changes what is known of an upstream. Of one that is forgotten, of which a probe or its server may still tell,
    /// nothing is kept.
    pub(super) fn update<T>(&self, upstream: &ObjectKey, change: impl FnOnce(&mut UpstreamState) -> T) -> T {
        match self.upstreams.get_mut(upstream) {
            Some(mut known) => change(&mut known),
            None => change(&mut UpstreamState::default()),
        }
    }

    /// Whether calls may be routed to it.
    pub(super) fn in_routing(&self, upstream: &ObjectKey) -> bool {
        self.upstreams.get(upstream).is_none_or(|state| state.health.in_routing())
    }

    /// Counts of its calls.
    pub(super) fn upstream_tracker(&self, upstream: &ObjectKey) -> Arc<Tracker> {
        self.upstreams.get(upstream).map(|state| Arc::clone(&state.tracker)).unwrap_or_default()
    }

    /// Forgets an upstream, and the names that it was seen to have: who deletes it gives them away.
    pub(super) fn forget(&self, upstream: &ObjectKey) {
        self.upstreams.remove(upstream);
        self.see(|seen| seen.forget(upstream));
    }

    /// Changes the names that upstreams were seen to have. `change` says whether it did; returns the same.
    pub(super) fn see(&self, change: impl FnOnce(&mut SeenNames) -> bool) -> bool {
        self.seen.send_if_modified(|seen| change(Arc::make_mut(seen)))
    }

    /// Where there is no room for another name, forgets those of upstreams that `planned` does not know. Until then
    /// they are kept: an upstream whose manifest is broken comes back.
    pub(super) fn make_room_for_names(&self, planned: impl Fn(&str) -> bool) {
        if self.seen.borrow().is_full() {
            self.see(|seen| seen.retain(planned));
        }
    }

    /// Puts a new tool list in, which is held in `reservation`. Returns whether it differs from the last: the same tools in
    /// another order do not. That of an upstream that is forgotten is not kept.
    ///
    /// # Errors
    /// Where there is no room: then the last one stays.
    pub(super) fn set_tools(
        &self,
        upstream: &ObjectKey,
        listed: Listed,
        reservation: Reservation,
    ) -> Result<bool, NoRoom> {
        if !self.knows(upstream) {
            return Ok(false);
        }
        // Before the list: a tool whose name is not among them is taken for one too many.
        self.see(|seen| seen.add(upstream, listed.tools.iter().map(|tool| &*tool.name)));
        let list = ToolList::new(listed, reservation);
        let same = |old: &ToolList| old.revision == list.revision && old.left_out == list.left_out;
        if self.tools(upstream).as_deref().is_some_and(same) {
            return Ok(false);
        }
        list.hold()?;
        self.update(upstream, |state| state.tools = Some(Arc::new(list)));
        Ok(true)
    }
}
