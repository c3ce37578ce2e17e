//! Admission: decides which calls are accepted, and counts the accepted ones until they end.

use std::sync::Arc;

use super::gate::Gate;
use crate::domain::limits::{Full, Tracker};
use crate::domain::plan::{Limits, UpstreamPlan};
use crate::domain::reason::Reason;
use crate::domain::rpc::{RETRY_AFTER_MS, RpcError};
use crate::engine::access::run_places::RunPlace;
use crate::engine::plan::snapshot::Snapshot;
use crate::engine::request::{CallRequest, Caller};

/// The maximum nesting depth of calls that plugins make.
const MAX_DEPTH: u32 = 3;

/// Counts a call in a [`Tracker`] until this value is dropped.
pub(crate) struct Counted(Arc<Tracker>);

impl Counted {
    /// Counts a call, unless `concurrent` calls are already in flight or `total` calls have been made.
    pub(crate) fn enter(tracker: &Arc<Tracker>, concurrent: Option<u32>, total: Option<u64>) -> Result<Self, Full> {
        tracker.enter(concurrent, total)?;
        Ok(Self(Arc::clone(tracker)))
    }

    /// Counts a request that is no call, unless `concurrent` requests are already in flight.
    fn enter_beside(tracker: &Arc<Tracker>, concurrent: Option<u32>) -> Result<Self, Full> {
        tracker.enter_beside(concurrent)?;
        Ok(Self(Arc::clone(tracker)))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// What an accepted call occupies until it ends.
#[derive(Default)]
pub(crate) struct Admitted {
    counted: Vec<Counted>,
    run: Option<RunPlace>,
}

/// Why a call is refused at admission: the reason and the message for the client.
pub(crate) struct AdmissionError {
    pub(crate) reason: Reason,
    pub(crate) message: String,
}

impl AdmissionError {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// The error for calls that arrive while the process shuts down.
    pub(crate) fn draining() -> Self {
        Self::new(Reason::Draining, "this gateway is about to end: connect again, to another replica of it")
    }

    pub(crate) fn to_error(&self) -> RpcError {
        let error = RpcError::refused(self.reason, self.message.clone());
        match retry_after_ms(self.reason) {
            Some(ms) => error.with_retry_after(ms),
            None => error,
        }
    }
}

/// Returns the milliseconds after which a retry can succeed; `None` if waiting alone does not help.
fn retry_after_ms(reason: Reason) -> Option<u64> {
    match reason {
        Reason::ConcurrentCalls
        | Reason::UpstreamConcurrentCalls
        | Reason::SessionConcurrentCalls
        | Reason::AddressConcurrentCalls
        | Reason::ConcurrentRuns
        | Reason::AutoDisabled
        | Reason::Draining => Some(RETRY_AFTER_MS),
        _ => None,
    }
}

/// Returns an error if the plan refuses every call, or has stopped the gateway.
pub(crate) fn check_plan(snapshot: &Snapshot) -> Result<(), AdmissionError> {
    if snapshot.plan().gateway.stopped {
        return Err(AdmissionError::new(Reason::Stopped, "this gateway is stopped (spec.stopped)"));
    }
    check_refusing(snapshot)
}

/// Returns an error if the plan refuses every call and every answer.
pub(crate) fn check_refusing(snapshot: &Snapshot) -> Result<(), AdmissionError> {
    let refusal = snapshot.plan().gateway.refusing.as_ref();
    refusal.map_or(Ok(()), |refusal| Err(AdmissionError::new(Reason::FailsClosed, refusal.message.clone())))
}

impl Gate {
    /// Returns an error if the plan or the admin API has stopped the gateway, or if the plan refuses every call. While the gateway
    /// is stopped, nothing more is sent to a server, also not for a running call or by its plugins.
    pub(crate) fn check(&self, snapshot: &Snapshot) -> Result<(), AdmissionError> {
        if self.is_stopped_by_admin() {
            return Err(AdmissionError::new(Reason::Stopped, "this gateway is stopped (by its admin API)"));
        }
        check_plan(snapshot)
    }

    /// Like [`Self::check`], and returns an error if the session of the caller is stopped.
    pub(crate) fn check_open(&self, snapshot: &Snapshot, caller: &Caller) -> Result<(), AdmissionError> {
        self.check(snapshot)?;
        if caller.tracker.is_stopped() {
            return Err(AdmissionError::new(Reason::Stopped, "this session is stopped (by the gateway's admin API)"));
        }
        Ok(())
    }

    /// Checks whether a new legacy session can begin.
    ///
    /// # Errors
    /// If the process is shutting down and the session could not go on at another replica.
    pub fn admit_session(&self) -> Result<(), RpcError> {
        let ends_here = self.is_draining() && !self.sessions().is_shared();
        if ends_here { Err(AdmissionError::draining().to_error()) } else { Ok(()) }
    }

    /// Checks whether a stream of notifications can begin.
    ///
    /// # Errors
    /// If the gateway is stopped, refuses everything, or is about to end.
    pub fn admit_stream(&self) -> Result<(), RpcError> {
        let draining = self.is_draining().then(AdmissionError::draining);
        let refused = draining.map_or_else(|| self.check(&self.in_force.snapshot()), Err);
        refused.map_err(|error| {
            self.metrics.refused(error.reason);
            error.to_error()
        })
    }

    /// Counts a refusal of what there is too much of, and returns the error for the client, which can try again soon.
    pub fn busy(&self, reason: Reason, message: impl Into<String>) -> RpcError {
        self.metrics.refused(reason);
        RpcError::busy(reason, message)
    }

    /// Accepts a call and counts it against the limits of the process and the caller, or returns why the call is
    /// refused.
    /// `depth` is how many calls enclose the request. If `is_call`, it counts against the number of calls that a session
    /// makes in all.
    pub(crate) fn admit_of(
        &self,
        snapshot: &Snapshot,
        caller: &Caller,
        depth: u32,
        is_call: bool,
    ) -> Result<Admitted, AdmissionError> {
        let gateway = &snapshot.plan().gateway;
        if depth > MAX_DEPTH {
            let message = format!("plugins called tools {depth} calls deep, {MAX_DEPTH} are allowed");
            return Err(AdmissionError::new(Reason::TooDeep, message));
        }
        // A call that a plugin makes is part of a running call, so it is still accepted during a shutdown.
        if self.ended.is_cancelled() && depth == 0 {
            return Err(AdmissionError::draining());
        }
        self.check_open(snapshot, caller)?;
        let limits = &gateway.limits;
        let in_process = Counted::enter(&self.calls, Some(limits.concurrent_calls), None).map_err(|_| {
            let message = format!("{} calls are in flight, as many as this gateway takes", limits.concurrent_calls);
            AdmissionError::new(Reason::ConcurrentCalls, message)
        })?;
        let in_session = self.admit_caller(caller, limits, depth, is_call)?;
        Ok(Admitted { counted: vec![in_process, in_session], run: None })
    }

    /// Counts a call against the limits of the session, principal or address of its caller. The limit on calls in
    /// flight applies only to calls of clients. If it applied to the calls that plugins make, a client's call could
    /// fail halfway.
    fn admit_caller(
        &self,
        caller: &Caller,
        limits: &Limits,
        depth: u32,
        is_call: bool,
    ) -> Result<Counted, AdmissionError> {
        let (mut concurrent, mut total) = (limits.session_concurrent_calls, limits.session_total_calls);
        concurrent = concurrent.filter(|_| depth == 0);
        if caller.by_address {
            let crowded = u64::from(self.calls.in_flight()) * 2 > u64::from(limits.concurrent_calls);
            (concurrent, total) = (concurrent.filter(|_| crowded), None);
        }
        let entered = match is_call {
            true => Counted::enter(&caller.tracker, concurrent, total),
            false => Counted::enter_beside(&caller.tracker, concurrent),
        };
        entered.map_err(|full| match full {
            Full::Concurrent if caller.by_address => {
                let message = format!(
                    "this gateway is more than half full, and {} calls from your address are in flight, as many as it \
                     takes of one then",
                    concurrent.unwrap_or(0)
                );
                AdmissionError::new(Reason::AddressConcurrentCalls, message)
            }
            Full::Concurrent => {
                let message = format!("{} calls of this session are in flight, its limit", concurrent.unwrap_or(0));
                AdmissionError::new(Reason::SessionConcurrentCalls, message)
            }
            Full::Total => {
                let message = format!("this session has made its {} calls", total.unwrap_or(0));
                AdmissionError::new(Reason::SessionTotalCalls, message)
            }
        })
    }

    /// Returns an error if the upstream was taken out of routing.
    pub(crate) fn check_routing(&self, plan: &UpstreamPlan) -> Result<(), AdmissionError> {
        if self.catalogues.in_routing(&plan.key) {
            return Ok(());
        }
        let state = self.catalogues.upstream(&plan.key);
        let wait = state.next_probe_at.map(|at| at.saturating_sub(self.clock.unix_millis()).div_ceil(1000));
        let next = match wait {
            Some(seconds) => format!("; each call tries it once more, and the gateway does so in {seconds} s"),
            None => format!(
                "; spec.health.autoRecover is false: change the annotation hawsepipe.dev/enable of MCPUpstream {} to have \
                 it tried again",
                plan.key
            ),
        };
        let message = format!("upstream {} does not answer and was taken out of routing{next}", plan.key.name);
        Err(AdmissionError::new(Reason::AutoDisabled, message))
    }

    /// Takes a place for the run, if the accepted call is one of a pipeline, or returns why the call is refused.
    pub(crate) fn admit_run(
        &self,
        admitted: &mut Admitted,
        limits: &Limits,
        plan: &UpstreamPlan,
        request: &CallRequest<'_>,
    ) -> Result<(), AdmissionError> {
        if plan.pipeline().is_none() {
            return Ok(());
        }
        let (session, account) = (&request.caller.session, request.reservation.account());
        let taken = self.run_places.take(session, account, limits.concurrent_runs);
        let refused = |why| AdmissionError::new(Reason::ConcurrentRuns, format!("{why} (limits.concurrentRuns)"));
        admitted.run = Some(taken.map_err(refused)?);
        Ok(())
    }

    /// Counts an accepted call against the limit of its upstream, or returns why the call is refused.
    pub(crate) fn admit_upstream(&self, admitted: &mut Admitted, plan: &UpstreamPlan) -> Result<(), AdmissionError> {
        self.check_routing(plan)?;
        let Some(limit) = plan.concurrent_calls else { return Ok(()) };
        let tracker = self.catalogues.upstream_tracker(&plan.key);
        let counted = Counted::enter(&tracker, Some(limit), None).map_err(|_| {
            let message = format!("{limit} calls of upstream {} are in flight, its limit", plan.key.name);
            AdmissionError::new(Reason::UpstreamConcurrentCalls, message)
        })?;
        admitted.counted.push(counted);
        Ok(())
    }
}
