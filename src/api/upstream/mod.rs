//! The MCPUpstream custom resource.

pub mod behaviour;
pub mod external;
pub mod managed;
pub mod process;
pub mod referred;
pub mod status;
pub mod tools;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::api::shared::{ObjectRef, ShareWith};
use crate::api::upstream::behaviour::{
    ArgumentValidation, HealthChecks, Retry, Timeouts, UpstreamLimits, UpstreamProtocol,
};
use crate::api::upstream::external::External;
use crate::api::upstream::managed::Managed;
use crate::api::upstream::process::Process;
use crate::api::upstream::referred::{KnowledgeAssistant, ServerRef, VectorSearch};
use crate::api::upstream::status::MCPUpstreamStatus;
use crate::api::upstream::tools::{Pinning, UpstreamTools};

/// An MCP server whose tools gateways serve. Objects that an MCPUpstream names must be in the same namespace.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "hawsepipe.dev",
    version = "v1alpha1",
    kind = "MCPUpstream",
    namespaced,
    status = "MCPUpstreamStatus",
    derive = "PartialEq",
    category = "hawsepipe",
    shortname = "mcpup",
    doc = "An MCP server whose tools gateways serve. Objects that an MCPUpstream names must be in the same namespace.",
    printcolumn(name = "TYPE", type_ = "string", json_path = ".status.type"),
    printcolumn(name = "STATE", type_ = "string", json_path = ".status.connectionState"),
    printcolumn(name = "TOOLS", type_ = "integer", json_path = ".status.toolCount"),
    printcolumn(name = "FAILURES", type_ = "integer", json_path = ".status.failureCount"),
    printcolumn(name = "LIVE", type_ = "string", json_path = ".status.live"),
    printcolumn(name = "READY", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "REASON", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "ERA", type_ = "string", json_path = ".status.protocol.era", priority = 1),
    printcolumn(name = "ADDRESS", type_ = "string", json_path = ".status.address", priority = 1),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new(
        "self.metadata.name.size() <= 48 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"
    ).message(
        "metadata.name: at most 48 characters of a-z, 0-9 and -, a letter first: the workload is {name}-mcp (a \
         StatefulSet: 52), tools are {name}__{tool}"
    ),
)]
#[x_kube(validation = Rule::new(
    "(has(self.managed) ? 1 : 0) + (has(self.external) ? 1 : 0) + (has(self.process) ? 1 : 0) + \
     (has(self.serverRef) ? 1 : 0) + (has(self.vectorSearch) ? 1 : 0) + (has(self.knowledgeAssistant) ? 1 : 0) \
     + (has(self.plugin) ? 1 : 0) == 1"
).message(
    "give exactly one of managed, external, process, serverRef, vectorSearch, knowledgeAssistant, plugin"
))]
pub struct MCPUpstreamSpec {
    /// Whether calls are routed to the upstream. While this field is false, a managed server is scaled to 0. Default:
    /// true.
    pub enabled: Option<bool>,
    /// Human-readable description. Default: none.
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// A server that the operator runs.
    pub managed: Option<Managed>,
    /// A server at a URL.
    pub external: Option<External>,
    /// A command that the gateway starts on its own machine; not available in a cluster.
    pub process: Option<Process>,
    /// A server that runs in the cluster but is not managed by the operator.
    pub server_ref: Option<ServerRef>,
    /// A built-in retrieval tool.
    pub vector_search: Option<VectorSearch>,
    /// A built-in question-answering tool.
    pub knowledge_assistant: Option<KnowledgeAssistant>,
    /// A plugin of type tool-provider that makes the tools. Default namespace: that of the upstream.
    pub plugin: Option<ObjectRef>,
    /// Time limits. Default: each field's own default.
    pub timeouts: Option<Timeouts>,
    /// Whether, and how often, a failed call is sent again. A call that the server may already have executed is sent
    /// again only as `retry.when` permits. Default: each field's own default.
    pub retry: Option<Retry>,
    /// How the server's health is checked. The gateway's pods send the probes, because the operator may be unable to
    /// reach the server. Default: each field's own default.
    pub health: Option<HealthChecks>,
    /// Whether arguments are validated against the tool's input schema before a call is sent: `Enforce` or `Off`.
    /// Default: Enforce.
    pub argument_validation: Option<ArgumentValidation>,
    /// Which versions of MCP are used with the server. Default: each field's own default.
    pub protocol: Option<UpstreamProtocol>,
    /// Limits on calls, for each pod. Default: each field's own default.
    pub limits: Option<UpstreamLimits>,
    /// Which of the server's tools are offered to clients, and changes to their definitions. Default: all tools,
    /// unchanged.
    pub tools: Option<UpstreamTools>,
    /// What happens if the server changes a tool's definition. Default: nothing.
    pub pinning: Option<Pinning>,
    /// Permits gateways of other namespaces to serve the upstream. Default: only gateways of the upstream's own
    /// namespace can serve it.
    pub share_with: Option<ShareWith>,
}
