//! Requests about tasks, that is, calls that go on after their answer (SEP-2663; MCP 2025-11-25, tasks).

use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;

use super::asked::{ended, without_answer};
use super::dispatch::{ClientRequest, invalid, unknown_method};
use super::envelope::{object, text};
use super::task_forms;
use crate::domain::announcement::Announcement;
use crate::domain::extensions::TASKS;
use crate::domain::method::Method;
use crate::domain::own_keys::answers_without_own_keys;
use crate::domain::ports::ToClient;
use crate::domain::question::{COMPLETE, Question, RESULT_TYPE};
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::rpc::{CAPABILITY_REQUIRED, INVALID_PARAMS, RpcError};
use crate::domain::task::{OpenTask, TaskFacts};
use crate::domain::version::Era;
use crate::engine::access::sealed_id::{IdPurpose, NotOpened};
use crate::engine::access::session::Session;
use crate::engine::calls::tasks::RunTool;
use crate::engine::chains::task_state::with_related;
use crate::engine::exchange::handle::new_handle;
use crate::engine::in_flight::pending_call::Continuation;
use crate::engine::in_flight::run_task::{RunTask, TaskTicket};
use crate::engine::in_flight::table::Entry;
use crate::engine::{CallRequest, Caller, Reply, TaskUse};

/// How long a task is kept after the longest time that its run may take.
const KEPT: Duration = Duration::from_secs(60 * 60);

impl ClientRequest<'_> {
    /// Makes the ticket with which the request can go on as a task. `None` if the id of the task cannot be sealed.
    pub(super) fn new_ticket(&self, caller: &Caller, tool: RunTool) -> Option<TaskTicket> {
        let (gate, handle, lives) = (self.gate, new_handle(), tool.longest + KEPT);
        let own = gate.seal_id(IdPurpose::Task, "", handle, lives, Vec::new())?;
        let facts = TaskFacts { upstream: tool.pipeline, tool: tool.tool, id: own };
        let id = gate.engine.gate.seal_task(caller, &self.endpoint.as_engine(), &facts).ok()?;
        let (request, created_at) = (self.id.to_owned(), gate.engine.now());
        let lives_ms = u64::try_from(lives.as_millis()).unwrap_or(u64::MAX);
        Some(TaskTicket { request, handle, id, era: caller.era, created_at, lives_ms })
    }

    /// Answers a request about a task.
    pub(super) async fn use_task(&self, method: Method) -> Reply {
        let (engine, endpoint, params) = (&self.gate.engine, self.endpoint.as_engine(), self.params);
        let caller = self.caller();
        let id = params.task_id.and_then(text).unwrap_or_default();
        let knows = caller.era == Era::Legacy || caller.capabilities.has_extension(TASKS);
        let facts = engine.gate.open_task(&caller, &endpoint, &id).filter(|_| knows);
        let Some(facts) = facts else {
            let said = engine.lists.announcement(endpoint, &caller.identity).await;
            return Reply::Error(no_task(self.method, caller.era, knows, &said));
        };
        let responses = params.input_responses.map(|answers| answers_without_own_keys(answers).into_owned());
        if method == Method::UpdateTask && responses.as_deref().and_then(object).is_none() {
            return invalid("`inputResponses` must be an object");
        }
        match self.gate.open_id(IdPurpose::Task, "", &facts.id) {
            Err(NotOpened::Foreign) => {}
            Err(NotOpened::Expired) => return Reply::Error(facts.lost()),
            Ok(run) => {
                // Whoever has begun a run can end it, also where its tool is not offered any more.
                if method != Method::CancelTask
                    && let Err(error) = engine.gate.check_task((&caller.identity, &caller.session), &facts)
                {
                    return Reply::Error(error);
                }
                let Some(task) = engine.gate.in_flight.tasks.find(&run.handle) else {
                    return Reply::Error(facts.lost());
                };
                return self.use_run(method, &caller, (&task, &facts), responses.as_deref()).await;
            }
        }
        let task = OpenTask { method, id: id.into_owned(), facts, responses };
        let new_question = |session: &Session| self.gate.new_question(session);
        let sender = self.sender(&caller, &new_question);
        engine.calls.call(CallRequest { task: TaskUse::Of(&task), ..self.request(&caller, &sender) }).await
    }
}

impl ClientRequest<'_> {
    /// Answers a request about the task of a run.
    async fn use_run(
        &self,
        method: Method,
        caller: &Caller,
        (task, facts): (&RunTask, &TaskFacts),
        responses: Option<&RawValue>,
    ) -> Reply {
        let now = self.gate.engine.now();
        match method {
            Method::TaskResult => {
                let reply = self.await_run(caller, task).await;
                // The rules can have changed while the client waited.
                let checked = self.gate.engine.gate.check_task((&caller.identity, &caller.session), facts);
                return checked.map_or_else(Reply::Error, |()| reply);
            }
            Method::UpdateTask => {
                let answers = responses.and_then(|answers| RawObject::parse(answers.get()).ok()).unwrap_or_default();
                task.pending().give(&answers, caller.whole_identity());
            }
            Method::CancelTask if caller.era == Era::Legacy && task.ended_size().is_some() => {
                return invalid("the task has ended: it cannot be cancelled");
            }
            Method::CancelTask => task.cancel(),
            _ => return task_forms::state(task, now),
        }
        match caller.era {
            Era::Modern => Reply::Result(to_raw(&json!({RESULT_TYPE: COMPLETE}))),
            Era::Legacy => task_forms::state(task, now),
        }
    }

    /// Waits for the answer of a run. Meanwhile, the client is asked what the run asks.
    async fn await_run(&self, caller: &Caller, task: &RunTask) -> Reply {
        let id = self.params.task_id.and_then(text).unwrap_or_default();
        let new_question = |session: &Session| self.gate.new_question(session);
        let (sender, pending) = (self.sender(caller, &new_question), task.pending());
        loop {
            let questions = match pending.goes_on().await {
                Continuation::Asks(questions) => questions,
                Continuation::Abandoned => return without_answer(),
                Continuation::Ended(answer) => {
                    return match ended(&answer.message) {
                        Reply::Result(result) => Reply::Result(with_related(&result, &id)),
                        error => error,
                    };
                }
            };
            for (key, Question { method, params }) in questions {
                let params = params.map(|params| with_related(&params, &id));
                tokio::select! {
                    answer = sender.ask(Question { method, params }) => {
                        pending.answer(&key, answer, sender.latest_identity().or_else(|| caller.whole_identity()));
                    }
                    () = pending.settled(&key) => {}
                }
            }
        }
    }
}

/// Returns the error for a request about a task that is none of the client's. `said` is what the servers of the endpoint
/// announce: without tasks there, the method is unknown.
fn no_task(method: &str, era: Era, knows: bool, said: &Announcement) -> RpcError {
    let offered = if era == Era::Legacy { said.tasks.is_some() } else { said.extensions.has(TASKS) };
    if !offered {
        return unknown_method(method);
    }
    if !knows {
        let data = json!({"requiredCapabilities": {"extensions": {TASKS: {}}}});
        let message = "requests about tasks need a client that declares the extension for tasks";
        return RpcError::new(CAPABILITY_REQUIRED, message).with_data(data);
    }
    RpcError::new(INVALID_PARAMS, "`taskId` names no task that this client has at this endpoint")
}
