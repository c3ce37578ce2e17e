//! Everything that statuses follow from.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::controller::compiled::CompiledObjects;
use crate::controller::planned_gateway::Digests;
use crate::controller::planned_gateway::PlannedGateway;
use crate::controller::pods::ByGateway;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::Plan;
use crate::domain::reason::Reason;

/// Everything that statuses follow from.
#[derive(Default)]
pub(in crate::controller) struct StatusInput {
    pub(in crate::controller) compiled: Arc<CompiledObjects>,
    pub(in crate::controller) gateways: BTreeMap<ObjectKey, GatewayState>,
    pub(in crate::controller) pods: ByGateway,
    /// What cannot be watched now.
    pub(in crate::controller) blind: Vec<String>,
    /// Gateways that wait because what is stored for them cannot be read, and why.
    pub(in crate::controller) unread: BTreeMap<ObjectKey, String>,
    /// Why nothing could be planned, if so.
    pub(in crate::controller) held: Option<String>,
    /// Why no pod was ever seen, if so.
    pub(in crate::controller) no_pods: Option<String>,
    /// Kinds whose status may not be written, and what was said.
    pub(in crate::controller) refused: BTreeMap<&'static str, String>,
}

/// What `Programmed` says where something is not seen.
pub(in crate::controller) fn blind(why: &str) -> String {
    format!("the operator does not see everything: {why}")
}

/// What `spec.pinnedRevision` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller) enum Pin {
    /// Nothing: it is absent, or names the newest revision.
    None,
    /// Pods run an older revision.
    Kept,
    /// It names this one, which is not kept: what ran runs on.
    Lost(String),
}

/// A gateway as it is stored.
#[derive(Clone)]
pub(in crate::controller) struct GatewayState {
    pub(in crate::controller) planned: Arc<PlannedGateway>,
    /// The plan of the revision that pods are to run, with what counts at once; the newest before the first is stored.
    pub(in crate::controller) in_force: Arc<Plan>,
    /// The revision that pods are to run; none before the first.
    pub(in crate::controller) current: Option<String>,
    /// Digest of what counts at once.
    pub(in crate::controller) restrictions: String,
    /// What `spec.pinnedRevision` does.
    pub(in crate::controller) pin: Pin,
    /// Digests of each kept revision's objects.
    pub(in crate::controller) revisions: BTreeMap<String, Arc<Digests>>,
    /// Why its objects are not as they are to be.
    pub(in crate::controller) fault: Option<(Reason, String)>,
}
