//! Which calls are let in, and counting them out again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;

use super::snapshot::Snapshot;
use super::{Engine, Ports};
use crate::domain::limits::{Full, Refused, Tracker};
use crate::domain::plan::UpstreamPlan;
use crate::domain::rpc::{REFUSED, RpcError};

/// Counts a call out of what it was counted into.
pub(super) struct Admitted(Vec<Arc<Tracker>>);

impl Admitted {
    /// Counts a call into one more tracker.
    fn enter(&mut self, tracker: Arc<Tracker>, concurrent: Option<u32>, total: Option<u64>) -> Result<(), Full> {
        tracker.enter(concurrent, total)?;
        self.0.push(tracker);
        Ok(())
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.iter().for_each(|tracker| tracker.leave());
    }
}

/// Why a call is not let in: the word, and what a client is told.
pub(super) struct Rejection {
    pub(super) reason: Refused,
    pub(super) message: String,
}

impl Rejection {
    fn new(reason: Refused, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// As a JSON-RPC error.
    pub(super) fn to_error(&self) -> RpcError {
        let mut data = json!({"reason": self.reason.as_str()});
        if let Some(ms) = self.reason.retry_after_ms() {
            data["retryAfterMs"] = json!(ms);
        }
        RpcError::new(REFUSED, self.message.clone()).with_data(data)
    }
}

impl<P: Ports> Engine<P> {
    /// Lets a call into the process and its session, or says why not.
    pub(super) fn admit(&self, snapshot: &Snapshot, session: &Arc<Tracker>) -> Result<Admitted, Rejection> {
        let gateway = &snapshot.plan().gateway;
        if self.state.draining.load(Ordering::Acquire) {
            return Err(Rejection::new(Refused::Draining, "this gateway is about to end"));
        }
        if gateway.stopped {
            return Err(Rejection::new(Refused::Stopped, "this gateway is stopped (spec.stopped)"));
        }
        if let Some(refusal) = &gateway.refusing {
            return Err(Rejection::new(Refused::FailsClosed, refusal.message.clone()));
        }
        let limits = &gateway.limits;
        let mut admitted = Admitted(Vec::with_capacity(3));
        self.state.calls.enter(Some(limits.concurrent_calls), None).map_err(|_| {
            let message = format!("{} calls are in flight, as many as this gateway takes", limits.concurrent_calls);
            Rejection::new(Refused::ConcurrentCalls, message)
        })?;
        admitted.0.push(Arc::clone(&self.state.calls));
        let (concurrent, total) = (limits.session_concurrent_calls, limits.session_total_calls);
        admitted.enter(Arc::clone(session), concurrent, total).map_err(|full| match full {
            Full::Concurrent => {
                let message = format!("{} calls of this session are in flight, its limit", concurrent.unwrap_or(0));
                Rejection::new(Refused::SessionConcurrentCalls, message)
            }
            Full::Total => {
                let message = format!("this session has made its {} calls", total.unwrap_or(0));
                Rejection::new(Refused::SessionTotalCalls, message)
            }
        })?;
        Ok(admitted)
    }

    /// Lets an admitted call on to its upstream, or says why not.
    pub(super) fn admit_upstream(&self, admitted: &mut Admitted, plan: &UpstreamPlan) -> Result<(), Rejection> {
        if !self.state.in_routing(&plan.key) {
            let message = format!("upstream {} does not answer and was taken out of routing", plan.key.name);
            return Err(Rejection::new(Refused::AutoDisabled, message));
        }
        let Some(limit) = plan.concurrent_calls else { return Ok(()) };
        let tracker = self.state.upstream_tracker(&plan.key);
        admitted.enter(tracker, Some(limit), None).map_err(|_| {
            let message = format!("{limit} calls of upstream {} are in flight, its limit", plan.key.name);
            Rejection::new(Refused::UpstreamConcurrentCalls, message)
        })
    }
}
