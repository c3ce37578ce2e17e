//! Tasks: calls of tools that go on after their answer. Requests about a task lead back to the server that runs it, and
//! the chains that select the tool when the result is fetched run on it (SEP-2663; MCP 2025-11-25, tasks).

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;

use super::arrived::{Arrived, FoundItem};
use super::asked_client::AskedClient;
use super::chain::CallContext;
use super::content::Content;
use super::outcome::{CallEnd, Denial};
use super::recheck::{Effect, NewGuards, Sent};
use super::recorder::CallRecorder;
use super::route::LookupTarget;
use super::routed_call::Routed;
use super::task_state::{id_of, legacy_id, plain, related_to, set_id, set_legacy_id, with_related, without_related};
use super::tool_result::{ResultFacts, with_members};
use super::unchecked::Unchecked;
use crate::domain::extensions::TASKS;
use crate::domain::identity::Identity;
use crate::domain::item::ItemKind;
use crate::domain::json::doubled_key;
use crate::domain::method::Method;
use crate::domain::ports::{Answering, ToClient};
use crate::domain::question::{INPUT_REQUESTS, INPUT_RESPONSES, Question, RESULT_TYPE};
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::reason::Reason;
use crate::domain::record::CallOutcome;
use crate::domain::rpc::{REFUSED, RpcError};
use crate::domain::skim::Skim;
use crate::domain::task::{OpenTask, TaskFacts};
use crate::domain::upstream::{Answer, InputRound, OutMembers, ServerAnswer, UpstreamError};
use crate::domain::version::Era;
use crate::engine::Engine;
use crate::engine::plan::linked_item::Selected;
use crate::engine::plan::snapshot::Lookup;
use crate::engine::request::{Reply, TaskUse};

impl Engine {
    /// Returns the end of a call whose server answers with a task; `None` if the answer is another one.
    pub(super) fn task_begun(&self, call: &Routed<'_>, answer: &Unchecked) -> Option<CallEnd> {
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
            return Some(self.withheld(call, &steps));
        }
        if call.item.watches_questions() && asks(result) {
            return Some(self.refused(call.request.kind, past_chains()));
        }
        Some(match begun {
            Ok(result) => CallEnd::task_begun(result),
            Err(why) => self.upstream_failed(call, &UpstreamError::Protocol(why.to_owned())),
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
        self.seal_task(call.request.caller, &call.request.endpoint, &task)
    }

    /// Runs a request about a task.
    pub(super) async fn run_task(self: &Arc<Self>, arrived: &mut Arrived<'_>, task: &OpenTask) -> CallEnd {
        if let Err(end) = self.admit(arrived) {
            return end;
        }
        let request = arrived.request;
        let (snapshot, found) = match self.find_guarded(&arrived.snapshot, LookupTarget::OfTask(&task.facts)).await {
            Ok(looked_up) => looked_up,
            Err(error) => return self.not_admitted(&error),
        };
        let found = match snapshot.usable(found, false) {
            Lookup::Found(found) if snapshot.may_see(request.caller, &found.route) => found,
            _ => {
                let error = Reply::Error(task.facts.gone());
                return CallEnd::new(error, CallOutcome::RpcError, Reason::TaskGone);
            }
        };
        let found = FoundItem { snapshot, found };
        let mut call = arrived.routed(&found);
        if let Err(error) = self.admit_upstream(&mut arrived.places, call.plan()) {
            return self.not_admitted(&error);
        }
        if task.method == Method::TaskResult {
            // The server answers once the task has ended. Only the ceiling of calls bounds that.
            call.timeout = Duration::from_millis(u64::from(call.snapshot.plan().gateway.limits.call_ceiling_ms));
        }
        let recorder = &mut arrived.recorder;
        if let Some(denial) = self.denied_task(&call, task, recorder) {
            return self.refused(ItemKind::Tool, denial).into_error();
        }
        let asked = AskedClient::new(self, &call, recorder);
        let client = TaskClient { client: &asked, id: &task.id };
        self.ask_about_task(&call, task, &client, recorder).await
    }

    /// Returns why a request about a task is not sent, if it may not be, and begins the traces of its entries.
    fn denied_task(&self, call: &Routed<'_>, task: &OpenTask, recorder: &mut CallRecorder) -> Option<Denial> {
        if let Some(refusal) = call.refusing() {
            return Some(Denial::refused(None, refusal));
        }
        recorder.traces.begin(call.request.kind.used_by(), call.item.chains());
        let (when, content) = (call.when(&call.content), || Content::Arguments(call.content.clone().into_owned()));
        let denial = self.cannot_guard(call.item.chains(), &when, content, &mut recorder.traces);
        // The entries of the request chains ran on the call that began the task.
        for _ in call.item.request.iter().flat_map(|selected| &selected.chain.entries) {
            recorder.traces.advance();
        }
        let answers = task.method == Method::UpdateTask && call.item.watches_questions();
        denial.or_else(|| answers.then(past_chains))
    }

    async fn ask_about_task(
        self: &Arc<Self>,
        call: &Routed<'_>,
        task: &OpenTask,
        client: &TaskClient<'_>,
        recorder: &mut CallRecorder,
    ) -> CallEnd {
        let responses = task.responses.clone().filter(|_| task.method == Method::UpdateTask);
        let mut members: OutMembers =
            responses.map(|responses| (INPUT_RESPONSES.into(), responses)).into_iter().collect();
        if let Err(end) = self.audit_begin(call, recorder).await {
            return end;
        }
        let to = (client as &dyn ToClient, client.client);
        let answer = match self.send(call, to, &mut members, InputRound::default(), recorder).await {
            Ok(answer) => answer,
            Err(end) => return end,
        };
        let new = match self.recheck_task(call, task.method) {
            Ok(new) => new,
            Err(end) => return end,
        };
        if guards_response(call)
            && let Answer::Result(text) | Answer::Error(text) = answer.unseen()
            && let Some(steps) = doubled_key(text.get())
        {
            return self.withheld(call, &steps);
        }
        let ServerAnswer { era, answer } = answer.open();
        match (answer, task.method) {
            (Answer::Error(error), method) => {
                let content = Unchecked::new(ServerAnswer { era, answer: Answer::Error(error) });
                let end = self.task_content(call, client, content, new, recorder).await;
                if method == Method::TaskResult { end } else { end.into_error() }
            }
            (Answer::Result(result), Method::TaskResult) => {
                let content = Unchecked::new(ServerAnswer { era, answer: Answer::Result(without_related(&result)) });
                let mut end = self.task_content(call, client, content, new, recorder).await;
                if let Reply::Result(result) = &mut end.reply {
                    *result = with_related(result, &task.id);
                }
                end
            }
            (Answer::Result(result), _) => self.task_state(call, client, era, &result, recorder).await,
        }
    }

    /// Checks a request about a task that has waited. New entries run on the result of the task alone: the next request about its
    /// state has the new chains.
    fn recheck_task(&self, call: &Routed<'_>, method: Method) -> Result<NewGuards, CallEnd> {
        let new = self.recheck(call, Effect::Answer(&[]), Sent::Unchanged);
        if method == Method::TaskResult {
            return new;
        }
        let new = new.map_err(CallEnd::into_error)?;
        let denied = new.denial().map(|denial| self.refused(ItemKind::Tool, denial).into_error());
        denied.map_or(Ok(new), Err)
    }

    /// Runs the response chains on the result or the error of a task.
    async fn task_content(
        self: &Arc<Self>,
        call: &Routed<'_>,
        client: &TaskClient<'_>,
        mut content: Unchecked,
        new: NewGuards,
        recorder: &mut CallRecorder,
    ) -> CallEnd {
        if let Err(end) = client.client.asks_by_error(&mut content).await {
            return end;
        }
        let method = call.request.kind.used_by();
        let context = CallContext::of(&call.facts, method, client);
        let facts = content.facts();
        if (facts.asks_back || facts.unclear) && (call.item.watches_questions() || new.denial().is_some()) {
            return self.refused(ItemKind::Tool, past_chains());
        }
        self.run_response_chains(call, context, content, (None, new), recorder).await
    }

    /// Returns the end of a request that is answered with the state of a task. In the modern era the state has the result,
    /// the error or the questions of the task in it.
    async fn task_state(
        self: &Arc<Self>,
        call: &Routed<'_>,
        client: &TaskClient<'_>,
        era: Era,
        result: &RawValue,
        recorder: &mut CallRecorder,
    ) -> CallEnd {
        let protocol = |why: &str| self.upstream_failed(call, &UpstreamError::Protocol(why.to_owned()));
        let state = Skim::from(result);
        if state.members().is_none() {
            return protocol("its task is not a JSON object");
        }
        if asks(result) && call.item.watches_questions() {
            return self.refused(ItemKind::Tool, past_chains()).into_error();
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
        with_content(&shown, self.task_content(call, client, content, NewGuards::default(), recorder).await)
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
fn past_chains() -> Denial {
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
struct TaskClient<'a> {
    client: &'a AskedClient<'a>,
    id: &'a str,
}

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
    fn into_error(self) -> Self {
        let Reply::Result(result) = &self.reply else { return self };
        let result: serde_json::Value = serde_json::from_str(result.get()).unwrap_or_default();
        let text = result["content"][0]["text"].as_str().unwrap_or("the request is refused").to_owned();
        let error = RpcError::new(REFUSED, text);
        let error = error.with_data(if result["_meta"].is_object() { result["_meta"].clone() } else { json!({}) });
        Self { reply: Reply::Error(error), ..self }
    }
}
