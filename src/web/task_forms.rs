//! Tasks as their clients are shown them: flat in the modern era, and in the legacy era a member of the result that begins
//! them (SEP-2663; MCP 2025-11-25, tasks).

use serde_json::value::RawValue;

use super::asked::{ended, requests_of, without_answer};
use crate::domain::question::{COMPLETE, INPUT_REQUESTS, RESULT_TYPE};
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::rpc::{REQUEST_CANCELLED, code_of};
use crate::domain::skim::Skim;
use crate::domain::version::Era;
use crate::engine::Reply;
use crate::engine::chains::routed_call::timestamp;
use crate::engine::in_flight::pending_call::Continuation;
use crate::engine::in_flight::run_task::{RunTask, TaskTicket, WORKING};

/// How often clients are to ask for the state of a task, in milliseconds.
const POLL_MS: u64 = 1000;

/// Returns the result of the call that goes on as the task.
pub(super) fn begun(ticket: &TaskTicket) -> Reply {
    let mut state = task(ticket, WORKING, ticket.created_at);
    let mut result = RawObject::default();
    match ticket.era {
        Era::Modern => {
            state.set(RESULT_TYPE, to_raw(&"task"));
            result = state;
        }
        Era::Legacy => result.set("task", state.to_raw()),
    }
    Reply::Result(result.to_raw())
}

/// Returns the state of a task. In the modern era it has the result, the error or the questions of the run in it.
pub(super) fn state(task: &RunTask, now: u64) -> Reply {
    let reply = match task.pending().look() {
        None => return shown(task, now, WORKING, None),
        Some(Continuation::Asks(questions)) => {
            return shown(task, now, "input_required", Some((INPUT_REQUESTS, requests_of(questions))));
        }
        Some(Continuation::Ended(answer)) => ended(&answer.message),
        Some(Continuation::Abandoned) => without_answer(),
    };
    let error = match reply {
        // In the legacy era, a task whose tool says that it has failed has failed.
        Reply::Result(result) if task.ticket.era == Era::Legacy && is_error(&result) => {
            return shown(task, now, "failed", None);
        }
        Reply::Result(result) => return shown(task, now, "completed", Some(("result", result))),
        Reply::UpstreamError(error) => error,
        Reply::Error(error) => to_raw(&error),
    };
    match code_of(&error) {
        Some(REQUEST_CANCELLED) => shown(task, now, "cancelled", None),
        _ => shown(task, now, "failed", Some(("error", error))),
    }
}

fn shown(run: &RunTask, now: u64, status: &'static str, content: Option<(&str, Box<RawValue>)>) -> Reply {
    let mut state = task(&run.ticket, status, run.shown_since(status, now));
    if run.ticket.era == Era::Modern {
        state.set(RESULT_TYPE, to_raw(&COMPLETE));
        content.into_iter().for_each(|(member, value)| state.set(member, value));
    }
    Reply::Result(state.to_raw())
}

/// Returns a task without its result.
fn task(ticket: &TaskTicket, status: &str, updated_at: u64) -> RawObject {
    let (ttl, poll) = match ticket.era {
        Era::Modern => ("ttlMs", "pollIntervalMs"),
        Era::Legacy => ("ttl", "pollInterval"),
    };
    let mut state = RawObject::default();
    state.set("taskId", to_raw(&ticket.id));
    state.set("status", to_raw(&status));
    state.set("createdAt", to_raw(&timestamp(ticket.created_at)));
    state.set("lastUpdatedAt", to_raw(&timestamp(updated_at)));
    state.set(ttl, to_raw(&ticket.lives_ms));
    state.set(poll, to_raw(&POLL_MS));
    state
}

/// Whether the result of a tool says that it has failed.
fn is_error(result: &RawValue) -> bool {
    Skim::from(result).member("isError").is_some_and(|value| value.get() == "true")
}
