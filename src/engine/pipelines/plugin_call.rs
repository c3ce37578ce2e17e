//! Calls of functions of plugins that are no middleware, on behalf of a call of a tool.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::config::compile::merge_config;
use crate::domain::method::Method;
use crate::domain::plan::PhasePluginPlan;
use crate::domain::plugin::{ContentType, Failure, Input, Metadata, Mode, Ran, TypedCall};
use crate::domain::ports::{Host, LinkedPlugin};
use crate::domain::reason::Reason;
use crate::domain::record::millis;
use crate::domain::record::{ExecutionStatus, PluginExecution};
use crate::engine::Engine;
use crate::engine::chains::routed_call::CallFacts;

/// A plugin whose functions are called during a call of a tool.
pub(super) struct PluginCall<'a> {
    pub(super) engine: &'a Engine,
    pub(super) facts: &'a CallFacts,
    /// The use of the plugin, with its configuration.
    pub(super) step: &'a PhasePluginPlan,
    pub(super) plugin: &'a Arc<LinkedPlugin>,
    /// The name that records of executions have in the place of a chain's.
    pub(super) chain: &'a str,
    /// Further members of the plugin's `ctx`.
    pub(super) context: &'a RawValue,
    /// The maximum duration of one execution.
    pub(super) timeout: Duration,
}

/// Why the result of a function is not taken.
pub(super) struct Unfit(pub(super) Failure);

impl From<String> for Unfit {
    /// The result has another shape.
    fn from(why: String) -> Self {
        Self(Failure::new(Reason::InvalidOutput, why))
    }
}

impl PluginCall<'_> {
    /// Calls a function, reads its result and records the execution.
    ///
    /// # Errors
    /// If the plugin throws, takes too long or returns a value of another shape.
    pub(super) async fn run<T, E: Into<Unfit>>(
        &self,
        function: &'static str,
        arguments: Vec<Value>,
        host: &dyn Host,
        parse: fn(&str) -> Result<T, E>,
    ) -> Result<T, Failure> {
        let input = Value::Array(arguments).to_string();
        let started_at = self.engine.clock.unix_millis();
        let ran = self.execute(function, &input, host).await;
        let read = match &ran.output {
            Ok(output) => parse(&output.text).map_err(|why| why.into().0),
            Err(failure) => Err(failure.clone()),
        };
        self.write_down(&ran, read.as_ref().err(), (started_at, input.len()));
        read
    }

    async fn execute(&self, function: &'static str, input: &str, host: &dyn Host) -> Ran {
        let Self { facts, plugin, .. } = self;
        let written = self.step.config.as_ref().and_then(|text| RawValue::from_string(text.clone()).ok());
        let config = merge_config(plugin.plan.config.as_deref(), written.as_deref());
        let input = Input {
            tool_name: &facts.tool_name,
            raw_content: Some(input),
            max_tokens: facts.max_tokens,
            metadata: Metadata {
                request_id: &facts.request_id,
                timestamp: &facts.timestamp,
                server_name: &facts.upstream,
                phase: function,
                method: Method::CallTool.as_str(),
                user_query: facts.user_query.as_deref(),
                content_type: ContentType::Json,
                config: config.as_deref(),
                chain: self.chain,
                attempt: 1,
            },
            typed: Some(TypedCall { method: function, context: self.context }),
        };
        self.engine.plugins.run(plugin, &input, self.timeout, host).await
    }

    /// Records an execution.
    fn write_down(&self, ran: &Ran, failure: Option<&Failure>, (started_at, input): (u64, usize)) {
        let Self { facts, step, plugin, .. } = self;
        if let Some(failure) = failure {
            let (request_id, plugin) = (&facts.request_id, step.key.to_string());
            tracing::warn!(request_id, plugin, reason = failure.reason.as_str(), "Plugin '{plugin}' {failure}");
        }
        let row = PluginExecution {
            id: uuid::Uuid::now_v7().to_string(),
            request_id: facts.request_id.clone(),
            plugin_id: plugin.plan.id.clone(),
            plugin: step.key.to_string(),
            chain_id: self.chain.to_owned(),
            started_at,
            duration_ms: millis(ran.queued + ran.ran),
            queue_ms: millis(ran.queued),
            run_ms: millis(ran.ran),
            status: failure.map_or(ExecutionStatus::Success, |failure| status(failure.reason)),
            reason: failure.map(|failure| failure.reason),
            input_size_bytes: input as u64,
            output_size_bytes: ran.output.as_ref().ok().map(|output| output.text.len() as u64),
            error_message: failure.map(|failure| failure.message.clone()),
            error_text: failure.and_then(|failure| failure.text.clone()),
            when: None,
            changed: false,
            method: Method::CallTool,
            phase: None,
            mode: Mode::Enforce,
            plugin_revision: plugin.plan.digest.clone(),
            chain_revision: String::new(),
            upstream: facts.upstream.clone(),
            tool: facts.shown.clone(),
            principal: facts.caller.identity.subject.clone(),
            user: facts.caller.identity.user(),
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
