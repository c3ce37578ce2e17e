//! Wrappers of the stage types that steps run (`ctx.externalHelpers`): programs of any language as helpers (document 004).

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::context::RunContext;
use super::host::Refusal;
use super::plugin_call::PluginCall;
use super::provider::NoCaller;
use super::shape::check_result;
use crate::domain::descriptor::Descriptor;
use crate::domain::pipeline::stage_functions;
use crate::domain::plan::PhasePluginPlan;
use crate::domain::plugin::Failure;
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};

/// A request about helpers: the helper to run, or nothing, to list all.
#[derive(Deserialize)]
struct HelperRequest<'a> {
    id: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

/// The input of a helper.
#[derive(Deserialize)]
struct HelperInput {
    prompt: String,
    #[serde(default)]
    context: Vec<Value>,
}

impl RunContext<'_> {
    /// Lists the helpers, or runs one. A failure of the helper is a result, with the status `error`.
    ///
    /// # Errors
    /// If the request is not valid, or there is no such helper.
    pub(super) async fn help(&self, arguments: Option<&RawValue>) -> Result<Value, Refusal> {
        let shape = "the request is not valid: give the id of a helper and {prompt, context}";
        let invalid = |_| Refusal::from(RpcError::new(INVALID_PARAMS, shape.to_owned()));
        let request: HelperRequest<'_> =
            serde_json::from_str(arguments.map_or("{}", RawValue::get)).map_err(invalid)?;
        let Some(id) = request.id else { return Ok(json!({"helpers": self.list_helpers()})) };
        let HelperInput { prompt, context } =
            serde_json::from_str(request.input.map_or("null", RawValue::get)).map_err(invalid)?;
        let Some(helper) = self.pipeline.plan.helpers.iter().find(|helper| self.helper_id(helper) == id) else {
            let known: Vec<_> = self.pipeline.plan.helpers.iter().map(|helper| self.helper_id(helper)).collect();
            let known = if known.is_empty() { "there is none".to_owned() } else { known.join(", ") };
            let message = format!("{id:.127} is no wrapper that ToolPipeline {} can use: {known}", self.name);
            return Err(Refusal::quoting(Reason::PluginNotFound, message));
        };
        let result = self.run_helper(helper, json!({"prompt": prompt, "context": context})).await;
        Ok(result.unwrap_or_else(|failure| failed(&failure)))
    }

    /// Returns the id of a helper: its name or, in another namespace, `namespace/name`.
    fn helper_id(&self, helper: &PhasePluginPlan) -> String {
        let is_own = helper.key.namespace == self.call.plan().key.namespace;
        if is_own { helper.key.name.clone() } else { helper.key.to_string() }
    }

    fn list_helpers(&self) -> Vec<Value> {
        let snapshot = self.pipelines.in_force.snapshot();
        let described = |helper: &PhasePluginPlan| {
            let Descriptor { description, .. } = snapshot.plan().plugin(&helper.key)?.descriptor.clone();
            Some(json!({"id": self.helper_id(helper), "type": helper.kind.as_str(), "description": description}))
        };
        self.pipeline.plan.helpers.iter().filter_map(described).collect()
    }

    async fn run_helper(&self, helper: &PhasePluginPlan, input: Value) -> Result<Value, Failure> {
        let snapshot = self.pipelines.in_force.snapshot();
        // The plan of now decides: it may have been taken away since the run began.
        let upstream = snapshot.plan().upstream(&self.call.facts.upstream);
        if !upstream.is_some_and(|upstream| upstream.helpers().any(|known| known.key == helper.key)) {
            let message = format!("Plugin {} was taken away, or switched off, since the run began", helper.key);
            return Err(Failure::new(Reason::Withdrawn, message));
        }
        let plugin = snapshot.linked.plugin_of_step(helper)?;
        let Some((function, _)) = stage_functions(helper.kind).first() else { return Ok(Value::Null) };
        let written = plugin.plan.timeout_ms.map(|timeout| Duration::from_millis(timeout.into()));
        let call = PluginCall {
            chains: &self.pipelines.chains,
            facts: &self.call.facts,
            step: helper,
            plugin: &plugin,
            chain: &self.chain_id(),
            context: &to_raw(&json!({})),
            timeout: written.unwrap_or(Duration::MAX).min(self.remaining()),
        };
        let text = call.run(function, vec![input], &NoCaller, |json| Ok::<_, String>(json.to_owned())).await?;
        check_result(helper.kind, function, &text)?;
        Ok(serde_json::from_str(&text).unwrap_or_default())
    }
}

/// Returns the result that a failure means. Codes of exit are the codes of the result, other failures have their reason.
fn failed(failure: &Failure) -> Value {
    let code = failure.message.split([':', ' ']).next().filter(|code| code.starts_with("PLUGIN_EXIT_"));
    let code = code.unwrap_or(failure.reason.as_str());
    json!({"status": "error", "error": {"code": code, "message": failure.full()}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_a_result_with_its_code() {
        for (reason, message, code) in [
            (Reason::ExitCode, "PLUGIN_EXIT_3: it took too long", "PLUGIN_EXIT_3"),
            (Reason::ExitCode, "exited with code 9", "ExitCode"),
            (Reason::Timeout, "took too long", "Timeout"),
        ] {
            let result = failed(&Failure::new(reason, message));
            assert_eq!(result, json!({"status": "error", "error": {"code": code, "message": message}}));
        }
    }
}
