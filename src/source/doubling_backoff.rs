//! A retry backoff with jitter.

use std::time::Duration;

use kube::runtime::utils::Backoff;

/// Delays that double up to a maximum. Each delay is lengthened by a random 0 to 50 %, so that many gateways do not
/// retry at the same moment.
#[derive(Debug)]
pub struct DoublingBackoff {
    next: Duration,
    first: Duration,
    longest: Duration,
}

impl DoublingBackoff {
    /// Creates a backoff that starts at `first` and doubles up to `longest`, both without the random part.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first, first, longest }
    }
}

impl Iterator for DoublingBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = self.next;
        self.next = (wait * 2).min(self.longest);
        let random = f64::from(uuid::Uuid::new_v4().as_bytes()[0]) / 255.0;
        Some(wait.mul_f64(1.0 + random / 2.0))
    }
}

impl Backoff for DoublingBackoff {
    fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_longest_and_begin_anew() {
        let first = Duration::from_millis(200);
        let mut waits = DoublingBackoff::new(first, Duration::from_secs(5));
        let seen: Vec<_> = waits.by_ref().take(8).collect();
        assert!(seen[0] >= first && seen[0] <= first * 3 / 2, "{seen:?}");
        assert!(seen[4] >= first * 16, "{seen:?}");
        assert!(seen[5..].iter().all(|wait| (5.0..=7.5).contains(&wait.as_secs_f64())), "{seen:?}");
        waits.reset();
        assert!(waits.next().is_some_and(|wait| wait <= first * 3 / 2));
    }
}
