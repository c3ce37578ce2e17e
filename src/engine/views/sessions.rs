//! The sessions that the admin API shows, each with the calls that count for it (document 003, ExecutionTracker).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::Views;
use crate::engine::access::session::SessionView;
use crate::engine::in_flight::requests::{Execution, SessionCalls};

/// A session, or other callers that are counted as one.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrackedSession {
    /// The first 8 characters of a session's id; `local` for invocations; for clients without sessions, `subject/` and their
    /// subject with ` of ` and the issuer of their token, or `address/` and an IP address or network if they are anonymous.
    pub id: String,
    /// The session; absent for other callers.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionView>,
    /// The maximum number of calls in flight; -1 for no limit.
    pub concurrent_limit: i64,
    /// The maximum number of calls in all; -1 for no limit.
    pub session_limit: i64,
    /// The ids of the calls in flight.
    pub active_executions: Vec<String>,
    /// The number of calls so far.
    pub total_executed: u64,
    /// Whether the admin API has stopped the session.
    pub stopped: bool,
    /// The most recent calls that have ended, newest first.
    pub execution_history: Vec<Execution>,
}

impl Views {
    /// Returns all sessions, oldest first, then the other callers that have made calls.
    pub fn tracked_sessions(&self) -> Vec<TrackedSession> {
        let limits = self.in_force.snapshot().plan().gateway.limits.clone();
        let mut calls = self.gate.in_flight.requests.by_session();
        let callers = self.gate.callers();
        let tracked = callers.into_iter().map(|(id, session, tracker)| {
            let SessionCalls { active, ended } = calls.remove(&Arc::as_ptr(&tracker).addr()).unwrap_or_default();
            TrackedSession {
                concurrent_limit: limits.session_concurrent_calls.map_or(-1, i64::from),
                session_limit: limits.session_total_calls.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(-1),
                active_executions: active,
                total_executed: tracker.total(),
                stopped: tracker.is_stopped(),
                execution_history: ended,
                id,
                session,
            }
        });
        tracked.collect()
    }
}
