//! The status of an MCPUpstream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::status::{Condition, TakenBy};
use crate::api::values::SHA256;

/// What came of an upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MCPUpstreamStatus {
    /// The generation that this speaks of.
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Accepted, ResolvedRefs, Programmed, Connected, ToolsApproved, Ready; others while they are bad.
    #[schemars(length(max = 12), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// Gateways that serve it, of those that take it.
    #[schemars(length(max = 16))]
    pub live: Option<String>,
    /// Who serves it.
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub gateways: Option<Vec<TakenBy>>,
    /// Which of managed, external, process, serverRef, vectorSearch, knowledgeAssistant.
    #[schemars(length(max = 32))]
    pub r#type: Option<String>,
    /// Document 003's states.
    pub connection_state: Option<ConnectionState>,
    /// When a connection was last made.
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub last_connected_time: Option<String>,
    /// Failures since the last success.
    pub failure_count: Option<u32>,
    /// Pods that took it out of routing, of pods.
    #[schemars(length(max = 16))]
    pub auto_disabled_pods: Option<String>,
    /// When it left routing.
    #[schemars(extend("format" = "date-time"))]
    pub auto_disabled_time: Option<String>,
    /// The last value of the annotation hawsepipe.dev/enable that was obeyed.
    #[schemars(length(max = 253))]
    pub enable_acknowledged: Option<String>,
    /// What is spoken.
    pub protocol: Option<SpokenProtocol>,
    /// What it says it is.
    pub server: Option<ServerInfo>,
    /// What runs it.
    pub workload: Option<WorkloadRef>,
    /// Where it is reached.
    #[schemars(length(max = 2048))]
    pub address: Option<String>,
    /// Tools it has.
    pub tool_count: Option<u32>,
    /// Digest of its tools, 12 hex characters.
    #[schemars(length(max = 12))]
    pub tools_revision: Option<String>,
    /// Its tools, at most 512.
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub tools: Option<Vec<ToolStatus>>,
}

/// Document 003's connection states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConnectionState {
    /// Not tried yet, or disabled.
    Disconnected,
    /// Being tried.
    Connecting,
    /// The last probe succeeded.
    Connected,
    /// The last probe failed.
    Error,
}

/// What is spoken with an upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpokenProtocol {
    /// Legacy or Modern.
    #[schemars(length(max = 16))]
    pub era: Option<String>,
    /// The protocol version agreed on.
    #[schemars(length(max = 16))]
    pub version: Option<String>,
    /// How.
    #[schemars(length(max = 32))]
    pub transport: Option<String>,
}

/// What a server says it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// Its version.
    #[schemars(length(max = 253))]
    pub version: Option<String>,
}

/// A workload of the operator's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRef {
    /// Its kind.
    #[schemars(length(max = 63))]
    pub kind: Option<String>,
    /// Its name.
    #[schemars(length(max = 63))]
    pub name: Option<String>,
}

/// One tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolStatus {
    /// The server's own name.
    #[schemars(length(max = 128))]
    pub name: String,
    /// The name clients see.
    #[schemars(length(max = 128))]
    pub r#as: Option<String>,
    /// Digest of its definition, hex.
    #[schemars(length(equal = 64), regex(pattern = SHA256))]
    pub sha256: Option<String>,
    /// Whether that digest is approved.
    pub approved: Option<bool>,
}
