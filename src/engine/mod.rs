//! The use cases: link a plan, call a tool, run chains, list tools, probe health, explain. Adapters are passed in as
//! implementations of the traits in `domain::ports`.
//!
//! A call uses one [`Snapshot`] from its start to its end. The only exception is a call that has to wait for its
//! upstream, its Guards or the check of its arguments before anything is sent: it continues with the newest snapshot. After each
//! later wait, the call is checked against the newest one (`chains/recheck.rs`).

pub mod access;
pub mod apply;
mod assemble;
pub mod audit_trail;
pub mod calls;
pub mod catalogue;
pub mod chains;
pub mod exchange;
pub mod in_flight;
pub mod invocations;
pub mod lists;
mod notices;
pub mod pipelines;
pub mod plan;
mod request;
pub mod servers;
pub mod views;

use std::sync::Arc;

pub use access::seal::SealKeys;
pub use calls::completion::CompletionRequest;
pub use calls::subscribing::SubscribeRequest;
pub(crate) use chains::outcome::dropped;
pub use lists::pages::ListPage;
pub use notices::{ListChanges, MAX_OF_CLIENT, Mailbox, Notice, Subscription};
pub use plan::snapshot::Snapshot;
pub use request::{CallRequest, Caller, CheckMirrored, Endpoint, Reply, TaskUse, Within};
pub use views::NotReady;

use access::gate::Gate;
use apply::Applier;
use audit_trail::AuditTrail;
use calls::Calls;
use catalogue::Catalogues;
use catalogue::probes::Probes;
use chains::Chains;
use chains::ready::PluginLoads;
use invocations::Invocations;
use lists::Lists;
use pipelines::Pipelines;
use plan::in_force::InForce;
use servers::Servers;
use views::Views;

use crate::domain::budget::ByteBudget;
use crate::domain::ports::{Audit, Authenticate, CallUpstream, Clock, CompleteModel, History, Records, RunPlugin};
use crate::domain::values::KeepValues;
use crate::telemetry::metrics::Metrics;

/// The adapters that an engine uses.
pub struct Ports {
    /// Runs plugins in workers.
    pub plugins: Arc<dyn RunPlugin>,
    /// Connects to upstream MCP servers.
    pub upstreams: Arc<dyn CallUpstream>,
    /// Calls language models.
    pub models: Arc<dyn CompleteModel>,
    /// Stores the values of plugins.
    pub values: Arc<dyn KeepValues>,
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
    servers: Arc<Servers>,
    history: Arc<dyn History>,
    credentials: Arc<dyn Authenticate>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    budget: Arc<ByteBudget>,
    probes: Arc<Probes>,
    /// The lists and the health of upstreams.
    pub catalogues: Arc<Catalogues>,
    /// The snapshot that calls run on.
    pub in_force: Arc<InForce>,
    /// The state that decides which requests are accepted, and the sessions of their clients.
    pub gate: Arc<Gate>,
    /// Writes rows of the audit trail.
    pub audit: Arc<AuditTrail>,
    /// Runs the chains of calls.
    pub chains: Arc<Chains>,
    /// The load states of plugins.
    pub loads: PluginLoads,
    /// Runs pipelines, and the plugins that make tools.
    pub pipelines: Arc<Pipelines>,
    /// Reads the lists of upstreams, and gives clients their pages.
    pub lists: Arc<Lists>,
    /// Runs the calls of clients, plugins and pipelines.
    pub calls: Arc<Calls>,
    /// Creates the invocations of the admin API and runs them.
    pub invocations: Arc<Invocations>,
    /// Puts plans in force.
    pub applier: Arc<Applier>,
    /// Reads the state of the other parts for the admin API.
    pub views: Arc<Views>,
}

impl Engine {
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

    /// The state of the MCP endpoints of this process.
    pub fn endpoints(&self) -> &views::endpoints::Endpoints {
        &self.views.endpoints
    }

    /// Ends sessions that were idle for longer than the plan allows, or that were never initialized in time, and calls that
    /// have waited for their clients for too long.
    pub fn expire(&self) {
        let idle_ms = u64::from(self.in_force.snapshot().plan().gateway.session_idle_seconds) * 1000;
        let now = self.clock.unix_millis();
        self.gate.in_flight.expire(now);
        for gone in self.gate.sessions.sweep(now, idle_ms) {
            self.servers.forget_client(&gone, false);
        }
        self.metrics.sessions(self.gate.sessions.count());
    }

    /// Ends a session at the request of its client.
    pub fn end_session(&self, id: &str) {
        self.gate.sessions.delete(id);
        self.servers.forget_client(id, true);
        self.metrics.sessions(self.gate.sessions.count());
    }

    /// The requests to read the manifests again.
    pub fn readings(&self) -> &views::readings::Readings {
        &self.views.readings
    }

    /// The current time in Unix milliseconds.
    pub fn now(&self) -> u64 {
        self.clock.unix_millis()
    }

    /// Ends every worker and connection. Running calls should have ended before.
    pub async fn shutdown(&self) {
        self.end();
        tokio::join!(self.plugins.shutdown(), self.servers.shutdown());
    }

    /// Like [`Self::shutdown`], but kills the child processes of upstreams instead of letting them exit.
    pub async fn abort(&self) {
        self.end();
        tokio::join!(self.plugins.shutdown(), self.servers.abort());
    }

    fn end(&self) {
        self.gate.drain();
        self.gate.end_calls();
        self.probes.stop();
    }
}

#[cfg(test)]
mod tests;
