//! What is kept of each call and each plugin execution.

use serde::Serialize;
use serde_json::value::RawValue;

use super::plugin::{Mode, Phase};
use super::reason::Reason;

/// Document 000's ExecutionStatus and two more values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum ExecutionStatus {
    /// A usable answer.
    Success,
    /// None.
    Failed,
    /// None in time.
    Timeout,
    /// No worker in time.
    PoolExhausted,
    /// The plugin denied the call.
    Denied,
    /// The entry did not run.
    Skipped,
}

impl ExecutionStatus {
    /// The metric label.
    pub fn as_label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::PoolExhausted => "pool_exhausted",
            Self::Denied => "denied",
            Self::Skipped => "skipped",
        }
    }
}

/// Document 000's PluginExecution, with what this gateway knows besides.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginExecution {
    /// A UUIDv7.
    pub id: String,
    /// The call's.
    pub request_id: String,
    /// The plugin's id, stable over edits.
    pub plugin_id: String,
    /// The plugin, as `namespace/name`.
    pub plugin: String,
    /// The chain, as `namespace/name`.
    pub chain_id: String,
    /// Unix milliseconds.
    pub started_at: u64,
    /// Milliseconds, queue and run together.
    pub duration_ms: f64,
    /// Milliseconds until a worker was had.
    pub queue_ms: f64,
    /// Milliseconds in the worker.
    pub run_ms: f64,
    /// How it ended.
    pub status: ExecutionStatus,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Bytes of content in.
    pub input_size_bytes: u64,
    /// Bytes of content out, where it succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_size_bytes: Option<u64>,
    /// Details, where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Whether its output differs from its input.
    pub changed: bool,
    /// When in the call it ran.
    pub phase: Phase,
    /// `Shadow` changed nothing.
    pub mode: Mode,
    /// Digest of the plugin's code.
    pub plugin_revision: String,
    /// The chain's revision.
    pub chain_revision: String,
    /// The upstream's name.
    pub upstream: String,
    /// The server's own name of the tool.
    pub tool: String,
    /// Who called.
    pub principal: String,
    /// The worker, where one was had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_pid: Option<u32>,
}

/// Why an entry did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Skip {
    /// Its `when` is false.
    When,
    /// The entry or its plugin is disabled.
    Disabled,
    /// The plugin's own filter or phases leave the call out.
    Filter,
    /// An entry before it said `continue: false`, or the call had ended.
    Stopped,
}

impl Skip {
    /// The word in records and metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::When => "when",
            Self::Disabled => "disabled",
            Self::Filter => "filter",
            Self::Stopped => "stopped",
        }
    }
}

/// What one entry did on one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryOutcome {
    /// It ran.
    Ran,
    /// It did not have to.
    Skipped(Skip),
    /// It ran, or should have, and gave nothing usable.
    Failed(Reason),
    /// It denied the call.
    Denied,
}

impl std::fmt::Display for EntryOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ran => f.write_str("ran"),
            Self::Skipped(skip) => write!(f, "skipped({})", skip.as_str()),
            Self::Failed(reason) => write!(f, "failed({reason})"),
            Self::Denied => f.write_str("denied"),
        }
    }
}

impl Serialize for EntryOutcome {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One entry of one chain on one call: the proof that it ran, or why not.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EntryTrace {
    /// The chain, as `namespace/name`.
    pub chain: String,
    /// The plugin, as `namespace/name`.
    pub plugin: String,
    /// Digest of the plugin's code, its first 12 hex characters; empty where there was none to run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// When in the call.
    pub phase: Phase,
    /// What it did.
    pub outcome: EntryOutcome,
    /// Only where it is `Shadow`.
    #[serde(skip_serializing_if = "is_enforce")]
    pub mode: Mode,
    /// Whether the content differs after it; of a shadow, whether it would.
    pub changed: bool,
    /// Whether it ended its chain (`continue: false`); of a shadow, whether it would.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stops: bool,
    /// Milliseconds, queue and run together; 0 where it did not run.
    pub duration_ms: f64,
    /// The plugin's own metadata, at most 16 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Box<RawValue>>,
    /// Why its metadata is not here, where it gave some that a trace has no room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_omitted: Option<String>,
}

fn is_enforce(mode: &Mode) -> bool {
    *mode == Mode::Enforce
}

/// The greatest size of a plugin's metadata in a trace, in bytes.
pub const MAX_TRACE_METADATA: usize = 16 * 1024;
/// And its greatest depth: many readers stop at 128 levels, and it lies some levels down in answers and lists.
pub const MAX_TRACE_DEPTH: usize = 64;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// A result.
    Ok,
    /// A result that says `isError`.
    ToolError,
    /// A JSON-RPC error, the upstream's or ours.
    RpcError,
    /// A plugin denied it.
    Denied,
    /// A plugin's failure failed it.
    Failed,
    /// Admission refused the call.
    Refused,
    /// The client gave it up.
    Cancelled,
    /// The upstream took too long.
    Timeout,
}

impl CallOutcome {
    /// The metric label.
    pub fn as_label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool_error",
            Self::RpcError => "rpc_error",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
            Self::Timeout => "timeout",
        }
    }
}

/// One call.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    /// Our UUIDv7 of it.
    pub request_id: String,
    /// Of the call whose plugin made it; none where a client did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// Unix milliseconds.
    pub started_at: u64,
    /// Milliseconds in all.
    pub duration_ms: f64,
    /// Milliseconds of it that the upstream took; none where it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_ms: Option<f64>,
    /// Milliseconds of it that plugins on its path took.
    pub plugin_ms: f64,
    /// The upstream's name; empty where none was found.
    pub upstream: String,
    /// The server's own name of the tool, else the name that was asked for.
    pub tool: String,
    /// The client's era.
    pub era: &'static str,
    /// Who called.
    pub principal: String,
    /// How it ended.
    pub outcome: CallOutcome,
    /// Why it was refused, denied or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Every entry of every chain that selected it.
    pub entries: Vec<EntryTrace>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_trace_says_of_a_shadow_that_it_is_one() {
        for (mode, told) in [(Mode::Enforce, json!(null)), (Mode::Shadow, json!("Shadow"))] {
            let trace = EntryTrace {
                chain: "c".into(),
                plugin: "p".into(),
                revision: String::new(),
                phase: Phase::Request,
                outcome: EntryOutcome::Ran,
                mode,
                changed: false,
                stops: false,
                duration_ms: 0.0,
                metadata: None,
                metadata_omitted: None,
            };
            assert_eq!(serde_json::to_value(&trace).unwrap()["mode"], told);
        }
    }
}
