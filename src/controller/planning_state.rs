//! The state that the planning loop publishes for the status loop.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::compiled::CompiledObjects;
use super::status::GatewayState;
use crate::domain::ids::ObjectKey;
use crate::telemetry::trace_context::Cause;

/// The result of a planning round.
#[derive(Clone, Default)]
pub(super) struct PlanningState {
    pub(super) compiled: Arc<CompiledObjects>,
    pub(super) gateways: BTreeMap<ObjectKey, GatewayState>,
    /// Gateways that are not planned, because what is stored for them cannot be read, and why.
    pub(super) unread: BTreeMap<ObjectKey, String>,
    /// If nothing can be planned because a kind was never listed: which kind that is, and why.
    pub(super) held: Option<String>,
    /// The term of leadership in which the round took place.
    pub(super) term: Option<u64>,
    /// The trace of the round that led to this state.
    pub(super) cause: Cause,
}
