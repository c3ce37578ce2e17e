//! The steps of one call: it is accepted, routed, passed through its chains, sent, answered and recorded.

mod admit;
mod arguments;
mod arrived;
mod audited;
mod checks;
pub(crate) mod completion;
pub(crate) mod finish;
mod own_tool;
pub(crate) mod recorder;
mod request_beside;
mod request_chains;
mod retry;
mod route;
mod rules;
mod section;
mod send;
pub(crate) mod stages;
pub(crate) mod subscribing;
pub(crate) mod tasks;
pub mod waiting;

use std::sync::Arc;

use crate::domain::budget::ByteBudget;
use crate::domain::ports::{Clock, Records};
use crate::engine::access::gate::Gate;
use crate::engine::audit_trail::AuditTrail;
use crate::engine::catalogue::Catalogues;
use crate::engine::chains::Chains;
use crate::engine::chains::ends::CallEnds;
use crate::engine::lists::Lists;
use crate::engine::notices::Subscribers;
use crate::engine::pipelines::Pipelines;
use crate::engine::plan::in_force::InForce;
use crate::engine::servers::Servers;
use crate::telemetry::metrics::Metrics;

/// Runs the calls of clients, plugins and pipelines.
pub struct Calls {
    pub(in crate::engine) servers: Arc<Servers>,
    pub(in crate::engine) chains: Arc<Chains>,
    pub(in crate::engine) ends: CallEnds,
    pub(in crate::engine) pipelines: Arc<Pipelines>,
    pub(in crate::engine) lists: Arc<Lists>,
    pub(in crate::engine) gate: Arc<Gate>,
    pub(in crate::engine) audit: Arc<AuditTrail>,
    pub(in crate::engine) in_force: Arc<InForce>,
    pub(in crate::engine) catalogues: Arc<Catalogues>,
    pub(in crate::engine) records: Arc<dyn Records>,
    pub(in crate::engine) subscribers: Arc<Subscribers>,
    pub(in crate::engine) clock: Arc<dyn Clock>,
    pub(in crate::engine) metrics: Arc<Metrics>,
    pub(in crate::engine) budget: Arc<ByteBudget>,
}
