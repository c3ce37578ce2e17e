//! Timeouts, retries, health checks, protocol and limits of an upstream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::values::Size;

/// Time limits of an upstream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// Time limit for connecting, including the MCP handshake, in milliseconds. Default: none for `process`, because the
    /// first start can download the program; 60000 for a managed server with the transport Stdio, whose process starts
    /// meanwhile; otherwise 5000.
    #[schemars(range(min = 1, max = 600_000))]
    pub connect_ms: Option<u32>,
    /// Milliseconds to wait for the answer to a call. Default: the gateway's.
    #[schemars(range(min = 1, max = 600_000))]
    pub call_ms: Option<u32>,
    /// Whether a progress notification from the server restarts the timeout of a call. The whole call never takes
    /// longer than the gateway's `limits.callCeilingMs`. Default: true.
    pub extend_on_progress: Option<bool>,
    /// Milliseconds after which a session or process that no call uses is ended; the next call starts a new one. 0
    /// means never. Default: 0 for `process`, otherwise 300000.
    #[schemars(range(max = 86_400_000))]
    pub idle_ms: Option<u32>,
}

/// Whether, and how often, a failed call is sent again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// Number of attempts after the first. The timeout of the call is for all of them together, so that a call which
    /// timed out is not sent again. Default: 2.
    #[schemars(range(max = 5))]
    pub attempts: Option<u32>,
    /// Milliseconds between attempts. After a failure to connect, another connection is tried after a second at the
    /// earliest. Default: 200.
    #[schemars(range(max = 60_000))]
    pub backoff_ms: Option<u32>,
    /// Whether a call that the server may already have executed is sent again: `Never`, `Always`, or `IfSafe`, which
    /// means only if the tool has idempotentHint or readOnlyHint, its own or those of `tools.overrides`. A call that
    /// could not be sent is sent again whatever this says. Default: IfSafe.
    pub when: Option<RetryWhen>,
}

/// Whether a call that the server may already have executed is sent again: `Never`, `Always`, or `IfSafe`, which means
/// only if the tool has idempotentHint or readOnlyHint. Default: IfSafe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RetryWhen {
    /// Such a call is never sent again.
    Never,
    /// Such a call is sent again if the tool has idempotentHint or readOnlyHint.
    IfSafe,
    /// Such a call is always sent again; the upstream's owner vouches that this is safe.
    Always,
}

/// How the health of an upstream is checked (document 003's ServerHealthStatus).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthChecks {
    /// Seconds between two probes of a healthy upstream. Default: 30.
    #[schemars(range(min = 5, max = 3600))]
    pub period_seconds: Option<u32>,
    /// Time limit of a probe, in milliseconds. Default: 5000.
    #[schemars(range(min = 100, max = 60_000))]
    pub timeout_ms: Option<u32>,
    /// Milliseconds to wait before each retry of a failed probe. If the last retry fails too, the upstream is taken out
    /// of routing. Default: 1000, 5000, 15000; if `managed` is set 1000, 5000, 10000, 15000, 20000, 30000, 30000, 45000,
    /// 60000, 60000.
    #[schemars(length(min = 1, max = 10), inner(range(max = 600_000)), extend("x-kubernetes-list-type" = "atomic"))]
    pub retry_backoff_ms: Option<Vec<u32>>,
    /// Whether an upstream that was taken out of routing is still probed, at intervals that grow up to 5 minutes.
    /// Default: true.
    pub auto_recover: Option<bool>,
}

/// Whether arguments are validated against the tool's input schema before a call is sent: `Enforce`, `Coerce` or `Off`.
/// `Coerce` first turns texts into the values that the schema wants, such as `"5"` into `5`, as common servers do. Default:
/// Coerce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ArgumentValidation {
    /// Arguments are validated.
    Enforce,
    /// Texts that are the exact form of a value which the schema wants become that value, then arguments are validated.
    Coerce,
    /// Arguments are not validated.
    Off,
}

/// Which versions of MCP are used with a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamProtocol {
    /// MCP era of the server: `Modern` is 2026-07-28, `Legacy` is every version with `initialize`, `Auto` tries Modern
    /// first. Default: Auto.
    pub era: Option<Era>,
}

/// MCP era of the server: `Modern` is 2026-07-28, `Legacy` is every version with `initialize`, `Auto` tries Modern
/// first. Default: Auto.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Era {
    /// Tries Modern first.
    Auto,
    /// Versions with `initialize` and sessions.
    Legacy,
    /// Version 2026-07-28, without sessions.
    Modern,
}

/// Limits on an upstream's calls, for each pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamLimits {
    /// Maximum number of calls at the same time. Default: only the gateway's limit applies.
    #[schemars(range(min = 1, max = 10_000))]
    pub concurrent_calls: Option<u32>,
    /// Maximum size of an answer. Default: the gateway's.
    pub max_response_size: Option<Size>,
}
