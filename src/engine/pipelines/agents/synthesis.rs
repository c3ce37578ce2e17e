//! The agent that writes the output, and its citations.

use serde_json::{Map, Value, json};

use super::{Agent, prompts};
use crate::domain::model::ModelFailure;
use crate::domain::pipeline::{StepResult, cite};
use crate::engine::pipelines::completion::Wanted;
use crate::engine::pipelines::output_type::filled;

/// The member of an output that the gateway fills.
const SOURCES: &str = "sources";

impl Agent<'_> {
    /// Writes the output. The gateway fills its sources, of which the model names only numbers.
    pub(super) async fn synthesize(&self) -> Result<StepResult, ModelFailure> {
        let plan = &self.run.pipeline.plan;
        let written = &plan.synthesizer;
        let addition = written.prompt_addition.as_ref().map(|addition| format!("\n\n{addition}"));
        let format = if written.is_markdown { "\n\nWrite Markdown." } else { "" };
        let schema = plan.output_schema.as_ref().and_then(|schema| serde_json::from_str(schema).ok());
        let schema = without_sources(schema.unwrap_or_else(|| json!({"type": "object"})));
        let own = written.prompt.as_ref().map(|template| filled(template, &self.placeholders(&schema)));
        let own = own.as_deref().unwrap_or(prompts::SYNTHESIZER);
        let system = format!("{own}{format}{}", addition.unwrap_or_default());
        let wanted = Wanted {
            messages: self.messages(&system, &[]),
            schema: (!written.is_markdown).then_some(schema),
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
        let known = self.run.used.lock().sources.all().len();
        let cited = cite(&mut output, known);
        Ok(StepResult { output: Some(output), cited, ..StepResult::default() })
    }

    /// Returns what a prompt of a plugin can refer to.
    fn placeholders(&self, schema: &Value) -> [(&'static str, String); 4] {
        [
            ("query", self.state["query"].as_str().unwrap_or_default().to_owned()),
            ("findings", prompts::observations(self.state)),
            ("sources", prompts::sources(self.state)),
            ("schema", schema.to_string()),
        ]
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
