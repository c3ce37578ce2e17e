//! Requests to language models, and what comes back.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::budget::NoRoom;
use super::reason::Reason;
use super::secret::SecretText;

/// A request for a chat completion.
pub struct ModelRequest<'a> {
    /// Namespace and name of the pipeline.
    pub pipeline: &'a str,
    /// The base URL of the endpoint, below which `chat/completions` is.
    pub base_url: &'a str,
    /// The API key.
    pub key: Option<&'a SecretText>,
    /// The run and the step for which the model is called, for the endpoint's own records.
    pub step: [&'a str; 2],
    /// The body.
    pub body: &'a Map<String, Value>,
    /// How long the endpoint has for one answer.
    pub timeout: Duration,
    /// Reserves the memory of an answer of so many bytes. An answer to a request that is sent again takes its place.
    pub reserve: &'a (dyn Fn(u64) -> Result<(), NoRoom> + Sync),
}

/// The answer of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelAnswer {
    /// Its text; empty if it only calls tools.
    pub text: String,
    /// The tools that it calls.
    pub tool_calls: Vec<ToolUse>,
    /// Why it ended, in the endpoint's words.
    pub finish_reason: String,
    /// The tokens that it took.
    pub usage: TokenUse,
    /// The model, as the endpoint names it.
    pub model: String,
}

/// A call of a tool that a model asks for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolUse {
    /// The model's id of the call.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments, a JSON object.
    pub arguments: Value,
}

/// Numbers of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenUse {
    /// Those of the messages.
    pub prompt_tokens: u64,
    /// Those of the answer.
    pub completion_tokens: u64,
}

/// Why there is no answer of a model. The message holds no content of a message or an answer, because it is logged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelFailure {
    /// The reason.
    pub reason: Reason,
    /// What happened, and what to do.
    pub message: String,
}

impl From<NoRoom> for ModelFailure {
    fn from(no_room: NoRoom) -> Self {
        Self::new(Reason::NoRoom, no_room.to_string())
    }
}

impl ModelFailure {
    /// Creates a failure.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}
