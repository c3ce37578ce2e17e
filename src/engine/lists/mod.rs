//! The lists of upstreams: probes that read them, chains that run on them, and the pages that clients get.

mod announced;
mod filtering;
mod indexing;
pub(crate) mod pages;
pub(crate) mod probing;
mod reading;
mod server_log;
mod tools;

use std::sync::Arc;

use crate::domain::budget::ByteBudget;
use crate::domain::ports::{Clock, RunPlugin};
use crate::engine::access::gate::Gate;
use crate::engine::catalogue::Catalogues;
use crate::engine::catalogue::probes::Probes;
use crate::engine::chains::Chains;
use crate::engine::notices::Subscribers;
use crate::engine::pipelines::Pipelines;
use crate::engine::plan::in_force::InForce;
use crate::engine::servers::Servers;
use crate::telemetry::metrics::Metrics;

/// Reads the lists of upstreams and their health, and gives clients their pages.
pub struct Lists {
    pub(in crate::engine) servers: Arc<Servers>,
    pub(in crate::engine) plugins: Arc<dyn RunPlugin>,
    pub(in crate::engine) chains: Arc<Chains>,
    pub(in crate::engine) pipelines: Arc<Pipelines>,
    pub(in crate::engine) gate: Arc<Gate>,
    pub(in crate::engine) in_force: Arc<InForce>,
    pub(in crate::engine) catalogues: Arc<Catalogues>,
    pub(in crate::engine) probes: Arc<Probes>,
    /// Which clients subscribed to which resources.
    pub(in crate::engine) subscribers: Arc<Subscribers>,
    pub(in crate::engine) clock: Arc<dyn Clock>,
    pub(in crate::engine) metrics: Arc<Metrics>,
    pub(in crate::engine) budget: Arc<ByteBudget>,
}
