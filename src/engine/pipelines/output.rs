//! The answer of a run.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::domain::pipeline::Sources;
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::schema::without_value;
use crate::engine::plan::linked_pipeline::LinkedPipeline;

/// The key of `_meta` with the facts about a run.
pub(super) const RUN: &str = "hawsepipe.dev/run";
/// The key of `_meta` with the sources of a run.
const SOURCES: &str = "hawsepipe.dev/sources";
/// The maximum number of bytes of an output.
const MAX_OUTPUT: usize = 1 << 20;

/// Why a run failed.
#[derive(Clone, Debug)]
pub(super) struct RunFailure {
    pub(super) reason: Reason,
    pub(super) message: String,
    /// The step that failed; `None` if none did.
    pub(super) step: Option<String>,
}

impl RunFailure {
    /// A failure that is of no step.
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), step: None }
    }
}

/// Completes an output with the sources of the run, which nothing that a step says can replace, and checks it.
///
/// # Errors
/// If it does not fit the schema, or is too large.
pub(super) fn completed(
    pipeline: &LinkedPipeline,
    mut output: Map<String, Value>,
    sources: &Sources,
) -> Result<Value, RunFailure> {
    if pipeline.output.is_some() || !sources.all().is_empty() {
        output.insert("sources".to_owned(), json!(sources.all()));
    }
    let output = Value::Object(output);
    let size = output.to_string().len();
    if size > MAX_OUTPUT {
        let message = format!("the output has {size} bytes, {MAX_OUTPUT} are allowed");
        return Err(RunFailure::new(Reason::TooLarge, message));
    }
    match pipeline.output.as_ref().and_then(|schema| schema.mismatches(&output).next()) {
        Some(error) => {
            let path = error.instance_path().to_string();
            let place = if path.is_empty() { "the output" } else { &path };
            Err(RunFailure::new(Reason::OutputInvalid, format!("{place}: {}", without_value(&error))))
        }
        None => Ok(output),
    }
}

/// Returns the tool result of a run that has this output. `facts` is the value of [`RUN`].
pub(super) fn answer(output: &Value, sources: &Sources, facts: Value) -> Box<RawValue> {
    to_raw(&json!({
        "content": [{"type": "text", "text": output.to_string()}],
        "structuredContent": output,
        "_meta": {RUN: facts, SOURCES: sources.all()},
    }))
}

/// Returns the tool result of a run that failed. It has no structured content, which would have to fit the output schema of
/// the tool.
pub(super) fn failure(failure: &RunFailure, mut facts: Value) -> Box<RawValue> {
    let RunFailure { reason, message, step } = failure;
    facts["error"] = json!({"code": reason, "message": message, "step": step});
    let text = match step {
        Some(step) => format!("{reason}: step {step}: {message}"),
        None => format!("{reason}: {message}"),
    };
    to_raw(&json!({"content": [{"type": "text", "text": text}], "isError": true, "_meta": {RUN: facts}}))
}
