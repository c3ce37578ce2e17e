//! Answers of servers about tasks: that a call goes on as one, the state of one, and its result. Chains see the content.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;

use super::Chains;
use super::asked_client::AskedClient;
use super::chain::CallContext;
use super::entry_traces::EntryTraces;
use super::outcome::{CallEnd, Denial};
use super::recheck::NewGuards;
use super::released::Released;
use super::routed_call::Routed;
use super::task_state::{id_of, legacy_id, plain, related_to, set_id, set_legacy_id, with_related, without_related};
use super::tool_result::{ResultFacts, with_members};
use super::unchecked::{GuardedClient, Unchecked};
use crate::domain::extensions::TASKS;
use crate::domain::identity::Identity;
use crate::domain::item::ItemKind;
use crate::domain::json::doubled_key;
use crate::domain::method::Method;
use crate::domain::ports::{Answering, ToClient};
use crate::domain::question::{INPUT_REQUESTS, Question, RESULT_TYPE};
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::reason::Reason;
use crate::domain::rpc::{REFUSED, RpcError};
use crate::domain::skim::Skim;
use crate::domain::task::TaskFacts;
use crate::domain::upstream::{Answer, ServerAnswer, UpstreamError};
use crate::domain::version::Era;
use crate::engine::plan::linked_item::Selected;
use crate::engine::request::{Reply, TaskUse};

impl Chains {
    /// Returns the end of a call whose server answers with a task; `None` if the answer is another one.
    pub(in crate::engine) fn task_begun(&self, call: &Routed<'_>, answer: &Unchecked) -> Option<CallEnd> {
        let Answer::Result(result) = answer.unseen() else { return None };
        let begun = if answer.era() == Era::Modern {
            answer.facts().begins_task.then(|| self.modern_task(call, result))?
        } else if matches!(call.request.task, TaskUse::Begins(_)) {
            let id = legacy_id(result)?;
            self.sealed_task(call, id).and_then(|id| {
                let mut result = shown_legacy(call, result)?;
                set_legacy_id(&mut result, &id);
                Ok(result)
            })
        } else {
            return None;
        };
        if call.item.is_guarded()
            && let Some(steps) = doubled_key(result.get())
        {
            return Some(self.ends.withheld(call, &steps));
        }
        if call.item.watches_questions() && asks(result) {
            return Some(self.ends.refused(call.request.kind, past_chains()));
        }
        Some(match begun {
            Ok(result) => CallEnd::task_begun(result),
            Err(why) => self.ends.upstream_failed(call, &UpstreamError::Protocol(why.to_owned())),
        })
    }

    fn modern_task(&self, call: &Routed<'_>, result: &RawValue) -> Result<Box<RawValue>, &'static str> {
        let caller = call.request.caller;
        let knows = caller.era == Era::Modern && caller.capabilities.has_extension(TASKS);
        if !knows || call.request.within.is_some() {
            return Err("it began a task for a client that did not say that it knows tasks");
        }
        if call.request.kind != ItemKind::Tool {
            return Err("it began a task for a request that is no call of a tool");
        }
        let id = self.sealed_task(call, id_of(result).unwrap_or_default())?;
        let mut result = shown(call, result)?;
        set_id(&mut result, &id);
        Ok(result)
    }

    fn sealed_task(&self, call: &Routed<'_>, id: String) -> Result<String, &'static str> {
        let task = TaskFacts { upstream: call.facts.upstream.clone(), tool: call.facts.tool.clone(), id };
        self.gate.seal_task(call.request.caller, &call.request.endpoint, &task)
    }

    /// Returns the end of a request about a task that the server has answered.
    pub(in crate::engine) async fn task_answer(
        self: &Arc<Self>,
        (client, method): (&TaskClient<'_>, Method),
        answer: Unchecked,
        new: NewGuards,
        traces: &mut EntryTraces,
    ) -> Released {
        let call = client.client.call;
        if guards_response(call)
            && let Answer::Result(text) | Answer::Error(text) = answer.unseen()
            && let Some(steps) = doubled_key(text.get())
        {
            return Released::new(self.ends.withheld(call, &steps));
        }
        let ServerAnswer { era, answer } = answer.open();
        Released::new(match (answer, method) {
            (Answer::Error(error), method) => {
                let content = Unchecked::new(ServerAnswer { era, answer: Answer::Error(error) });
                let end = self.task_content(client, content, new, traces).await;
                if method == Method::TaskResult { end } else { end.into_error() }
            }
            (Answer::Result(result), Method::TaskResult) => {
                let content = Unchecked::new(ServerAnswer { era, answer: Answer::Result(without_related(&result)) });
                let mut end = self.task_content(client, content, new, traces).await;
                if let Reply::Result(result) = &mut end.reply {
                    *result = with_related(result, client.id);
                }
                end
            }
            (Answer::Result(result), _) => self.task_state(client, era, &result, traces).await,
        })
    }

    /// Runs the response chains on the result or the error of a task.
    async fn task_content(
        self: &Arc<Self>,
        client: &TaskClient<'_>,
        mut content: Unchecked,
        new: NewGuards,
        traces: &mut EntryTraces,
    ) -> CallEnd {
        let call = client.client.call;
        if let Err(end) = client.client.asks_by_error(&mut content).await {
            return end;
        }
        let method = call.request.kind.used_by();
        let context = CallContext::of(&call.facts, method, client);
        let facts = content.facts();
        if (facts.asks_back || facts.unclear) && (call.item.watches_questions() || new.denial().is_some()) {
            return self.ends.refused(ItemKind::Tool, past_chains());
        }
        self.run_response_chains(call, context, content, (None, new), traces).await
    }

    /// Returns the end of a request that is answered with the state of a task. In the modern era the state has the result,
    /// the error or the questions of the task in it.
    async fn task_state(
        self: &Arc<Self>,
        client: &TaskClient<'_>,
        era: Era,
        result: &RawValue,
        traces: &mut EntryTraces,
    ) -> CallEnd {
        let call = client.client.call;
        let protocol = |why: &str| self.ends.upstream_failed(call, &UpstreamError::Protocol(why.to_owned()));
        let state = Skim::from(result);
        if state.members().is_none() {
            return protocol("its task is not a JSON object");
        }
        if asks(result) && call.item.watches_questions() {
            return self.ends.refused(ItemKind::Tool, past_chains()).into_error();
        }
        let mut shown = match shown(call, result) {
            Ok(shown) => shown,
            Err(why) => return protocol(why),
        };
        set_id(&mut shown, client.id);
        let owned = |value: Skim<'_>| RawValue::from_string(value.get().to_owned()).ok();
        let (result, error) = (state.member("result").and_then(owned), state.member("error").and_then(owned));
        let content = match (result, error) {
            (Some(result), _) => Answer::Result(result),
            (None, Some(error)) => Answer::Error(error),
            (None, None) => return plainly(shown),
        };
        if call.item.response.is_empty() && !call.item.watches_questions() {
            return plainly(shown);
        }
        let content = Unchecked::new(ServerAnswer { era, answer: content });
        with_content(&shown, self.task_content(client, content, NewGuards::default(), traces).await)
    }
}

/// Returns the end of a request that is answered with the state of a task, whose content is that of `end`.
fn with_content(state: &RawValue, end: CallEnd) -> CallEnd {
    let (status, member, other, content) = match end.reply {
        Reply::Result(result) => ("completed", "result", "error", result),
        Reply::UpstreamError(error) => ("failed", "error", "result", error),
        Reply::Error(error) => ("failed", "error", "result", to_raw(&error)),
    };
    let status = to_raw(&status);
    let changes = [(other, None), ("status", Some(status.get())), (member, Some(content.get()))];
    let state = with_members(state, &changes).unwrap_or_else(|| content.clone());
    CallEnd { typed: Skim::from(&*state).member(RESULT_TYPE).is_some(), reply: Reply::Result(state), ..end }
}

/// Whether a Guard is on the response of the tool.
fn guards_response(call: &Routed<'_>) -> bool {
    call.item.response.iter().any(Selected::guards)
}

/// Whether a task asks the client for input. What cannot be read may ask.
fn asks(task: &RawValue) -> bool {
    let may_ask = |name: Option<&str>| name.is_none_or(|name| name == INPUT_REQUESTS);
    Skim::from(task).members().is_none_or(|mut members| members.any(|(name, _)| may_ask(name.as_deref())))
}

/// The denial of a question of a task, or of its answer, because chains would see it if it were asked during a call.
pub(in crate::engine) fn past_chains() -> Denial {
    let text =
        "The task asks for input, and chains that cover what is asked do not run on questions of tasks.".to_owned();
    Denial::without_cause(Reason::GuardedInput, text)
}

/// Returns a task as clients may see it beside its content: whole, unless a plugin acts on the response, which sees only that.
fn shown(call: &Routed<'_>, task: &RawValue) -> Result<Box<RawValue>, &'static str> {
    let response = &call.item.response;
    if !response.iter().any(Selected::acts) {
        return Ok(task.to_owned());
    }
    let with_message = response.iter().all(|selected| selected.chain.plan.notifications_pass || !selected.checks());
    Ok(plain(task, with_message)?.to_raw())
}

/// The same of a result of the legacy era that begins a task.
fn shown_legacy(call: &Routed<'_>, result: &RawValue) -> Result<Box<RawValue>, &'static str> {
    if !call.item.response.iter().any(Selected::acts) {
        return Ok(result.to_owned());
    }
    let result = RawObject::parse(result.get()).unwrap_or_default();
    let mut only = RawObject::default();
    only.set("task", shown(call, result.get("task").unwrap_or(RawValue::NULL))?);
    Ok(only.to_raw())
}

/// The end of a request whose answer is the state of a task.
fn plainly(state: Box<RawValue>) -> CallEnd {
    let answer = Answer::Result(state);
    let facts = ResultFacts::of(&answer);
    CallEnd::answered(answer, facts)
}

/// Passes on what a server sends while a client waits for the result of a task, with the id that the client knows.
pub(in crate::engine) struct TaskClient<'a> {
    client: &'a AskedClient<'a>,
    id: &'a str,
}

impl<'a> TaskClient<'a> {
    /// `id` is the id that the client of the request knows.
    pub(in crate::engine) fn new(client: &'a AskedClient<'a>, id: &'a str) -> Self {
        Self { client, id }
    }

    /// The client of the request.
    pub(in crate::engine) fn asked(&self) -> &'a AskedClient<'a> {
        self.client
    }
}

impl GuardedClient for TaskClient<'_> {}

impl ToClient for TaskClient<'_> {
    fn progress(&self, params: Box<RawValue>) {
        self.client.progress(related_to(params, self.id));
    }

    fn message(&self, params: Box<RawValue>) {
        self.client.message(related_to(params, self.id));
    }

    fn stream_ended(&self, retry: Option<Duration>) {
        self.client.stream_ended(retry);
    }

    fn may_be_sent(&self) -> bool {
        self.client.may_be_sent()
    }

    fn latest_identity(&self) -> Option<Arc<Identity>> {
        self.client.latest_identity()
    }

    fn ask(&self, question: Question) -> Answering<'_> {
        let params = question.params.map(|params| related_to(params, self.id));
        self.client.ask(Question { params, ..question })
    }
}

impl CallEnd {
    /// The end of a call whose server goes on with it as a task. `result` is the answer.
    fn task_begun(result: Box<RawValue>) -> Self {
        Self { reason: Some(Reason::TaskBegun.to_string()), ..plainly(result) }
    }

    /// The end with an error in the place of a tool result that says why there is no other: the request was no tool call.
    pub(in crate::engine) fn into_error(self) -> Self {
        let Reply::Result(result) = &self.reply else { return self };
        let result: serde_json::Value = serde_json::from_str(result.get()).unwrap_or_default();
        let text = result["content"][0]["text"].as_str().unwrap_or("the request is refused").to_owned();
        let error = RpcError::new(REFUSED, text);
        let error = error.with_data(if result["_meta"].is_object() { result["_meta"].clone() } else { json!({}) });
        Self { reply: Reply::Error(error), ..self }
    }
}
