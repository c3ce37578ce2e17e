//! Runs one step of a run: a function of a plugin of type phase.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::context::RunContext;
use super::host::StepHost;
use super::output::RunFailure;
use crate::config::compile::merge_config;
use crate::domain::pipeline::{Step, StepResult};
use crate::domain::plan::PhasePluginPlan;
use crate::domain::plugin::{ContentType, Failure, Input, Metadata, Mode, Ran, TypedCall};
use crate::domain::ports::LinkedPlugin;
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::record::{ExecutionStatus, PluginExecution};
use crate::engine::calls::host::CallHost;
use crate::engine::calls::recorder::millis;

/// The function of a plugin of type phase (document 002, `CustomPhase`).
const EXECUTE: &str = "execute";

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
        let of_step = |failure: Failure| RunFailure {
            reason: failure.reason,
            message: failure.message,
            step: Some(step.name.to_owned()),
        };
        let snapshot = self.engine.snapshot();
        let plugin = snapshot.linked.plugin_of_step(step.plugin).map_err(of_step)?;
        let input = Value::Array(arguments).to_string();
        let started_at = self.engine.clock.unix_millis();
        let ran = self.execute(step, method, &plugin, &input).await;
        let read = match &ran.output {
            Ok(output) => parse(&output.text).map_err(|why| Failure::new(Reason::InvalidOutput, why)),
            Err(failure) => Err(failure.clone()),
        };
        self.write_down(step.plugin, &plugin, &ran, read.as_ref().err(), (started_at, input.len()));
        read.map_err(of_step)
    }

    async fn execute(&self, step: Step<'_>, function: &'static str, plugin: &Arc<LinkedPlugin>, input: &str) -> Ran {
        let facts = &self.call.facts;
        let written = step.plugin.config.as_ref().and_then(|text| RawValue::from_string(text.clone()).ok());
        let config = merge_config(plugin.plan.config.as_deref(), written.as_deref());
        let chain = self.chain_id();
        let context = self.plugin_context(step);
        let input = Input {
            tool_name: &facts.tool_name,
            raw_content: Some(input),
            max_tokens: facts.max_tokens,
            metadata: Metadata {
                request_id: &facts.request_id,
                timestamp: &facts.timestamp,
                server_name: &facts.upstream,
                phase: function,
                method: self.method().as_str(),
                user_query: facts.user_query.as_deref(),
                content_type: ContentType::Json,
                config: config.as_deref(),
                chain: &chain,
                attempt: 1,
            },
            typed: Some(TypedCall { method: function, context: &context }),
        };
        let calls = CallHost::of_step(self.engine, self.call_context(), plugin.plan.limits.max_input);
        let host =
            StepHost { run: self, step: step.name, plugin: &step.plugin.key.name, calls, models: Arc::default() };
        // A step waits for the tools that it calls, so its default is the time of the run.
        let written = plugin.plan.timeout_ms.map(|timeout| Duration::from_millis(timeout.into()));
        let timeout = written.unwrap_or(Duration::MAX).min(self.remaining());
        self.engine.plugins.run(plugin, &input, timeout, &host).await
    }

    /// Returns the members of the plugin's `ctx` that are of this step (document 002, `ResearchContext`).
    fn plugin_context(&self, step: Step<'_>) -> Box<RawValue> {
        let facts = &self.call.facts;
        to_raw(&json!({
            "requestId": facts.request_id,
            "run": {"id": facts.request_id, "pipeline": self.name, "step": step.name},
            "context": {
                "userId": facts.caller.identity.subject,
                "chatId": facts.caller.session_name(),
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

    /// Records an execution.
    fn write_down(
        &self,
        step: &PhasePluginPlan,
        plugin: &LinkedPlugin,
        ran: &Ran,
        failure: Option<&Failure>,
        (started_at, input): (u64, usize),
    ) {
        let facts = &self.call.facts;
        if let Some(failure) = failure {
            let (request_id, plugin) = (&facts.request_id, step.key.to_string());
            tracing::warn!(request_id, plugin, reason = failure.reason.as_str(), "Plugin '{plugin}' {failure}");
        }
        let row = PluginExecution {
            id: uuid::Uuid::now_v7().to_string(),
            request_id: facts.request_id.clone(),
            plugin_id: plugin.plan.id.clone(),
            plugin: step.key.to_string(),
            chain_id: self.chain_id(),
            started_at,
            duration_ms: millis(ran.queued + ran.ran),
            queue_ms: millis(ran.queued),
            run_ms: millis(ran.ran),
            status: failure.map_or(ExecutionStatus::Success, |failure| status(failure.reason)),
            reason: failure.map(|failure| failure.reason),
            input_size_bytes: input as u64,
            output_size_bytes: ran.output.as_ref().ok().map(|output| output.text.len() as u64),
            error_message: failure.map(|failure| failure.message.clone()),
            when: None,
            changed: false,
            method: self.method(),
            phase: None,
            mode: Mode::Enforce,
            plugin_revision: plugin.plan.digest.clone(),
            chain_revision: String::new(),
            upstream: facts.upstream.clone(),
            tool: facts.shown.clone(),
            principal: facts.caller.identity.subject.clone(),
            session: facts.caller.session_name(),
            worker_pid: ran.worker_pid,
        };
        self.engine.metrics.execution(&row);
        self.engine.records.execution(row);
    }
}

/// Returns the status of an execution that failed for this reason.
fn status(reason: Reason) -> ExecutionStatus {
    match reason {
        Reason::Timeout => ExecutionStatus::Timeout,
        Reason::PoolExhausted => ExecutionStatus::PoolExhausted,
        _ => ExecutionStatus::Failed,
    }
}
