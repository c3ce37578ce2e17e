//! The gateway's own settings, and which objects it takes.

use serde::{Deserialize, Serialize};

use super::Refusal;
use super::label::LabelSelector;
use super::runtime::Runtime;
use crate::domain::ids::ObjectKey;

/// The gateway's settings with every default filled in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GatewayPlan {
    /// Its object; `default/hawsepipe` where no manifest declares one.
    pub key: ObjectKey,
    /// Whether a manifest declares it.
    pub declared: bool,
    /// `spec.stopped`.
    pub stopped: bool,
    /// Whether `stopMode` is `Cancel`: calls in flight end too.
    pub stop_cancels: bool,
    /// Listeners that the manifest names; empty for the one of the command line.
    pub listeners: Vec<ListenerPlan>,
    /// Whether a manifest writes `anonymous: {}`.
    pub anonymous: bool,
    /// How tools are named.
    pub prefix: PrefixMode,
    /// What bounds calls.
    pub limits: Limits,
    /// What bounds plugins.
    pub runtime: Runtime,
    /// Seconds after which an idle session ends.
    pub session_idle_seconds: u32,
    /// Executions kept in memory for each plugin.
    pub history_per_plugin: u32,
    /// `error`, `warn`, `info`, `debug` or `trace`; none where the manifest says nothing.
    pub log_level: Option<String>,
    /// Chains that must be in force before any call is served.
    pub required: Vec<ObjectKey>,
    /// Whether `spec.admin.authentication` is set: then the admin API asks programs on this machine too who they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub admin_authentication: bool,
    /// Every call is refused: a required chain is missing, or a guarding setting cannot be enforced.
    pub refusing: Option<Refusal>,
}

/// One address that clients come in by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerPlan {
    /// Its name, unique in the gateway.
    pub name: String,
    /// TCP port.
    pub port: u16,
    /// Path of the endpoint for all upstreams.
    pub path: String,
    /// Accepted Host headers besides loopback; lower case, without port.
    pub hosts: Vec<String>,
    /// Accepted Origin headers; none means that browsers are refused.
    pub allowed_origins: Vec<String>,
    /// A setting that guards and cannot be enforced: the listener does not open.
    pub refusing: Option<Refusal>,
}

/// How a tool's public name comes about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PrefixMode {
    /// `{upstream}__{tool}`.
    #[default]
    Always,
    /// Its own name, unless an upstream before it was ever seen to have it, it begins with another upstream's prefix, or
    /// there was no room to keep it.
    OnConflict,
    /// Its own name; a conflict leaves the later one out. No tool has a prefix here, so a name that looks like one is as
    /// good as any other.
    Never,
}

/// What bounds calls, for each gateway process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Calls at once.
    pub concurrent_calls: u32,
    /// Milliseconds for an upstream's answer.
    pub call_timeout_ms: u32,
    /// Milliseconds for a call as a whole; progress does not move it.
    pub call_ceiling_ms: u32,
    /// Milliseconds for an upstream's list.
    pub list_timeout_ms: u32,
    /// Bytes of a request body.
    pub max_request_size: u64,
    /// Bytes of an upstream's answer.
    pub max_response_size: u64,
    /// Calls at once for each session or principal; none is no limit.
    pub session_concurrent_calls: Option<u32>,
    /// Calls in all for each session or principal; none is no limit.
    pub session_total_calls: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            concurrent_calls: 1000,
            call_timeout_ms: 30_000,
            call_ceiling_ms: 600_000,
            list_timeout_ms: 5000,
            max_request_size: 4 << 20,
            max_response_size: 16 << 20,
            session_concurrent_calls: Some(25),
            session_total_calls: None,
        }
    }
}

/// Which objects an MCPGateway selects. Kept in the plan, so that it still counts if a later edit of the gateway is not
/// valid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayTakes {
    /// Which MCPUpstreams it takes.
    pub upstreams: Takes,
    /// Which PluginChains it takes.
    pub chains: Takes,
}

/// Which objects a gateway takes: of which namespaces, with which labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Takes {
    /// Namespaces.
    pub namespaces: Namespaces,
    /// Labels of the objects; an empty selector is all.
    pub selector: LabelSelector,
}

/// A set of namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Namespaces {
    /// The object's own.
    #[default]
    Same,
    /// These.
    Names(Vec<String>),
    /// Those with these labels.
    Selector(LabelSelector),
    /// Every one.
    All,
}
