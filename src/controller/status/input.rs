//! The input from which statuses are computed.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::controller::compiled::CompiledObjects;
use crate::controller::managed_state::ManagedServers;
use crate::controller::planned_gateway::Digests;
use crate::controller::planned_gateway::PlannedGateway;
use crate::controller::pods::ByGateway;
use crate::controller::rollout::Rollout;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::Plan;
use crate::domain::reason::Reason;

/// Everything that statuses depend on.
#[derive(Default)]
pub(in crate::controller) struct StatusInput {
    pub(in crate::controller) compiled: Arc<CompiledObjects>,
    pub(in crate::controller) gateways: BTreeMap<ObjectKey, GatewayState>,
    pub(in crate::controller) pods: ByGateway,
    /// The servers that the operator runs for upstreams.
    pub(in crate::controller) managed: ManagedServers,
    /// The watches that are failing.
    pub(in crate::controller) blind: Vec<String>,
    /// Gateways that are not planned, because what is stored for them cannot be read, and why.
    pub(in crate::controller) unread: BTreeMap<ObjectKey, String>,
    /// Why nothing could be planned; `None` if plans could be made.
    pub(in crate::controller) held: Option<String>,
    /// Why pods were never listed; `None` if they were.
    pub(in crate::controller) no_pods: Option<String>,
    /// Kinds whose status the operator is not permitted to write, with the API server's message.
    pub(in crate::controller) refused: BTreeMap<&'static str, String>,
}

/// Returns the message of `Programmed` while the operator does not see everything.
pub(in crate::controller) fn blind(why: &str) -> String {
    format!("the operator does not see everything: {why}")
}

/// The effect of `spec.pinnedRevision`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller) enum Pin {
    /// The field has no effect: it is absent, or names the newest revision.
    None,
    /// Pods run the pinned revision, which is not the newest.
    Kept,
    /// This pinned revision is not kept, so pods stay on the current one.
    Lost(String),
}

/// The state of one gateway, as the planning loop left it.
#[derive(Clone)]
pub(in crate::controller) struct GatewayState {
    pub(in crate::controller) planned: Arc<PlannedGateway>,
    /// The plan that pods should run, with restrictions applied; the newest plan until this process has written an
    /// index.
    pub(in crate::controller) in_force: Arc<Plan>,
    /// The revision that pods should run; `None` until one is stored.
    pub(in crate::controller) current: Option<String>,
    /// Digest of the restrictions in the index.
    pub(in crate::controller) restrictions: String,
    /// The URLs of the gateway's endpoints; empty if the operator does not create the gateway's Service.
    pub(in crate::controller) addresses: Vec<String>,
    /// The effect of `spec.pinnedRevision`.
    pub(in crate::controller) pin: Pin,
    /// Digests of the objects in each kept revision, by revision name.
    pub(in crate::controller) revisions: BTreeMap<String, Arc<Digests>>,
    /// Why the gateway's objects are not up to date, if they are not.
    pub(in crate::controller) fault: Option<(Reason, String)>,
    /// Whether the gateway asks for a route although Gateway API is not installed.
    pub(in crate::controller) lacks_route_kind: bool,
    /// What is wrong with the rollout of the gateway's Deployment.
    pub(in crate::controller) rollout: Rollout,
}
