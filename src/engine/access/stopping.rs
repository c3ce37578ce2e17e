//! The stop switch of the admin API: stops the gateway or one session, in this process, until calls are let run again. A new
//! plan does not change that.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::gate::Gate;
use super::session::SessionView;
use crate::domain::identity::LOCAL;
use crate::domain::limits::Tracker;
use crate::domain::plan::Plan;
use crate::engine::plan::link::Linked;

impl Gate {
    /// Refuses every new call, and with `cancel` also ends those in flight.
    pub fn stop(&self, cancel: bool) {
        self.stopped.store(true, Ordering::Release);
        if cancel {
            self.cut.load().cancel();
        }
        tracing::warn!(cancel, "the gateway is stopped by the admin API");
    }

    /// Ends [`Self::stop`]. A plan that is stopped itself still refuses calls.
    pub fn resume(&self) {
        self.stopped.store(false, Ordering::Release);
        self.let_calls_run(self.in_force.snapshot().plan());
        tracing::warn!("the gateway is resumed by the admin API");
    }

    /// Whether the admin API has stopped the gateway.
    pub fn is_stopped_by_admin(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Refuses every new call of the session with this id, as the admin API shows it, and with `cancel` also ends those in
    /// flight; or lets calls run again. Returns whether there is such a session.
    pub fn stop_session(&self, id: &str, stops: bool, cancel: bool) -> bool {
        let trackers = self.trackers_of(id);
        // Counters of addresses are forgotten once nothing uses them.
        let mut stopped = self.stopped_sessions.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.retain(|known| Arc::strong_count(known) > 1 && !trackers.iter().any(|named| Arc::ptr_eq(known, named)));
        for tracker in &trackers {
            tracker.set_stopped(stops);
            if stops {
                stopped.push(Arc::clone(tracker));
            }
            if stops && cancel {
                self.in_flight.requests.cancel_all(tracker);
            }
        }
        !trackers.is_empty()
    }

    /// Cancels the call with this id. Returns whether it is in flight.
    pub fn cancel_call(&self, id: &str) -> bool {
        self.in_flight.requests.cancel(id)
    }

    /// If the calls in flight were cancelled, and neither this plan nor the admin API stops calls, creates a new token, so
    /// that calls on this plan are not cancelled.
    pub(crate) fn let_calls_run(&self, plan: &Plan) {
        let is_stopped = plan.gateway.stopped || self.is_stopped_by_admin();
        if !is_stopped && self.cut.load().is_cancelled() {
            self.cut.store(Arc::default());
        }
    }

    /// Ends calls in flight if the plan is stopped with `stopMode: Cancel`.
    pub(in crate::engine) fn cut_calls(&self, linked: &Linked) {
        let gateway = &linked.plan.gateway;
        if gateway.stopped && gateway.stop_cancels {
            self.cut.load().cancel();
        }
    }

    /// Returns the counters of the sessions with this id.
    pub(crate) fn trackers_of(&self, id: &str) -> Vec<Arc<Tracker>> {
        self.callers().into_iter().filter(|(known, ..)| known == id).map(|(.., tracker)| tracker).collect()
    }

    pub(in crate::engine) fn callers(&self) -> Vec<(String, Option<SessionView>, Arc<Tracker>)> {
        let sessions = self.sessions.all().into_iter();
        let mut callers: Vec<_> = sessions.map(|session| (session.view(), Arc::clone(&session.tracker))).collect();
        callers.sort_by_key(|(view, _)| view.created_at);
        let of_session = |(view, tracker): (SessionView, _)| (view.id.clone(), Some(view), tracker);
        let addresses = self.sessions.addresses().known();
        let of_address = addresses.into_iter().map(|(address, tracker)| (format!("address/{address}"), None, tracker));
        let local = (LOCAL.to_owned(), None, Arc::clone(&self.local));
        let principals = self.sessions.principals().known().into_iter();
        let of_subject = principals.map(|(subject, tracker)| (format!("subject/{subject}"), None, tracker));
        let others = of_address
            .chain(of_subject)
            .chain([local])
            .filter(|(.., tracker)| tracker.total() > 0 || tracker.is_stopped());
        callers.into_iter().map(of_session).chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::reason::Reason;
    use crate::engine::plan::in_force::InForce;
    use crate::engine::plan::snapshot::Snapshot;
    use crate::engine::tests::Time;
    use crate::telemetry::metrics::Metrics;

    fn gate() -> Gate {
        let metrics = Arc::new(Metrics::new().unwrap());
        Gate::new(&Arc::new(InForce::new(Arc::default())), &metrics, &(Time::start() as _))
    }

    fn plan(stopped: bool) -> Plan {
        let mut plan = Plan::clone(Snapshot::empty().plan());
        (plan.gateway.stopped, plan.gateway.stop_cancels, plan.gateway.refusing) = (stopped, true, None);
        plan
    }

    #[test]
    fn a_stop_refuses_calls_until_it_is_ended() {
        let gate = gate();
        let snapshot = Snapshot::empty();
        gate.stop(false);
        assert_eq!(gate.check(&snapshot).unwrap_err().reason, Reason::Stopped);
        assert!(!gate.cut.load().is_cancelled(), "calls in flight go on");
        gate.resume();
        assert_ne!(gate.check(&snapshot).unwrap_err().reason, Reason::Stopped);
    }

    #[test]
    fn calls_can_run_again_only_once_neither_the_plan_nor_the_admin_api_stops_them() {
        let gate = gate();
        gate.stop(true);
        assert!(gate.cut.load().is_cancelled());
        gate.let_calls_run(&plan(false));
        assert!(gate.cut.load().is_cancelled(), "the admin API stops them");
        gate.stopped.store(false, Ordering::Release);
        gate.let_calls_run(&plan(true));
        assert!(gate.cut.load().is_cancelled(), "the plan stops them");
        gate.let_calls_run(&plan(false));
        assert!(!gate.cut.load().is_cancelled());
        gate.cut_calls(&Linked::empty(plan(true)));
        assert!(gate.cut.load().is_cancelled());
    }
}
