//! The status of an MCPGateway.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::status::Condition;

/// Observed state of an MCPGateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MCPGatewayStatus {
    /// The `metadata.generation` that this status describes.
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Conditions of the types Accepted, ResolvedRefs, Programmed and Ready; other types appear only while something is
    /// wrong.
    #[schemars(length(max = 12), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// Number of ready pods that run the current revision, out of the number of ready pods; for example, `1/2`.
    #[schemars(length(max = 16))]
    pub live: Option<String>,
    /// Number of pods.
    pub replicas: Option<u32>,
    /// Number of ready pods.
    pub ready_replicas: Option<u32>,
    /// Label selector of the pods, for the scale subresource.
    #[schemars(length(max = 512))]
    pub selector: Option<String>,
    /// Number of ready pods, out of the number of pods; for example, `1/2`.
    #[schemars(length(max = 16))]
    pub ready_pods: Option<String>,
    /// The revision that the pods must run, and the revision before it.
    pub snapshot: Option<SnapshotRef>,
    /// Number of upstreams that the gateway serves.
    pub upstreams: Option<u32>,
    /// Number of tools that the gateway serves.
    pub tools: Option<u32>,
    /// Number of chains in the gateway's plan.
    pub chains: Option<u32>,
    /// Number of errors in the MCPGateway and in the objects that it uses; pods that do not start beside others that serve
    /// count as one.
    pub problems: Option<u32>,
    /// URLs at which clients reach the gateway.
    #[schemars(length(max = 16), inner(length(max = 2048)), extend("x-kubernetes-list-type" = "atomic"))]
    pub addresses: Option<Vec<String>>,
}

/// The current revision of a gateway, and the revision before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotRef {
    /// The revision that the pods must run.
    #[schemars(length(max = 12))]
    pub revision: Option<String>,
    /// The revision before the current one.
    #[schemars(length(max = 12))]
    pub previous: Option<String>,
}
