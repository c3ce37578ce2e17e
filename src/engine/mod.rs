//! The use cases: link a plan, call a tool, run chains, list tools, probe health, explain. Adapters come in
//! as `domain::ports`.
//!
//! A call takes one [`Snapshot`] at its start and uses it to its end, unless it has to wait for its upstream or its guards
//! before anything is sent: then it goes on with the newest. What outlives a snapshot (tool lists, health,
//! sessions, calls in flight) is [`state`].

pub mod access;
pub mod calls;
mod list;
pub mod plan;
pub mod readings;
mod request;
mod shutdown;
pub mod state;
mod upstreams;
pub mod views;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::task::AbortHandle;

pub(crate) use calls::outcome::dropped;
pub use list::ToolPage;
pub use plan::snapshot::Snapshot;
pub use request::{CallRequest, Caller, CheckMirrored, Endpoint, Reply, Within};

use crate::domain::budget::ByteBudget;
use crate::domain::kept_form::KeptForm;
use crate::domain::ports::{CallUpstream, Clock, Records, RunPlugin};
use crate::domain::seen::SeenNames;
use crate::telemetry::metrics::Metrics;

/// The adapters that an engine is put together from.
pub struct Ports {
    /// Runs plugins.
    pub plugins: Arc<dyn RunPlugin>,
    /// Speaks with MCP servers.
    pub upstreams: Arc<dyn CallUpstream>,
    /// Keeps what happened.
    pub records: Arc<dyn Records>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// One gateway process.
pub struct Engine {
    plugins: Arc<dyn RunPlugin>,
    upstreams: Arc<dyn CallUpstream>,
    records: Arc<dyn Records>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    budget: Arc<ByteBudget>,
    snapshot: ArcSwap<Snapshot>,
    /// Held while a snapshot is built from the one before it and put in its place.
    publishing: Mutex<()>,
    /// Held while a plan is applied.
    applying: tokio::sync::Mutex<()>,
    /// The plans on which calls may still run.
    held: Mutex<Vec<Weak<plan::link::Linked>>>,
    /// What was loaded last of each plugin.
    forms: Mutex<plan::forms::Forms>,
    /// Counts changes of that.
    forms_changed: watch::Sender<u64>,
    /// Puts new forms of plugins in force as they are loaded.
    following: Mutex<Option<AbortHandle>>,
    /// Told whenever another tool list is published.
    lists: watch::Sender<()>,
    /// Told whenever a first try of an upstream has ended.
    tried: watch::Sender<()>,
    /// Told whenever a plan is put in force, or other forms of its plugins are.
    plans: watch::Sender<()>,
    state: state::EngineState,
    probes: upstreams::probes::Probes,
}

impl Engine {
    /// An engine without a plan: every call is refused until the first one is applied.
    pub fn new(ports: Ports, metrics: Metrics, budget: Arc<ByteBudget>) -> Arc<Self> {
        let Ports { plugins, upstreams, records, clock } = ports;
        Arc::new(Self {
            plugins,
            upstreams,
            records,
            clock,
            metrics,
            budget,
            snapshot: ArcSwap::from_pointee(Snapshot::empty()),
            publishing: Mutex::new(()),
            applying: tokio::sync::Mutex::new(()),
            held: Mutex::default(),
            forms: Mutex::default(),
            forms_changed: watch::Sender::new(0),
            following: Mutex::default(),
            lists: watch::Sender::new(()),
            tried: watch::Sender::new(()),
            plans: watch::Sender::new(()),
            state: state::EngineState::default(),
            probes: upstreams::probes::Probes::default(),
        })
    }

    /// What runs now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Its metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The bytes that the process may hold.
    pub fn budget(&self) -> &Arc<ByteBudget> {
        &self.budget
    }

    /// Its records.
    pub fn records(&self) -> &dyn Records {
        &*self.records
    }

    /// Its sessions.
    pub fn sessions(&self) -> &access::sessions::SessionTable {
        &self.state.sessions
    }

    /// Ends sessions that were idle for too long.
    pub fn expire_sessions(&self) {
        let idle_ms = u64::from(self.snapshot().plan().gateway.session_idle_seconds) * 1000;
        self.state.sessions.sweep(self.clock.unix_millis(), idle_ms);
        self.metrics.sessions(self.state.sessions.count());
    }

    /// Readings of its manifests that somebody waits for.
    pub fn readings(&self) -> &readings::Readings {
        &self.state.readings
    }

    /// Changes whenever the tool list does; it holds nothing.
    pub fn tool_lists(&self) -> watch::Receiver<()> {
        self.lists.subscribe()
    }

    /// What was loaded last of each plugin of the plan.
    pub fn kept_forms(&self) -> Vec<KeptForm> {
        self.forms.lock().unwrap_or_else(PoisonError::into_inner).to_kept()
    }

    /// Changes whenever [`Engine::kept_forms`] does.
    pub fn forms_changed(&self) -> watch::Receiver<u64> {
        self.forms_changed.subscribe()
    }

    /// What an earlier process had loaded last. For before the first plan.
    pub fn restore_forms(&self, kept: Vec<KeptForm>) {
        self.forms.lock().unwrap_or_else(PoisonError::into_inner).restore(kept);
    }

    /// The names of tools that upstreams were ever seen to have, and each change of them. They must outlive the
    /// process: see [`Self::merge_seen_names`].
    pub fn seen_names(&self) -> watch::Receiver<Arc<SeenNames>> {
        self.state.seen.subscribe()
    }

    /// Takes in names that this gateway saw before it was restarted, or that another process of it saw. Best before the
    /// first plan: a name that is taken in later may go from one upstream's tool to another's.
    pub fn merge_seen_names(&self, names: &SeenNames) {
        if self.state.see(|seen| seen.merge(names)) {
            self.relist();
        }
    }

    /// Takes in the names that every process of this gateway gets at its start. From now on the report has those that
    /// lack among them.
    pub fn set_published_names(&self, names: SeenNames) {
        self.merge_seen_names(&names);
        self.state.published.store(Some(Arc::new(names)));
    }

    /// Changes whenever a plan was put in force, or other forms of its plugins were.
    pub fn plans(&self) -> watch::Receiver<()> {
        self.plans.subscribe()
    }

    /// Unix milliseconds.
    pub fn now(&self) -> u64 {
        self.clock.unix_millis()
    }
}

#[cfg(test)]
mod tests;
