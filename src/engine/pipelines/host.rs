//! The requests that a step of a run can make: calls of the tools that the pipeline includes, and reports of sources.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::context::RunContext;
use crate::domain::budget::Account;
use crate::domain::limits::Tracker;
use crate::domain::method::Method;
use crate::domain::model::ModelFailure;
use crate::domain::pipeline::{NewSource, SOURCES};
use crate::domain::plugin::MAX_MESSAGE;
use crate::domain::ports::{Answering, Host, PluginProgress};
use crate::domain::question::Question;
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::domain::tool_name::OWN_TOOLS;
use crate::domain::upstream::Answer;
use crate::engine::access::admission::Counted;
use crate::engine::calls::host::CallHost;

/// The numbers of calls of tools and of models that one step has in flight. Further ones wait.
const MAX_TOOL_CALLS: usize = 8;
const MAX_MODEL_CALLS: usize = 4;
/// The maximum number of calls of models that one step can have in flight or wait for.
const MAX_MODEL_REQUESTS: u32 = 100;

/// Answers the requests of one step.
pub(super) struct StepHost<'a> {
    run: &'a RunContext<'a>,
    step: &'a str,
    /// The name of the plugin that the step runs.
    plugin: &'a str,
    /// Calls tools as the caller of the pipeline.
    calls: CallHost<'a>,
    tool_slots: Semaphore,
    model_slots: Semaphore,
    /// The calls of models that are in flight or wait.
    models: Arc<Tracker>,
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
        // It would call the tool that its arguments name.
        if OWN_TOOLS.contains(&tool) && self.engine.snapshot().finds_tools() {
            let message = format!("{tool} is a tool of the gateway itself: call tools by their names");
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

impl<'a> StepHost<'a> {
    /// Answers the requests of a step that takes answers of at most `max_input` bytes. `plugin` is the name of its plugin;
    /// empty if it has none.
    pub(super) fn new(run: &'a RunContext<'a>, step: &'a str, plugin: &'a str, max_input: u64) -> Self {
        let calls = CallHost::of_step(run.engine, run.call_context(), max_input);
        let (tool_slots, model_slots) = (Semaphore::new(MAX_TOOL_CALLS), Semaphore::new(MAX_MODEL_CALLS));
        Self { run, step, plugin, calls, tool_slots, model_slots, models: Arc::default() }
    }

    /// Calls a tool, if the step may. The budget of the run limits how many calls wait.
    pub(super) async fn call(&self, tool: &str, arguments: Option<&RawValue>) -> Answer {
        if let Err(error) = self.run.admit(tool) {
            return Answer::Error(to_raw(&error));
        }
        let _slot = self.tool_slots.acquire().await;
        if let Err((reason, message)) = self.run.check_in_force(Some(tool)) {
            return Answer::Error(to_raw(&RpcError::refused(reason, message)));
        }
        self.run.report(&format!("{}: {tool}", self.step));
        let answer = self.calls.call_tool(tool, arguments).await;
        if let Answer::Result(result) = &answer {
            self.take_sources(result);
        }
        answer
    }

    /// Takes what a result names as sources of the run: the sources in its `_meta`, and resources that it links to or
    /// embeds. What cannot be one is left out.
    fn take_sources(&self, result: &RawValue) {
        let has = |text: &str| memchr::memmem::find(result.get().as_bytes(), text.as_bytes()).is_some();
        if !has("\"resource") && !has(SOURCES) {
            return;
        }
        let Ok(result) = serde_json::from_str::<Value>(result.get()) else { return };
        for source in sources_of(&result) {
            let _ = self.run.add_source(source);
        }
    }

    /// Calls a model.
    async fn complete(&self, arguments: Option<&RawValue>) -> Result<Answer, RpcError> {
        let _counted = Counted::enter(&self.models, Some(MAX_MODEL_REQUESTS), None).map_err(|_| {
            let message = format!("{MAX_MODEL_REQUESTS} calls of models wait, as many as a step may wait for");
            RpcError::refused(Reason::PluginCalls, message)
        })?;
        let _slot = self.model_slots.acquire().await;
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

/// Returns the sources that the result of a tool names.
fn sources_of(result: &Value) -> Vec<NewSource> {
    let noted = result["_meta"][SOURCES].as_array().into_iter().flatten();
    let noted = noted.filter_map(|source| serde_json::from_value(source.clone()).ok());
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let linked = |block: &Value| {
        let resource = match block["type"].as_str()? {
            "resource_link" => block,
            "resource" => Some(&block["resource"]).filter(|it| it["uri"].as_str().is_some_and(is_source))?,
            _ => return None,
        };
        let title = text(&resource["title"]).or_else(|| text(&resource["name"]));
        Some(NewSource { url: text(&resource["uri"]), title, ..NewSource::default() })
    };
    let blocks = result["content"].as_array().into_iter().flatten();
    noted.chain(blocks.filter_map(linked)).collect()
}

/// Whether an embedded resource with this URI is a source: others have no meaning outside of their server.
fn is_source(uri: &str) -> bool {
    ["http://", "https://", "file://"].iter().any(|scheme| uri.starts_with(scheme))
}

impl Host for StepHost<'_> {
    fn progress(&self, progress: PluginProgress) {
        let message = progress.message.as_deref().unwrap_or(self.step);
        self.run.report(&message[..message.floor_char_boundary(MAX_MESSAGE)]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_of_a_result_are_those_noted_linked_and_embedded() {
        let result = json!({
            "_meta": {SOURCES: [{"id": "7", "title": "noted", "sourceType": "custom"}, {"title": 1}, "x"]},
            "content": [
                {"type": "text", "text": "t"},
                {"type": "resource_link", "uri": "notes://1", "name": "linked"},
                {"type": "resource", "resource": {"uri": "https://example.com/e", "text": "e"}},
                {"type": "resource", "resource": {"uri": "ui://view", "text": "e"}},
            ],
        });
        let found: Vec<_> = sources_of(&result).into_iter().map(|source| (source.title, source.url)).collect();
        let text = |text: &str| Some(text.to_owned());
        let expected =
            [(text("noted"), None), (text("linked"), text("notes://1")), (None, text("https://example.com/e"))];
        assert_eq!(found, expected);
        assert!(sources_of(&Value::Null).is_empty());
    }
}
