//! Limits on the calls of a process, an upstream, a session, a principal or an address (document 003,
//! ExecutionTracker).

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Counts the calls of a process, an upstream, a session, a principal or an address.
#[derive(Debug, Default)]
pub struct Tracker {
    in_flight: AtomicU32,
    total: AtomicU64,
    stopped: AtomicBool,
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

    /// Sets whether new calls are to be refused. The tracker itself refuses none.
    pub fn set_stopped(&self, stopped: bool) {
        self.stopped.store(stopped, Ordering::Release);
    }

    /// Whether new calls are to be refused.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
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
