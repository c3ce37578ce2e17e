//! Upstreams whose server the operator runs.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::{EnvVar, LocalRef, PullPolicy, Resources};
use crate::api::upstream::process::ProcessSession;
use crate::api::values::{DNS_LABEL, FreeObject, HOST_PORT, Quantity, URL_PATH};

/// The label of a managed server's pods and of what belongs to them: the upstream's name.
pub const UPSTREAM_LABEL: &str = "hawsepipe.dev/upstream";
/// The port on which the bridge listens in the pods of a server that speaks MCP on standard input and output.
pub const BRIDGE_PORT: u16 = 8080;
/// The name of the bridge's port.
pub const BRIDGE_PORT_NAME: &str = "mcp";

/// Returns the name of the objects that exist for a managed upstream's pods.
pub fn workload(upstream: &str) -> String {
    format!("{upstream}-mcp")
}

/// A server that the operator runs. If the server uses stdio, the operator bridges the server to HTTP.
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
#[x_kube(validation = Rule::new(
    "!has(self.env) || self.env.all(v, !has(v.valueFrom) || !has(v.valueFrom.environment))"
).message(
    "managed.env: `environment` is for gateways outside of a cluster; use a Secret or a ConfigMap"
))]
pub struct Managed {
    /// Image of the server.
    #[schemars(length(min = 1, max = 1000))]
    pub image: String,
    /// When the image is pulled. Default: the cluster's default for the image's tag.
    pub image_pull_policy: Option<PullPolicy>,
    /// Secrets for pulling the image. Default: none.
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub image_pull_secrets: Option<Vec<LocalRef>>,
    /// Name of the container. Default: server.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub container_name: Option<String>,
    /// Command of the container; required if the transport is Stdio. Default: the image's entry point.
    #[schemars(length(max = 64), inner(length(max = 4096)), extend("x-kubernetes-list-type" = "atomic"))]
    pub command: Option<Vec<String>>,
    /// Arguments of the command. Default: the image's arguments.
    #[schemars(length(max = 256), inner(length(max = 4096)), extend("x-kubernetes-list-type" = "atomic"))]
    pub args: Option<Vec<String>>,
    /// MCP transport of the container: `Stdio`, `StreamableHTTP` or `SSE`. Default: Stdio.
    pub transport: Option<ManagedTransport>,
    /// With transport Stdio: whether each session of a gateway's pod has its own process (`PerSession`), or all sessions
    /// share one process (`Shared`). Default: PerSession.
    pub session: Option<ProcessSession>,
    /// Number of pods; 0 is allowed. Default: 1.
    #[schemars(range(max = 1000))]
    pub replicas: Option<u32>,
    /// Environment variables, in addition to the image's. Default: none.
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub env: Option<Vec<EnvVar>>,
    /// Ports of the container; required unless the transport is Stdio. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub ports: Option<Vec<ContainerPort>>,
    /// Name of the port that serves MCP. Default: the only port.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub port: Option<String>,
    /// Path of the MCP endpoint. Default: /mcp.
    #[schemars(length(min = 1, max = 253), regex(pattern = URL_PATH))]
    pub path: Option<String>,
    /// Volumes to mount. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub volumes: Option<Vec<Volume>>,
    /// Resource requests and limits. Default: none.
    pub resources: Option<Resources>,
    /// Name of the ServiceAccount of the pods. Default: a ServiceAccount that the operator creates; its token is not
    /// mounted.
    #[schemars(length(max = 253))]
    pub service_account_name: Option<String>,
    /// Addresses, as `host:port`, to which the NetworkPolicy allows the pods to connect, in addition to DNS. Default:
    /// none.
    #[schemars(length(max = 64), inner(length(min = 1, max = 270), regex(pattern = HOST_PORT)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub egress: Option<Vec<String>>,
    /// Settings of the server's pods. Default: each field's own default.
    pub pod: Option<UpstreamPod>,
}

impl Managed {
    /// Returns the transport. Default: Stdio.
    pub fn transport(&self) -> ManagedTransport {
        self.transport.unwrap_or(ManagedTransport::Stdio)
    }

    /// Returns the port on which the pods serve MCP. Pods with the transport Stdio serve it through the bridge.
    pub fn mcp_port(&self) -> u16 {
        let mut declared = self.ports.iter().flatten();
        let port = match (self.transport(), &self.port) {
            (ManagedTransport::Stdio, _) => None,
            (_, Some(name)) => declared.find(|declared| declared.name == *name),
            (_, None) => declared.next(),
        };
        port.map_or(BRIDGE_PORT, |declared| declared.port)
    }

    /// Returns the path of the MCP endpoint. Default: /mcp.
    pub fn mcp_path(&self) -> &str {
        self.path.as_deref().unwrap_or("/mcp")
    }
}

/// MCP transport of the container: `Stdio`, `StreamableHTTP` or `SSE`. Default: Stdio.
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
    /// Name of the port.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// TCP port number.
    #[schemars(range(min = 1))]
    pub port: u16,
}

/// A mounted volume with exactly one source. Each source is permitted by the Pod Security level `restricted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "(has(self.persistentVolumeClaim) ? 1 : 0) + (has(self.emptyDir) ? 1 : 0) + (has(self.secret) ? 1 : 0) + \
     (has(self.configMap) ? 1 : 0) + (has(self.image) ? 1 : 0) == 1"
).message(
    "volumes: give exactly one of persistentVolumeClaim, emptyDir, secret, configMap, image"
))]
pub struct Volume {
    /// Name of the volume.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// Absolute path in the container at which the volume is mounted.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^/[^:]*$"))]
    pub mount_path: String,
    /// Whether the volume is mounted read-only. Default: false.
    pub read_only: Option<bool>,
    /// The volume of a PersistentVolumeClaim.
    pub persistent_volume_claim: Option<ClaimVolume>,
    /// A folder that is empty when the pod starts.
    pub empty_dir: Option<EmptyDirVolume>,
    /// The data of a Secret.
    pub secret: Option<SecretVolume>,
    /// The data of a ConfigMap.
    pub config_map: Option<LocalRef>,
    /// The files of an image.
    pub image: Option<ImageVolume>,
}

impl Volume {
    /// Returns the path at which the volume is mounted, without a final `/`.
    pub fn mount_path(&self) -> &str {
        self.mount_path.trim_end_matches('/')
    }
}

/// The volume of a PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimVolume {
    /// Name of the PersistentVolumeClaim.
    #[schemars(length(min = 1, max = 253))]
    pub claim_name: String,
}

/// A folder that is empty when the pod starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmptyDirVolume {
    /// Maximum size of the folder. Default: none.
    pub size_limit: Option<Quantity>,
}

/// The data of a Secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretVolume {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub secret_name: String,
}

/// The files of an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageVolume {
    /// Reference of the image.
    #[schemars(length(min = 1, max = 1000))]
    pub reference: String,
}

/// Settings of a managed server's pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamPod {
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
    /// Topology spread constraints, in the form of a Kubernetes pod spec. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub topology_spread_constraints: Option<Vec<FreeObject>>,
    /// Name of the PriorityClass of the pods. Default: the cluster's default.
    #[schemars(length(max = 253))]
    pub priority_class_name: Option<String>,
    /// Name of the RuntimeClass of the pods. Default: the cluster's default.
    #[schemars(length(max = 253))]
    pub runtime_class_name: Option<String>,
    /// Secrets for pulling images. Default: none.
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "atomic"))]
    pub image_pull_secrets: Option<Vec<LocalRef>>,
    /// Id of the user and the group that the containers run as. Default: 65532; what the
    /// cluster assigns if it assigns ids.
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub run_as_user: Option<u32>,
}
