//! A gateway with its plan.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::owner::Owner;
use crate::api::snapshot::NotLoadedForm;
use crate::domain::digest;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::{Plan, Restrictions, UpstreamPlan};
use crate::domain::problem::Problem;

/// A gateway with its plan.
pub(super) struct PlannedGateway {
    pub(super) owner: Owner,
    /// `spec.pinnedRevision`, whatever else of the gateway is not valid.
    pub(super) pinned: Option<String>,
    /// What counts at once, for as long as an older plan runs.
    pub(super) restrictions: Restrictions,
    /// What counts at once for each kept revision, for pods that run it still.
    pub(super) restrictions_of_kept: BTreeMap<String, Restrictions>,
    pub(super) plan: Arc<Plan>,
    /// Digest of all that is to be stored: the plan, and what the index says besides.
    pub(super) wanted: String,
    /// Forms of plugins that pods could not load, and that are not in the plan for it.
    pub(super) not_loaded: Vec<NotLoadedForm>,
    /// What each object of the plan is in it: where that is equal, so is the object.
    pub(super) digests: Arc<Digests>,
    /// How many upstreams each chain covers, up to [`MANY`](super::compiled::MANY).
    pub(super) covered: HashMap<ObjectKey, usize>,
    /// Places of the plan's upstreams.
    pub(super) places: HashMap<ObjectKey, usize>,
    /// Problems with objects as this gateway takes them, by object.
    pub(super) problems: HashMap<ObjectId, Vec<Problem>>,
}

impl PlannedGateway {
    /// What counts at once although the newest plan runs, which knows the rest.
    pub(super) fn restrictions_of_newest(&self) -> Restrictions {
        Restrictions { refusing: None, revoked: Vec::new(), ..self.restrictions.clone() }
    }

    /// An upstream of the plan.
    pub(super) fn upstream(&self, key: &ObjectKey) -> Option<&UpstreamPlan> {
        self.plan.upstreams.get(*self.places.get(key)?)
    }
}

/// Digests of the objects in a plan.
pub(super) type Digests = HashMap<ObjectId, String>;

/// What each object of a plan is in it.
pub(super) fn digests(plan: &Plan) -> Digests {
    let upstreams = plan.upstreams.iter().map(|u| (Kind::MCPUpstream, &u.key, digest::revision(u)));
    let plugins = plan.plugins.iter().map(|p| (Kind::Plugin, &p.key, digest::revision(p)));
    let chains = plan.chains.iter().map(|c| (Kind::PluginChain, &c.key, c.revision.clone()));
    let all = upstreams.chain(plugins).chain(chains);
    all.map(|(kind, key, digest)| (ObjectId::new(kind, key.clone()), digest)).collect()
}
