//! The kind MCPUpstream.

pub mod behaviour;
pub mod external;
pub mod managed;
pub mod process;
pub mod referred;
pub mod status;
pub mod tools;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::api::shared::ShareWith;
use crate::api::upstream::behaviour::{
    ArgumentValidation, HealthChecks, Retry, Timeouts, UpstreamLimits, UpstreamProtocol,
};
use crate::api::upstream::external::External;
use crate::api::upstream::managed::Managed;
use crate::api::upstream::process::Process;
use crate::api::upstream::referred::{KnowledgeAssistant, ServerRef, VectorSearch};
use crate::api::upstream::status::MCPUpstreamStatus;
use crate::api::upstream::tools::{Pinning, UpstreamTools};

/// Where tools come from. Whatever it names lies in its own namespace.
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
    doc = "Where tools come from. Whatever it names lies in its own namespace.",
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
     == 1"
).message(
    "give exactly one of managed, external, process, serverRef, vectorSearch, knowledgeAssistant"
))]
pub struct MCPUpstreamSpec {
    /// Whether it is in routing; a managed one is scaled to 0 while it is not. Default: true.
    pub enabled: Option<bool>,
    /// For people. Default: none.
    #[schemars(length(max = 1024))]
    pub description: Option<String>,
    /// A server that the operator runs.
    pub managed: Option<Managed>,
    /// A server at a URL.
    pub external: Option<External>,
    /// A command on this machine; outside a cluster only.
    pub process: Option<Process>,
    /// A server that somebody else runs in the cluster.
    pub server_ref: Option<ServerRef>,
    /// A retrieval tool of our own.
    pub vector_search: Option<VectorSearch>,
    /// A question-answering tool of our own.
    pub knowledge_assistant: Option<KnowledgeAssistant>,
    /// How long things may take.
    pub timeouts: Option<Timeouts>,
    /// When a call is sent again; never after it may have been executed, unless the tool says that is safe.
    pub retry: Option<Retry>,
    /// How its health is judged. Gateway pods probe, since they alone can reach it.
    pub health: Option<HealthChecks>,
    /// `Enforce` or `Off`: whether arguments are checked against the tool's input schema before they are sent.
    /// Default: Enforce.
    pub argument_validation: Option<ArgumentValidation>,
    /// What it speaks.
    pub protocol: Option<UpstreamProtocol>,
    /// What bounds its calls, in each pod.
    pub limits: Option<UpstreamLimits>,
    /// Which of its tools are offered, and how.
    pub tools: Option<UpstreamTools>,
    /// Whether changed tool definitions are noticed.
    pub pinning: Option<Pinning>,
    /// Who may take it from another namespace. Default: nobody.
    pub share_with: Option<ShareWith>,
}
