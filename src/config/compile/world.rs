//! The context in which the objects of one gateway are compiled.

use std::cell::RefCell;

use super::by_name::ByName;
use super::plugins::Plugins;
use crate::config::config_schema::ConfigChecks;
use crate::config::input::Inputs;
use crate::config::nearest::BoundedNearest;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::{ChainPlan, GatewayPlan, GatewayTakes, Plan};

/// The context that the compilation of every kind depends on.
#[derive(Clone, Copy)]
pub(super) struct World<'a> {
    pub(super) inputs: &'a Inputs,
    /// The running plan, which contains the last accepted forms.
    pub(super) previous: Option<&'a Plan>,
    pub(super) gateway: &'a GatewayPlan,
    /// The objects that the gateway takes; `None` means all.
    pub(super) takes: Option<&'a GatewayTakes>,
    pub(super) plugins: &'a Plugins<'a>,
}

/// Everything that the compilation of chains depends on.
pub(super) struct Chains<'a> {
    pub(super) world: World<'a>,
    pub(super) upstreams: ByName<'a>,
    /// The checks of the entries' configurations.
    pub(super) checks: RefCell<ConfigChecks<'a>>,
    /// Finds what was meant by unknown names.
    pub(super) nearest: BoundedNearest,
}

impl Chains<'_> {
    /// Returns the last accepted form of a chain.
    pub(super) fn accepted(&self, chain: &ObjectKey) -> Option<&ChainPlan> {
        self.world.previous.and_then(|plan| plan.chain(chain)).filter(|chain| chain.refusing.is_none())
    }
}
