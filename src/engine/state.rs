//! The state that outlives a snapshot: tool lists, health, sessions, calls in flight.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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

/// All state that a new plan does not replace.
#[derive(Default)]
pub struct EngineState {
    upstreams: DashMap<ObjectKey, UpstreamState>,
    /// Names of all tools that upstreams were ever seen to have.
    pub(super) seen: watch::Sender<Arc<SeenNames>>,
    /// The names in `seen` that every process of the gateway gets at its start; `None` if nobody stores names for other
    /// processes.
    pub(super) published: ArcSwapOption<SeenNames>,
    /// Sessions of clients of the legacy era.
    pub sessions: SessionTable,
    /// Counts the calls of this process.
    pub(super) calls: Arc<Tracker>,
    /// Counts the executions that run off the path of their call.
    pub(super) background: Arc<Tracker>,
    /// Cancelled to end calls in flight (`stopMode: Cancel`). Replaced when calls can run again.
    pub(super) cut: ArcSwap<CancellationToken>,
    /// Set when the process is shutting down.
    pub(super) draining: AtomicBool,
    /// Cancelled when the shutdown waits no longer: calls are refused, and running ones are answered with an error.
    pub(super) ended: CancellationToken,
    /// Readings of the manifests that somebody waits for.
    pub readings: Readings,
    /// A revision that should run but cannot.
    pub(super) pending: ArcSwapOption<PendingReport>,
}

impl EngineState {
    /// Returns the last valid tool list of an upstream.
    pub(super) fn tools(&self, upstream: &ObjectKey) -> Option<Arc<ToolList>> {
        self.upstreams.get(upstream)?.tools.clone()
    }

    /// Returns a copy of what is known of an upstream.
    pub fn upstream(&self, upstream: &ObjectKey) -> UpstreamState {
        self.upstreams.get(upstream).map(|state| state.clone()).unwrap_or_default()
    }

    /// Starts to keep state of an upstream.
    pub(super) fn track(&self, upstream: &ObjectKey) {
        self.upstreams.entry(upstream.clone()).or_default();
    }

    /// Whether state of an upstream is kept.
    pub(super) fn knows(&self, upstream: &ObjectKey) -> bool {
        self.upstreams.contains_key(upstream)
    }

    /// Changes what is known of an upstream. If the upstream was forgotten, the change is discarded: a probe or the
    /// server can still report something.
    pub(super) fn update<T>(&self, upstream: &ObjectKey, change: impl FnOnce(&mut UpstreamState) -> T) -> T {
        match self.upstreams.get_mut(upstream) {
            Some(mut known) => change(&mut known),
            None => change(&mut UpstreamState::default()),
        }
    }

    /// Whether calls can be routed to an upstream.
    pub(super) fn in_routing(&self, upstream: &ObjectKey) -> bool {
        self.upstreams.get(upstream).is_none_or(|state| state.health.in_routing())
    }

    /// Returns the counter of an upstream's calls.
    pub(super) fn upstream_tracker(&self, upstream: &ObjectKey) -> Arc<Tracker> {
        self.upstreams.get(upstream).map(|state| Arc::clone(&state.tracker)).unwrap_or_default()
    }

    /// Forgets an upstream and the names that it was seen to have. Deleting an upstream makes its names available to
    /// others.
    pub(super) fn forget(&self, upstream: &ObjectKey) {
        self.upstreams.remove(upstream);
        self.see(|seen| seen.forget(upstream));
    }

    /// Changes the names that upstreams were seen to have. `change` returns whether it changed anything; so does this
    /// function.
    pub(super) fn see(&self, change: impl FnOnce(&mut SeenNames) -> bool) -> bool {
        self.seen.send_if_modified(|seen| change(Arc::make_mut(seen)))
    }

    /// Where there is no room for another name, forgets the names of upstreams for which `planned` returns false. As long
    /// as there is room they are kept, because an upstream whose manifest is broken can come back.
    pub(super) fn make_room_for_names(&self, planned: impl Fn(&str) -> bool) {
        if self.seen.borrow().is_full() {
            self.see(|seen| seen.make_room(planned));
        }
    }

    /// Stores a new tool list, whose bytes are counted in `reservation`. Returns whether it differs from the last one;
    /// the order of tools does not count. The list of an upstream that was forgotten is discarded.
    ///
    /// If there is no room. The last list stays then.
    pub(super) fn set_tools(
        &self,
        upstream: &ObjectKey,
        listed: Listed,
        reservation: Reservation,
    ) -> Result<bool, NoRoom> {
        if !self.knows(upstream) {
            return Ok(false);
        }
        // Names are stored before the list: a tool whose name is not stored counts as one that there was no room for.
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
