//! The status of an MCPGateway.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::status::Condition;

/// What came of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MCPGatewayStatus {
    /// The generation that this speaks of.
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Accepted, ResolvedRefs, Programmed, Ready; others while they are bad.
    #[schemars(length(max = 12), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Option<Vec<Condition>>,
    /// Ready pods on the current snapshot, of ready pods.
    #[schemars(length(max = 16))]
    pub live: Option<String>,
    /// Pods there are.
    pub replicas: Option<u32>,
    /// Pods that are ready.
    pub ready_replicas: Option<u32>,
    /// Their labels, for the scale subresource.
    #[schemars(length(max = 512))]
    pub selector: Option<String>,
    /// Ready pods, of pods.
    #[schemars(length(max = 16))]
    pub ready_pods: Option<String>,
    /// What runs.
    pub snapshot: Option<SnapshotRef>,
    /// Upstreams it serves.
    pub upstreams: Option<u32>,
    /// Tools it serves.
    pub tools: Option<u32>,
    /// Chains in force.
    pub chains: Option<u32>,
    /// Problems found.
    pub problems: Option<u32>,
    /// Where clients come in.
    #[schemars(length(max = 16), inner(length(max = 2048)), extend("x-kubernetes-list-type" = "set"))]
    pub addresses: Option<Vec<String>>,
}

/// Revisions of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotRef {
    /// What runs.
    #[schemars(length(max = 12))]
    pub revision: Option<String>,
    /// What ran before.
    #[schemars(length(max = 12))]
    pub previous: Option<String>,
}
