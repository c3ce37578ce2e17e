//! Pipelines: tools that the gateway serves itself, by running plugins of type phase (document 002). In a plan, a pipeline is
//! an upstream without a server, so that chains, filters, limits and records cover it like any other.

mod agents;
mod arguments;
mod asked;
mod changed;
mod completion;
mod context;
mod conversation;
mod helper;
mod host;
mod json_answer;
mod loops;
mod memory;
mod output;
mod output_type;
mod overrides;
mod plugin_call;
mod provider;
mod run;
mod server;
mod shape;
mod step;
mod values;

pub(crate) use context::{RunUse, research_type};
pub(in crate::engine) use loops::{applying, customized};
pub(in crate::engine) use server::probed;
pub(crate) use shape::check_result;

use std::sync::Arc;

use crate::domain::ports::{Clock, CompleteModel};
use crate::domain::values::KeepValues;
use crate::engine::access::gate::Gate;
use crate::engine::catalogue::Catalogues;
use crate::engine::chains::Chains;
use crate::engine::plan::in_force::InForce;
use crate::telemetry::metrics::Metrics;

/// Runs pipelines, and the plugins that make tools.
pub struct Pipelines {
    pub(in crate::engine) models: Arc<dyn CompleteModel>,
    pub(in crate::engine) values: Arc<dyn KeepValues>,
    pub(in crate::engine) chains: Arc<Chains>,
    pub(in crate::engine) gate: Arc<Gate>,
    pub(in crate::engine) in_force: Arc<InForce>,
    pub(in crate::engine) catalogues: Arc<Catalogues>,
    pub(in crate::engine) clock: Arc<dyn Clock>,
    pub(in crate::engine) metrics: Arc<Metrics>,
}

#[cfg(test)]
mod tests;
