//! The API resources that the operator reads and writes, in one table. The operator's watches and RBAC rules follow
//! from the table.

use kube::api::ApiResource;

use crate::domain::ids::Kind;

/// What the operator uses a resource for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Objects that users write.
    Written(Kind),
    /// Statuses of the objects that users write.
    Status,
    /// Snapshots, which gateways run.
    Snapshot,
    /// Objects to which the objects of users refer.
    Referred,
    /// Gateways' pods, which report what they run.
    Reporting,
    /// Created for each gateway and each managed upstream: the service account of its pods. A gateway's has rights.
    Account,
    /// Created for each gateway and each managed upstream: its pods and what belongs to them.
    Workload,
    /// Created for each gateway that asks for it, if the cluster has the kind: its route.
    Route,
    /// Created for each gateway: the key that its pods seal session ids with.
    Seal,
    /// Events that the operator publishes.
    Events,
    /// Tokens with which the operator proves its identity to gateways' pods.
    Token,
    /// The Lease, which names the leader.
    Lease,
}

/// Where the operator needs its rights on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RightScope {
    /// In every namespace that it watches.
    Watched,
    /// In the namespace that it runs in, on all objects.
    Own,
    /// In the namespace that it runs in, on its own service account.
    OwnAccount,
    /// In the namespace that it runs in, on its Lease.
    OwnLease,
}

/// One resource, and what the operator does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) group: &'static str,
    version: &'static str,
    kind: &'static str,
    /// The plural name, followed by `/` and the subresource if there is one.
    pub(super) resource: &'static str,
    pub(super) verbs: &'static [&'static str],
    pub(super) what_for: Use,
    pub(super) place: RightScope,
    /// Whether plans depend on the resource. If so, nothing can be planned before the resource has been listed, because
    /// objects that were never listed would count as deleted.
    planned: bool,
}

const OURS: &str = "hawsepipe.dev";
const RBAC: &str = "rbac.authorization.k8s.io";
const SEEN: &[&str] = &["list", "watch"];
const READ: &[&str] = &["get", "list", "watch"];
/// These include `get`, because an object of the same name can exist without the operator's label.
const CREATED: &[&str] = &["get", "list", "watch", "create", "patch"];

/// Created for some objects only, and deleted where an edit makes it superfluous.
const OPTIONAL: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// All resources that the operator uses.
pub(super) const TABLE: [Row; 32] = [
    written(Kind::MCPGateway, "mcpgateways").planned(),
    written(Kind::MCPUpstream, "mcpupstreams").planned(),
    written(Kind::Plugin, "plugins").planned(),
    written(Kind::PluginChain, "pluginchains").planned(),
    written(Kind::ToolPipeline, "toolpipelines").planned(),
    written(Kind::SectionBinding, "sectionbindings").planned(),
    ours("mcpgateways/status", &["patch"], Use::Status),
    ours("mcpupstreams/status", &["patch"], Use::Status),
    ours("plugins/status", &["patch"], Use::Status),
    ours("pluginchains/status", &["patch"], Use::Status),
    ours("toolpipelines/status", &["patch"], Use::Status),
    ours("sectionbindings/status", &["patch"], Use::Status),
    ours("gatewaysnapshots", &["get", "list", "watch", "create", "patch", "delete"], Use::Snapshot).planned(),
    row("", "v1", "ConfigMap", "configmaps", READ, Use::Referred),
    row("", "v1", "Service", "services", SEEN, Use::Referred),
    // A Role in a namespace can allow no more than `get` on that namespace.
    row("", "v1", "Namespace", "namespaces", READ, Use::Referred).planned(),
    row("", "v1", "Pod", "pods", SEEN, Use::Reporting),
    row("", "v1", "ServiceAccount", "serviceaccounts", OPTIONAL, Use::Account),
    row(RBAC, "v1", "Role", "roles", CREATED, Use::Account),
    row(RBAC, "v1", "RoleBinding", "rolebindings", CREATED, Use::Account),
    row("", "v1", "Service", "services", OPTIONAL, Use::Workload),
    row("apps", "v1", "Deployment", "deployments", OPTIONAL, Use::Workload),
    row("apps", "v1", "StatefulSet", "statefulsets", OPTIONAL, Use::Workload),
    row("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", CREATED, Use::Workload),
    row("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", OPTIONAL, Use::Workload),
    row("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", OPTIONAL, Use::Workload),
    row("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes", OPTIONAL, Use::Route),
    row("", "v1", "Secret", "secrets", &["create"], Use::Seal),
    row("events.k8s.io", "v1", "Event", "events", &["create", "patch"], Use::Events),
    row("", "v1", "ServiceAccount", "serviceaccounts/token", &["create"], Use::Token).at(RightScope::OwnAccount),
    // RBAC cannot restrict `create` to a name.
    row("coordination.k8s.io", "v1", "Lease", "leases", &["create"], Use::Lease).at(RightScope::Own),
    row("coordination.k8s.io", "v1", "Lease", "leases", &["get", "update"], Use::Lease).at(RightScope::OwnLease),
];

const fn row(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
    what_for: Use,
) -> Row {
    Row { group, version, kind, resource, verbs, what_for, place: RightScope::Watched, planned: false }
}

const fn ours(resource: &'static str, verbs: &'static [&'static str], what_for: Use) -> Row {
    row(OURS, "v1alpha1", "", resource, verbs, what_for)
}

const fn written(kind: Kind, resource: &'static str) -> Row {
    row(OURS, "v1alpha1", kind.as_str(), resource, SEEN, Use::Written(kind))
}

impl Row {
    const fn planned(self) -> Self {
        Self { planned: true, ..self }
    }

    const fn at(self, place: RightScope) -> Self {
        Self { place, ..self }
    }

    /// Whether the kind is an extension that a cluster does not have to have.
    pub(super) fn is_extension(&self) -> bool {
        self.what_for == Use::Route
    }

    /// Returns the resource in the form that Kubernetes clients use.
    pub(super) fn api_resource(&self) -> ApiResource {
        let api_version =
            if self.group.is_empty() { self.version.into() } else { format!("{}/{}", self.group, self.version) };
        ApiResource {
            group: self.group.into(),
            version: self.version.into(),
            api_version,
            kind: self.kind.into(),
            plural: self.resource.into(),
        }
    }
}

/// Returns the kinds that users write.
pub(super) fn written_kinds() -> impl Iterator<Item = Kind> {
    TABLE.iter().filter_map(|row| match row.what_for {
        Use::Written(kind) => Some(kind),
        _ => None,
    })
}

/// Returns the API resource of one of Hawsepipe's kinds.
pub(super) fn resource(kind: Kind) -> ApiResource {
    let row = TABLE.iter().find(|row| row.what_for == Use::Written(kind));
    row.map_or_else(|| ours("", &[], Use::Written(kind)).api_resource(), Row::api_resource)
}

/// Returns the resources that must have been listed before anything can be planned.
pub(super) fn planned_from() -> Vec<&'static str> {
    TABLE.iter().filter(|row| row.planned).map(|row| row.resource).collect()
}

/// Returns the kinds that the operator creates besides snapshots. `runs_pods` is true if the operator creates pods; the
/// kinds of workloads are then included.
pub(super) fn owned_kinds(runs_pods: bool) -> impl Iterator<Item = &'static Row> {
    TABLE.iter().filter(move |row| match row.what_for {
        Use::Account => true,
        Use::Workload | Use::Route => runs_pods,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
    use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
    use k8s_openapi::api::core::v1::{Service, ServiceAccount};
    use k8s_openapi::api::networking::v1::NetworkPolicy;
    use k8s_openapi::api::policy::v1::PodDisruptionBudget;
    use k8s_openapi::api::rbac::v1::{Role, RoleBinding};

    use super::*;
    use crate::api::snapshot::GatewaySnapshot;
    use crate::controller::workload::HTTPRoute;

    #[test]
    fn kinds_are_named_as_their_types_name_them() {
        let accounts = [
            ApiResource::erase::<ServiceAccount>(&()),
            ApiResource::erase::<Role>(&()),
            ApiResource::erase::<RoleBinding>(&()),
        ];
        assert_eq!(owned_kinds(false).map(Row::api_resource).collect::<Vec<_>>(), accounts);
        let pods = [
            ApiResource::erase::<Service>(&()),
            ApiResource::erase::<Deployment>(&()),
            ApiResource::erase::<StatefulSet>(&()),
            ApiResource::erase::<PodDisruptionBudget>(&()),
            ApiResource::erase::<NetworkPolicy>(&()),
            ApiResource::erase::<HorizontalPodAutoscaler>(&()),
            ApiResource::erase::<HTTPRoute>(&()),
        ];
        let owned = || owned_kinds(true).skip(accounts.len());
        assert_eq!(owned().map(Row::api_resource).collect::<Vec<_>>(), pods);
        assert!(owned().all(|row| row.is_extension() == (row.resource == "httproutes")));
        assert_eq!(resource(Kind::MCPGateway), ApiResource::erase::<crate::api::gateway::MCPGateway>(&()));
        assert_eq!(resource(Kind::PluginChain).plural, "pluginchains");
        assert!(planned_from().contains(&&*ApiResource::erase::<GatewaySnapshot>(&()).plural));
    }
}
