//! Reads answers of endpoints.

use serde::Deserialize;
use serde_json::Value;

use crate::domain::model::{ModelAnswer, ModelFailure, TokenUse, ToolUse};
use crate::domain::reason::Reason;

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    model: Option<String>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCall>>,
}

#[derive(Deserialize)]
struct ToolCall {
    id: String,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    #[serde(default)]
    arguments: String,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
}

/// Reads a chat completion.
///
/// # Errors
/// If it is none, or the model refused to answer.
pub(super) fn read(body: &[u8]) -> Result<ModelAnswer, ModelFailure> {
    let invalid = |why: &str| ModelFailure::new(Reason::ModelOutputInvalid, format!("the endpoint's answer {why}"));
    let Completion { choices, usage, model } =
        serde_json::from_slice(body).map_err(|_| invalid("is not a chat completion"))?;
    let Choice { message, finish_reason } = choices.into_iter().next().ok_or_else(|| invalid("has no choice"))?;
    let finish_reason = finish_reason.unwrap_or_default();
    if message.refusal.is_some() || finish_reason == "content_filter" {
        return Err(ModelFailure::new(
            Reason::ModelRefused,
            "the model, or a filter of its endpoint, refused to answer",
        ));
    }
    let tool_use = |ToolCall { id, function: Function { name, arguments } }| {
        let text = if arguments.is_empty() { "{}" } else { &arguments };
        let arguments = serde_json::from_str(text).ok().filter(Value::is_object);
        Ok(ToolUse {
            id,
            name,
            arguments: arguments.ok_or_else(|| invalid("calls a tool with what is no JSON object"))?,
        })
    };
    let usage = usage.map(|it| TokenUse { prompt_tokens: it.prompt_tokens, completion_tokens: it.completion_tokens });
    Ok(ModelAnswer {
        text: message.content.unwrap_or_default(),
        tool_calls: message.tool_calls.into_iter().flatten().map(tool_use).collect::<Result<_, _>>()?,
        finish_reason,
        usage: usage.unwrap_or_default(),
        model: model.unwrap_or_default(),
    })
}

/// Returns the code of an error, if it is one word.
pub(super) fn error_code(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let code = ["code", "type"].into_iter().find_map(|member| body["error"][member].as_str())?;
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (code.len() <= 64 && code.bytes().all(is_word)).then(|| code.to_owned())
}
