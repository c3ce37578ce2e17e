//! Admission: which calls are let in, and the counters of those that are.

use std::sync::Arc;

use serde_json::json;

use crate::domain::limits::{Full, RefusalReason, Tracker};
use crate::domain::plan::{Limits, UpstreamPlan};
use crate::domain::rpc::{REFUSED, RpcError};
use crate::engine::Engine;
use crate::engine::plan::snapshot::Snapshot;
use crate::engine::request::{CallRequest, Caller};

/// How deep calls that plugins make can be nested.
const MAX_DEPTH: u32 = 3;

/// Counts a call in a tracker, until it is dropped.
pub(crate) struct Counted(Arc<Tracker>);

impl Counted {
    /// Counts a call in.
    pub(crate) fn enter(tracker: &Arc<Tracker>, concurrent: Option<u32>, total: Option<u64>) -> Result<Self, Full> {
        tracker.enter(concurrent, total)?;
        Ok(Self(Arc::clone(tracker)))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The trackers that count a call.
pub(crate) type Admitted = Vec<Counted>;

/// Why a call is not let in: the reason and the message for the client.
pub(crate) struct AdmissionError {
    pub(crate) reason: RefusalReason,
    pub(crate) message: String,
}

impl AdmissionError {
    pub(crate) fn new(reason: RefusalReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// The process is about to end.
    pub(crate) fn draining() -> Self {
        Self::new(RefusalReason::Draining, "this gateway is about to end: connect again, to another replica of it")
    }

    /// Converts it to a JSON-RPC error.
    pub(crate) fn to_error(&self) -> RpcError {
        let mut data = json!({"reason": self.reason.as_str()});
        if let Some(ms) = self.reason.retry_after_ms() {
            data["retryAfterMs"] = json!(ms);
        }
        RpcError::new(REFUSED, self.message.clone()).with_data(data)
    }
}

/// Whether the plan allows a call at nesting depth `depth` at all. The stop switch refuses only new calls (depth 0): a
/// running call continues to its end, including the calls that its plugins make.
pub(crate) fn gate(snapshot: &Snapshot, depth: u32) -> Result<(), AdmissionError> {
    let gateway = &snapshot.plan().gateway;
    if gateway.stopped && depth == 0 {
        return Err(AdmissionError::new(RefusalReason::Stopped, "this gateway is stopped (spec.stopped)"));
    }
    let refusal = gateway.refusing.as_ref();
    refusal.map_or(Ok(()), |refusal| Err(AdmissionError::new(RefusalReason::FailsClosed, refusal.message.clone())))
}

impl Engine {
    /// Lets a session begin, or returns why not.
    ///
    /// # Errors
    /// If the process is about to end.
    pub fn admit_session(&self) -> Result<(), RpcError> {
        if self.is_draining() { Err(AdmissionError::draining().to_error()) } else { Ok(()) }
    }

    /// Lets a call into the process and its session, or returns why not.
    pub(crate) fn admit(&self, snapshot: &Snapshot, request: &CallRequest<'_>) -> Result<Admitted, AdmissionError> {
        let (gateway, depth) = (&snapshot.plan().gateway, request.depth());
        if depth > MAX_DEPTH {
            let message = format!("plugins called tools {depth} calls deep, {MAX_DEPTH} are allowed");
            return Err(AdmissionError::new(RefusalReason::TooDeep, message));
        }
        // A call that a plugin makes belongs to the running call around it.
        if self.state.ended.is_cancelled() && depth == 0 {
            return Err(AdmissionError::draining());
        }
        gate(snapshot, depth)?;
        let limits = &gateway.limits;
        let in_process = Counted::enter(&self.state.calls, Some(limits.concurrent_calls), None).map_err(|_| {
            let message = format!("{} calls are in flight, as many as this gateway takes", limits.concurrent_calls);
            AdmissionError::new(RefusalReason::ConcurrentCalls, message)
        })?;
        let in_session = self.admit_caller(request.caller, limits, depth)?;
        Ok(vec![in_process, in_session])
    }

    /// Lets a call of the process into its session, or returns why not. The limit on calls in flight applies only to
    /// calls of clients. If it applied to the calls that plugins make, a call could fail half done.
    fn admit_caller(&self, caller: &Caller, limits: &Limits, depth: u32) -> Result<Counted, AdmissionError> {
        let (mut concurrent, mut total) = (limits.session_concurrent_calls, limits.session_total_calls);
        concurrent = concurrent.filter(|_| depth == 0);
        if caller.by_address {
            let crowded = u64::from(self.state.calls.in_flight()) * 2 > u64::from(limits.concurrent_calls);
            (concurrent, total) = (concurrent.filter(|_| crowded), None);
        }
        Counted::enter(&caller.tracker, concurrent, total).map_err(|full| match full {
            Full::Concurrent if caller.by_address => {
                let message = format!(
                    "this gateway is more than half full, and {} calls from your address are in flight, as many as it \
                     takes of one then",
                    concurrent.unwrap_or(0)
                );
                AdmissionError::new(RefusalReason::AddressConcurrentCalls, message)
            }
            Full::Concurrent => {
                let message = format!("{} calls of this session are in flight, its limit", concurrent.unwrap_or(0));
                AdmissionError::new(RefusalReason::SessionConcurrentCalls, message)
            }
            Full::Total => {
                let message = format!("this session has made its {} calls", total.unwrap_or(0));
                AdmissionError::new(RefusalReason::SessionTotalCalls, message)
            }
        })
    }

    /// Lets an admitted call on to its upstream, or returns why not.
    pub(crate) fn admit_upstream(&self, admitted: &mut Admitted, plan: &UpstreamPlan) -> Result<(), AdmissionError> {
        if !self.state.in_routing(&plan.key) {
            let message = format!("upstream {} does not answer and was taken out of routing", plan.key.name);
            return Err(AdmissionError::new(RefusalReason::AutoDisabled, message));
        }
        let Some(limit) = plan.concurrent_calls else { return Ok(()) };
        let tracker = self.state.upstream_tracker(&plan.key);
        let counted = Counted::enter(&tracker, Some(limit), None).map_err(|_| {
            let message = format!("{limit} calls of upstream {} are in flight, its limit", plan.key.name);
            AdmissionError::new(RefusalReason::UpstreamConcurrentCalls, message)
        })?;
        admitted.push(counted);
        Ok(())
    }
}
