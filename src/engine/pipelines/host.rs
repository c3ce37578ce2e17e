//! The requests that a step of a run can make: calls of the tools that the pipeline includes, and reports of sources.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::context::RunContext;
use crate::domain::budget::Account;
use crate::domain::item::ItemKind;
use crate::domain::limits::Tracker;
use crate::domain::model::ModelFailure;
use crate::domain::pipeline::{NewSource, SOURCES};
use crate::domain::plugin::{Failure, MAX_MESSAGE};
use crate::domain::ports::{Answering, Host, PluginProgress};
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::domain::tool_name::OWN_TOOLS;
use crate::domain::upstream::Answer;
use crate::domain::values::StoringPlugin;
use crate::engine::access::admission::Counted;
use crate::engine::chains::host::CallHost;

/// The numbers of calls of tools and of models that one step has in flight. Further ones wait.
const MAX_TOOL_CALLS: usize = 8;
const MAX_MODEL_CALLS: usize = 4;
/// The number of helpers that one step runs at a time.
const MAX_HELPERS: usize = 4;
/// The number of requests of the store that one step has in flight.
const MAX_STORE_REQUESTS: usize = 4;
/// The maximum number of requests of one sort that one step can have in flight or wait for.
const MAX_WAITING: u32 = 100;

/// The number of refusals of a step that are remembered.
const MAX_REFUSED: usize = 32;

/// Answers the requests of one step.
pub(super) struct StepHost<'a> {
    pub(super) run: &'a RunContext<'a>,
    step: &'a str,
    /// The name of the plugin that the step runs.
    plugin: &'a str,
    /// The plugin, if it can store values.
    storing: Option<StoringPlugin>,
    /// Calls tools as the caller of the pipeline.
    pub(super) calls: CallHost<'a>,
    tool_slots: Semaphore,
    models: Slots,
    stores: Slots,
    helpers: Slots,
    /// The refusals that the step got last.
    refused: Mutex<VecDeque<Failure>>,
}

/// Bounds the requests of one sort.
struct Slots {
    /// The name of the requests, for messages.
    what: &'static str,
    slots: Semaphore,
    /// Those that are in flight or wait.
    requests: Arc<Tracker>,
}

impl Slots {
    fn new(what: &'static str, slots: usize) -> Self {
        Self { what, slots: Semaphore::new(slots), requests: Arc::default() }
    }

    /// Waits for a slot.
    ///
    /// # Errors
    /// If as many requests wait as may.
    async fn enter(&self) -> Result<(Counted, Option<SemaphorePermit<'_>>), Refusal> {
        let counted = Counted::enter(&self.requests, Some(MAX_WAITING), None).map_err(|_| {
            let message = format!("{MAX_WAITING} {} wait, as many as a step may wait for", self.what);
            Refusal::new(Reason::PluginCalls, message)
        })?;
        Ok((counted, self.slots.acquire().await.ok()))
    }
}

/// A request that is not carried out: the error for the step.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) error: RpcError,
    /// Whether its message can have words of plugins, tools, models or users.
    pub(super) quotes: bool,
}

impl Refusal {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        RpcError::refused(reason, message).into()
    }

    pub(super) fn quoting(reason: Reason, message: impl Into<String>) -> Self {
        Self { quotes: true, ..Self::new(reason, message) }
    }
}

impl From<RpcError> for Refusal {
    fn from(error: RpcError) -> Self {
        Self { error, quotes: false }
    }
}

/// Returns the reason of an error of the gateway.
fn reason_of(error: &RpcError) -> Option<Reason> {
    Reason::named(error.data.as_ref()?["reason"].as_str()?)
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
        if OWN_TOOLS.contains(&tool) && self.pipelines.in_force.snapshot().finds_tools() {
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
        self.pipelines.metrics.pipelines.tool_called(&self.call.facts.upstream);
        Ok(())
    }
}

impl<'a> StepHost<'a> {
    /// Answers the requests of a step that takes answers of at most `max_input` bytes. `plugin` is the name of its plugin;
    /// empty if it has none.
    pub(super) fn new(run: &'a RunContext<'a>, step: &'a str, plugin: &'a str, max_input: u64) -> Self {
        let calls = CallHost::of_step(&run.pipelines.chains, run.call_context(), max_input, &run.conversation);
        Self {
            run,
            step,
            plugin,
            storing: None,
            calls,
            tool_slots: Semaphore::new(MAX_TOOL_CALLS),
            models: Slots::new("calls of models", MAX_MODEL_CALLS),
            stores: Slots::new("requests of the store", MAX_STORE_REQUESTS),
            helpers: Slots::new("helpers", MAX_HELPERS),
            refused: Mutex::default(),
        }
    }

    /// The same for a step whose plugin can store values.
    pub(super) fn storing(self, storing: StoringPlugin) -> Self {
        Self { storing: Some(storing), ..self }
    }

    /// Returns the answer to a request, and remembers a refusal.
    fn answered(&self, answered: Result<Answer, Refusal>) -> Answer {
        answered.unwrap_or_else(|Refusal { error, quotes }| {
            if let Some(reason) = reason_of(&error) {
                let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
                refused.truncate(MAX_REFUSED - 1);
                refused.push_front(Failure { quotes, ..Failure::new(reason, error.message.clone()) });
            }
            Answer::Error(to_raw(&error))
        })
    }

    /// Calls a tool, if the step may. The budget of the run limits how many calls wait.
    pub(super) async fn call(&self, tool: &str, arguments: Option<&RawValue>) -> Answer {
        self.answered(self.try_call(tool, arguments).await.map_err(|mut refusal| {
            // A name that is none of a tool can be content.
            refusal.quotes |= self.run.pipelines.in_force.snapshot().routes.public(ItemKind::Tool, tool).is_none();
            refusal
        }))
    }

    async fn try_call(&self, tool: &str, arguments: Option<&RawValue>) -> Result<Answer, Refusal> {
        self.run.admit(tool)?;
        let _slot = self.tool_slots.acquire().await;
        self.run.check_in_force(Some(tool)).map_err(|(reason, message)| Refusal::new(reason, message))?;
        self.run.report(&format!("{}: {tool}", self.step));
        let answer = self.calls.call(tool, arguments).await?;
        if let Answer::Result(result) = &answer {
            self.take_sources(result);
        }
        Ok(answer)
    }

    /// Takes the sources that a result names as sources of the run: those in its `_meta`, and resources that it links to or embeds.
    /// One that is not valid, or for which there is no room, is left out: the tool has run, so that its result counts.
    fn take_sources(&self, result: &RawValue) {
        let has = |text: &str| memchr::memmem::find(result.get().as_bytes(), text.as_bytes()).is_some();
        if !has("\"resource") && !has(SOURCES) {
            return;
        }
        let Ok(result) = serde_json::from_str::<Value>(result.get()) else { return };
        for source in sources_of(&result) {
            let _ = self.run.add_source(source.of_server());
        }
    }

    /// Calls a model.
    async fn complete(&self, arguments: Option<&RawValue>) -> Result<Answer, Refusal> {
        let _slot = self.models.enter().await?;
        let wanted = serde_json::from_str(arguments.map_or("{}", RawValue::get)).map_err(|_| {
            let members = "messages, tools, toolChoice, schema, maxTokens, temperature, stop";
            RpcError::new(INVALID_PARAMS, format!("the request is not valid: give a role and {members}"))
        })?;
        let completed = self.run.complete(self.step, Some(self.plugin), wanted).await;
        let completed = completed.map_err(|ModelFailure { reason, message }| {
            // The role and the schema are the plugin's.
            let quotes = [Reason::ModelRoleNotFound, Reason::InvalidSchema].contains(&reason);
            Refusal { quotes, ..Refusal::new(reason, message) }
        })?;
        let mut answer = json!(completed.answer);
        answer["json"] = completed.json.unwrap_or_default();
        answer["llmCallsUsed"] = json!(self.run.used.lock().llm_calls);
        // The plugin has it now.
        self.run.memory.release_answer(completed.reserved);
        Ok(self.calls.fitting(Answer::Result(to_raw(&answer)))?)
    }

    /// Reads or writes values of the plugin.
    async fn store(&self, arguments: Option<&RawValue>) -> Result<Answer, Refusal> {
        let _slot = self.stores.enter().await?;
        let stored = self.run.store(self.storing.as_ref(), arguments).await?;
        Ok(self.calls.fitting(Answer::Result(to_raw(&stored)))?)
    }

    /// Runs a helper, or lists all.
    async fn help(&self, arguments: Option<&RawValue>) -> Result<Answer, Refusal> {
        let _slot = self.helpers.enter().await?;
        let helped = self.run.help(arguments).await?;
        Ok(self.calls.fitting(Answer::Result(to_raw(&helped)))?)
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
        match op {
            "llm" => Box::pin(async move { self.answered(self.complete(arguments).await) }),
            "ask" => Box::pin(async move { self.answered(self.ask(arguments).await) }),
            "store" => Box::pin(async move { self.answered(self.store(arguments).await) }),
            "helper" => Box::pin(async move { self.answered(self.help(arguments).await) }),
            _ => {
                let answered = self.run.answer_found(op, arguments);
                // The scheme of a URL is the plugin's.
                let refused = |error| Refusal { error, quotes: true };
                let answered = answered.map(|value| Answer::Result(to_raw(&value))).map_err(refused);
                Box::pin(std::future::ready(self.answered(answered)))
            }
        }
    }

    fn refusal(&self, reason: &str, message: &str) -> Option<Failure> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.iter().find(|known| known.reason.as_str() == reason && known.message == message).cloned()
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
