//! A run of a pipeline, as the admin API shows it.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::domain::identity::User;
use crate::domain::reason::Reason;

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// A step runs.
    Working,
    /// A step waits for the answer of a user.
    InputRequired,
    /// The run has ended with an output.
    Completed,
    /// The run has ended without an output.
    Failed,
    /// The call was cancelled.
    Cancelled,
}

impl RunStatus {
    /// Returns the name of the state, as the admin API has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A run of a pipeline. Times are Unix milliseconds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The id of the run, which is that of its call.
    pub id: String,
    /// The pipeline, as `namespace/name`.
    pub pipeline: String,
    /// The state of the run.
    pub status: RunStatus,
    /// The subject of the client that called the pipeline.
    pub principal: String,
    /// What tells the client apart from others with the same subject.
    pub user: User,
    /// The session of the client; empty if it has none.
    pub session: String,
    /// When the run began.
    pub started_at: u64,
    /// When it ended; absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// The steps that have begun, in their order. Of a longer run, the last 256.
    pub steps: Vec<RunStep>,
    /// How many tools the steps have called.
    pub tool_calls: u32,
    /// How many requests of models the steps have made.
    pub llm_calls: u32,
    /// The tokens of the requests.
    pub tokens_in: u64,
    /// The tokens of the answers.
    pub tokens_out: u64,
    /// How many sources the run has found.
    pub sources: usize,
    /// Whether the run ended because it reached `maxIterations`.
    pub limited: bool,
    /// Why the run has failed; absent if it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The same in words of the gateway; absent if the words are of a plugin, or can quote content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The parameters of the question that waits for an answer, as the client gets them; absent if there is none, and in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub question: Option<Box<RawValue>>,
}

/// A step of a run: an agent, or a phase.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunStep {
    /// The name of the agent or of the phase.
    pub name: String,
    /// When the step began.
    pub started_at: u64,
    /// When it ended; absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// Why it has failed; absent if it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// The same in words of the gateway; absent if the words are of a plugin, or can quote content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
