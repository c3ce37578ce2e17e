//! A run of a pipeline that goes on as a task, until its result is not kept any more (SEP-2663; MCP 2025-11-25, tasks).

use std::sync::{Arc, Mutex, PoisonError};

use super::pending_call::{HeldAnswer, PendingCall, RunningCall};
use super::table::Entry;
use crate::domain::budget::Account;
use crate::domain::raw::to_raw;
use crate::domain::rpc::{REQUEST_CANCELLED, RpcError, failure};
use crate::domain::version::Era;

/// The status of a task while its run is in progress.
pub const WORKING: &str = "working";

/// The facts that a call needs to go on as a task.
pub struct TaskTicket {
    /// The id of the request, as raw JSON.
    pub request: String,
    /// The key of the task in its table.
    pub handle: u64,
    /// The id that the client gets.
    pub id: String,
    /// The era of the client, which has its own form of tasks.
    pub era: Era,
    /// When the call began, in Unix milliseconds.
    pub created_at: u64,
    /// How long the task is kept, in milliseconds.
    pub lives_ms: u64,
}

/// A run that goes on as a task, or has ended. Dropping it cancels the run.
pub struct RunTask {
    /// The task for its client.
    pub ticket: Arc<TaskTicket>,
    call: Arc<RunningCall>,
    /// The status that was shown last, and when it was first.
    shown: Mutex<(&'static str, u64)>,
}

impl RunTask {
    /// Lets a call go on as a task: its client does not listen any more.
    pub fn new(ticket: Arc<TaskTicket>, call: Arc<RunningCall>) -> Self {
        call.pending.leave();
        let shown = Mutex::new((WORKING, ticket.created_at));
        Self { ticket, call, shown }
    }

    /// The questions of the run, and its answer.
    pub fn pending(&self) -> &PendingCall {
        &self.call.pending
    }

    /// Cancels the run, unless it has ended.
    pub fn cancel(&self) {
        let error = RpcError::new(REQUEST_CANCELLED, "the task was cancelled");
        let message = Arc::new(failure("null", &to_raw(&error)));
        self.pending().finish(HeldAnswer { message, reservation: None });
        self.call.running.abort();
    }

    /// Notes that the task is shown with this status. Returns the time at which it was first shown with it.
    pub fn shown_since(&self, status: &'static str, now: u64) -> u64 {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.0 != status {
            *shown = (status, now);
        }
        shown.1
    }
}

impl Entry for RunTask {
    fn ended_size(&self) -> Option<u64> {
        self.pending().ended_size()
    }

    fn account(&self) -> Option<&Arc<Account>> {
        Some(&self.call.account)
    }
}
