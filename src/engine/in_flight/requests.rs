//! All calls in flight, and those that ended last, by the counter of their session (document 003, ExecutionTracker).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use dashmap::DashMap;
use schemars::JsonSchema;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::domain::limits::Tracker;
use crate::domain::record::{CallOutcome, CallRecord};

/// The maximum number of calls that have ended and are kept, over all sessions.
const MAX_ENDED: usize = 10_000;
/// The maximum number of them that are shown of one session.
const MAX_SHOWN: usize = 100;

/// A call that has ended, with the fields of document 003.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    /// The id of the call.
    pub request_id: String,
    /// Name of the upstream; empty if the call was not routed to one.
    pub server_id: String,
    /// The upstream's own name for the tool, the prompt or the resource.
    pub tool_name: String,
    /// When the call started, in Unix milliseconds.
    pub timestamp: u64,
    /// Duration of the call in milliseconds.
    pub duration: f64,
    /// Whether the client got a result of a tool that did not fail.
    pub status: ExecutionStatus,
}

/// The outcome of a call in the history of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "CallStatus")]
pub enum ExecutionStatus {
    /// The client got a result.
    Success,
    /// The call failed, was denied or was cancelled.
    Error,
}

/// The calls of one session.
#[derive(Default)]
pub(crate) struct SessionCalls {
    /// The ids of the calls in flight.
    pub(crate) active: Vec<String>,
    /// Calls that have ended, newest first.
    pub(crate) ended: Vec<Execution>,
}

struct Active {
    tracker: Arc<Tracker>,
    cancelled: CancellationToken,
}

/// The calls in flight, and those that ended last. Refused calls are not kept.
#[derive(Default)]
pub(crate) struct Requests {
    active: DashMap<String, Active>,
    ended: Mutex<VecDeque<(Weak<Tracker>, Execution)>>,
}

impl Requests {
    /// Adds a call in flight. The returned token is cancelled to end the call.
    pub(crate) fn begin(&self, id: &str, tracker: &Arc<Tracker>) -> CancellationToken {
        let cancelled = CancellationToken::new();
        let active = Active { tracker: Arc::clone(tracker), cancelled: cancelled.clone() };
        self.active.insert(id.to_owned(), active);
        cancelled
    }

    /// Records that a call has ended.
    pub(crate) fn end(&self, record: &CallRecord) {
        let Some((_, active)) = self.active.remove(&record.request_id) else { return };
        if record.outcome == CallOutcome::Refused {
            return;
        }
        let is_ok = record.outcome == CallOutcome::Ok;
        let execution = Execution {
            request_id: record.request_id.clone(),
            server_id: record.upstream.clone(),
            tool_name: record.tool.clone(),
            timestamp: record.started_at,
            duration: record.duration_ms,
            status: if is_ok { ExecutionStatus::Success } else { ExecutionStatus::Error },
        };
        let mut ended = self.ended();
        if ended.len() >= MAX_ENDED {
            ended.pop_front();
        }
        ended.push_back((Arc::downgrade(&active.tracker), execution));
    }

    /// Cancels the call with this id. Returns whether it is in flight.
    pub(crate) fn cancel(&self, id: &str) -> bool {
        self.active.get(id).inspect(|active| active.cancelled.cancel()).is_some()
    }

    /// Cancels the calls of a session.
    pub(crate) fn cancel_all(&self, tracker: &Arc<Tracker>) {
        let of_session = self.active.iter().filter(|active| Arc::ptr_eq(&active.tracker, tracker));
        of_session.for_each(|active| active.cancelled.cancel());
    }

    /// Returns the calls of each session, by the address of its counter.
    pub(crate) fn by_session(&self) -> HashMap<usize, SessionCalls> {
        let mut sessions: HashMap<usize, SessionCalls> = HashMap::new();
        for active in &self.active {
            sessions.entry(Arc::as_ptr(&active.tracker).addr()).or_default().active.push(active.key().clone());
        }
        for (tracker, execution) in self.ended().iter().rev() {
            let of_session = sessions.entry(tracker.as_ptr().addr()).or_default();
            if of_session.ended.len() < MAX_SHOWN {
                of_session.ended.push(execution.clone());
            }
        }
        sessions
    }

    fn ended(&self) -> MutexGuard<'_, VecDeque<(Weak<Tracker>, Execution)>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
