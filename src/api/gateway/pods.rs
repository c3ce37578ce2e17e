//! Pods of a gateway in a cluster.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::{LocalRef, Resources};
use crate::api::values::FreeObject;

/// Bounds of the HorizontalPodAutoscaler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas"
).message(
    "autoscaling.minReplicas must not exceed maxReplicas"
))]
pub struct Autoscaling {
    /// Default: 1.
    #[schemars(range(min = 1, max = 1000))]
    pub min_replicas: Option<u32>,
    /// At most so many pods.
    #[schemars(range(min = 1, max = 1000))]
    pub max_replicas: u32,
    /// Default: 70.
    #[serde(rename = "targetCPUUtilizationPercentage")]
    #[schemars(range(min = 1, max = 100))]
    pub target_cpu_utilization_percentage: Option<u32>,
}

/// Bounds of the PodDisruptionBudget: exactly one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.minAvailable) ? 1 : 0) + (has(self.maxUnavailable) ? 1 : 0) == 1"
).message(
    "disruptionBudget: give exactly one of minAvailable, maxUnavailable"
))]
pub struct DisruptionBudget {
    /// At least so many pods stay.
    #[schemars(range(max = 1000))]
    pub min_available: Option<u32>,
    /// At most so many pods go.
    #[schemars(range(max = 1000))]
    pub max_unavailable: Option<u32>,
}

/// The gateway's pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayPod {
    /// Ours win where they clash. Default: none.
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    pub labels: Option<BTreeMap<String, String>>,
    /// Default: none.
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 4096}))]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Default: none.
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// As core has them. Default: none.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub tolerations: Option<Vec<FreeObject>>,
    /// As core has it. Default: none.
    pub affinity: Option<FreeObject>,
    /// As core has them. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub topology_spread_constraints: Option<Vec<FreeObject>>,
    /// Default: the cluster's.
    #[schemars(length(max = 253))]
    pub priority_class_name: Option<String>,
    /// A sandboxed RuntimeClass for tenants who do not trust each other. Default: the cluster's.
    #[schemars(length(max = 253))]
    pub runtime_class_name: Option<String>,
    /// Secrets to pull images with, in the same namespace. Default: none.
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub image_pull_secrets: Option<Vec<LocalRef>>,
    /// Requests and limits. A CPU limit would show up as plugin timeouts. Default: none.
    pub resources: Option<Resources>,
    /// Seconds that running calls have to end. Default: 60.
    #[schemars(range(max = 3600))]
    pub termination_grace_period_seconds: Option<u32>,
}
