//! The kind MCPGateway.

pub mod access;
pub mod inbound;
pub mod pods;
pub mod records;
pub mod runtime;
pub mod status;
pub mod takes;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::gateway::access::{Authentication, Authorization};
use crate::api::gateway::inbound::{Admin, GatewayService, Listener, Route, Sessions};
use crate::api::gateway::pods::{Autoscaling, DisruptionBudget, GatewayPod};
use crate::api::gateway::records::{Audit, History, Model, Telemetry};
use crate::api::gateway::runtime::{GatewayLimits, GatewayPlugins};
use crate::api::gateway::status::MCPGatewayStatus;
use crate::api::gateway::takes::{TakesChains, TakesObjects, TakesUpstreams};

/// What a gateway is to do: how clients come in, what it takes, and within which bounds.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "hawsepipe.dev",
    version = "v1alpha1",
    kind = "MCPGateway",
    namespaced,
    status = "MCPGatewayStatus",
    derive = "PartialEq",
    category = "hawsepipe",
    shortname = "mcpgw",
    doc = "What a gateway is to do: how clients come in, what it takes, and within which bounds.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "READY PODS", type_ = "string", json_path = ".status.readyPods"),
    printcolumn(name = "LIVE", type_ = "string", json_path = ".status.live"),
    printcolumn(name = "UPSTREAMS", type_ = "integer", json_path = ".status.upstreams"),
    printcolumn(name = "TOOLS", type_ = "integer", json_path = ".status.tools"),
    printcolumn(name = "CHAINS", type_ = "integer", json_path = ".status.chains"),
    printcolumn(name = "PROBLEMS", type_ = "integer", json_path = ".status.problems"),
    printcolumn(name = "READY", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "REASON", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "REVISION", type_ = "string", json_path = ".status.snapshot.revision", priority = 1),
    printcolumn(name = "ADDRESS", type_ = "string", json_path = ".status.addresses[0]", priority = 1),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = Rule::new(
        "self.metadata.name.size() <= 48 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"
    ).message(
        "metadata.name: at most 48 characters of a-z, 0-9 and -, a letter first: the Deployment and the Service \
         are {name}-gateway"
    ),
)]
#[x_kube(validation = Rule::new(
    "!(has(self.replicas) && has(self.autoscaling))"
).message(
    "give replicas or autoscaling, not both: each would undo the other"
))]
#[x_kube(validation = Rule::new(
    "!has(self.listeners) || self.listeners.all(l, self.listeners.exists_one(m, m.port == l.port) && l.port != \
     (has(self.admin) && has(self.admin.port) ? self.admin.port : 9090))"
).message(
    "listeners: each needs a port of its own, and not admin.port (default 9090)"
))]
#[x_kube(validation = Rule::new(
    "!has(self.audit) || self.audit.mode != 'Required' || (has(self.history) && has(self.history.store) && \
     has(self.history.store.postgres))"
).message(
    "audit.mode Required needs history.store.postgres: an embedded store goes with its pod"
))]
pub struct MCPGatewaySpec {
    /// The stop switch: every new call is refused at once, lists still work. Default: false.
    pub stopped: Option<bool>,
    /// What the stop switch does to running calls: `Drain` lets them end, `Cancel` ends them. Default: Drain.
    pub stop_mode: Option<StopMode>,
    /// The revision to stay on, as `hawsepipe rollback` sets it. Edits are compiled and shown, but not switched to.
    /// Default: none.
    #[schemars(length(equal = 12), regex(pattern = r"^[a-f0-9]{12}$"))]
    pub pinned_revision: Option<String>,
    /// Pods. Either this or `autoscaling`. Default: 1.
    #[schemars(range(max = 1000))]
    pub replicas: Option<u32>,
    /// Pods by load. Default: none.
    pub autoscaling: Option<Autoscaling>,
    /// How many pods a drain may take at once. Default: none.
    pub disruption_budget: Option<DisruptionBudget>,
    /// What the gateway's pods look like.
    pub pod: Option<GatewayPod>,
    /// Whether the operator keeps a NetworkPolicy for the pods: `Managed` or `None`. Default: Managed.
    pub network_policy: Option<NetworkPolicy>,
    /// Addresses that clients come in by. Default: one, named http, on port 8080 and path /mcp.
    #[schemars(length(min = 1, max = 8))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub listeners: Option<Vec<Listener>>,
    /// The Service before the pods.
    pub service: Option<GatewayService>,
    /// An HTTPRoute to the Service, owned by the operator. Default: none.
    pub route: Option<Route>,
    /// The admin port: metrics, health, the admin API. Never on a client listener.
    pub admin: Option<Admin>,
    /// Sessions of the protocol eras before 2026-07-28.
    pub sessions: Option<Sessions>,
    /// Which MCPUpstreams it takes, and how their tools are named. Default: all of its namespace.
    pub upstreams: Option<TakesUpstreams>,
    /// Which PluginChains it takes. Default: all of its namespace.
    pub chains: Option<TakesChains>,
    /// Which ToolPipelines it takes. Default: all of its namespace.
    pub pipelines: Option<TakesObjects>,
    /// Which SectionBindings it takes. Default: all of its namespace.
    pub sections: Option<TakesObjects>,
    /// Where plugins come from, and what bounds them.
    pub plugins: Option<GatewayPlugins>,
    /// What bounds calls, in each pod.
    pub limits: Option<GatewayLimits>,
    /// Who may come in: at least one way. An open gateway says `anonymous: {}`.
    pub authentication: Authentication,
    /// What they may do. Default: everything.
    pub authorization: Option<Authorization>,
    /// Models for plugins and pipelines, by role. Their keys reach neither.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["role"]))]
    pub models: Option<Vec<Model>>,
    /// What is kept of executions.
    pub history: Option<History>,
    /// Whether each call is recorded, and what happens when it cannot be. Default: mode Off.
    pub audit: Option<Audit>,
    /// Logs and traces.
    pub telemetry: Option<Telemetry>,
}

/// What the stop switch does to running calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StopMode {
    /// They end by themselves.
    Drain,
    /// They are ended.
    Cancel,
}

/// Whether the operator keeps a NetworkPolicy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NetworkPolicy {
    /// It does.
    Managed,
    /// It does not.
    None,
}
