//! How much is taken of what nobody asked for: a server that writes without end must not keep a core busy.

use std::time::Duration;

use tokio::time::Instant;

/// Bytes of one second.
const BYTES: u64 = 4 * 1024 * 1024;
/// What a line or an event costs besides its bytes: it may have none.
pub(super) const EACH: u64 = 16;
/// The most bytes of a message that are kept before its end while nobody waits for an answer.
pub(super) const UNASKED: u64 = 1 << 20;
/// For how long an amount is counted.
const WINDOW: Duration = Duration::from_secs(1);

/// An amount for each second.
#[derive(Debug)]
pub(super) struct Flow {
    most: u64,
    spent: u64,
    began: Instant,
}

impl Flow {
    /// At most `most` a second.
    pub(super) fn new(most: u64) -> Self {
        Self { most, spent: 0, began: Instant::now() }
    }

    /// At most 4 MiB a second.
    pub(super) fn of_bytes() -> Self {
        Self::new(BYTES)
    }

    /// Takes `amount` where it is left of this second.
    pub(super) fn take(&mut self, amount: u64) -> bool {
        if self.began.elapsed() >= WINDOW {
            (self.began, self.spent) = (Instant::now(), 0);
        }
        let fits = self.spent + amount <= self.most;
        if fits {
            self.spent += amount;
        }
        fits
    }

    /// Takes `amount`, and waits for the next second where that was more than is left of this one. What is not read
    /// meanwhile makes the server wait.
    pub(super) async fn spend(&mut self, amount: u64) {
        if !self.take(amount) {
            tokio::time::sleep_until(self.began + WINDOW).await;
            (self.began, self.spent) = (Instant::now(), amount.min(self.most));
        }
    }
}
