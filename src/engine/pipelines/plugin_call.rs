//! Calls of functions of plugins that are no middleware, on behalf of a call of a tool.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::config::compile::merge_config;
use crate::domain::method::Method;
use crate::domain::plan::PhasePluginPlan;
use crate::domain::plugin::{ContentType, Failure, Mode, Ran};
use crate::domain::ports::{Host, LinkedPlugin};
use crate::domain::reason::Reason;
use crate::engine::chains::Chains;
use crate::engine::chains::plugin_run::{Ended, Fault, PluginRun};
use crate::engine::chains::routed_call::CallFacts;

/// A plugin whose functions are called during a call of a tool.
pub(super) struct PluginCall<'a> {
    pub(super) chains: &'a Chains,
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
        let (input, started_at) = (Value::Array(arguments).to_string(), self.chains.clock.unix_millis());
        let written = self.step.config.as_ref().and_then(|text| RawValue::from_string(text.clone()).ok());
        let config = merge_config(self.plugin.plan.config.as_deref(), written.as_deref());
        let name = self.step.key.to_string();
        let run = PluginRun {
            chains: self.chains,
            facts: self.facts,
            plugin: Some(self.plugin),
            name: &name,
            chain: (self.chain, ""),
            method: Method::CallTool,
            phase: None,
            mode: Mode::Enforce,
            config: config.as_deref(),
            max_tokens: None,
            timeout: self.timeout,
            typed: Some((function, self.context)),
        };
        let Ran { output, queued, ran, worker_pid } = run.run(self.plugin, (&input, ContentType::Json), host).await;
        let output_bytes = output.as_ref().ok().map(|output| output.text.len());
        let read = output.and_then(|output| parse(&output.text).map_err(|why| why.into().0));
        let (input_bytes, changed, when) = (input.len(), false, None);
        let ended = Ended { started_at, queued, ran, worker_pid, input_bytes, output_bytes, changed, when };
        run.record(ended, read.as_ref().err().cloned().map(Fault::Failed));
        read
    }
}
