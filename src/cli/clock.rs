//! A [`Clock`] that reads the clocks of the system.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::domain::ports::Clock;

#[derive(Debug)]
pub struct SystemClock(Instant);

impl SystemClock {
    /// Makes a clock. Its monotonic time starts now, at zero.
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn unix_millis(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}
