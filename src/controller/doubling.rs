//! Pauses after failures: each is twice as long as the one before, up to a maximum.

use std::time::{Duration, Instant};

/// Pauses that double with each failure. After a success, start over with a new value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubling {
    next: Duration,
    longest: Duration,
}

impl Doubling {
    pub(super) const fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }

    /// Returns the pause after one more failure.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }

    /// Returns when to try again after one more failure at `now`.
    pub(super) fn after(&mut self, now: Instant) -> Instant {
        now + self.pause()
    }

    /// Returns the longest pause, for a failure that is not expected to be temporary. The same pause applies after all
    /// further failures.
    pub(super) fn longest(&mut self) -> Duration {
        self.next = self.longest;
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let (mut pauses, now) = (Doubling::new(Duration::from_secs(1), Duration::from_secs(3)), Instant::now());
        let after: Vec<_> = (0..4).map(|_| pauses.after(now).duration_since(now).as_secs()).collect();
        assert_eq!(after, [1, 2, 3, 3]);
        let mut pauses = Doubling::new(Duration::from_secs(1), Duration::from_secs(3));
        assert_eq!((pauses.longest().as_secs(), pauses.pause().as_secs()), (3, 3));
    }
}
