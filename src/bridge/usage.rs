//! Whether something is in use, and since when it is not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Counts the requests that use something.
#[derive(Clone, Debug)]
pub(super) struct Usage(Arc<Mutex<(usize, Instant)>>);

/// One use, until this value is dropped.
#[derive(Debug)]
pub(super) struct InUse(Usage);

impl Usage {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new((0, Instant::now()))))
    }

    pub(super) fn begin(&self) -> InUse {
        self.lock().0 += 1;
        InUse(self.clone())
    }

    /// Whether it was not used for this time.
    pub(super) fn is_idle(&self, time: Duration) -> bool {
        let state = self.lock();
        state.0 == 0 && state.1.elapsed() >= time
    }

    fn lock(&self) -> MutexGuard<'_, (usize, Instant)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        *state = (state.0.saturating_sub(1), Instant::now());
    }
}
