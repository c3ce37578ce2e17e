//! What a connection of an HTTP server does: whether it had a request, and since when it has none to answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a connection has for its next request after the listener has closed.
const NEXT_REQUEST: Duration = Duration::from_secs(1);

/// The activity of one connection, over which one request is answered at a time.
pub(super) struct Activity {
    began: Instant,
    asked: AtomicBool,
    /// When the last answer was given; `None` before the first, and while a request is answered.
    answered_at: Mutex<Option<Instant>>,
}

impl Default for Activity {
    fn default() -> Self {
        Self { began: Instant::now(), asked: AtomicBool::new(false), answered_at: Mutex::default() }
    }
}

impl Activity {
    /// Returns for how long the connection has had no request to answer; `None` while it has one.
    pub(super) fn idle_for(&self) -> Option<Duration> {
        if !self.had_request() {
            return Some(self.began.elapsed());
        }
        self.answered_at.lock().unwrap_or_else(PoisonError::into_inner).map(|at| at.elapsed())
    }

    /// Records that a request has arrived.
    pub(super) fn begin(&self) {
        self.asked.store(true, Ordering::Relaxed);
        self.set(None);
    }

    /// Records that a request is answered.
    pub(super) fn end(&self) {
        self.set(Some(Instant::now()));
    }

    fn set(&self, answered_at: Option<Instant>) {
        *self.answered_at.lock().unwrap_or_else(PoisonError::into_inner) = answered_at;
    }

    /// Waits until the headers of a first request should have arrived. Does not return if they have.
    pub(super) async fn silence(&self, first_headers: Duration) {
        tokio::time::sleep(first_headers).await;
        if self.asked.load(Ordering::Relaxed) {
            std::future::pending().await
        }
    }

    /// Whether the connection had a request whose headers are complete.
    pub(super) fn had_request(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Waits a second if the connection has had no request yet, and as long as its last answer is not a second old. A
    /// graceful shutdown would immediately close such a connection, even if a request is on the way.
    pub(super) async fn next_request(&self) {
        if !self.asked.load(Ordering::Relaxed) {
            return tokio::time::sleep(NEXT_REQUEST).await;
        }
        let answered_at = *self.answered_at.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answered_at) = answered_at {
            tokio::time::sleep(NEXT_REQUEST.saturating_sub(answered_at.elapsed())).await;
        }
    }
}
