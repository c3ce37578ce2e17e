//! From a plan to the objects that hold it, and that let pods read it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::{GATEWAY_LABEL, MANAGED_BY, PART_LABEL};
use crate::api::acts;
use crate::api::pack::{self, TooLarge};
use crate::api::snapshot::{
    GatewaySnapshot, GatewaySnapshotSpec, NotLoadedForm, ShardRef, SnapshotActs, SnapshotIndex, SnapshotRevision,
};
use crate::config::shards::split;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::{Acts, Plan};

/// Revisions that are kept: the current one and those before it.
const KEPT: usize = 3;
/// The most shards of a revision, which is the schema's bound.
const MAX_SHARDS: usize = 1024;

/// The gateway that everything belongs to.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) key: ObjectKey,
    pub(super) uid: String,
}

/// A revision: how the index names it, and those of its shards that are not stored yet.
#[derive(Clone, Debug)]
pub(super) struct Revision {
    pub(super) entry: SnapshotRevision,
    pub(super) lacking: Vec<GatewaySnapshot>,
}

/// Why a plan cannot be stored.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum BuildError {
    /// A piece does not fit.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// There are too many pieces.
    #[error("the plan has {0} pieces, where {MAX_SHARDS} are the most: give this gateway fewer plugins")]
    TooMany(usize),
    /// The revision that is pinned is not kept, and nothing ran before.
    #[error("spec.pinnedRevision: there is no revision {0}; nothing runs until the field is taken out")]
    NotKept(String),
}

/// What pods, Service and rights of the gateway `name` are called.
pub(super) fn workload(name: &str) -> String {
    format!("{name}-gateway")
}

/// Takes out what this gateway's chains do not name: other namespaces' code is none of its business.
pub(super) fn prune(plan: &mut Plan) {
    let used: BTreeSet<_> = plan.chains.iter().flat_map(|c| &c.entries).map(|entry| entry.plugin.clone()).collect();
    plan.plugins.retain(|plugin| used.contains(&plugin.key));
    let digests: BTreeSet<_> = plan.plugins.iter().map(|plugin| plugin.digest.clone()).collect();
    plan.code.retain(|digest, _| digests.contains(digest));
}

/// The revision that holds `plan`. `is_stored` says which shards are there: what they hold is packed already. Its name is not that of another of `kept`.
///
/// # Errors
/// See [`BuildError`].
pub(super) fn revision(
    owner: &Owner,
    plan: &Plan,
    is_stored: impl Fn(&ShardRef) -> bool,
    kept: &[SnapshotRevision],
    now: String,
) -> Result<Revision, BuildError> {
    let mut entries = Vec::new();
    let mut lacking = Vec::new();
    let pieces = split(plan);
    if pieces.len() > MAX_SHARDS {
        return Err(BuildError::TooMany(pieces.len()));
    }
    for piece in pieces {
        let entry = pack::reference(&owner.key.name, &piece)?;
        if !is_stored(&entry) {
            let shard = Some(pack::pack(&piece)?);
            let spec = GatewaySnapshotSpec { gateway: owner.key.name.clone(), index: None, shard };
            lacking.push(GatewaySnapshot { metadata: owner.metadata(&entry.name, Some("shard")), spec });
        }
        entries.push(entry);
    }
    let entry = SnapshotRevision {
        revision: pack::revision(&entries, kept),
        created_time: Some(now),
        format_version: plan.format_version,
        compiled_by: Some(env!("CARGO_PKG_VERSION").to_owned()),
        inputs: u32::try_from(plan.upstreams.len() + plan.plugins.len() + plan.chains.len() + 1).ok(),
        problems: None,
        acts: None,
        shards: entries,
    };
    Ok(Revision { entry, lacking })
}

/// What a gateway's pods are to run, as the planning loop found it.
pub(super) struct Wanted<'p> {
    /// The newest plan; none where it cannot be stored.
    pub(super) newest: Option<&'p SnapshotRevision>,
    /// `spec.pinnedRevision`.
    pub(super) pinned: Option<&'p str>,
    /// What counts at once while the newest plan does not run.
    pub(super) acts: &'p Acts,
    /// The same while it does.
    pub(super) stop: &'p Acts,
    /// Forms of plugins that pods could not load.
    pub(super) not_loaded: &'p [NotLoadedForm],
    /// What counts at once for each kept revision, for pods that run it still.
    pub(super) kept: &'p BTreeMap<String, Acts>,
}

impl Wanted<'_> {
    /// What a revision's entry says that counts at once for it while another is the current one.
    fn beside(&self, known: &SnapshotRevision, current: &str) -> Option<SnapshotActs> {
        if known.revision == current {
            return None;
        }
        if self.newest.is_some_and(|newest| newest.revision == known.revision) {
            return Some(acts::written_beside(self.stop));
        }
        let found = self.kept.get(&known.revision).map(acts::written_beside);
        found.or_else(|| known.acts.clone())
    }
}

/// The index after that. A pinned revision runs for as long as it is kept. Where it is not, what runs stays: never is it
/// silently the newest. None where nothing may run.
pub(super) fn index(before: Option<&SnapshotIndex>, wanted: &Wanted<'_>) -> Option<SnapshotIndex> {
    let older = before.map_or(&[][..], |before| &before.revisions);
    let mut revisions: Vec<_> = older.to_vec();
    if let Some(newest) = wanted.newest.filter(|newest| older.first().is_none_or(|f| f.revision != newest.revision)) {
        revisions.retain(|known| known.revision != newest.revision);
        revisions.insert(0, newest.clone());
    }
    let newest = wanted.newest.map(|newest| &newest.revision);
    let stays = || before.map(|before| &before.current);
    let current = match wanted.pinned {
        Some(pinned) => revisions.iter().map(|known| &known.revision).find(|known| *known == pinned).or_else(stays),
        None => newest.or_else(stays),
    };
    let current = current?.clone();
    let acts = if newest == Some(&current) { wanted.stop } else { wanted.acts };
    let mut place = 0;
    revisions.retain(|known| {
        place += 1;
        place <= KEPT || known.revision == current
    });
    for known in &mut revisions {
        known.acts = wanted.beside(known, &current);
    }
    let not_loaded = (!wanted.not_loaded.is_empty()).then(|| wanted.not_loaded.to_vec());
    Some(SnapshotIndex { current, revisions, acts: Some(acts::written(acts)), not_loaded })
}

/// The index as an object.
pub(super) fn index_object(owner: &Owner, index: SnapshotIndex) -> GatewaySnapshot {
    let spec = GatewaySnapshotSpec { gateway: owner.key.name.clone(), index: Some(index), shard: None };
    GatewaySnapshot { metadata: owner.metadata(&owner.key.name, Some("index")), spec }
}

/// What lets the gateway's pods read its snapshots, and nothing else.
pub(super) fn access(owner: &Owner) -> (ServiceAccount, Role, RoleBinding) {
    let name = owner.workload();
    let metadata = || owner.metadata(&name, None);
    let rule = PolicyRule {
        api_groups: Some(vec!["hawsepipe.dev".into()]),
        resources: Some(vec!["gatewaysnapshots".into()]),
        verbs: ["get", "list", "watch"].map(Into::into).into(),
        ..PolicyRule::default()
    };
    let role_ref = RoleRef { api_group: "rbac.authorization.k8s.io".into(), kind: "Role".into(), name: name.clone() };
    let subject = Subject {
        kind: "ServiceAccount".into(),
        name: name.clone(),
        namespace: Some(owner.key.namespace.clone()),
        ..Subject::default()
    };
    (
        ServiceAccount { metadata: metadata(), ..ServiceAccount::default() },
        Role { metadata: metadata(), rules: Some(vec![rule]) },
        RoleBinding { metadata: metadata(), role_ref, subjects: Some(vec![subject]) },
    )
}

impl Owner {
    /// What pods, Service and rights of the gateway are called.
    pub(super) fn workload(&self) -> String {
        workload(&self.key.name)
    }

    /// Whether an object is this gateway's.
    pub(super) fn owns(&self, metadata: &ObjectMeta) -> bool {
        metadata.owner_references.iter().flatten().any(|owner| owner.uid == self.uid)
    }

    /// Whether an object is of another MCPGateway, such as one that had this one's name.
    pub(super) fn is_anothers(&self, metadata: &ObjectMeta) -> bool {
        let mut owners = metadata.owner_references.iter().flatten();
        !self.owns(metadata) && owners.any(|owner| owner.kind == "MCPGateway")
    }

    fn metadata(&self, name: &str, part: Option<&str>) -> ObjectMeta {
        let part = part.map(|part| (PART_LABEL.to_owned(), part.to_owned()));
        let labels = [(GATEWAY_LABEL, self.key.name.as_str()), MANAGED_BY].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let owner = OwnerReference {
            api_version: "hawsepipe.dev/v1alpha1".into(),
            kind: "MCPGateway".into(),
            name: self.key.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            ..OwnerReference::default()
        };
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.key.namespace.clone()),
            labels: Some(labels.into_iter().chain(part).collect()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::plan::Revoked;

    fn revision(name: &str) -> SnapshotRevision {
        SnapshotRevision {
            revision: name.to_owned(),
            created_time: None,
            format_version: 1,
            compiled_by: None,
            inputs: None,
            problems: None,
            acts: None,
            shards: Vec::new(),
        }
    }

    fn kept(index: &SnapshotIndex) -> Vec<&str> {
        index.revisions.iter().map(|revision| revision.revision.as_str()).collect()
    }

    /// The index after a plan of this name was compiled.
    fn next(before: Option<&SnapshotIndex>, newest: &str, pinned: Option<&str>) -> Option<SnapshotIndex> {
        let (newest, stop) = (revision(newest), Acts::default());
        let acts = Acts { revoked: vec![Revoked::Upstream(ObjectKey::new("ns", "gone"))], ..Acts::default() };
        let kept = before.iter().flat_map(|index| &index.revisions).map(|known| (known.revision.clone(), acts.clone()));
        index(
            before,
            &Wanted { newest: Some(&newest), pinned, acts: &acts, stop: &stop, not_loaded: &[], kept: &kept.collect() },
        )
    }

    fn revoked(index: &SnapshotIndex) -> usize {
        index.acts.as_ref().unwrap().revoked.as_ref().map_or(0, Vec::len)
    }

    #[test]
    fn three_revisions_are_kept_and_a_pinned_one() {
        let mut last = None;
        for name in ["a", "b", "c", "d"] {
            last = next(last.as_ref(), name, None);
        }
        let free = last.unwrap();
        assert_eq!((free.current.as_str(), kept(&free), revoked(&free)), ("d", vec!["d", "c", "b"], 0));
        let mut pinned = next(Some(&free), "d", Some("b")).unwrap();
        assert_eq!((pinned.current.as_str(), kept(&pinned)), ("b", vec!["d", "c", "b"]));
        for name in ["e", "f"] {
            pinned = next(Some(&pinned), name, Some("b")).unwrap();
        }
        assert_eq!((pinned.current.as_str(), kept(&pinned), revoked(&pinned)), ("b", vec!["f", "e", "d", "b"], 1));
        let free = next(Some(&pinned), "f", None).unwrap();
        assert_eq!((free.current.as_str(), kept(&free), revoked(&free)), ("f", vec!["f", "e", "d"], 0));
    }

    #[test]
    fn each_revision_says_what_was_taken_away_from_it_while_another_is_current() {
        let beside = |index: &SnapshotIndex| {
            let of =
                |known: &SnapshotRevision| known.acts.as_ref().map(|acts| acts.revoked.as_ref().map_or(0, Vec::len));
            index.revisions.iter().map(of).collect::<Vec<_>>()
        };
        let before = ["a", "b"].iter().fold(None, |last, name| next(last.as_ref(), name, None)).unwrap();
        assert_eq!((kept(&before), beside(&before)), (vec!["b", "a"], vec![None, Some(1)]));
        let pinned = next(Some(&before), "c", Some("b")).unwrap();
        assert_eq!((kept(&pinned), beside(&pinned)), (vec!["c", "b", "a"], vec![Some(0), None, Some(1)]));
        // The pin is taken out: pods that cannot take the newest still learn what the pinned one lost.
        let free = next(Some(&pinned), "c", None).unwrap();
        assert_eq!((free.current.as_str(), beside(&free)), ("c", vec![None, Some(1), Some(1)]));
        // Nothing is forgotten of a revision that is not looked at.
        let (newest, none) = (revision("c"), Acts::default());
        let wanted = Wanted {
            newest: Some(&newest),
            pinned: None,
            acts: &none,
            stop: &none,
            not_loaded: &[],
            kept: &BTreeMap::new(),
        };
        assert_eq!(index(Some(&free), &wanted), Some(free));
    }

    #[test]
    fn a_pin_that_is_not_kept_runs_nothing_new() {
        let before = next(None, "a", None).unwrap();
        let lost = next(Some(&before), "b", Some("x")).unwrap();
        assert_eq!((lost.current.as_str(), kept(&lost), revoked(&lost)), ("a", vec!["b", "a"], 1));
        assert_eq!(next(None, "a", Some("x")), None);
        assert_eq!(next(None, "a", Some("a")).unwrap().current, "a");
    }

    #[test]
    fn a_plan_that_cannot_be_stored_leaves_what_runs_and_what_counts_at_once() {
        let before = next(None, "a", None).unwrap();
        let acts = Acts { stopped: true, ..Acts::default() };
        let wanted =
            Wanted { newest: None, pinned: None, acts: &acts, stop: &acts, not_loaded: &[], kept: &BTreeMap::new() };
        let stopped = index(Some(&before), &wanted).unwrap();
        assert_eq!((stopped.current.as_str(), stopped.acts.unwrap().stopped), ("a", true));
        assert_eq!(index(None, &wanted), None);
    }

    #[test]
    fn what_is_written_is_labelled_and_goes_with_its_gateway() {
        let owner = Owner { key: ObjectKey::new("ns", "gw"), uid: "u".into() };
        let object = index_object(&owner, next(None, "a", None).unwrap());
        let expected = json!({
            "name": "gw", "namespace": "ns",
            "labels": {GATEWAY_LABEL: "gw", MANAGED_BY.0: MANAGED_BY.1, PART_LABEL: "index"},
            "ownerReferences": [{
                "apiVersion": "hawsepipe.dev/v1alpha1", "kind": "MCPGateway", "name": "gw", "uid": "u", "controller": true,
            }],
        });
        assert_eq!(serde_json::to_value(&object.metadata).unwrap(), expected);
        assert!(owner.owns(&object.metadata));
        assert!(!Owner { uid: "other".into(), ..owner }.owns(&object.metadata));
    }

    #[test]
    fn pods_may_read_snapshots_and_nothing_else() {
        let (account, role, binding) = access(&Owner { key: ObjectKey::new("ns", "gw"), uid: "u".into() });
        let rules = json!([
            {"apiGroups": ["hawsepipe.dev"], "resources": ["gatewaysnapshots"], "verbs": ["get", "list", "watch"]},
        ]);
        assert_eq!(serde_json::to_value(&role.rules).unwrap(), rules);
        let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role.metadata.name});
        assert_eq!(serde_json::to_value(&binding.role_ref).unwrap(), role_ref);
        let subjects = json!([{"kind": "ServiceAccount", "name": account.metadata.name, "namespace": "ns"}]);
        assert_eq!(serde_json::to_value(&binding.subjects).unwrap(), subjects);
    }

    #[test]
    fn a_revision_that_comes_back_is_the_newest() {
        let before = ["a", "b"].iter().fold(None, |last, name| next(last.as_ref(), name, None));
        let back = next(before.as_ref(), "a", None).unwrap();
        assert_eq!((back.current.as_str(), kept(&back)), ("a", vec!["a", "b"]));
        assert_eq!(next(Some(&back), "a", None).unwrap(), back);
    }
}
