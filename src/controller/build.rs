//! From a plan to the objects that hold it, and that let pods read it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::{GATEWAY_LABEL, MANAGED_BY, PART_LABEL};
use crate::api::pack::{self, TooLarge};
use crate::api::snapshot::{GatewaySnapshot, GatewaySnapshotSpec, SecretUse, SnapshotIndex, SnapshotRevision};
use crate::config::shards::split;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::Plan;
use crate::domain::secret::secret_uses;

/// Revisions that are kept: the current one and those before it.
const KEPT: usize = 3;
/// The most shards of a revision, which is the schema's bound.
const MAX_SHARDS: usize = 512;

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
#[derive(Debug, thiserror::Error)]
pub(super) enum BuildError {
    /// A piece does not fit.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// There are too many pieces.
    #[error("the plan has {0} pieces, where {MAX_SHARDS} are the most: give this gateway fewer plugins")]
    TooMany(usize),
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

/// The revision that holds `plan`. `stored` are the names of the shards that are there: what they hold is packed already.
///
/// # Errors
/// See [`BuildError`].
pub(super) fn revision(
    owner: &Owner,
    plan: &Plan,
    stored: &BTreeSet<String>,
    now: String,
) -> Result<Revision, BuildError> {
    let mut entries = Vec::new();
    let mut lacking = Vec::new();
    for piece in split(plan) {
        let entry = pack::reference(&owner.key.name, &piece)?;
        if !stored.contains(&entry.name) {
            let shard = Some(pack::pack(&piece)?);
            let spec = GatewaySnapshotSpec { gateway: owner.key.name.clone(), index: None, shard };
            lacking.push(GatewaySnapshot { metadata: owner.metadata(&entry.name, Some("shard")), spec });
        }
        entries.push(entry);
    }
    if entries.len() > MAX_SHARDS {
        return Err(BuildError::TooMany(entries.len()));
    }
    let entry = SnapshotRevision {
        revision: pack::revision(&entries),
        created_time: Some(now),
        format_version: plan.format_version,
        compiled_by: Some(env!("CARGO_PKG_VERSION").to_owned()),
        inputs: u32::try_from(plan.upstreams.len() + plan.plugins.len() + plan.chains.len() + 1).ok(),
        problems: None,
        shards: entries,
        secrets: Some(secrets(plan)),
    };
    Ok(Revision { entry, lacking })
}

/// The index after `newest` was compiled. `pinned` stays what pods run, as long as it is kept.
pub(super) fn index(before: Option<&SnapshotIndex>, newest: &SnapshotRevision, pinned: Option<&str>) -> SnapshotIndex {
    let older = before.map_or(&[][..], |before| &before.revisions);
    let is_newest = older.first().is_some_and(|first| first.revision == newest.revision);
    let mut revisions = if is_newest { Vec::new() } else { vec![newest.clone()] };
    revisions.extend(older.iter().filter(|old| is_newest || old.revision != newest.revision).cloned());
    let current = pinned.filter(|pinned| revisions.iter().any(|known| known.revision == **pinned));
    let current = current.unwrap_or(&newest.revision).to_owned();
    let mut place = 0;
    revisions.retain(|known| {
        place += 1;
        place <= KEPT || known.revision == current
    });
    SnapshotIndex { current, revisions }
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

/// The Secrets that a plan names, with their keys.
fn secrets(plan: &Plan) -> Vec<SecretUse> {
    let mut used: BTreeMap<&ObjectKey, Vec<String>> = BTreeMap::new();
    for (secret, key) in secret_uses(plan) {
        used.entry(secret).or_default().push(key.to_owned());
    }
    let used = used.into_iter().map(|(secret, keys)| SecretUse {
        namespace: secret.namespace.clone(),
        name: secret.name.clone(),
        keys: Some(keys),
    });
    used.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(name: &str) -> SnapshotRevision {
        SnapshotRevision {
            revision: name.to_owned(),
            created_time: None,
            format_version: 1,
            compiled_by: None,
            inputs: None,
            problems: None,
            shards: Vec::new(),
            secrets: None,
        }
    }

    fn kept(index: &SnapshotIndex) -> Vec<&str> {
        index.revisions.iter().map(|revision| revision.revision.as_str()).collect()
    }

    #[test]
    fn three_revisions_are_kept_and_a_pinned_one() {
        let mut last = None;
        for name in ["a", "b", "c", "d"] {
            last = Some(index(last.as_ref(), &revision(name), None));
        }
        let free = last.unwrap();
        assert_eq!((free.current.as_str(), kept(&free)), ("d", vec!["d", "c", "b"]));
        let mut pinned = index(Some(&free), &revision("d"), Some("b"));
        assert_eq!((pinned.current.as_str(), kept(&pinned)), ("b", vec!["d", "c", "b"]));
        for name in ["e", "f"] {
            pinned = index(Some(&pinned), &revision(name), Some("b"));
        }
        assert_eq!((pinned.current.as_str(), kept(&pinned)), ("b", vec!["f", "e", "d", "b"]));
        let unknown = index(Some(&pinned), &revision("f"), Some("x"));
        assert_eq!((unknown.current.as_str(), kept(&unknown)), ("f", vec!["f", "e", "d"]));
    }

    #[test]
    fn a_revision_that_comes_back_is_the_newest() {
        let before = ["a", "b"].iter().fold(None, |last, name| Some(index(last.as_ref(), &revision(name), None)));
        let back = index(before.as_ref(), &revision("a"), None);
        assert_eq!((back.current.as_str(), kept(&back)), ("a", vec!["a", "b"]));
        assert_eq!(index(Some(&back), &revision("a"), None), back);
    }
}
