//! The gateway's own settings, and the objects that it selects.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::Refusal;
use super::access::{AdminMethodsPlan, AuthenticationPlan, AuthorizationPlan};
use super::history::HistoryPlan;
use super::label::LabelSelector;
use super::model::ModelPlan;
use super::runtime::Runtime;
use super::tracing::TracingPlan;
use crate::domain::audit::AuditMode;
use crate::domain::ids::ObjectKey;

/// The gateway's settings with every default filled in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GatewayPlan {
    /// Namespace and name of the MCPGateway; `default/hawsepipe` if no manifest declares one.
    pub key: ObjectKey,
    /// Whether a manifest declares the gateway.
    pub declared: bool,
    /// Whether the stop switch is set (`spec.stopped`).
    pub stopped: bool,
    /// Whether `stopMode` is `Cancel`, so that stopping also ends calls in flight.
    pub stop_cancels: bool,
    /// Listeners that the manifest declares. If empty, the listener of the command line is used.
    pub listeners: Vec<ListenerPlan>,
    /// Whether the manifest allows clients without credentials (`anonymous: {}`).
    pub anonymous: bool,
    /// The other methods of authentication.
    #[serde(default, skip_serializing_if = "AuthenticationPlan::is_default")]
    pub authentication: AuthenticationPlan,
    /// The rules for calls and lists; `None` if everything is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization: Option<AuthorizationPlan>,
    /// How the tool names that clients see are formed.
    pub prefix: PrefixMode,
    /// The maximum number of characters of a tool's name that clients see; longer names get a short form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_name_length: Option<u32>,
    /// What the list of tools shows.
    #[serde(default, skip_serializing_if = "ToolDiscovery::is_all")]
    pub tool_discovery: ToolDiscovery,
    /// Whether tools are offered whose schemas providers of models reject (`invalidTools: Offer`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub offers_invalid_tools: bool,
    /// Addresses that upstreams may have although they are link-local, of a metadata service or of the API server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_addresses: Vec<IpAddr>,
    /// Limits on calls.
    pub limits: Limits,
    /// Settings for running plugins.
    pub runtime: Runtime,
    /// Seconds after which an idle session ends.
    pub session_idle_seconds: u32,
    /// Maximum number of executions of each plugin whose records are kept in memory.
    pub history_per_plugin: u32,
    /// The other settings of the history.
    #[serde(default, skip_serializing_if = "HistoryPlan::is_default")]
    pub history: HistoryPlan,
    /// Whether the audit trail is written, and whether calls wait for it.
    #[serde(default, skip_serializing_if = "AuditMode::is_default")]
    pub audit: AuditMode,
    /// The mode that was accepted and comes into force once its store was reached; `None` if that is `audit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited_audit: Option<AuditMode>,
    /// `error`, `warn`, `info`, `debug` or `trace`; `None` if the manifest does not set it.
    pub log_level: Option<String>,
    /// Where traces are sent; `None` if the manifest does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracing: Option<TracingPlan>,
    /// Language models for pipelines that have none of the role.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelPlan>,
    /// Chains that must be in force: while one of them is not, every call is refused.
    pub required: Vec<ObjectKey>,
    /// Whether `spec.admin.authentication` is set: the admin API then also requires authentication from programs on
    /// this machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub admin_authentication: bool,
    /// How clients of the admin API authenticate, if `admin_authentication` is set.
    #[serde(default, skip_serializing_if = "AdminMethodsPlan::is_default")]
    pub admin_methods: AdminMethodsPlan,
    /// If set, every call is refused: a required chain is missing, or a protective setting cannot be enforced.
    pub refusing: Option<Refusal>,
}

impl GatewayPlan {
    /// Whether clients without credentials are served. The gateway of a folder that declares none serves them too.
    pub fn serves_anonymous(&self) -> bool {
        self.anonymous || !self.declared
    }

    /// Whether clients can prove who they are.
    pub fn authenticates(&self) -> bool {
        let AuthenticationPlan { jwt, api_keys, token_review, .. } = &self.authentication;
        !jwt.is_empty() || api_keys.is_some() || token_review.is_some()
    }
}

/// An address that clients connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerPlan {
    /// Name of the listener, unique in the gateway.
    pub name: String,
    /// TCP port.
    pub port: u16,
    /// Path of the endpoint for all upstreams.
    pub path: String,
    /// Accepted Host headers besides loopback; lower case, without port. `*.` stands for one or more labels.
    pub hosts: Vec<String>,
    /// Host headers accepted if `hosts` is empty, in the same form: the names of the gateway in its cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub default_hosts: Vec<String>,
    /// Accepted Origin headers. If empty, requests from browsers are refused.
    pub allowed_origins: Vec<String>,
    /// The Secret with the certificate of the listener, which serves HTTPS then; `None` means plain HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ObjectKey>,
    /// If set, the listener does not open, because one of its protective settings cannot be enforced.
    pub refusing: Option<Refusal>,
}

/// How the public names of tools are formed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PrefixMode {
    /// `{upstream}__{tool}`.
    #[default]
    Always,
    /// The tool's own name. The name is `{upstream}__{tool}` instead if an earlier upstream was ever seen to have a
    /// tool of this name, if the name begins with another upstream's prefix, or if there was no room to store the name
    /// when the tool was first seen.
    OnConflict,
    /// The tool's own name. If two tools have the same name, the later one gets no public name. Because no tool has a
    /// prefix in this mode, a name that looks prefixed is allowed.
    Never,
}

/// What clients see in the list of tools of the endpoint for all upstreams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolDiscovery {
    /// All tools.
    #[default]
    All,
    /// Two tools of the gateway: one finds tools, the other one calls them.
    Search,
}

impl ToolDiscovery {
    /// Whether the list shows all tools.
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }
}

/// Limits on calls, for each gateway process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Maximum number of calls in flight.
    pub concurrent_calls: u32,
    /// Maximum number of runs of pipelines in progress.
    #[serde(default = "default_runs", skip_serializing_if = "are_default_runs")]
    pub concurrent_runs: u32,
    /// How long to wait for an upstream's answer, in milliseconds.
    pub call_timeout_ms: u32,
    /// Time limit of a call as a whole, in milliseconds. Progress does not extend it.
    pub call_ceiling_ms: u32,
    /// How long to wait for an upstream's tool list, in milliseconds.
    pub list_timeout_ms: u32,
    /// Maximum size of a request body, in bytes.
    pub max_request_size: u64,
    /// Maximum size of an upstream's answer, in bytes.
    pub max_response_size: u64,
    /// Maximum number of calls in flight for each session or principal; `None` means no limit.
    pub session_concurrent_calls: Option<u32>,
    /// Maximum number of calls in total for each session or principal; `None` means no limit.
    pub session_total_calls: Option<u64>,
    /// Maximum number of connections of each listener.
    #[serde(default = "default_connections", skip_serializing_if = "are_default_connections")]
    pub max_connections: u32,
    /// Maximum number of streams that clients hold open at each listener for notifications: GET streams of sessions and
    /// `subscriptions/listen`.
    #[serde(default = "default_streams", skip_serializing_if = "are_default_streams")]
    pub max_streams: u32,
}

/// The default of `max_connections`, for plans that do not have the field too.
fn default_connections() -> u32 {
    8192
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn are_default_connections(most: &u32) -> bool {
    *most == default_connections()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn are_default_streams(most: &u32) -> bool {
    *most == default_streams()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn are_default_runs(most: &u32) -> bool {
    *most == default_runs()
}

/// The default of `concurrent_runs`, for plans that do not have the field too.
fn default_runs() -> u32 {
    500
}

/// The default of `max_streams`, for plans that do not have the field too.
fn default_streams() -> u32 {
    1000
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            concurrent_calls: 1000,
            concurrent_runs: default_runs(),
            call_timeout_ms: 30_000,
            call_ceiling_ms: 600_000,
            list_timeout_ms: 5000,
            max_request_size: 4 << 20,
            max_response_size: 16 << 20,
            session_concurrent_calls: Some(25),
            session_total_calls: None,
            max_connections: default_connections(),
            max_streams: default_streams(),
        }
    }
}

/// The objects that an MCPGateway selects. Part of the plan, so that the last valid selection stays in effect if a
/// later edit of the gateway is not valid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayTakes {
    /// The MCPUpstreams that the gateway selects.
    pub upstreams: Takes,
    /// The PluginChains that the gateway selects.
    pub chains: Takes,
    /// The ToolPipelines that the gateway selects.
    #[serde(default, skip_serializing_if = "Takes::is_default")]
    pub pipelines: Takes,
    /// The SectionBindings that the gateway selects.
    #[serde(default, skip_serializing_if = "Takes::is_default")]
    pub sections: Takes,
    /// The Plugins of types other than middleware that the gateway selects.
    #[serde(default, skip_serializing_if = "Takes::is_default")]
    pub plugins: Takes,
}

/// Which objects a gateway selects, by namespace and labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Takes {
    /// The namespaces in which objects are selected.
    pub namespaces: Namespaces,
    /// Label selector for the objects; an empty selector matches all objects.
    pub selector: LabelSelector,
}

impl Takes {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A set of namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Namespaces {
    /// The gateway's own namespace.
    #[default]
    Same,
    /// The namespaces with these names.
    Names(Vec<String>),
    /// The namespaces whose labels match.
    Selector(LabelSelector),
    /// Every namespace.
    All,
}
