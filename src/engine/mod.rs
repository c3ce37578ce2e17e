//! The use cases: link a plan, call a tool, run chains, list tools, probe health, explain. Adapters are passed in as
//! implementations of the traits in `domain::ports`.
//!
//! A call uses one [`Snapshot`] from its start to its end. The only exception is a call that has to wait for its
//! upstream, its Guards or the check of its arguments before anything is sent: it continues with the newest snapshot. After each
//! later wait, the call is checked against the newest one (`chains/recheck.rs`). [`state`] holds what outlives a snapshot: tool
//! lists, health, sessions, calls in flight.

pub mod access;
mod announced;
pub mod calls;
pub mod chains;
mod completion;
pub mod endpoints;
pub mod exchange;
pub mod executions;
pub mod invocations;
mod list;
mod notices;
pub mod pipelines;
pub mod plan;
mod readiness;
pub mod readings;
mod request;
mod request_beside;
mod servers;
mod shutdown;
pub mod state;
mod upstreams;
pub mod views;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

pub use access::seal::SealKeys;
pub(crate) use chains::outcome::dropped;
pub use completion::CompletionRequest;
pub use list::ListPage;
pub use notices::{ListChanges, MAX_OF_CLIENT, Mailbox, Notice, SubscribeRequest, Subscription};
pub use plan::snapshot::Snapshot;
pub use readiness::NotReady;
pub use request::{CallRequest, Caller, CheckMirrored, Endpoint, Reply, TaskUse, Within};

use crate::domain::budget::ByteBudget;
use crate::domain::kept_form::KeptForm;
use crate::domain::ports::{Audit, Authenticate, CallUpstream, Clock, CompleteModel, History, Records, RunPlugin};
use crate::domain::seen::SeenNames;
use crate::telemetry::metrics::Metrics;

/// The adapters that an engine uses.
pub struct Ports {
    /// Runs plugins in workers.
    pub plugins: Arc<dyn RunPlugin>,
    /// Connects to upstream MCP servers.
    pub upstreams: Arc<dyn CallUpstream>,
    /// Calls language models.
    pub models: Arc<dyn CompleteModel>,
    /// Stores the records of calls and executions.
    pub records: Arc<dyn Records>,
    /// Reads these records.
    pub history: Arc<dyn History>,
    /// Writes the audit trail; `None` if there is no store for it.
    pub audit: Option<Arc<dyn Audit>>,
    /// Checks the credentials of clients.
    pub credentials: Arc<dyn Authenticate>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
}

/// The core of one gateway process.
pub struct Engine {
    plugins: Arc<dyn RunPlugin>,
    servers: Arc<servers::Servers>,
    models: Arc<dyn CompleteModel>,
    records: Arc<dyn Records>,
    history: Arc<dyn History>,
    audit: Option<Arc<dyn Audit>>,
    credentials: Arc<dyn Authenticate>,
    clock: Arc<dyn Clock>,
    metrics: Metrics,
    budget: Arc<ByteBudget>,
    snapshot: ArcSwap<Snapshot>,
    /// Held while the next snapshot is built from the current one and replaces it.
    publishing: Mutex<()>,
    /// Held while a plan is applied.
    applying: tokio::sync::Mutex<()>,
    /// The plans that calls may still be running on.
    held: Mutex<Vec<Weak<plan::link::Linked>>>,
    /// The most recently loaded form of each plugin.
    forms: Mutex<plan::plugin_revisions::PluginRevisions>,
    /// Counts the changes of `forms`.
    forms_changed: watch::Sender<u64>,
    /// The task that puts new forms of plugins in force once they are loaded.
    following: Mutex<Option<AbortHandle>>,
    /// Notified whenever a snapshot is published.
    published: Notify,
    /// Notified whenever one of the lists changes.
    lists: watch::Sender<()>,
    /// Notified whenever the first attempt to reach an upstream has ended.
    tried: watch::Sender<()>,
    /// Notified whenever a plan, or other forms of its plugins, come into force.
    plans: watch::Sender<()>,
    state: state::EngineState,
    probes: upstreams::probes::Probes,
}

impl Engine {
    /// Creates an engine without a plan. Every call is refused until the first plan is applied.
    pub fn new(ports: Ports, metrics: Metrics, budget: Arc<ByteBudget>) -> Arc<Self> {
        let Ports { plugins, upstreams, models, records, history, audit, credentials, clock } = ports;
        Arc::new(Self {
            plugins,
            servers: Arc::new(servers::Servers::new(upstreams)),
            models,
            records,
            history,
            audit,
            credentials,
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
            published: Notify::new(),
            lists: watch::Sender::new(()),
            tried: watch::Sender::new(()),
            plans: watch::Sender::new(()),
            state: state::EngineState::default(),
            probes: upstreams::probes::Probes::default(),
        })
    }

    /// The snapshot that new calls run on.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// The metrics of this process.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The budget for the bytes that clients and servers make the process hold.
    pub fn budget(&self) -> &Arc<ByteBudget> {
        &self.budget
    }

    /// The records of calls and executions.
    pub fn history(&self) -> &dyn History {
        &*self.history
    }

    /// Checks the credentials of clients.
    pub fn credentials(&self) -> &dyn Authenticate {
        &*self.credentials
    }

    /// What is known of the MCP endpoints of this process.
    pub fn endpoints(&self) -> &endpoints::Endpoints {
        &self.state.endpoints
    }

    /// The sessions of clients of the legacy era.
    pub fn sessions(&self) -> &access::sessions::SessionTable {
        &self.state.sessions
    }

    /// Ends sessions that were idle for longer than the plan allows, or that were never initialized in time.
    pub fn expire_sessions(&self) {
        let idle_ms = u64::from(self.snapshot().plan().gateway.session_idle_seconds) * 1000;
        for gone in self.state.sessions.sweep(self.clock.unix_millis(), idle_ms) {
            self.servers.forget_client(&gone, false);
        }
        self.metrics.sessions(self.state.sessions.count());
    }

    /// Ends a session at the request of its client.
    pub fn end_session(&self, id: &str) {
        self.state.sessions.delete(id);
        self.servers.forget_client(id, true);
        self.metrics.sessions(self.state.sessions.count());
    }

    /// The requests to read the manifests again.
    pub fn readings(&self) -> &readings::Readings {
        &self.state.readings
    }

    /// A receiver that is notified whenever one of the lists changes. It carries no value.
    pub fn lists(&self) -> watch::Receiver<()> {
        self.lists.subscribe()
    }

    /// The most recently loaded form of each plugin in the plan.
    pub fn kept_forms(&self) -> Vec<KeptForm> {
        self.forms.lock().unwrap_or_else(PoisonError::into_inner).to_kept()
    }

    /// A receiver that is notified whenever [`Engine::kept_forms`] changes.
    pub fn forms_changed(&self) -> watch::Receiver<u64> {
        self.forms_changed.subscribe()
    }

    /// Restores the forms that an earlier process had loaded. Call this before the first plan is applied.
    pub fn restore_forms(&self, kept: Vec<KeptForm>) {
        self.forms.lock().unwrap_or_else(PoisonError::into_inner).restore(kept);
    }

    /// A receiver of the names of all tools that upstreams have ever listed. The caller must store them so that they
    /// outlive the process; see [`Self::merge_seen_names`].
    pub fn seen_names(&self) -> watch::Receiver<Arc<SeenNames>> {
        self.state.seen.subscribe()
    }

    /// Adds tool names that this gateway saw before a restart, or that another of its processes saw. Call this before
    /// the first plan is applied if possible: a name that is added later can move from one upstream's tool to
    /// another's.
    pub fn merge_seen_names(&self, names: &SeenNames) {
        if self.state.see(|seen| seen.merge(names)) {
            self.relist();
        }
    }

    /// Adds the tool names that every process of this gateway receives at its start. From then on, [`Self::report`]
    /// lists other tool names that were seen, if tools keep their own names.
    pub fn set_published_names(&self, names: SeenNames) {
        self.merge_seen_names(&names);
        self.state.published.store(Some(Arc::new(names)));
    }

    /// A receiver that is notified whenever a plan, or other forms of its plugins, come into force.
    pub fn plans(&self) -> watch::Receiver<()> {
        self.plans.subscribe()
    }

    /// The current time in Unix milliseconds.
    pub fn now(&self) -> u64 {
        self.clock.unix_millis()
    }
}

#[cfg(test)]
mod tests;
