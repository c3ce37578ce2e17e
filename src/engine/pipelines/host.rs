//! The requests that a step of a run can make: calls of the tools that the pipeline includes, and reports of sources.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::context::RunContext;
use crate::domain::budget::Account;
use crate::domain::limits::Tracker;
use crate::domain::method::Method;
use crate::domain::model::ModelFailure;
use crate::domain::pipeline::NewSource;
use crate::domain::ports::{Answering, Host, PluginProgress};
use crate::domain::question::Question;
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::domain::upstream::Answer;
use crate::engine::access::admission::Counted;
use crate::engine::calls::host::CallHost;

/// The maximum number of calls of models that one step can have in flight.
const MAX_MODEL_CALLS: u32 = 4;

/// Answers the requests of one step.
pub(super) struct StepHost<'a> {
    pub(super) run: &'a RunContext<'a>,
    pub(super) step: &'a str,
    /// The name of the plugin that the step runs.
    pub(super) plugin: &'a str,
    /// Calls tools as the caller of the pipeline.
    pub(super) calls: CallHost<'a>,
    /// The calls of models that are in flight.
    pub(super) models: Arc<Tracker>,
}

/// The arguments of the request `ask`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AskRequest {
    message: String,
    schema: Value,
    timeout_ms: Option<u64>,
}

impl RunContext<'_> {
    /// Reports progress to the client. The numbers rise over all steps.
    pub(super) fn report(&self, message: &str) {
        self.note_use();
        let progress = {
            let mut used = self.used.lock();
            used.progress += 1;
            used.progress
        };
        self.client.progress(to_raw(&json!({"progress": progress, "message": message})));
    }

    /// Counts a tool call.
    ///
    /// # Errors
    /// If steps cannot call this tool, or the run has made as many calls as it may.
    fn admit(&self, tool: &str) -> Result<(), RpcError> {
        let name = &self.name;
        if !self.pipeline.allows(tool) {
            let message = format!("{tool:.128} is not in spec.tools.include of ToolPipeline {name}");
            return Err(RpcError::refused(Reason::ToolNotAllowed, message));
        }
        let mut used = self.used.lock();
        let most = self.pipeline.plan.budgets.max_tool_calls;
        if used.tool_calls >= most {
            let message =
                format!("the run has made {most} tool calls (spec.budgets.maxToolCalls of ToolPipeline {name})");
            return Err(RpcError::refused(Reason::BudgetExhausted, message));
        }
        used.tool_calls += 1;
        self.engine.metrics.pipelines.tool_called(&self.call.facts.upstream);
        Ok(())
    }
}

impl StepHost<'_> {
    /// Calls a tool, if the step may.
    pub(super) async fn call(&self, tool: &str, arguments: Option<&RawValue>) -> Answer {
        if let Err(error) = self.run.admit(tool) {
            return Answer::Error(to_raw(&error));
        }
        self.run.report(&format!("{}: {tool}", self.step));
        let answer = self.calls.call_tool(tool, arguments).await;
        if let Answer::Result(result) = &answer {
            self.take_links(result);
        }
        answer
    }

    /// Takes the resources that a result links to as sources of the run. What cannot be one is left out.
    fn take_links(&self, result: &RawValue) {
        if memchr::memmem::find(result.get().as_bytes(), b"resource_link").is_none() {
            return;
        }
        let Ok(result) = serde_json::from_str::<Value>(result.get()) else { return };
        let blocks = result["content"].as_array().into_iter().flatten();
        let links = blocks.filter(|block| block["type"] == "resource_link");
        let text = |value: &Value| value.as_str().map(str::to_owned);
        for link in links {
            let title = text(&link["title"]).or_else(|| text(&link["name"]));
            let _ = self.run.add_source(NewSource { url: text(&link["uri"]), title, ..NewSource::default() });
        }
    }

    /// Calls a model.
    async fn complete(&self, arguments: Option<&RawValue>) -> Result<Answer, RpcError> {
        let _counted = Counted::enter(&self.models, Some(MAX_MODEL_CALLS), None).map_err(|_| {
            let message = format!("{MAX_MODEL_CALLS} calls of models are in flight, as many as a step may wait for");
            RpcError::refused(Reason::PluginCalls, message)
        })?;
        let wanted = serde_json::from_str(arguments.map_or("{}", RawValue::get)).map_err(|_| {
            let members = "messages, tools, toolChoice, schema, maxTokens, temperature, stop";
            RpcError::new(INVALID_PARAMS, format!("the request is not valid: give a role and {members}"))
        })?;
        let completed = self.run.complete(self.step, Some(self.plugin), wanted).await;
        let completed = completed.map_err(|ModelFailure { reason, message }| RpcError::refused(reason, message))?;
        let mut answer = json!(completed.answer);
        answer["json"] = completed.json.unwrap_or_default();
        answer["llmCallsUsed"] = json!(self.run.used.lock().llm_calls);
        self.calls.fitting(Answer::Result(to_raw(&answer)))
    }

    /// Asks the user of the client (MCP: elicitation), as a server can during its call.
    async fn ask(&self, arguments: Option<&RawValue>) -> Result<Answer, RpcError> {
        let request: Option<AskRequest> = serde_json::from_str(arguments.map_or("{}", RawValue::get)).ok();
        let Some(AskRequest { message, schema, timeout_ms }) = request else {
            return Err(RpcError::new(INVALID_PARAMS, "the question is not valid: give {message, schema, timeoutMs}"));
        };
        let params = to_raw(&json!({"message": message, "requestedSchema": schema}));
        let asked = self.run.client.ask(Question { method: Method::Elicit, params: Some(params) });
        let limit = timeout_ms.map_or_else(|| self.run.remaining(), Duration::from_millis);
        let Ok(answer) = tokio::time::timeout(limit, asked).await else {
            return Ok(Answer::Result(to_raw(&json!({"action": "cancel"}))));
        };
        let Answer::Error(error) = &answer else { return self.calls.fitting(answer) };
        let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
        let why = error["message"].as_str().unwrap_or("the client gave no answer");
        Err(RpcError::refused(Reason::CannotAsk, format!("the user was not asked: {why:.512}")))
    }
}

impl Host for StepHost<'_> {
    fn progress(&self, progress: PluginProgress) {
        self.run.report(progress.message.as_deref().unwrap_or(self.step));
    }

    fn call_tool<'a>(&'a self, tool: &'a str, arguments: Option<&'a RawValue>) -> Answering<'a> {
        Box::pin(self.call(tool, arguments))
    }

    fn callback<'a>(&'a self, op: &'a str, arguments: Option<&'a RawValue>) -> Answering<'a> {
        let refused = |error| Answer::Error(to_raw(&error));
        let answered = match op {
            "llm" => return Box::pin(async move { self.complete(arguments).await.unwrap_or_else(refused) }),
            "ask" => return Box::pin(async move { self.ask(arguments).await.unwrap_or_else(refused) }),
            _ => self.run.used.lock().answer(op, arguments, self.run.engine.clock.unix_millis()),
        };
        let answer = answered.map_or_else(
            |why| Answer::Error(to_raw(&RpcError::new(INVALID_PARAMS, why))),
            |value| Answer::Result(to_raw(&value)),
        );
        Box::pin(std::future::ready(answer))
    }

    fn account(&self) -> Option<Arc<Account>> {
        self.calls.account()
    }
}
