//! The stop switch of the admin API: stops the gateway or one session, in this process, until calls are let run again. A new
//! plan does not change that.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::engine::Engine;

impl Engine {
    /// Refuses every new call, and with `cancel` also ends those in flight.
    pub fn stop(&self, cancel: bool) {
        self.state.stopped.store(true, Ordering::Release);
        if cancel {
            self.state.cut.load().cancel();
        }
        tracing::warn!(cancel, "the gateway is stopped by the admin API");
    }

    /// Ends [`Self::stop`]. A plan that is stopped itself still refuses calls.
    pub fn resume(&self) {
        self.state.stopped.store(false, Ordering::Release);
        self.let_calls_run(self.snapshot().plan());
        tracing::warn!("the gateway is resumed by the admin API");
    }

    /// Whether the admin API has stopped the gateway.
    pub fn is_stopped_by_admin(&self) -> bool {
        self.state.stopped.load(Ordering::Acquire)
    }

    /// Refuses every new call of the session with this id, as the admin API shows it, and with `cancel` also ends those in
    /// flight; or lets calls run again. Returns whether there is such a session.
    pub fn stop_session(&self, id: &str, stops: bool, cancel: bool) -> bool {
        let trackers = self.trackers_of(id);
        // Counters of addresses are forgotten once nothing uses them.
        let mut stopped = self.state.stopped_sessions.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.retain(|known| Arc::strong_count(known) > 1 && !trackers.iter().any(|named| Arc::ptr_eq(known, named)));
        for tracker in &trackers {
            tracker.set_stopped(stops);
            if stops {
                stopped.push(Arc::clone(tracker));
            }
            if stops && cancel {
                self.state.executions.cancel_all(tracker);
            }
        }
        !trackers.is_empty()
    }

    /// Cancels the call with this id. Returns whether it is in flight.
    pub fn cancel_call(&self, id: &str) -> bool {
        self.state.executions.cancel(id)
    }
}
