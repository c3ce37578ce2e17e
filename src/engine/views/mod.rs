//! The data that the admin API, `explain`, the metrics and the report show.

pub(crate) mod asked_access;
pub mod dependencies;
pub mod endpoints;
pub(crate) mod explain;
mod notes;
pub(crate) mod objects;
pub(crate) mod pipelines;
pub(crate) mod plugins;
mod readiness;
pub mod readings;
pub(crate) mod report;
pub mod scrape;
pub(crate) mod sections;
pub(crate) mod sessions;
pub(crate) mod status;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwapOption;

use self::endpoints::Endpoints;
use self::readings::Readings;
use crate::domain::budget::ByteBudget;
use crate::domain::ports::{Authenticate, Clock, Records, RunPlugin};
use crate::domain::report::PendingReport;
use crate::domain::values::KeepValues;
use crate::engine::access::gate::Gate;
use crate::engine::audit_trail::AuditTrail;
use crate::engine::catalogue::Catalogues;
use crate::engine::chains::ready::PluginLoads;
use crate::engine::lists::Lists;
use crate::engine::plan::in_force::InForce;
use crate::engine::servers::Servers;
use crate::telemetry::metrics::Metrics;

pub use self::readiness::NotReady;

/// Reads the state of the other parts.
pub struct Views {
    pub(in crate::engine) servers: Arc<Servers>,
    pub(in crate::engine) plugins: Arc<dyn RunPlugin>,
    pub(in crate::engine) records: Arc<dyn Records>,
    pub(in crate::engine) values: Arc<dyn KeepValues>,
    pub(in crate::engine) credentials: Arc<dyn Authenticate>,
    pub(in crate::engine) audit: Arc<AuditTrail>,
    pub(in crate::engine) loads: PluginLoads,
    pub(in crate::engine) lists: Arc<Lists>,
    pub(in crate::engine) gate: Arc<Gate>,
    pub(in crate::engine) in_force: Arc<InForce>,
    pub(in crate::engine) catalogues: Arc<Catalogues>,
    pub(in crate::engine) clock: Arc<dyn Clock>,
    pub(in crate::engine) metrics: Arc<Metrics>,
    pub(in crate::engine) budget: Arc<ByteBudget>,
    /// The state of the MCP endpoints of this process.
    pub(in crate::engine) endpoints: Endpoints,
    /// Requests to read the manifests.
    pub(in crate::engine) readings: Readings,
    /// A revision that should run but cannot; `None` if there is none.
    pub(in crate::engine) pending: ArcSwapOption<PendingReport>,
    /// Whether this process was ready for calls once.
    pub(in crate::engine) was_ready: AtomicBool,
}
