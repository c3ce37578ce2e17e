//! The answer of a run.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::domain::pipeline::{RUN, RunOutput, SOURCES, Sources};
use crate::domain::plan::PipelinePlan;
use crate::domain::plugin::Failure;
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::schema::without_value;
use crate::engine::in_flight::run::Fault;
use crate::engine::in_flight::run_view::RunStatus;
use crate::engine::plan::linked_pipeline::LinkedPipeline;

/// The member of a report that is `{}` if nothing gives it (document 002, `SynthesisReport`).
const METADATA: &str = "metadata";
/// The maximum number of bytes of an output.
const MAX_OUTPUT: usize = 1 << 20;

/// Why a run failed.
#[derive(Clone, Debug)]
pub(super) struct RunFailure {
    pub(super) reason: Reason,
    pub(super) message: String,
    /// Whether the message can have words of plugins, tools, models or users.
    pub(super) quotes: bool,
    /// The step that failed; `None` if none did.
    pub(super) step: Option<String>,
}

impl RunFailure {
    /// A failure that is of no step.
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), quotes: false, step: None }
    }

    /// The failure of a step.
    pub(super) fn of_step(step: &str, Failure { reason, message, text, quotes }: Failure) -> Self {
        Self { reason, message: text.unwrap_or(message), quotes, step: Some(step.to_owned()) }
    }

    /// A failure before the first step.
    pub(super) fn of_no_step(failure: Failure) -> Self {
        Self { step: None, ..Self::of_step("", failure) }
    }

    /// Returns what the admin API shows of the failure.
    pub(super) fn fault(&self) -> Fault {
        Fault { reason: self.reason, message: (!self.quotes).then(|| self.message.clone()) }
    }
}

/// Completes an output with the sources of the run, which nothing that a step says can replace, and checks it.
///
/// # Errors
/// If it does not fit the schema, or is too large.
pub(super) fn completed(
    pipeline: &LinkedPipeline,
    RunOutput { members: mut output, cited }: RunOutput,
    sources: &Sources,
    facts: &mut Value,
) -> Result<Value, RunFailure> {
    let sources = sources.all().iter().enumerate();
    let sources = sources.filter(|(index, _)| cited.is_empty() || cited.contains(&(index + 1)));
    let sources: Vec<_> = sources.map(|(_, source)| source).collect();
    if pipeline.output.is_some() || !sources.is_empty() || output.contains_key("sources") {
        output.insert("sources".to_owned(), json!(sources));
    }
    if pipeline.plan.is_report {
        output.entry(METADATA).or_insert_with(|| json!({}));
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
            let fault = format!("{place}: {}", without_value(&error));
            if pipeline.plan.synthesizer.is_strict {
                return Err(RunFailure { quotes: true, ..RunFailure::new(Reason::OutputInvalid, fault) });
            }
            facts["validation"] = json!({"valid": false, "errors": [fault]});
            Ok(output)
        }
        None => Ok(output),
    }
}

/// Returns the tool result of a run that has this output. `facts` is the value of [`RUN`].
pub(super) fn answer(plan: &PipelinePlan, output: &Value, sources: &Sources, facts: Value) -> Box<RawValue> {
    to_raw(&json!({
        "content": [{"type": "text", "text": text(plan, output)}],
        "structuredContent": output,
        "_meta": {RUN: facts, SOURCES: sources.all()},
    }))
}

/// Returns the output as text: a report as Markdown, anything else as JSON.
fn text(plan: &PipelinePlan, output: &Value) -> String {
    if let Some(text) = output["content"].as_str().filter(|_| plan.synthesizer.is_markdown) {
        return text.to_owned();
    }
    if !plan.is_report {
        return output.to_string();
    }
    let word = |value: &Value, names: &[&str]| {
        let found = names.iter().find_map(|name| value[name].as_str());
        found.unwrap_or_default().to_owned()
    };
    let list = |name: &str| output[name].as_array().cloned().unwrap_or_default();
    let mut parts = vec![format!("# {}", word(output, &["title"])), word(output, &["executive_summary"])];
    for section in list("sections") {
        parts.push(format!("## {}", word(&section, &["title", "heading"])));
        parts.push(word(&section, &["content", "text"]));
    }
    let findings = list("key_findings");
    let findings = findings.iter().filter_map(Value::as_str).map(|finding| format!("- {finding}"));
    parts.push(findings.collect::<Vec<_>>().join("\n"));
    let source = |it: &Value| format!("[{}] {} {}", word(it, &["id"]), word(it, &["title"]), word(it, &["url"]));
    parts.push(list("sources").iter().map(source).collect::<Vec<_>>().join("\n"));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

/// Returns the tool result of a run that failed. Its structured content has the error, unless the tool has an output schema: clients
/// check the structured content of errors against it too.
pub(super) fn failure(failure: &RunFailure, has_schema: bool, mut facts: Value) -> Box<RawValue> {
    let RunFailure { reason, message, step, .. } = failure;
    facts["status"] = json!(RunStatus::Failed.as_str());
    let error = json!({"code": reason, "message": message, "step": step});
    facts["error"] = error.clone();
    let text = match step {
        Some(step) => format!("{reason}: step {step}: {message}"),
        None => format!("{reason}: {message}"),
    };
    let mut result = json!({"content": [{"type": "text", "text": text}], "isError": true, "_meta": {RUN: facts}});
    if !has_schema {
        result["structuredContent"] = json!({"error": error});
    }
    to_raw(&result)
}
