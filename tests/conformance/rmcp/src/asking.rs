//! Tools that speak with their client while they run.

// Sampling and logging are on their way out of the protocol; the suite asks for both.
#![allow(deprecated)]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use rmcp::model::{
    CallToolResponse, CallToolResult, InputRequests, InputRequiredResult, InputResponses, LoggingLevel, ProtocolVersion,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::catalogue::{part, result, text, typed};
use crate::rounds::lacking;

/// Long enough that what is said arrives piece by piece.
const PAUSE: Duration = Duration::from_millis(50);

/// Three messages, with pauses.
pub async fn logs(context: &RequestContext<RoleServer>) -> Result<Value, ErrorData> {
    for message in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        log(context, message).await?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(text("Three messages were logged."))
}

/// One message, if the request says that it wants any.
pub async fn logs_if_wanted(context: &RequestContext<RoleServer>) -> Result<Value, ErrorData> {
    if context.meta.log_level().is_some() {
        log(context, "This request wants messages.").await?;
    }
    Ok(text("Logged where it was wanted."))
}

async fn log(context: &RequestContext<RoleServer>, message: &str) -> Result<(), ErrorData> {
    let level = json!(LoggingLevel::Info);
    let message = typed(json!({"level": level, "logger": "conformance", "data": message}))?;
    context.peer.notify_logging_message(message).await.map_err(|e| ErrorData::internal_error(e.to_string(), None))
}

/// Progress in three steps, if the request has a token for it.
pub async fn progresses(context: &RequestContext<RoleServer>) -> Result<Value, ErrorData> {
    for progress in [0, 50, 100] {
        if let Some(token) = context.meta.get_progress_token() {
            let step = typed(json!({"progressToken": token, "progress": progress, "total": 100}))?;
            context.peer.notify_progress(step).await.map_err(|e| ErrorData::internal_error(e.to_string(), None))?;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(text("All steps are done."))
}

/// Progress once, and no answer: a call that is cancelled is written down with its arguments.
pub async fn waits(
    arguments: &Value,
    log: Option<&Path>,
    context: &RequestContext<RoleServer>,
) -> Result<Value, ErrorData> {
    if let Some(token) = context.meta.get_progress_token() {
        let step = typed(json!({"progressToken": token, "progress": 1}))?;
        context.peer.notify_progress(step).await.map_err(|e| ErrorData::internal_error(e.to_string(), None))?;
    }
    context.ct.cancelled().await;
    if let Some(log) = log {
        let file = OpenOptions::new().create(true).append(true).open(log);
        let written = file.and_then(|mut file| writeln!(file, "{}", json!({ "cancelled": arguments })));
        written.map_err(|e| ErrorData::internal_error(e.to_string(), None))?;
    }
    Ok(text("Cancelled."))
}

/// What a tool asks its client, as a request; nothing if it asks nothing.
pub fn question(name: &str, arguments: &Value) -> Option<Value> {
    if name == "test_sampling" {
        let message = json!({"role": "user", "content": {"type": "text", "text": arguments["prompt"]}});
        let params = json!({"messages": [message], "maxTokens": 100});
        return Some(json!({"method": "sampling/createMessage", "params": params}));
    }
    let schema = part("elicitations").get(name)?;
    let message = arguments["message"].as_str().unwrap_or("Please fill in the form");
    let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
    Some(json!({"method": "elicitation/create", "params": params}))
}

/// Asks as each era does: during the call, or in its result.
pub async fn asks(
    question: Value,
    responses: Option<&InputResponses>,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let capability = question["method"].as_str().and_then(|method| method.split('/').next()).unwrap_or_default();
    if json!(context.client_capabilities()).get(capability).is_none() {
        return Err(lacking(capability));
    }
    let answer = match responses.and_then(|responses| responses.get("answer")) {
        Some(answer) => answer.clone(),
        None if is_modern(context) => {
            let requests = typed(json!({ "answer": question }))?;
            return Ok(InputRequiredResult::from_input_requests(requests).into());
        }
        None => asked(question, context).await?,
    };
    Ok(result::<CallToolResult>(text(said(&answer)))?.into())
}

/// Whether this call is of the era in which a server asks in its results.
pub fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// Asks a client of the older era, during the call, what a result of the newer one asks.
pub async fn answers(asks: InputRequests, context: &RequestContext<RoleServer>) -> Result<InputResponses, ErrorData> {
    let mut answers = InputResponses::new();
    for (key, request) in asks {
        answers.insert(key, asked(json!(request), context).await?);
    }
    Ok(answers)
}

async fn asked(mut question: Value, context: &RequestContext<RoleServer>) -> Result<Value, ErrorData> {
    let params = question["params"].take();
    let answered = match question["method"].as_str() {
        Some("elicitation/create") => context.peer.create_elicitation(typed(params)?).await.map(|answer| json!(answer)),
        Some("roots/list") => context.peer.list_roots().await.map(|answer| json!(answer)),
        _ => context.peer.create_message(typed(params)?).await.map(|answer| json!(answer)),
    };
    answered.map_err(|e| ErrorData::internal_error(e.to_string(), None))
}

/// An answer in the words that the suite looks for.
fn said(answer: &Value) -> String {
    match answer["action"].as_str() {
        Some(action) => format!("Elicitation completed: action={action}, content={}", answer["content"]),
        None => {
            let content = &answer["content"];
            let said = content["text"].as_str().or(content[0]["text"].as_str()).unwrap_or_default();
            format!("LLM response: {said}")
        }
    }
}
