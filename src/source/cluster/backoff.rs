//! How long to wait before the API server is asked again.

use std::time::Duration;

use kube::runtime::utils::Backoff;

/// The first wait.
const FIRST: Duration = Duration::from_millis(200);

/// Waits that double up to a longest one, each stretched by up to a half at random, so that a fleet of gateways does not
/// ask in step.
#[derive(Debug)]
pub(super) struct Waits {
    next: Duration,
    longest: Duration,
}

impl Waits {
    pub(super) fn new(longest: Duration) -> Self {
        Self { next: FIRST, longest }
    }
}

impl Iterator for Waits {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let wait = self.next;
        self.next = (wait * 2).min(self.longest);
        let random = f64::from(uuid::Uuid::new_v4().as_bytes()[0]) / 255.0;
        Some(wait.mul_f64(1.0 + random / 2.0))
    }
}

impl Backoff for Waits {
    fn reset(&mut self) {
        self.next = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_longest_and_begin_anew() {
        let mut waits = Waits::new(Duration::from_secs(5));
        let seen: Vec<_> = waits.by_ref().take(8).collect();
        assert!(seen[0] >= FIRST && seen[0] <= FIRST * 3 / 2, "{seen:?}");
        assert!(seen[4] >= FIRST * 16, "{seen:?}");
        assert!(seen[5..].iter().all(|wait| (5.0..=7.5).contains(&wait.as_secs_f64())), "{seen:?}");
        waits.reset();
        assert!(waits.next().is_some_and(|wait| wait <= FIRST * 3 / 2));
    }
}
