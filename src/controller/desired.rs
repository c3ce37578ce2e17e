//! The objects that should exist for a gateway besides its snapshots. Pure functions.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};

use super::owner::Owner;

/// The objects that should exist for one owner. If one is `None`, an existing object is deleted, provided that it
/// belongs to the owner.
pub(super) struct Desired {
    pub(super) account: Option<ServiceAccount>,
    pub(super) role: Option<Role>,
    pub(super) binding: Option<RoleBinding>,
}

impl Desired {
    /// Returns the objects of a gateway. They let its pods' service account read the namespace's snapshots, and
    /// nothing else.
    pub(super) fn of_gateway(owner: &Owner) -> Self {
        let name = owner.workload();
        let metadata = || owner.metadata(&name, None);
        let rule = PolicyRule {
            api_groups: Some(vec!["hawsepipe.dev".into()]),
            resources: Some(vec!["gatewaysnapshots".into()]),
            verbs: ["get", "list", "watch"].map(Into::into).into(),
            ..PolicyRule::default()
        };
        let api_group = "rbac.authorization.k8s.io".into();
        let role_ref = RoleRef { api_group, kind: "Role".into(), name: name.clone() };
        let subject = Subject {
            kind: "ServiceAccount".into(),
            name: name.clone(),
            namespace: Some(owner.key.namespace.clone()),
            ..Subject::default()
        };
        Self {
            account: Some(ServiceAccount { metadata: metadata(), ..ServiceAccount::default() }),
            role: Some(Role { metadata: metadata(), rules: Some(vec![rule]) }),
            binding: Some(RoleBinding { metadata: metadata(), role_ref, subjects: Some(vec![subject]) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::ids::ObjectKey;

    #[test]
    fn pods_may_read_snapshots_and_nothing_else() {
        let desired = Desired::of_gateway(&Owner::gateway(ObjectKey::new("ns", "gw"), "u"));
        let (Some(account), Some(role), Some(binding)) = (desired.account, desired.role, desired.binding) else {
            panic!("something is missing")
        };
        let rules = json!([
            {"apiGroups": ["hawsepipe.dev"], "resources": ["gatewaysnapshots"], "verbs": ["get", "list", "watch"]},
        ]);
        assert_eq!(serde_json::to_value(&role.rules).unwrap(), rules);
        let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role.metadata.name});
        assert_eq!(serde_json::to_value(&binding.role_ref).unwrap(), role_ref);
        let subjects = json!([{"kind": "ServiceAccount", "name": account.metadata.name, "namespace": "ns"}]);
        assert_eq!(serde_json::to_value(&binding.subjects).unwrap(), subjects);
        for metadata in [account.metadata, role.metadata, binding.metadata] {
            assert_eq!(metadata.name.as_deref(), Some("gw-gateway"), "pods are told their account by this name");
        }
    }
}
