//! Pauses after failures: each is twice the one before, up to a longest one.

use std::time::{Duration, Instant};

/// Pauses that double. A success begins anew with a new one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubling {
    next: Duration,
    longest: Duration,
}

impl Doubling {
    pub(super) const fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }

    /// The pause after one more failure.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }

    /// When to try again after one more failure, which came at `now`.
    pub(super) fn after(&mut self, now: Instant) -> Instant {
        now + self.pause()
    }

    /// After a failure that does not pass by itself: the longest pause, from now on.
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
