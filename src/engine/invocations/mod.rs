//! Invocations of tools that a client creates, watches and cancels by their ids (document 003, ToolInvocationRequest).

mod run;

pub use run::InvokeError;

use std::sync::Arc;

use crate::domain::budget::ByteBudget;
use crate::domain::ports::Clock;
use crate::engine::access::gate::Gate;
use crate::engine::calls::Calls;
use crate::engine::lists::Lists;
use crate::engine::plan::in_force::InForce;

/// Creates invocations and runs them.
pub struct Invocations {
    pub(in crate::engine) calls: Arc<Calls>,
    pub(in crate::engine) lists: Arc<Lists>,
    pub(in crate::engine) gate: Arc<Gate>,
    pub(in crate::engine) in_force: Arc<InForce>,
    pub(in crate::engine) clock: Arc<dyn Clock>,
    pub(in crate::engine) budget: Arc<ByteBudget>,
}
