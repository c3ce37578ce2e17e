//! Limits on the calls of a process, an upstream, a session, a principal or an address (document 003,
//! ExecutionTracker).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::rpc::RETRY_AFTER_MS;

/// Why a call is refused. The name of the reason appears in the error's data and in `hawsepipe_calls_refused_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// The stop switch is set.
    Stopped,
    /// The process has reached its limit of calls in flight.
    ConcurrentCalls,
    /// The upstream has reached its limit of calls in flight.
    UpstreamConcurrentCalls,
    /// The session or principal has reached its limit of calls in flight.
    SessionConcurrentCalls,
    /// More than half of the calls that the process allows are in flight, and the address has reached its limit of
    /// calls in flight.
    AddressConcurrentCalls,
    /// The session or principal has reached its limit of calls in total.
    SessionTotalCalls,
    /// The process is shutting down.
    Draining,
    /// The upstream was taken out of routing, because its probes failed.
    AutoDisabled,
    /// A Guard or another protective setting cannot be enforced, so the call is refused rather than served
    /// unprotected.
    FailsClosed,
    /// Calls are nested too deep: a plugin called a tool, a plugin that ran on that call called another tool, and so
    /// on.
    TooDeep,
    /// The execution of a plugin has reached its limit of tool calls in flight.
    PluginCalls,
    /// A plugin that runs on a list called a tool. Nobody made a call that this one could be a part of.
    NoCaller,
    /// A plugin that runs as a shadow called a tool. Shadows have no effect, so they cannot call tools.
    Shadow,
}

impl RefusalReason {
    /// Returns the reason as it appears in errors and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "Stopped",
            Self::ConcurrentCalls => "ConcurrentCalls",
            Self::UpstreamConcurrentCalls => "UpstreamConcurrentCalls",
            Self::SessionConcurrentCalls => "SessionConcurrentCalls",
            Self::AddressConcurrentCalls => "AddressConcurrentCalls",
            Self::SessionTotalCalls => "SessionTotalCalls",
            Self::Draining => "Draining",
            Self::AutoDisabled => "AutoDisabled",
            Self::FailsClosed => "FailsClosed",
            Self::TooDeep => "TooDeep",
            Self::PluginCalls => "PluginCalls",
            Self::NoCaller => "NoCaller",
            Self::Shadow => "Shadow",
        }
    }

    /// Returns the milliseconds after which a retry can succeed; `None` if waiting alone does not help.
    pub fn retry_after_ms(self) -> Option<u64> {
        match self {
            Self::ConcurrentCalls
            | Self::UpstreamConcurrentCalls
            | Self::SessionConcurrentCalls
            | Self::AddressConcurrentCalls
            | Self::Draining => Some(RETRY_AFTER_MS),
            Self::AutoDisabled => Some(30_000),
            _ => None,
        }
    }
}

/// Counts the calls of a process, an upstream, a session, a principal or an address.
#[derive(Debug, Default)]
pub struct Tracker {
    in_flight: AtomicU32,
    total: AtomicU64,
}

/// The limit that a tracker has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Calls in flight.
    Concurrent,
    /// Calls in total.
    Total,
}

impl Tracker {
    /// Counts a call as in flight, unless a limit is reached. Each success must be followed by one
    /// [`Tracker::leave`].
    ///
    /// # Errors
    /// Returns the limit that is reached. The call is then not counted.
    pub fn enter(&self, concurrent: Option<u32>, total: Option<u64>) -> Result<(), Full> {
        self.enter_beside(concurrent)?;
        let limit = total.unwrap_or(u64::MAX);
        let update = |n: u64| (n < limit).then_some(n + 1);
        if self.total.fetch_update(Ordering::AcqRel, Ordering::Acquire, update).is_err() {
            self.leave();
            return Err(Full::Total);
        }
        Ok(())
    }

    /// Like [`Tracker::enter`], for a request that is no call: it counts only as long as it is in flight.
    ///
    /// # Errors
    /// If the limit of requests in flight is reached.
    pub fn enter_beside(&self, concurrent: Option<u32>) -> Result<(), Full> {
        let limit = concurrent.unwrap_or(u32::MAX);
        let update = |n: u32| (n < limit).then_some(n + 1);
        let entered = self.in_flight.fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
        entered.map(drop).map_err(|_| Full::Concurrent)
    }

    /// Ends what [`Tracker::enter`] or [`Tracker::enter_beside`] counted.
    pub fn leave(&self) {
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
    }

    /// Returns the number of calls in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Returns the number of calls that were admitted so far.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_until_one_leaves() {
        let tracker = Tracker::default();
        assert_eq!(tracker.enter(Some(1), None), Ok(()));
        assert_eq!(tracker.enter(Some(1), None), Err(Full::Concurrent));
        tracker.leave();
        assert_eq!(tracker.enter(Some(1), None), Ok(()));
        assert_eq!(tracker.total(), 2);
    }

    #[test]
    fn what_is_no_call_counts_while_it_is_in_flight() {
        let tracker = Tracker::default();
        assert_eq!(tracker.enter_beside(Some(1)), Ok(()));
        assert_eq!(tracker.enter_beside(Some(1)), Err(Full::Concurrent));
        assert_eq!((tracker.in_flight(), tracker.total()), (1, 0));
    }

    #[test]
    fn a_call_over_the_total_is_not_left_in_flight() {
        let tracker = Tracker::default();
        assert_eq!(tracker.enter(None, Some(1)), Ok(()));
        tracker.leave();
        assert_eq!(tracker.enter(None, Some(1)), Err(Full::Total));
        assert_eq!((tracker.in_flight(), tracker.total()), (0, 1));
    }
}
