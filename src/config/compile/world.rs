//! What chains are compiled against.

use super::by_name::ByName;
use super::plugins::Plugins;
use crate::config::input::Inputs;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::{ChainPlan, GatewayPlan, Plan, Takes};

/// What chains are compiled against.
pub(super) struct World<'a> {
    pub(super) inputs: &'a Inputs,
    /// The plan that runs.
    pub(super) previous: Option<&'a Plan>,
    pub(super) gateway: &'a GatewayPlan,
    /// Which chains the gateway takes; none is all.
    pub(super) takes: Option<&'a Takes>,
    pub(super) plugins: &'a Plugins<'a>,
    pub(super) upstreams: ByName<'a>,
}

impl World<'_> {
    /// The form of a chain that was accepted last.
    pub(super) fn accepted(&self, chain: &ObjectKey) -> Option<&ChainPlan> {
        self.previous.and_then(|plan| plan.chain(chain)).filter(|chain| chain.refusing.is_none())
    }
}
