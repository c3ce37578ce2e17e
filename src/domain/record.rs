//! The records of calls and plugin executions.

use serde::Serialize;
use serde_json::value::RawValue;

use super::identity::User;
use super::method::Method;
use super::plugin::{Mode, Phase};
use super::reason::Reason;
pub use super::record_payload::{MAX_TRACE_DEPTH, MAX_TRACE_METADATA, Payload, RunSources, millis};

/// The outcome of a plugin execution. The values are those of ExecutionStatus in document 000 (see
/// docs/architecture.md), plus `Denied` and `Skipped`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
pub enum ExecutionStatus {
    /// The plugin returned a usable answer.
    Success,
    /// The plugin returned no usable answer.
    Failed,
    /// The plugin returned no answer by its deadline.
    Timeout,
    /// No worker was free before the queue's deadline, or the queue was full.
    PoolExhausted,
    /// The plugin denied the call.
    Denied,
    /// The entry did not run.
    Skipped,
}

impl ExecutionStatus {
    /// All statuses.
    pub const ALL: [Self; 6] =
        [Self::Success, Self::Failed, Self::Timeout, Self::PoolExhausted, Self::Denied, Self::Skipped];

    /// Returns the status as records contain it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "Success",
            Self::Failed => "Failed",
            Self::Timeout => "Timeout",
            Self::PoolExhausted => "PoolExhausted",
            Self::Denied => "Denied",
            Self::Skipped => "Skipped",
        }
    }

    /// Returns the status as a metric label.
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

/// The record of one plugin execution. It has the fields of PluginExecution in document 000, and some that this gateway
/// adds.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PluginExecution {
    /// A UUIDv7 that identifies the execution.
    pub id: String,
    /// The id of the call on which the plugin ran.
    pub request_id: String,
    /// The plugin's id, which stays the same when the plugin is edited.
    pub plugin_id: String,
    /// The plugin, as `namespace/name`.
    pub plugin: String,
    /// The chain, as `namespace/name`.
    pub chain_id: String,
    /// When the execution started, in Unix milliseconds.
    pub started_at: u64,
    /// Milliseconds in the queue and in the worker together.
    pub duration_ms: f64,
    /// Milliseconds that the execution waited for a worker.
    pub queue_ms: f64,
    /// Milliseconds from getting a worker to its answer.
    pub run_ms: f64,
    /// The result of the execution.
    pub status: ExecutionStatus,
    /// Why the execution failed; `None` if it succeeded or the plugin denied the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Size of the input content in bytes.
    pub input_size_bytes: u64,
    /// Size of the output content in bytes; `None` if the execution failed or the plugin denied the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_size_bytes: Option<u64>,
    /// The message of the failure or of the denial; `None` if the execution succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// The [text](super::plugin::Failure::text) of the failure, which the history does not keep.
    #[serde(skip)]
    pub error_text: Option<String>,
    /// Why the entry's `when` could not be evaluated, so that the entry ran; `None` if it could, or if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Whether the output differs from the input.
    pub changed: bool,
    /// The method of the content: that of the call, of a question that its server asked, or of a list.
    #[cfg_attr(feature = "gateway", schemars(with = "String"))]
    pub method: Method,
    /// The phase in which the plugin ran; `None` for a step of a pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// `Shadow` if the entry ran without effect.
    pub mode: Mode,
    /// SHA-256 of the plugin's code in hex.
    pub plugin_revision: String,
    /// Revision of the chain.
    pub chain_revision: String,
    /// Name of the upstream.
    pub upstream: String,
    /// The server's own name for the tool.
    pub tool: String,
    /// The principal of the caller.
    pub principal: String,
    /// What tells the caller apart from others with the same principal.
    pub user: User,
    /// The first characters of the id of the caller's session; empty without a session.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// The process id of the worker; `None` if the execution got none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_pid: Option<u32>,
}

/// Why an entry was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Skip {
    /// The entry's `when` condition is false.
    When,
    /// The entry or its plugin is disabled.
    Disabled,
    /// The plugin's filter excludes the upstream or the tool.
    Filter,
    /// An earlier entry returned `continue: false`, or the call had ended.
    Stopped,
}

impl Skip {
    /// Returns the reason as it appears in records and metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::When => "when",
            Self::Disabled => "disabled",
            Self::Filter => "filter",
            Self::Stopped => "stopped",
        }
    }
}

/// The outcome of one entry on one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryOutcome {
    /// The entry ran.
    Ran,
    /// The entry was skipped.
    Skipped(Skip),
    /// The entry failed: it returned nothing usable, or could not run.
    Failed(Reason),
    /// The entry denied the call.
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

/// The trace of one entry of a chain on one call: proof that the entry ran, or the reason why it did not.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct EntryTrace {
    /// The chain, as `namespace/name`.
    pub chain: String,
    /// The plugin, as `namespace/name`.
    pub plugin: String,
    /// First 12 hex characters of the SHA-256 of the plugin's code; empty if there was no code to run.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// The method of the content: that of the call, or of a question that its server asked.
    #[cfg_attr(feature = "gateway", schemars(with = "String"))]
    pub method: Method,
    /// The phase of the chain.
    pub phase: Phase,
    /// The outcome of the entry.
    #[cfg_attr(feature = "gateway", schemars(with = "String"))]
    pub outcome: EntryOutcome,
    /// The message of the failure or of the denial; `None` if the entry succeeded or did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The [text](super::plugin::Failure::text) of the failure, which only the client gets.
    #[serde(skip)]
    pub error_text: Option<String>,
    /// Whether `error` can quote content that clients must not see. It is then left out of the trace for the client.
    #[serde(skip)]
    pub hides_error: bool,
    /// Why the entry's `when` could not be evaluated, so that the entry ran; `None` if it could, or if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The mode of the entry; serialized only if it is `Shadow`.
    #[serde(skip_serializing_if = "is_enforce")]
    pub mode: Mode,
    /// Whether the entry changed the content, or, in mode Shadow, would have changed it.
    pub changed: bool,
    /// Whether the entry stopped its chain (`continue: false`), or, in mode Shadow, would have stopped it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stops: bool,
    /// Milliseconds in the queue and in the worker together; 0 if the entry did not run.
    pub duration_ms: f64,
    /// The metadata that the plugin returned, at most [`MAX_TRACE_METADATA`] bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "gateway", schemars(with = "Option<serde_json::Value>"))]
    pub metadata: Option<Box<RawValue>>,
    /// Why the plugin's metadata was left out, if it was too large or nested too deep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_omitted: Option<String>,
}

impl EntryTrace {
    /// Returns the trace as a client gets it.
    pub fn for_client(&self) -> Self {
        let error = self.error_text.as_ref().or(self.error.as_ref()).filter(|_| !self.hides_error);
        Self { error: error.cloned(), ..self.clone() }
    }
}

fn is_enforce(mode: &Mode) -> bool {
    *mode == Mode::Enforce
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    /// The client got a result.
    Ok,
    /// The client got a result with `isError: true`.
    ToolError,
    /// The client got a JSON-RPC error, from the upstream or the gateway.
    RpcError,
    /// A plugin denied the call.
    Denied,
    /// The call failed because a plugin failed.
    Failed,
    /// The gateway refused the call.
    Refused,
    /// The call was dropped before it ended, usually because the client cancelled it.
    Cancelled,
    /// The upstream did not answer in time, or the call exceeded the gateway's limit on the duration of calls.
    Timeout,
}

impl CallOutcome {
    /// All outcomes.
    pub const ALL: [Self; 8] = [
        Self::Ok,
        Self::ToolError,
        Self::RpcError,
        Self::Denied,
        Self::Failed,
        Self::Refused,
        Self::Cancelled,
        Self::Timeout,
    ];

    /// Returns the outcome as a metric label.
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

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference.
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The record of one call.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CallRecord {
    /// The id of the call, a UUIDv7 made by the gateway.
    pub request_id: String,
    /// The id of the call whose plugin made this one; `None` if a client made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// When the call started, in Unix milliseconds.
    pub started_at: u64,
    /// Duration of the call in milliseconds.
    pub duration_ms: f64,
    /// Milliseconds spent waiting for the upstream; `None` if the call was not sent to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_ms: Option<f64>,
    /// How often the call was sent to the upstream again, because an attempt had failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// Milliseconds spent in plugins on the path of the call.
    pub plugin_ms: f64,
    /// Name of the upstream; empty if the call was not routed to one.
    pub upstream: String,
    /// The method of the request.
    #[cfg_attr(feature = "gateway", schemars(with = "String"))]
    pub method: Method,
    /// The server's own name for the tool or the prompt, or the URI of the resource; the requested name if there is no
    /// such item.
    pub tool: String,
    /// The MCP era of the client.
    pub era: &'static str,
    /// The principal of the caller.
    pub principal: String,
    /// What tells the caller apart from others with the same principal.
    pub user: User,
    /// The first characters of the id of the caller's session; empty without a session.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// The outcome of the call.
    pub outcome: CallOutcome,
    /// Why the call was refused, denied or failed: a reason, or the message of the plugin that denied the call. `None`
    /// if the client got the upstream's answer, or if the call was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The rule of the gateway that denied the call; `None` if none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// One trace for each entry of each chain that selected the call, then for each question of its server.
    pub entries: Vec<EntryTrace>,
    /// The arguments as they were sent, if the history keeps content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Payload>,
    /// The server's answer as the client got it, if the history keeps content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Payload>,
    /// The sources of the run that the call has ended, if the history keeps content.
    #[serde(skip)]
    pub sources: Option<RunSources>,
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
                method: Method::CallTool,
                phase: Phase::Request,
                outcome: EntryOutcome::Ran,
                error: None,
                error_text: None,
                hides_error: false,
                when: None,
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
