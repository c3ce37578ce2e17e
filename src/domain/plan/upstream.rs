//! An upstream: how it is reached, how its health is judged, what of it is offered.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Refusal;
use super::value::NamedValue;
use crate::domain::ids::ObjectKey;

/// One upstream with every default filled in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamPlan {
    /// Its object. The name alone is unique in a gateway.
    pub key: ObjectKey,
    /// Its labels, for `upstream.labels` in CEL.
    pub labels: BTreeMap<String, String>,
    /// `spec.enabled`.
    pub enabled: bool,
    /// How it is reached.
    pub transport: TransportPlan,
    /// Which era to speak.
    pub era: EraSetting,
    /// Milliseconds to connect, headers included.
    pub connect_timeout_ms: u32,
    /// Milliseconds for a call's answer; none is the gateway's.
    pub call_timeout_ms: Option<u32>,
    /// Whether progress gives a call that long again, up to the gateway's ceiling.
    #[serde(default = "extends", skip_serializing_if = "Clone::clone")]
    pub extend_on_progress: bool,
    /// Milliseconds after which a connection that no call used is closed; 0 is never.
    pub idle_timeout_ms: u32,
    /// How its health is judged.
    pub health: HealthPlan,
    /// The word of the annotation `hawsepipe.dev/enable`: another one brings it back that has left routing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enable: Option<String>,
    /// Whether arguments are checked against the tool's input schema.
    pub validate_arguments: bool,
    /// Calls at once.
    pub concurrent_calls: Option<u32>,
    /// Bytes of an answer; none is the gateway's.
    pub max_response_size: Option<u64>,
    /// Globs over the server's own tool names; empty is all.
    pub include: Vec<String>,
    /// Globs that take out.
    pub exclude: Vec<String>,
    /// What is changed about single tools.
    pub overrides: Vec<ToolOverride>,
    /// A guarding setting cannot be enforced, or something it needs is missing: its calls are refused.
    pub refusing: Option<Refusal>,
}

/// Whether progress extends, in plans that do not say so.
fn extends() -> bool {
    true
}

/// How an upstream is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransportPlan {
    /// Streamable HTTP to a URL.
    External {
        /// Its endpoint.
        url: String,
        /// Headers to send along.
        headers: Vec<NamedValue>,
    },
    /// A child process that speaks on stdin and stdout.
    Process {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// The folder it starts in.
        cwd: PathBuf,
        /// Variables besides PATH, HOME, USER, LANG, TMPDIR.
        env: Vec<NamedValue>,
    },
    /// Nothing that can be reached here; `refusing` says why.
    None,
}

/// Which protocol era to speak with an upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EraSetting {
    /// Modern first, else legacy; what was found is kept.
    #[default]
    Auto,
    /// `initialize` and sessions.
    Legacy,
    /// 2026-07-28, stateless.
    Modern,
}

/// How health is judged (document 003, ServerHealthStatus).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthPlan {
    /// Seconds between probes.
    pub period_seconds: u32,
    /// Milliseconds for a probe.
    pub timeout_ms: u32,
    /// A wait for each retry; when the last fails too, the upstream leaves routing.
    pub retry_backoff_ms: Vec<u32>,
    /// Whether an upstream that left is probed on.
    pub auto_recover: bool,
}

/// What is changed about one tool, by the server's own name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOverride {
    /// The server's own name for it.
    pub name: String,
    /// Another word for clients.
    pub rename: Option<String>,
    /// Another title.
    pub title: Option<String>,
    /// Another description.
    pub description: Option<String>,
    /// Not listed and not callable.
    pub hidden: bool,
    /// Milliseconds for its calls.
    pub timeout_ms: Option<u32>,
    /// A guarding part of it cannot be enforced: its calls are refused.
    pub refusing: Option<Refusal>,
}
