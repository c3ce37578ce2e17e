//! The status of an MCPUpstream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::status::{Condition, TakenBy};
use crate::api::values::SHA256;

/// Observed state of an MCPUpstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MCPUpstreamStatus {
    /// The `metadata.generation` that this status describes.
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Conditions of the types Accepted, ResolvedRefs, Programmed, Connected and Ready; other types appear only while
    /// something is wrong.
    #[schemars(length(max = 12), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// Number of gateways that run the current version of the upstream, out of the number that use the upstream; for
    /// example, `1/2`.
    #[schemars(length(max = 16))]
    pub live: Option<String>,
    /// Gateways that use the upstream.
    #[schemars(length(max = 16))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub gateways: Option<Vec<TakenBy>>,
    /// Type of the upstream: managed, external, process, serverRef, vectorSearch or knowledgeAssistant.
    #[schemars(length(max = 32))]
    pub r#type: Option<String>,
    /// State of the connection, in the pod that reports the worst state: `Disconnected` (not tried yet, or disabled),
    /// `Connecting`, `Connected` or `Error` (the last probe failed).
    pub connection_state: Option<ConnectionState>,
    /// When a pod last connected to the server.
    #[schemars(length(max = 64), extend("format" = "date-time"))]
    pub last_connected_time: Option<String>,
    /// Number of consecutive failed probes, in the pod with the highest number.
    pub failure_count: Option<u32>,
    /// Number of pods that took the upstream out of routing, out of the number that report on the upstream; for
    /// example, `1/2`. Absent if no pod took the upstream out of routing.
    #[schemars(length(max = 16))]
    pub auto_disabled_pods: Option<String>,
    /// When the first pod took the upstream out of routing.
    #[schemars(extend("format" = "date-time"))]
    pub auto_disabled_time: Option<String>,
    /// Last value of the annotation hawsepipe.dev/enable that all pods reported as applied.
    #[schemars(length(max = 253))]
    pub enable_acknowledged: Option<String>,
    /// MCP version and transport in use.
    pub protocol: Option<SpokenProtocol>,
    /// Name and version that the server reports for itself.
    pub server: Option<ServerInfo>,
    /// Workload that runs the server.
    pub workload: Option<WorkloadRef>,
    /// URL at which gateways reach the server.
    #[schemars(length(max = 2048))]
    pub address: Option<String>,
    /// Number of tools that the server has.
    pub tool_count: Option<u32>,
    /// First 12 characters of a digest over the server's tool definitions.
    #[schemars(length(max = 12))]
    pub tools_revision: Option<String>,
    /// Tools of the server, at most 512.
    #[schemars(length(max = 512), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub tools: Option<Vec<ToolStatus>>,
}

/// State of the connection, in the pod that reports the worst state: `Disconnected` (not tried yet, or disabled),
/// `Connecting`, `Connected` or `Error` (the last probe failed).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConnectionState {
    /// No connection was tried yet, or the upstream is disabled.
    Disconnected,
    /// A connection is being established.
    Connecting,
    /// The last probe succeeded.
    Connected,
    /// The last probe failed.
    Error,
}

/// MCP version and transport in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpokenProtocol {
    /// `Legacy` or `Modern`.
    #[schemars(length(max = 16))]
    pub era: Option<String>,
    /// MCP version that gateway and server agreed on.
    #[schemars(length(max = 16))]
    pub version: Option<String>,
    /// Transport in use.
    #[schemars(length(max = 32))]
    pub transport: Option<String>,
}

/// Name and version that a server reports for itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    /// Name that the server reports.
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// Version that the server reports.
    #[schemars(length(max = 253))]
    pub version: Option<String>,
}

/// A workload that the operator created.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRef {
    /// Kind of the workload.
    #[schemars(length(max = 63))]
    pub kind: Option<String>,
    /// Name of the workload.
    #[schemars(length(max = 63))]
    pub name: Option<String>,
}

/// A tool of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolStatus {
    /// The server's own name for the tool.
    #[schemars(length(max = 128))]
    pub name: String,
    /// Name under which clients see the tool.
    #[schemars(length(max = 128))]
    pub r#as: Option<String>,
    /// SHA-256 digest of the tool's name, title, description, schemas, annotations, `execution`, `_meta.ui` and
    /// `_meta["ui/resourceUri"]`, in hexadecimal.
    #[schemars(length(equal = 64), regex(pattern = SHA256))]
    pub sha256: Option<String>,
    /// Whether the definition with this digest is approved. Absent without `pinning`.
    pub approved: Option<bool>,
}
