//! Runs one step of a run: a function of a plugin of type phase.

use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::context::RunContext;
use super::host::StepHost;
use super::output::RunFailure;
use super::overrides::{self, GET_PROMPT_OVERRIDES};
use super::plugin_call::PluginCall;
use crate::domain::pipeline::{Step, StepResult, StepRole};
use crate::domain::plugin::Failure;
use crate::domain::raw::to_raw;
use crate::domain::values::StoringPlugin;

/// The function of a plugin of type phase (document 002, `CustomPhase`).
pub(super) const EXECUTE: &str = "execute";

impl RunContext<'_> {
    /// Runs a step with this state, and returns its result.
    ///
    /// # Errors
    /// If the plugin cannot run, throws, takes too long or returns a value of another shape.
    pub(super) async fn run_step(&self, step: Step<'_>, state: &Value) -> Result<StepResult, RunFailure> {
        self.call_plugin(step, EXECUTE, vec![state.clone()], StepResult::parse).await
    }

    /// Calls a function of the plugin of a step, and reads its result.
    ///
    /// # Errors
    /// As [`Self::run_step`].
    pub(super) async fn call_plugin<T>(
        &self,
        step: Step<'_>,
        method: &'static str,
        arguments: Vec<Value>,
        parse: fn(&str) -> Result<T, String>,
    ) -> Result<T, RunFailure> {
        let of_step = |failure: Failure| RunFailure::of_step(step.name, failure);
        let snapshot = self.pipelines.in_force.snapshot();
        let plugin = snapshot.linked.plugin_of_step(step.plugin).map_err(of_step)?;
        let storing = StoringPlugin { plugin: step.plugin.key.to_string(), quota: plugin.plan.limits.store };
        let host = StepHost::new(self, step.name, &step.plugin.key.name, plugin.plan.limits.max_input).storing(storing);
        // A step waits for the tools that it calls, so its default is the time of the run.
        let written = plugin.plan.timeout_ms.map(|timeout| Duration::from_millis(timeout.into()));
        let call = PluginCall {
            chains: &self.pipelines.chains,
            facts: &self.call.facts,
            step: step.plugin,
            plugin: &plugin,
            chain: &self.chain_id(),
            context: &self.plugin_context(step),
            timeout: written.unwrap_or(Duration::MAX).min(self.remaining()),
        };
        call.run(method, arguments, &host, parse).await.map_err(of_step)
    }

    /// Returns the members of the plugin's `ctx` that are of this step (document 002, `ResearchContext`).
    fn plugin_context(&self, step: Step<'_>) -> Box<RawValue> {
        let facts = &self.call.facts;
        to_raw(&json!({
            "requestId": facts.request_id,
            "run": {"id": facts.request_id, "pipeline": self.name, "step": step.name},
            "conversation": {"id": self.conversation},
            "store": {"durable": self.pipelines.values.is_durable()},
            "context": {
                "userId": facts.caller.identity.subject,
                "chatId": self.conversation,
                "researchSessionId": facts.request_id,
                "researchType": self.research_type(),
            },
            "budgets": {
                "toolCallsUsed": self.used.lock().tool_calls,
                "maxToolCalls": self.pipeline.plan.budgets.max_tool_calls,
                "llmCallsUsed": self.used.lock().llm_calls,
                "maxLLMCalls": self.pipeline.plan.budgets.max_llm_calls,
                "remainingTimeMs": u64::try_from(self.remaining().as_millis()).unwrap_or(u64::MAX),
            },
        }))
    }

    /// Calls the prompt providers. Later ones take precedence. One that fails changes nothing.
    pub(super) async fn read_prompts(&self) {
        for provider in &self.plan.prompt_providers {
            let step = Step { name: &provider.key.name, plugin: provider, role: StepRole::Phase };
            // A failure is in the log and in the records of executions.
            if let Ok(prompts) = self.call_plugin(step, GET_PROMPT_OVERRIDES, Vec::new(), overrides::parse).await {
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
