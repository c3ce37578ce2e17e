//! The objects that should exist for a gateway besides its snapshots. Pure functions.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};

use super::manifest::Manifest;
use super::owner::Owner;
use super::workload::Workload;

/// The objects that should exist for one owner. If one is `None`, an existing object is deleted, provided that it
/// belongs to the owner.
pub(super) struct Desired {
    pub(super) account: Option<Manifest<ServiceAccount>>,
    pub(super) role: Option<Manifest<Role>>,
    pub(super) binding: Option<Manifest<RoleBinding>>,
    /// The objects of the gateway's pods. `None` leaves the existing objects unchanged.
    pub(super) workload: Option<Workload>,
}

impl Desired {
    /// Returns the objects of a gateway. They let its pods' service account read the namespace's snapshots, and
    /// nothing else.
    pub(super) fn of_gateway(owner: &Owner, workload: Option<Workload>) -> Self {
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
        let account = ServiceAccount { metadata: metadata(), ..ServiceAccount::default() };
        let role = Role { metadata: metadata(), rules: Some(vec![rule]) };
        let binding = RoleBinding { metadata: metadata(), role_ref, subjects: Some(vec![subject]) };
        Self {
            account: Some(Manifest::of(&account)),
            role: Some(Manifest::of(&role)),
            binding: Some(Manifest::of(&binding)),
            workload,
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
        let desired = Desired::of_gateway(&Owner::gateway(ObjectKey::new("ns", "gw"), "u"), None);
        let (Some(account), Some(role), Some(binding)) = (desired.account, desired.role, desired.binding) else {
            panic!("something is missing")
        };
        let [account, role, binding] = [account.body(), role.body(), binding.body()];
        let rules = json!([
            {"apiGroups": ["hawsepipe.dev"], "resources": ["gatewaysnapshots"], "verbs": ["get", "list", "watch"]},
        ]);
        assert_eq!(role["rules"], rules);
        let name = "gw-gateway";
        let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
        assert_eq!(binding["roleRef"], role_ref);
        assert_eq!(binding["subjects"], json!([{"kind": "ServiceAccount", "name": name, "namespace": "ns"}]));
        for object in [account, role, binding] {
            assert_eq!(object["metadata"]["name"], name, "pods are told their account by this name");
        }
    }
}
