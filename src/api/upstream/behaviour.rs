//! Timeouts, retries, health, protocol and limits of an upstream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::values::Quantity;

/// How long things may take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// Milliseconds to connect, headers included. Default: 5000.
    #[schemars(range(min = 1, max = 600_000))]
    pub connect_ms: Option<u32>,
    /// Milliseconds for a call's answer. Default: the gateway's.
    #[schemars(range(min = 1, max = 600_000))]
    pub call_ms: Option<u32>,
    /// Whether progress of the server gives a call that long again, up to the gateway's `limits.callCeilingMs`. Default:
    /// true.
    pub extend_on_progress: Option<bool>,
    /// Milliseconds after which a session or process that no call used is ended; the next call begins it anew. 0 is
    /// never. Default: 300000.
    #[schemars(range(max = 86_400_000))]
    pub idle_ms: Option<u32>,
}

/// When a call is sent again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// Besides the first. Default: 2.
    #[schemars(range(max = 5))]
    pub attempts: Option<u32>,
    /// Milliseconds between attempts. Default: 200.
    #[schemars(range(max = 60_000))]
    pub backoff_ms: Option<u32>,
    /// `Never`, `IfSafe` (the tool's idempotentHint or readOnlyHint) or `Always` (the owner's word). Default:
    /// IfSafe.
    pub when: Option<RetryWhen>,
}

/// When a call may be sent again after it may have been executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RetryWhen {
    /// Never.
    Never,
    /// Where the tool says that is safe.
    IfSafe,
    /// On the owner's word.
    Always,
}

/// How health is judged (document 003's ServerHealthStatus).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthChecks {
    /// Seconds between probes. Default: 30.
    #[schemars(range(min = 5, max = 3600))]
    pub period_seconds: Option<u32>,
    /// Milliseconds for a probe. Default: 5000.
    #[schemars(range(min = 100, max = 60_000))]
    pub timeout_ms: Option<u32>,
    /// A wait for each retry; when the last fails too, the upstream leaves routing. Default: 1000, 5000, 15000.
    #[schemars(length(min = 1, max = 10), inner(range(max = 600_000)), extend("x-kubernetes-list-type" = "atomic"))]
    pub retry_backoff_ms: Option<Vec<u32>>,
    /// Whether one that left is probed on, at a growing interval up to 5 minutes. Default: true for external, false
    /// for the rest.
    pub auto_recover: Option<bool>,
}

/// Whether arguments are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ArgumentValidation {
    /// They are.
    Enforce,
    /// They are not.
    Off,
}

/// What a server speaks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamProtocol {
    /// `Auto` tries the modern one first; `Legacy`; `Modern`. Default: Auto.
    pub era: Option<Era>,
}

/// A protocol era.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Era {
    /// Modern first.
    Auto,
    /// `initialize` and sessions.
    Legacy,
    /// 2026-07-28, stateless.
    Modern,
}

/// What bounds an upstream's calls, in each pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpstreamLimits {
    /// Calls at once. Default: no limit of its own.
    #[schemars(range(min = 1, max = 10_000))]
    pub concurrent_calls: Option<u32>,
    /// Bytes of an answer. Default: the gateway's.
    pub max_response_size: Option<Quantity>,
}
