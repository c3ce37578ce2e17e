//! A gateway and its plan.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::owner::Owner;
use crate::api::gateway::MCPGatewaySpec;
use crate::api::snapshot::NotLoadedForm;
use crate::domain::digest;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::plan::{Plan, Restrictions, UpstreamPlan};
use crate::domain::problem::Problem;

/// A gateway, its plan, and everything else that is stored or reported for it.
pub(super) struct PlannedGateway {
    pub(super) owner: Owner,
    /// `spec.pinnedRevision`, even if the rest of the gateway's spec is invalid.
    pub(super) pinned: Option<String>,
    /// The gateway's spec; `None` if it is invalid.
    pub(super) spec: Option<MCPGatewaySpec>,
    /// Restrictions that apply while an older plan runs.
    pub(super) restrictions: Restrictions,
    /// Restrictions for each kept revision, for pods that still run it.
    pub(super) restrictions_of_kept: BTreeMap<String, Restrictions>,
    pub(super) plan: Arc<Plan>,
    /// Digest of everything that should be stored: the plan, and the other content of the index.
    pub(super) wanted: String,
    /// Plugin forms that pods could not load, and that the plan therefore does not contain.
    pub(super) not_loaded: Vec<NotLoadedForm>,
    /// Digest of each object's form in the plan. Equal digests mean equal forms.
    pub(super) digests: Arc<Digests>,
    /// How many upstreams each chain covers, but at most [`MANY`](super::compiled::MANY).
    pub(super) covered: HashMap<ObjectKey, usize>,
    /// The position of each upstream in the plan.
    pub(super) places: HashMap<ObjectKey, usize>,
    /// Problems that objects have on this gateway, by object.
    pub(super) problems: HashMap<ObjectId, Vec<Problem>>,
}

impl PlannedGateway {
    /// Returns the restrictions that apply while the newest plan runs. They contain no revocations, because that plan
    /// already reflects them.
    pub(super) fn restrictions_of_newest(&self) -> Restrictions {
        Restrictions { refusing: None, revoked: Vec::new(), ..self.restrictions.clone() }
    }

    pub(super) fn upstream(&self, key: &ObjectKey) -> Option<&UpstreamPlan> {
        self.plan.upstreams.get(*self.places.get(key)?)
    }
}

/// Digest of each object's form in a plan.
pub(super) type Digests = HashMap<ObjectId, String>;

/// Computes the digest of each object's form in a plan.
pub(super) fn digests(plan: &Plan) -> Digests {
    let upstreams = plan.upstreams.iter().map(|u| (u.kind(), &u.key, digest::revision(u)));
    let plugins = plan.plugins.iter().map(|p| (Kind::Plugin, &p.key, digest::revision(p)));
    let chains = plan.chains.iter().map(|c| (Kind::PluginChain, &c.key, c.revision.clone()));
    let sections = plan.sections.iter().map(|s| (Kind::SectionBinding, &s.key, digest::revision(s)));
    let all = upstreams.chain(plugins).chain(chains).chain(sections);
    all.map(|(kind, key, digest)| (ObjectId::new(kind, key.clone()), digest)).collect()
}
