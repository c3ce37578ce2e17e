//! Upstreams that the operator runs.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::{EnvVar, LocalRef, PullPolicy, Resources};
use crate::api::upstream::process::ProcessSession;
use crate::api::values::{DNS_LABEL, FreeObject, HOST_PORT, Quantity, URL_PATH};

/// A server that the operator runs. A container on stdio is bridged to HTTP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "!has(self.transport) || self.transport == 'Stdio' || (has(self.ports) && self.ports.size() > 0)"
).message(
    "managed: a container that speaks HTTP needs `ports`"
))]
#[x_kube(validation = Rule::new(
    "has(self.port) ? has(self.ports) && self.ports.exists(p, p.name == self.port) : !has(self.ports) || \
     self.ports.size() <= 1"
).message(
    "managed.port must name one of `ports`; leave it out only where there is one"
))]
#[x_kube(validation = Rule::new(
    "!has(self.session) || !has(self.transport) || self.transport == 'Stdio'"
).message(
    "managed.session is for transport Stdio"
))]
pub struct Managed {
    /// Its image.
    #[schemars(length(min = 1, max = 1000))]
    pub image: String,
    /// Default: that of the cluster for its tag.
    pub image_pull_policy: Option<PullPolicy>,
    /// Secrets to pull it with. Default: none.
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub image_pull_secrets: Option<Vec<LocalRef>>,
    /// The container's name. Default: server.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub container_name: Option<String>,
    /// Default: the image's entry point.
    #[schemars(length(max = 64), inner(length(max = 4096)), extend("x-kubernetes-list-type" = "atomic"))]
    pub command: Option<Vec<String>>,
    /// Default: the image's.
    #[schemars(length(max = 256), inner(length(max = 4096)), extend("x-kubernetes-list-type" = "atomic"))]
    pub args: Option<Vec<String>>,
    /// `Stdio`, `StreamableHTTP` or `SSE`. Default: Stdio.
    pub transport: Option<ManagedTransport>,
    /// With Stdio: a process for each client session (`PerSession`) or one for all (`Shared`). Default: PerSession.
    pub session: Option<ProcessSession>,
    /// Pods; 0 is allowed. Default: 1.
    #[schemars(range(max = 1000))]
    pub replicas: Option<u32>,
    /// Its environment. Default: the image's.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Option<Vec<EnvVar>>,
    /// Ports of the container; needed for HTTP. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub ports: Option<Vec<ContainerPort>>,
    /// Which of `ports` speaks MCP. Default: the only one.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub port: Option<String>,
    /// Path of its endpoint. Default: /mcp.
    #[schemars(length(min = 1, max = 253), regex(pattern = URL_PATH))]
    pub path: Option<String>,
    /// What is mounted. Default: nothing.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Option<Vec<Volume>>,
    /// Requests and limits. Default: none.
    pub resources: Option<Resources>,
    /// Default: one of our own, with no token mounted.
    #[schemars(length(max = 253))]
    pub service_account_name: Option<String>,
    /// `host:port` it may reach, by NetworkPolicy. Default: none but DNS.
    #[schemars(length(max = 64), inner(length(min = 1, max = 270), regex(pattern = HOST_PORT)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub egress: Option<Vec<String>>,
    /// What its pods look like.
    pub pod: Option<UpstreamPod>,
}

/// What a container speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ManagedTransport {
    /// MCP on standard input and output.
    Stdio,
    /// Streamable HTTP.
    StreamableHTTP,
    /// The HTTP+SSE transport of 2024-11-05.
    SSE,
}

/// A port of a container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerPort {
    /// Its name.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// TCP port.
    #[schemars(range(min = 1))]
    pub port: u16,
}

/// Something mounted: exactly one source. All of it passes Pod Security `restricted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.persistentVolumeClaim) ? 1 : 0) + (has(self.emptyDir) ? 1 : 0) + (has(self.secret) ? 1 : 0) + \
     (has(self.configMap) ? 1 : 0) + (has(self.image) ? 1 : 0) == 1"
).message(
    "volumes: give exactly one of persistentVolumeClaim, emptyDir, secret, configMap, image"
))]
pub struct Volume {
    /// Its name.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// Where.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^/[^:]*$"))]
    pub mount_path: String,
    /// Default: false.
    pub read_only: Option<bool>,
    /// A PersistentVolumeClaim.
    pub persistent_volume_claim: Option<ClaimVolume>,
    /// An empty folder.
    pub empty_dir: Option<EmptyDirVolume>,
    /// A Secret.
    pub secret: Option<SecretVolume>,
    /// A ConfigMap.
    pub config_map: Option<LocalRef>,
    /// An image's files.
    pub image: Option<ImageVolume>,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimVolume {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub claim_name: String,
}

/// An empty folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmptyDirVolume {
    /// Default: none.
    pub size_limit: Option<Quantity>,
}

/// A Secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretVolume {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: String,
}

/// An image's files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageVolume {
    /// The image.
    #[schemars(length(min = 1, max = 1000))]
    pub reference: String,
}

/// Pods of a managed upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamPod {
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
    /// Default: the cluster's.
    #[schemars(length(max = 253))]
    pub runtime_class_name: Option<String>,
    /// Secrets to pull images with. Default: none.
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub image_pull_secrets: Option<Vec<LocalRef>>,
}
