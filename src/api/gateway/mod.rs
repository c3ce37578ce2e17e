//! The MCPGateway custom resource.

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

/// Configuration of a gateway: how clients reach it, which objects it uses, and its limits.
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
    doc = "Configuration of a gateway: how clients reach it, which objects it uses, and its limits.",
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
    printcolumn(name = "REFUSING", type_ = "string", json_path = ".status.conditions[?(@.type=='Refusing')].reason"),
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
    "has(self.listeners) || !has(self.admin) || !has(self.admin.port) || self.admin.port != 8080"
).message(
    "admin.port: 8080 is the port of the listener that a gateway without listeners has"
))]
#[x_kube(validation = Rule::new(
    "!has(self.audit) || self.audit.mode != 'Required' || !has(self.history) || !has(self.history.store) || \
     !has(self.history.store.embedded)"
).message(
    "audit.mode Required needs history.store.postgres, or --store of `hawsepipe run`: an embedded store goes with its pod"
))]
pub struct MCPGatewaySpec {
    /// The stop switch: if true, every new call is refused immediately, while listing still works. Default: false.
    pub stopped: Option<bool>,
    /// What the stop switch does to running calls: with `Drain`, nothing more is sent to servers, and answers to what was sent are
    /// given; `Cancel` ends them. Default: Drain.
    pub stop_mode: Option<StopMode>,
    /// Revision that the gateway keeps running; `hawsepipe rollback` sets this field. Later edits are compiled and
    /// their problems are reported, but the edits do not take effect, except for the stop switch and for objects that
    /// are deleted or no longer shared. Default: none.
    #[schemars(length(equal = 12), regex(pattern = r"^[a-f0-9]{12}$"))]
    pub pinned_revision: Option<String>,
    /// Number of pods; cannot be set together with `autoscaling`. Default: 2.
    #[schemars(range(max = 1000))]
    pub replicas: Option<u32>,
    /// Scales the number of pods by load; cannot be set together with `replicas`. Default: none.
    pub autoscaling: Option<Autoscaling>,
    /// Limits how many pods a node drain can evict at the same time. Default: `maxUnavailable: 1`.
    pub disruption_budget: Option<DisruptionBudget>,
    /// Settings of the gateway's pods. Default: each field's own default.
    pub pod: Option<GatewayPod>,
    /// NetworkPolicy for the pods: with `Managed`, the operator maintains one; with `None`, it does not. Default:
    /// Managed.
    pub network_policy: Option<NetworkPolicy>,
    /// Addresses at which clients reach the gateway. Default: one listener named http, with port 8080 and path /mcp.
    #[schemars(length(min = 1, max = 8))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub listeners: Option<Vec<Listener>>,
    /// The Service in front of the pods. Default: each field's own default.
    pub service: Option<GatewayService>,
    /// HTTPRoute (Gateway API) that the operator maintains for the Service. Default: none.
    pub route: Option<Route>,
    /// The admin port, which serves metrics, health checks and the admin API. Client listeners serve none of these.
    /// Default: each field's own default.
    pub admin: Option<Admin>,
    /// Sessions of clients that use a protocol version before 2026-07-28. Default: each field's own default.
    pub sessions: Option<Sessions>,
    /// Selects the MCPUpstreams that the gateway serves, and determines how their tools are named. Default: every
    /// MCPUpstream of the gateway's namespace.
    pub upstreams: Option<TakesUpstreams>,
    /// Selects the PluginChains that the gateway runs. Default: every PluginChain of the gateway's namespace.
    pub chains: Option<TakesChains>,
    /// Selects the ToolPipelines that the gateway serves. Default: every ToolPipeline of the gateway's namespace.
    pub pipelines: Option<TakesObjects>,
    /// Selects the SectionBindings that the gateway applies. Default: every SectionBinding of the gateway's namespace.
    pub sections: Option<TakesObjects>,
    /// Where plugins come from, and their limits. Default: each field's own default.
    pub plugins: Option<GatewayPlugins>,
    /// Limits on calls, for each pod. Default: each field's own default.
    pub limits: Option<GatewayLimits>,
    /// How clients authenticate; at least one way must be set. To accept clients without credentials, write `anonymous:
    /// {}`.
    pub authentication: Authentication,
    /// What authenticated clients are allowed to do. Default: everything.
    pub authorization: Option<Authorization>,
    /// Language models for plugins and pipelines, by role. Plugins and pipelines never see the API keys. Default: none.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["role"]))]
    pub models: Option<Vec<Model>>,
    /// The history of past executions: how much of it is kept, where, and for how long. Default: each field's own
    /// default.
    pub history: Option<History>,
    /// Whether calls are recorded, and what happens to a call that cannot be recorded. Default: mode BestEffort if there is
    /// a store.
    pub audit: Option<Audit>,
    /// Logs and traces. Default: each field's own default.
    pub telemetry: Option<Telemetry>,
}

/// What the stop switch does to running calls: with `Drain`, nothing more is sent to servers, and answers to what was sent are given;
/// `Cancel` ends them. Default: Drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StopMode {
    /// Calls that were sent are answered.
    Drain,
    /// Running calls are ended.
    Cancel,
}

/// NetworkPolicy for the pods: with `Managed`, the operator maintains one; with `None`, it does not. Default: Managed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NetworkPolicy {
    /// The operator maintains a NetworkPolicy.
    Managed,
    /// The operator does not maintain a NetworkPolicy.
    None,
}
