//! Tools for models: which ones there are, and the calls that a model asks for.

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Agent;
use crate::domain::item::ItemKind;
use crate::domain::model::{ModelAnswer, ModelFailure, ToolUse};
use crate::domain::raw::to_raw;
use crate::domain::upstream::Answer;
use crate::engine::pipelines::completion::{Wanted, WantedTool};
use crate::engine::pipelines::host::StepHost;

/// The maximum number of tools that a model is given.
const MAX_TOOLS: usize = 64;
/// The default of `maxResultChars`.
const MAX_RESULT: u64 = 20_000;
/// The maximum size of a tool's result that is read, in bytes.
const MAX_READ: u64 = 16 << 20;

/// The definition of a tool.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Definition {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    input_schema: Value,
}

impl Agent<'_> {
    /// Asks the model for JSON of a schema, and calls the tools that it asks for, in at most so many rounds and calls.
    pub(super) async fn ask_with_tools(
        &self,
        system: &str,
        schema: Value,
        sections: &[(&str, String)],
        (rounds, calls): (u64, u64),
    ) -> Result<Value, ModelFailure> {
        let mut messages = self.messages(system, sections);
        let words = messages[1].to_string().to_lowercase();
        let step = self.plan.name.as_str();
        let host = StepHost::new(self.run, step, "", MAX_READ);
        let (mut rounds, mut left) = (rounds, calls);
        loop {
            let tools = if rounds > 0 && left > 0 { self.tools(&words) } else { Vec::new() };
            let wanted = Wanted { messages: messages.clone(), tools, schema: Some(schema.clone()), ..self.wanted() };
            let completed = self.run.complete(step, None, wanted).await?;
            let asked = &completed.answer.tool_calls;
            if asked.is_empty() {
                return Ok(completed.json.unwrap_or_default());
            }
            messages.push(assistant(&completed.answer));
            let of_round = asked.iter().enumerate().map(|(index, call)| {
                let may = u64::try_from(index).is_ok_and(|index| index < left);
                self.call_for_model(&host, call, may)
            });
            messages.extend(join_all(of_round).await);
            left = left.saturating_sub(u64::try_from(asked.len()).unwrap_or(u64::MAX));
            rounds = rounds.saturating_sub(1);
        }
    }

    /// Calls a tool, and returns the message with what it answered. A failure or a refusal is its text.
    async fn call_for_model(&self, host: &StepHost<'_>, call: &ToolUse, may: bool) -> Value {
        let text = if may {
            let answer = host.call(&call.name, Some(&*to_raw(&call.arguments))).await;
            let (Answer::Result(text) | Answer::Error(text)) = &answer;
            text_of(text)
        } else {
            "not called: as many tools were called as this step may call".to_owned()
        };
        let most = usize::try_from(self.number("maxResultChars", MAX_RESULT)).unwrap_or(usize::MAX);
        let end = text.floor_char_boundary(most);
        let cut = if end < text.len() { "\n(The rest is left out.)" } else { "" };
        json!({"role": "tool", "tool_call_id": call.id, "content": format!("{}{cut}", &text[..end])})
    }

    /// Returns the tools that the step and its caller can call, first those with most words of the messages.
    fn tools(&self, words: &str) -> Vec<WantedTool> {
        let snapshot = self.run.pipelines.in_force.snapshot();
        let permitted = snapshot.permitted(&self.run.call.facts.caller, ItemKind::Tool);
        let routes = snapshot.routes.all().iter().filter(|route| route.item.kind == ItemKind::Tool);
        let routes = routes.filter(|route| permitted.as_ref().is_none_or(|permitted| permitted.has(route)));
        let definitions = routes.filter_map(|route| route.public_definition.as_deref());
        let definitions = definitions.filter_map(|text| serde_json::from_str::<Definition>(text.get()).ok());
        let mut tools: Vec<_> = definitions.filter(|tool| self.run.pipeline.allows(&tool.name)).collect();
        if tools.len() > MAX_TOOLS {
            let is_said = |word: &&str| word.len() > 3 && words.contains(&word.to_lowercase());
            let count = |tool: &Definition| {
                let text = format!("{} {}", tool.name, tool.description);
                text.split(|letter: char| !letter.is_alphanumeric()).filter(is_said).count()
            };
            tools.sort_by_cached_key(|tool| std::cmp::Reverse(count(tool)));
            tools.truncate(MAX_TOOLS);
        }
        let wanted =
            |it: Definition| WantedTool { name: it.name, description: it.description, parameters: it.input_schema };
        tools.into_iter().map(wanted).collect()
    }
}

/// Returns the message of a model that asks for tools.
fn assistant(answer: &ModelAnswer) -> Value {
    let call = |call: &ToolUse| {
        let function = json!({"name": call.name, "arguments": call.arguments.to_string()});
        json!({"id": call.id, "type": "function", "function": function})
    };
    let calls: Vec<_> = answer.tool_calls.iter().map(call).collect();
    json!({"role": "assistant", "content": answer.text, "tool_calls": calls})
}

/// Returns the text of a tool's result; the JSON, if it has none.
fn text_of(result: &RawValue) -> String {
    let value: Value = serde_json::from_str(result.get()).unwrap_or_default();
    let blocks = value["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<_> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    if texts.is_empty() { result.get().to_owned() } else { texts.join("\n") }
}
