//! Limits the rate at which unrequested output of a server is read, because a server that writes without end must not
//! keep a core busy.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The allowed number of bytes per second.
const BYTES: u64 = 4 * 1024 * 1024;
/// The cost of a line or an event in addition to its bytes. Without it, empty lines would cost nothing.
pub const EACH: u64 = 16;
/// The maximum number of bytes of an incomplete message that are kept while no call waits for an answer.
pub const UNASKED: u64 = 1 << 20;
/// The time over which amounts are added up.
const WINDOW: Duration = Duration::from_secs(1);
/// What a reader of a [`SharedFlow`] takes in one turn, at most.
const TURN: u64 = 16 * 1024;

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

/// A limit on an amount per second that several readers share. They take turns in the order in which they come, so that none
/// waits for all that another has to take. A reader that does not come for its turn holds up nobody.
#[derive(Debug)]
pub struct SharedFlow {
    most: u64,
    /// When all that was taken is within the limit. Before that, readers wait.
    free_at: Mutex<Instant>,
}

impl SharedFlow {
    /// Allows at most 4 MiB per second, and as much at once if nothing was taken in the last second.
    pub fn of_bytes() -> Self {
        let now = Instant::now();
        Self { most: BYTES, free_at: Mutex::new(now.checked_sub(WINDOW).unwrap_or(now)) }
    }

    /// A flow whose allowance is taken for an hour.
    #[cfg(test)]
    pub fn used_up() -> Self {
        Self { most: BYTES, free_at: Mutex::new(Instant::now() + Duration::from_secs(3600)) }
    }

    /// Takes `amount`, and waits until it is within the limit. The caller does not read in the meantime, so the server has to
    /// wait too. Returns since when this waited; `None` if it did not.
    pub async fn spend(&self, mut amount: u64) -> Option<Instant> {
        let mut waited = None;
        while amount > 0 {
            let (turn, now) = (amount.min(TURN), Instant::now());
            amount -= turn;
            if let Some(at) = self.take(turn, now) {
                waited = waited.or(Some(now));
                tokio::time::sleep_until(at).await;
            }
        }
        waited
    }

    /// Takes `amount`. Returns when it is within the limit; `None` if it is.
    fn take(&self, amount: u64, now: Instant) -> Option<Instant> {
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        // What was not taken of the allowance is kept for one second.
        *free_at = now.checked_sub(WINDOW).map_or(*free_at, |oldest| oldest.max(*free_at));
        *free_at += Duration::from_nanos(amount.saturating_mul(1_000_000_000) / self.most);
        (*free_at > now).then_some(*free_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_take_of_a_shared_flow_is_within_its_limit_together() {
        let (flow, now) = (SharedFlow::of_bytes(), Instant::now() + WINDOW);
        assert!((0..BYTES / TURN).all(|_| flow.take(TURN, now).is_none()), "the allowance of a second");
        let first = flow.take(BYTES / 2, now).unwrap();
        let second = flow.take(BYTES / 2, now).unwrap();
        assert_eq!((first - now, second - now), (WINDOW / 2, WINDOW), "in their order");
        let later = now + 2 * WINDOW;
        assert_eq!(flow.take(BYTES, later), None, "what was not taken for a second can be taken at once");
        assert_eq!(flow.take(BYTES, later + 9 * WINDOW), None);
        assert_eq!(flow.take(BYTES, later + 9 * WINDOW), Some(later + 10 * WINDOW), "not that of nine seconds");
    }

    #[tokio::test]
    async fn one_that_takes_little_does_not_wait_for_all_that_another_takes() {
        let flow = SharedFlow::of_bytes();
        flow.spend(BYTES).await;
        let much = flow.spend(1 << 40);
        let mut much = std::pin::pin!(much);
        assert!(futures_util::poll!(&mut much).is_pending());
        // The other would take days.
        flow.spend(1).await;
        assert!(futures_util::poll!(&mut much).is_pending());
    }

    #[tokio::test]
    async fn a_reader_that_went_away_leaves_its_share_to_others() {
        use futures_util::FutureExt;
        let flow = SharedFlow::of_bytes();
        flow.spend(BYTES).await;
        assert_eq!(flow.spend(1 << 40).now_or_never(), None);
        flow.spend(TURN).await;
    }
}
