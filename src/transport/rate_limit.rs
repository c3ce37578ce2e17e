//! Limits the rate at which streams of servers are read, so that a server that writes without end does not keep a core busy.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The number of bytes per second that are read in the long run: 4 MiB.
const BYTES: u64 = 4 << 20;
/// How far reading may be ahead of the rate: 2 MiB.
const AHEAD: Duration = Duration::from_millis(500);

/// A limit of 4 MiB per second on one stream, so that no client waits for the messages of another. Its clones share it.
#[derive(Clone, Debug)]
pub struct RateLimit {
    /// Until when the bytes that were read use up the rate.
    used_until: Arc<Mutex<Instant>>,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self { used_until: Arc::new(Mutex::new(Instant::now())) }
    }
}

impl RateLimit {
    /// Counts `bytes`, and waits until reading is not too far ahead of the rate. The caller does not read in the meantime, so
    /// the server has to wait too.
    pub async fn spend(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let wait = self.count(bytes, Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    fn count(&self, bytes: u64, now: Instant) -> Duration {
        let mut used_until = self.used_until.lock().unwrap_or_else(PoisonError::into_inner);
        *used_until = (*used_until).max(now) + Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / BYTES);
        used_until.duration_since(now).saturating_sub(AHEAD)
    }

    /// A limit that is used up for an hour.
    #[cfg(test)]
    pub fn used_up() -> Self {
        let limit = Self::default();
        limit.count(3600 * BYTES, Instant::now());
        limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ahead_of_the_rate_waits_and_time_makes_it_up() {
        let (limit, now) = (RateLimit::default(), Instant::now());
        assert_eq!(limit.count(BYTES / 2, now), Duration::ZERO);
        assert!(limit.clone().count(BYTES, now) > Duration::from_millis(900), "clones share it");
        assert_eq!(limit.count(1, now + Duration::from_secs(2)), Duration::ZERO);
        assert_eq!(RateLimit::default().count(BYTES / 4, now), Duration::ZERO);
    }
}
