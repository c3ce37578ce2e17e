//! Waits that need not be exact, and share one timer: a timer of each call's own would end before all others of the runtime,
//! which wakes the thread that waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// A clock that ticks while somebody waits.
#[derive(Debug)]
pub(super) struct Ticks {
    every: Duration,
    ticked: Notify,
    waits: AtomicU64,
    ended: AtomicU64,
    runs: AtomicBool,
}

impl Ticks {
    /// Creates a clock that ticks this often. It runs in a task of its own from the first wait on, until nobody waited from
    /// one tick to the next.
    pub(super) fn new(every: Duration) -> Arc<Self> {
        let (waits, ended) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { every, ticked: Notify::new(), waits, ended, runs: AtomicBool::new(false) })
    }

    /// Waits for one to two times the time between two ticks.
    pub(super) async fn wait(self: &Arc<Self>) {
        let (first, _waiting) = (self.ticked.notified(), self.begin());
        first.await;
        self.ticked.notified().await;
    }

    fn begin(self: &Arc<Self>) -> Waiting<'_> {
        self.waits.fetch_add(1, Ordering::SeqCst);
        self.start();
        Waiting(self)
    }

    fn start(self: &Arc<Self>) {
        if !self.runs.swap(true, Ordering::SeqCst) {
            tokio::spawn(Arc::clone(self).tick());
        }
    }

    async fn tick(self: Arc<Self>) {
        let mut seen = self.waits.load(Ordering::SeqCst);
        loop {
            tokio::time::sleep(self.every).await;
            self.ticked.notify_waiters();
            let waits = self.waits.load(Ordering::SeqCst);
            if std::mem::replace(&mut seen, waits) == waits && self.ended.load(Ordering::SeqCst) == waits {
                break;
            }
        }
        self.runs.store(false, Ordering::SeqCst);
        // Somebody may have begun to wait while the clock still counted as running.
        if self.waits.load(Ordering::SeqCst) != seen {
            self.start();
        }
    }
}

/// Counts a wait until this value is dropped.
struct Waiting<'a>(&'a Ticks);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::time::Instant;

    use super::*;

    const EVERY: Duration = Duration::from_millis(10);

    #[tokio::test]
    async fn a_wait_takes_at_least_the_time_of_a_tick_whenever_it_begins() {
        let ticks = Ticks::new(EVERY);
        for offset in [0, 1, 9, 100] {
            tokio::time::sleep(Duration::from_millis(offset)).await;
            let began = Instant::now();
            ticks.wait().await;
            assert!(began.elapsed() >= EVERY, "{:?} after {offset}", began.elapsed());
        }
    }

    #[tokio::test]
    async fn the_clock_stops_when_nobody_waits_and_starts_again() {
        let ticks = Ticks::new(EVERY);
        for _ in 0..2 {
            assert!(ticks.wait().now_or_never().is_none() && ticks.runs.load(Ordering::SeqCst));
            while ticks.runs.load(Ordering::SeqCst) {
                tokio::time::sleep(EVERY).await;
            }
        }
        ticks.wait().await;
    }
}
