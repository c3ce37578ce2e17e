//! The agent that writes the output, and its citations.

use serde_json::{Map, Value, json};

use super::{Agent, prompts};
use crate::domain::model::ModelFailure;
use crate::domain::pipeline::{StepResult, cite};
use crate::engine::pipelines::completion::Wanted;

/// The member of an output that the gateway fills.
const SOURCES: &str = "sources";

impl Agent<'_> {
    /// Writes the output. The gateway fills its sources, of which the model names only numbers.
    pub(super) async fn synthesize(&self) -> Result<StepResult, ModelFailure> {
        let plan = &self.run.pipeline.plan;
        let written = &plan.synthesizer;
        let addition = written.prompt_addition.as_ref().map(|addition| format!("\n\n{addition}"));
        let format = if written.is_markdown { "\n\nWrite Markdown." } else { "" };
        let system = format!("{}{format}{}", prompts::SYNTHESIZER, addition.unwrap_or_default());
        let schema = plan.output_schema.as_ref().and_then(|schema| serde_json::from_str(schema).ok());
        let schema = schema.unwrap_or_else(|| json!({"type": "object"}));
        let wanted = Wanted {
            messages: self.messages(&system, &[]),
            schema: (!written.is_markdown).then(|| without_sources(schema)),
            is_lenient: !written.is_strict,
            max_tokens: Some(written.max_tokens),
            temperature: Some(written.temperature.clone()),
            ..self.wanted()
        };
        let completed = self.run.complete(&self.plan.name, None, wanted).await?;
        let mut output = match completed.json {
            Some(Value::Object(output)) => output,
            _ => Map::from_iter([("content".to_owned(), json!(completed.answer.text))]),
        };
        output.remove(SOURCES);
        let mut used = self.run.used.lock();
        let known = used.sources.all().len();
        used.cited = cite(&mut output, known);
        drop(used);
        Ok(StepResult { output: Some(output), ..StepResult::default() })
    }
}

/// Returns the schema that the model sees: without the sources.
fn without_sources(mut schema: Value) -> Value {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.remove(SOURCES);
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name != SOURCES);
    }
    schema
}
