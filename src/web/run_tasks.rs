//! Runs of pipelines that go on as tasks, until their results are not kept any more (SEP-2663; MCP 2025-11-25, tasks).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::asked::{ended, requests_of, without_answer};
use super::parked::{RunningCall, has_room};
use super::task_ticket::{TaskTicket, WORKING};
use crate::domain::budget::Account;
use crate::domain::question::{COMPLETE, INPUT_REQUESTS, RESULT_TYPE};
use crate::domain::raw::to_raw;
use crate::domain::rpc::{REQUEST_CANCELLED, RpcError, code_of, failure};
use crate::domain::skim::Skim;
use crate::domain::version::Era;
use crate::engine::Reply;
use crate::engine::exchange::{AskedCall, Continuation, HeldAnswer};

/// The maximum number of tasks of one listener that are kept after their end, and the maximum size of their answers together.
const MAX_ENDED: usize = 1024;
const MAX_ENDED_BYTES: usize = 16 << 20;

/// A run that goes on as a task, or has ended. Dropping it cancels the run.
pub(super) struct RunTask {
    ticket: Arc<TaskTicket>,
    call: RunningCall,
    /// The status that was shown last, and when it was first.
    shown: Mutex<(&'static str, u64)>,
}

impl RunTask {
    pub(super) fn new(ticket: Arc<TaskTicket>, call: RunningCall) -> Self {
        let shown = Mutex::new((WORKING, ticket.created_at));
        Self { ticket, call, shown }
    }

    /// The questions of the run, and its answer.
    pub(super) fn asked(&self) -> &AskedCall {
        &self.call.asked
    }

    /// Whether the run has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.size().is_some()
    }

    /// Returns the size of the answer in bytes; `None` while the run is under way.
    fn size(&self) -> Option<usize> {
        match self.asked().look()? {
            Continuation::Asks(_) => None,
            Continuation::Ended(answer) => Some(answer.message.len()),
            Continuation::Abandoned => Some(0),
        }
    }

    /// Cancels the run, unless it has ended.
    pub(super) fn cancel(&self) {
        let error = RpcError::new(REQUEST_CANCELLED, "the task was cancelled");
        let message = Arc::new(failure("null", &to_raw(&error)));
        self.asked().finish(HeldAnswer { message, reservation: None });
        self.call.running.abort();
    }

    /// Returns the state of the task. In the modern era it has the result, the error or the questions of the run in it.
    pub(super) fn state(&self, now: u64) -> Reply {
        let era = self.ticket.era;
        let reply = match self.asked().look() {
            None => return self.shown(now, WORKING, None),
            Some(Continuation::Asks(questions)) => {
                return self.shown(now, "input_required", Some((INPUT_REQUESTS, requests_of(questions))));
            }
            Some(Continuation::Ended(answer)) => ended(&answer.message),
            Some(Continuation::Abandoned) => without_answer(),
        };
        let error = match reply {
            // In the legacy era, a task whose tool says that it has failed has failed.
            Reply::Result(result) if era == Era::Legacy && is_error(&result) => return self.shown(now, "failed", None),
            Reply::Result(result) => return self.shown(now, "completed", Some(("result", result))),
            Reply::UpstreamError(error) => error,
            Reply::Error(error) => to_raw(&error),
        };
        match code_of(&error) {
            Some(REQUEST_CANCELLED) => self.shown(now, "cancelled", None),
            _ => self.shown(now, "failed", Some(("error", error))),
        }
    }

    fn shown(&self, now: u64, status: &'static str, content: Option<(&str, Box<RawValue>)>) -> Reply {
        let mut state = self.ticket.state(status, self.since(status, now));
        if self.ticket.era == Era::Modern {
            state.set(RESULT_TYPE, to_raw(&COMPLETE));
            content.into_iter().for_each(|(member, value)| state.set(member, value));
        }
        Reply::Result(state.to_raw())
    }

    /// Returns since when the task has this status, as far as it was shown.
    fn since(&self, status: &'static str, now: u64) -> u64 {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.0 != status {
            *shown = (status, now);
        }
        shown.1
    }
}

/// Whether the result of a tool says that it has failed.
fn is_error(result: &RawValue) -> bool {
    Skim::from(result).member("isError").is_some_and(|value| value.get() == "true")
}

/// Returns the oldest task that has ended, if there are too many of these.
fn surplus(tasks: &HashMap<u64, Arc<RunTask>>) -> Option<u64> {
    let ended = || tasks.iter().filter_map(|(handle, task)| Some((task.ticket.created_at, *handle, task.size()?)));
    let bytes: usize = ended().map(|(.., size)| size).sum();
    let is_full = ended().count() > MAX_ENDED || bytes > MAX_ENDED_BYTES;
    ended().min().map(|(_, handle, _)| handle).filter(|_| is_full)
}

/// The tasks of one listener, by their handles.
#[derive(Default)]
pub(super) struct RunTasks(Mutex<HashMap<u64, Arc<RunTask>>>);

impl RunTasks {
    /// Returns the task with this handle.
    pub(super) fn get(&self, handle: u64) -> Option<Arc<RunTask>> {
        self.lock().get(&handle).cloned()
    }

    /// Whether one more run of the client with this account may go on as a task.
    pub(super) fn has_room(&self, account: &Arc<Account>) -> bool {
        let tasks = self.lock();
        let under_way = tasks.values().filter(|task| !task.has_ended());
        has_room(under_way.map(|task| &task.call.account), account)
    }

    /// Keeps a task for as long as its ticket says, at most until `shutdown`. If too many have ended, the oldest of these are
    /// dropped.
    pub(super) fn keep(self: &Arc<Self>, shutdown: &CancellationToken, task: RunTask) {
        let (tasks, shutdown) = (Arc::downgrade(self), shutdown.clone());
        let (handle, lives) = (task.ticket.handle, task.ticket.lives);
        let mut kept = self.lock();
        while let Some(oldest) = surplus(&kept) {
            kept.remove(&oldest);
        }
        kept.insert(handle, Arc::new(task));
        drop(kept);
        tokio::spawn(async move {
            let _ = tokio::time::timeout(lives, shutdown.cancelled()).await;
            let ended = tasks.upgrade().and_then(|tasks| tasks.lock().remove(&handle));
            drop(ended);
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<RunTask>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
