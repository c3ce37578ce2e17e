//! The chains of a call: over its request, over the questions that its server asks meanwhile, and over its answer. Only this folder
//! reads what a server answered before its chains ran.

pub(crate) mod asked_back;
pub(crate) mod asked_by_error;
pub(crate) mod asked_client;
pub(crate) mod cause;
pub(crate) mod chain;
pub mod content;
pub(crate) mod ends;
pub(crate) mod entry_traces;
pub(crate) mod execute;
pub(crate) mod host;
pub(crate) mod input_questions;
pub(crate) mod input_state;
pub(crate) mod meta;
pub(crate) mod not_there;
pub(crate) mod outcome;
pub(crate) mod plugin_run;
pub(crate) mod progress;
pub(crate) mod question_traces;
pub(crate) mod questions;
pub(crate) mod ready;
pub(crate) mod recheck;
pub(crate) mod release;
pub(crate) mod released;
pub(crate) mod routed_call;
pub(crate) mod rule_ends;
pub(crate) mod spans;
pub(crate) mod task_answers;
pub(crate) mod task_state;
pub(crate) mod text_block;
pub(crate) mod tool_result;
pub(crate) mod unchecked;
pub(crate) mod valid_content;
pub(crate) mod when;

use std::sync::{Arc, Weak};

use self::ends::CallEnds;
use self::ready::PluginLoads;
use crate::domain::budget::ByteBudget;
use crate::domain::ports::{Clock, Records, RunPlugin};
use crate::engine::access::gate::Gate;
use crate::engine::plan::in_force::InForce;
use crate::engine::request::InnerCalls;
use crate::telemetry::metrics::Metrics;

/// Runs the chains of calls.
pub struct Chains {
    pub(in crate::engine) plugins: Arc<dyn RunPlugin>,
    pub(in crate::engine) records: Arc<dyn Records>,
    pub(in crate::engine) clock: Arc<dyn Clock>,
    pub(in crate::engine) metrics: Arc<Metrics>,
    pub(in crate::engine) budget: Arc<ByteBudget>,
    pub(in crate::engine) in_force: Arc<InForce>,
    pub(in crate::engine) gate: Arc<Gate>,
    pub(in crate::engine) ends: CallEnds,
    pub(in crate::engine) loads: PluginLoads,
    /// Makes the calls of plugins.
    pub(in crate::engine) inner: Weak<dyn InnerCalls>,
}
