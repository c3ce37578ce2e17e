//! The task as which a call can go on, as its client is shown it: flat in the modern era, and in the legacy era a member of the
//! result that begins it (SEP-2663; MCP 2025-11-25, tasks).

use std::time::Duration;

use crate::domain::question::RESULT_TYPE;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::version::Era;
use crate::engine::Reply;
use crate::engine::chains::routed_call::timestamp;

/// How often clients are to ask for the state of a task, in milliseconds.
const POLL_MS: u64 = 1000;
/// The status of a task while its run is under way.
pub(super) const WORKING: &str = "working";

/// What a call needs so that it can go on as a task.
pub(super) struct TaskTicket {
    /// The id of the request, as raw JSON.
    pub(super) request: String,
    /// The number by which this process finds the task.
    pub(super) handle: u64,
    /// The id that the client gets.
    pub(super) id: String,
    /// The era of the client, which has its own form of tasks.
    pub(super) era: Era,
    /// When the call began, in Unix milliseconds.
    pub(super) created_at: u64,
    /// How long the task is kept.
    pub(super) lives: Duration,
}

impl TaskTicket {
    /// Returns the task without its result.
    pub(super) fn state(&self, status: &str, updated_at: u64) -> RawObject {
        let (ttl, poll) = match self.era {
            Era::Modern => ("ttlMs", "pollIntervalMs"),
            Era::Legacy => ("ttl", "pollInterval"),
        };
        let mut state = RawObject::default();
        state.set("taskId", to_raw(&self.id));
        state.set("status", to_raw(&status));
        state.set("createdAt", to_raw(&timestamp(self.created_at)));
        state.set("lastUpdatedAt", to_raw(&timestamp(updated_at)));
        state.set(ttl, to_raw(&u64::try_from(self.lives.as_millis()).unwrap_or(u64::MAX)));
        state.set(poll, to_raw(&POLL_MS));
        state
    }

    /// Returns the result of the call that goes on as the task.
    pub(super) fn begun(&self) -> Reply {
        let mut state = self.state(WORKING, self.created_at);
        let mut result = RawObject::default();
        match self.era {
            Era::Modern => {
                state.set(RESULT_TYPE, to_raw(&"task"));
                result = state;
            }
            Era::Legacy => result.set("task", state.to_raw()),
        }
        Reply::Result(result.to_raw())
    }
}
