//! Settings of a gateway's pods in a cluster.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::{EnvVar, LocalRef, Resources};
use crate::api::upstream::managed::Volume;
use crate::api::values::FreeObject;

/// Name of a gateway's Deployment, Service, ServiceAccount and whatever else is made for its pods.
pub fn workload(gateway: &str) -> String {
    format!("{gateway}-gateway")
}

/// The key of the Secret that session ids are sealed with.
pub const SEAL_KEY: &str = "key";

/// Name of the Secret with the key that a gateway's session ids are sealed with.
pub fn seal_secret(gateway: &str) -> String {
    format!("{}-seal", workload(gateway))
}

/// Settings of the HorizontalPodAutoscaler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas"
).message(
    "autoscaling.minReplicas must not exceed maxReplicas"
))]
pub struct Autoscaling {
    /// Minimum number of pods. Default: 1.
    #[schemars(range(min = 1, max = 1000))]
    pub min_replicas: Option<u32>,
    /// Maximum number of pods.
    #[schemars(range(min = 1, max = 1000))]
    pub max_replicas: u32,
    /// Target for the average CPU utilization of the pods, in percent of the CPU that they request. Default: 70.
    #[serde(rename = "targetCPUUtilizationPercentage")]
    #[schemars(range(min = 1, max = 100))]
    pub target_cpu_utilization_percentage: Option<u32>,
}

/// Settings of the PodDisruptionBudget: exactly one of `minAvailable`, `maxUnavailable`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.minAvailable) ? 1 : 0) + (has(self.maxUnavailable) ? 1 : 0) == 1"
).message(
    "disruptionBudget: give exactly one of minAvailable, maxUnavailable"
))]
pub struct DisruptionBudget {
    /// Minimum number of pods that stay available.
    #[schemars(range(max = 1000))]
    pub min_available: Option<u32>,
    /// Maximum number of pods that can be unavailable.
    #[schemars(range(max = 1000))]
    pub max_unavailable: Option<u32>,
}

/// Settings of the gateway's pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.env) || self.env.all(v, !has(v.valueFrom) || !has(v.valueFrom.environment))"
).message(
    "pod.env: `environment` is for gateways outside of a cluster; use a Secret or a ConfigMap"
))]
#[x_kube(validation = Rule::new(
    "!has(self.env) || self.env.all(v, !v.name.startsWith('HAWSEPIPE_'))"
).message(
    "pod.env: the operator sets the variables HAWSEPIPE_*: take them out, and set the fields of the spec"
))]
#[x_kube(validation = Rule::new(
    "!has(self.volumes) || self.volumes.all(v, !(v.name in ['state', 'tmp', 'api-access', 'secrets', 'plugins']))"
).message(
    "pod.volumes: the operator has volumes named state, tmp, api-access, secrets and plugins: choose another name"
))]
#[x_kube(validation = Rule::new(
    "!has(self.volumes) || self.volumes.all(v, !v.mountPath.matches('^/+(run|tmp|var)?(/|$)'))"
).message(
    "pod.volumes: the folders of the gateway itself are in /run, /tmp and /var: mount the volume elsewhere, such as in /etc"
))]
pub struct GatewayPod {
    /// Additional labels; labels that the operator sets take precedence. Default: none.
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    pub labels: Option<BTreeMap<String, String>>,
    /// Additional annotations. Default: none.
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 4096}))]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Labels that a node must have to run the pods. Default: none.
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Tolerations, in the form of a Kubernetes pod spec. Default: none.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
    pub tolerations: Option<Vec<FreeObject>>,
    /// Affinity, in the form of a Kubernetes pod spec. Default: none.
    pub affinity: Option<FreeObject>,
    /// Topology spread constraints, in the form of a Kubernetes pod spec. Default: pods are spread over nodes and
    /// zones, with `ScheduleAnyway`.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub topology_spread_constraints: Option<Vec<FreeObject>>,
    /// Name of the PriorityClass of the pods. Default: the cluster's default.
    #[schemars(length(max = 253))]
    pub priority_class_name: Option<String>,
    /// Name of the RuntimeClass of the pods. Use a sandboxed runtime if tenants do not trust each other. Default: the
    /// cluster's default.
    #[schemars(length(max = 253))]
    pub runtime_class_name: Option<String>,
    /// Secrets of the same namespace for pulling images. Default: none.
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub image_pull_secrets: Option<Vec<LocalRef>>,
    /// Environment variables, in addition to those of the operator: proxies (`HTTPS_PROXY`, `NO_PROXY`) and certificate
    /// authorities (`SSL_CERT_FILE`), for example. Default: none.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Option<Vec<EnvVar>>,
    /// ConfigMaps and Secrets of the same namespace whose keys become environment variables. Variables of `env` take
    /// precedence. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub env_from: Option<Vec<EnvFrom>>,
    /// Volumes to mount. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Option<Vec<Volume>>,
    /// Resource requests and limits. Avoid a CPU limit, because throttling makes plugins exceed their timeouts.
    /// Default: requests of 500m CPU and 512Mi memory, and a limit of 2Gi memory.
    pub resources: Option<Resources>,
    /// Seconds after which a pod that was asked to terminate is killed. Calls in flight have 5 seconds less to finish.
    /// Default: 60.
    #[schemars(range(max = 3600))]
    pub termination_grace_period_seconds: Option<u32>,
}

/// An object whose keys become environment variables: exactly one of `configMapRef`, `secretRef`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
pub struct EnvFrom {
    /// A ConfigMap.
    pub config_map_ref: Option<LocalRef>,
    /// A Secret.
    pub secret_ref: Option<LocalRef>,
}
