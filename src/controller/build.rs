//! From a plan to the objects that hold it, and that let pods read it. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::{GATEWAY_LABEL, MANAGED_BY, PART_LABEL};
use crate::api::pack::{self, TooLarge};
use crate::api::snapshot::{GatewaySnapshot, GatewaySnapshotSpec, ShardRef, SnapshotIndex, SnapshotRevision};
use crate::config::shards::split;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::Plan;

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

    #[test]
    fn what_is_written_is_labelled_and_goes_with_its_gateway() {
        let owner = Owner { key: ObjectKey::new("ns", "gw"), uid: "u".into() };
        let object = index_object(
            &owner,
            SnapshotIndex {
                current: "a".into(),
                revisions: Vec::new(),
                acts: None,
                not_loaded: None,
                seen_names: None,
            },
        );
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
    fn the_rights_of_pods_are_found_by_the_name_of_their_workload() {
        let owner = Owner { key: ObjectKey::new("ns", "gw"), uid: "u".into() };
        let (account, role, binding) = access(&owner);
        for metadata in [account.metadata, role.metadata, binding.metadata] {
            assert_eq!(metadata.name.as_deref(), Some("gw-gateway"));
        }
        assert_eq!(workload("gw"), "gw-gateway");
    }
}
