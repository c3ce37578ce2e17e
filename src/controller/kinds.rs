//! The kinds that people write, as the API server names them.

use kube::api::ApiResource;

use crate::domain::ids::Kind;

/// The kinds that people write.
pub(super) const KINDS: [(Kind, &str); 6] = [
    (Kind::MCPGateway, "mcpgateways"),
    (Kind::MCPUpstream, "mcpupstreams"),
    (Kind::Plugin, "plugins"),
    (Kind::PluginChain, "pluginchains"),
    (Kind::ToolPipeline, "toolpipelines"),
    (Kind::SectionBinding, "sectionbindings"),
];

/// The resource of one of our kinds.
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
