//! Limits on what a server sends that nobody asked for, because a server that writes without end must not keep a core busy.

use std::time::Duration;

use tokio::time::Instant;

/// The cost of a line or an event in addition to its bytes. Without it, empty lines would cost nothing.
pub const EACH: u64 = 16;
/// The maximum number of bytes of an incomplete message that are kept while no call waits for an answer.
pub const UNASKED: u64 = 1 << 20;
/// The time over which amounts are added up.
const WINDOW: Duration = Duration::from_secs(1);

/// A limit on an amount per second.
#[derive(Clone, Debug)]
pub struct Flow {
    most: u64,
    spent: u64,
    began: Instant,
}

impl Flow {
    /// Allows at most `most` per second.
    pub fn new(most: u64) -> Self {
        Self { most, spent: 0, began: Instant::now() }
    }

    /// Takes `amount` if enough is left of the allowance of the current second. Returns whether it was taken.
    pub fn take(&mut self, amount: u64) -> bool {
        if self.began.elapsed() >= WINDOW {
            (self.began, self.spent) = (Instant::now(), 0);
        }
        let fits = self.spent + amount <= self.most;
        if fits {
            self.spent += amount;
        }
        fits
    }

    /// How long until the whole allowance is there again; zero if it is.
    pub fn rest(&self) -> Duration {
        WINDOW.saturating_sub(self.began.elapsed())
    }
}
