//! Which calls are let in: per process, and per session, principal or address (document 003, ExecutionTracker).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Why a call is not let in. The word stands in the error's data and in `hawsepipe_calls_refused_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// The stop switch.
    Stopped,
    /// As many calls as the process may have are in flight.
    ConcurrentCalls,
    /// As many calls as the upstream may have are in flight.
    UpstreamConcurrentCalls,
    /// As many calls as the session may have are in flight.
    SessionConcurrentCalls,
    /// As many calls as one address may have while the process is more than half full are in flight.
    AddressConcurrentCalls,
    /// The session has made all the calls that it may make.
    SessionTotalCalls,
    /// The process is about to end.
    Draining,
    /// The upstream left routing.
    AutoDisabled,
    /// A chain, an upstream or the gateway cannot be guarded as it should be.
    FailsClosed,
    /// A plugin's call within a plugin's call, and so on, deeper than that may go.
    TooDeep,
    /// A plugin waits for as many calls of its own as it may.
    PluginCalls,
    /// A shadow changes nothing, and so calls nothing.
    Shadow,
}

impl RefusalReason {
    /// The word.
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
            Self::Shadow => "Shadow",
        }
    }

    /// Milliseconds after which another try may succeed; none where waiting alone does not help.
    pub fn retry_after_ms(self) -> Option<u32> {
        match self {
            Self::ConcurrentCalls
            | Self::UpstreamConcurrentCalls
            | Self::SessionConcurrentCalls
            | Self::AddressConcurrentCalls => Some(1000),
            Self::AutoDisabled => Some(30_000),
            _ => None,
        }
    }
}

/// Counts calls of one process, upstream, session, principal or address.
#[derive(Debug, Default)]
pub struct Tracker {
    in_flight: AtomicU32,
    total: AtomicU64,
}

/// Which of a tracker's limits is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Calls at once.
    Concurrent,
    /// Calls in all.
    Total,
}

impl Tracker {
    /// Counts a call in, unless a limit is reached. Each success must be paired with [`Tracker::leave`].
    ///
    /// # Errors
    /// The limit that is reached; then nothing is counted.
    pub fn enter(&self, concurrent: Option<u32>, total: Option<u64>) -> Result<(), Full> {
        let limit = concurrent.unwrap_or(u32::MAX);
        let update = |n: u32| (n < limit).then_some(n + 1);
        if self.in_flight.fetch_update(Ordering::AcqRel, Ordering::Acquire, update).is_err() {
            return Err(Full::Concurrent);
        }
        let limit = total.unwrap_or(u64::MAX);
        let update = |n: u64| (n < limit).then_some(n + 1);
        if self.total.fetch_update(Ordering::AcqRel, Ordering::Acquire, update).is_err() {
            self.leave();
            return Err(Full::Total);
        }
        Ok(())
    }

    /// Counts a call out.
    pub fn leave(&self) {
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
    }

    /// Calls in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Calls let in so far.
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
    fn a_call_over_the_total_is_not_left_in_flight() {
        let tracker = Tracker::default();
        assert_eq!(tracker.enter(None, Some(1)), Ok(()));
        tracker.leave();
        assert_eq!(tracker.enter(None, Some(1)), Err(Full::Total));
        assert_eq!((tracker.in_flight(), tracker.total()), (0, 1));
    }
}
