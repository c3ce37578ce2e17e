//! What the planning loop found, for the loop of statuses.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::compiled::CompiledObjects;
use super::status::GatewayState;
use crate::domain::ids::ObjectKey;
use crate::telemetry::traces::Cause;

/// What the planning loop found, for the loop of statuses.
#[derive(Clone, Default)]
pub(super) struct PlanningState {
    pub(super) compiled: Arc<CompiledObjects>,
    pub(super) gateways: BTreeMap<ObjectKey, GatewayState>,
    /// Gateways that wait because what is stored for them cannot be read, and why.
    pub(super) unread: BTreeMap<ObjectKey, String>,
    /// Why nothing can be planned, if so: what is not seen.
    pub(super) held: Option<String>,
    /// The round that found it.
    pub(super) cause: Cause,
}
