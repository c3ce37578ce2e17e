//! Resources of the API server: the kinds that users write, and those that this operator creates for them.

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::ApiResource;

use crate::domain::ids::Kind;

/// The kinds that users write, with their plural names.
pub(super) const KINDS: [(Kind, &str); 6] = [
    (Kind::MCPGateway, "mcpgateways"),
    (Kind::MCPUpstream, "mcpupstreams"),
    (Kind::Plugin, "plugins"),
    (Kind::PluginChain, "pluginchains"),
    (Kind::ToolPipeline, "toolpipelines"),
    (Kind::SectionBinding, "sectionbindings"),
];

/// Returns the API resource of one of Hawsepipe's kinds.
pub(super) fn resource(kind: Kind) -> ApiResource {
    let plural = KINDS.iter().find(|(known, _)| *known == kind).map_or("", |(_, plural)| plural);
    ApiResource {
        group: "hawsepipe.dev".into(),
        version: "v1alpha1".into(),
        api_version: "hawsepipe.dev/v1alpha1".into(),
        kind: kind.as_str().into(),
        plural: plural.into(),
    }
}

/// Returns the kinds that this operator creates besides snapshots.
pub(super) fn owned_kinds() -> [ApiResource; 3] {
    [ApiResource::erase::<ServiceAccount>(&()), ApiResource::erase::<Role>(&()), ApiResource::erase::<RoleBinding>(&())]
}
