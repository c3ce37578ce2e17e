//! Changes of the prompts of agents, by plugins of type prompt-provider (document 002, `PromptProvider`).

use serde_json::{Map, Value};

use super::context::RunContext;
use crate::domain::pipeline::{Step, StepRole};

/// The function of such a plugin.
pub(super) const GET_PROMPT_OVERRIDES: &str = "getPromptOverrides";

impl RunContext<'_> {
    /// Calls the prompt providers. Later ones take precedence. One that fails changes nothing.
    pub(super) async fn read_prompts(&self) {
        for provider in &self.plan.prompt_providers {
            let step = Step { name: &provider.key.name, plugin: provider, role: StepRole::Phase };
            // A failure is in the log and in the records of executions.
            if let Ok(prompts) = self.call_plugin(step, GET_PROMPT_OVERRIDES, Vec::new(), parse).await {
                self.used.lock().prompts.extend(prompts);
            }
        }
    }

    /// Returns the system prompt of an agent of this type: a text of a provider is appended, `{replace}` takes its place.
    pub(super) fn prompt(&self, agent: &str, own: &str) -> String {
        match self.used.lock().prompts.get(agent) {
            Some(Value::String(addition)) => format!("{own}\n\n{addition}"),
            Some(Value::Object(members)) => members.get("replace").and_then(Value::as_str).unwrap_or(own).to_owned(),
            _ => own.to_owned(),
        }
    }
}

pub(super) fn parse(json: &str) -> Result<Map<String, Value>, String> {
    let prompts: Option<Map<String, Value>> =
        serde_json::from_str(json).map_err(|_| "its result is not an object of prompts by agent".to_owned())?;
    Ok(prompts.unwrap_or_default())
}
