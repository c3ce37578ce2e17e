//! Sessions that ended because they were idle or made room: what is held for their clients elsewhere is not needed any more.

use std::sync::{Mutex, PoisonError};

/// The maximum number of ids that are kept: as many as there may be sessions.
const MAX_GONE: usize = 10_000;

/// The ids of the sessions that ended and were not taken yet.
#[derive(Debug, Default)]
pub(super) struct GoneIds(Mutex<Vec<String>>);

impl GoneIds {
    /// Adds an id, unless there are as many as may be.
    pub(super) fn add(&self, id: String) {
        let mut ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.len() < MAX_GONE {
            ids.push(id);
        }
    }

    /// Takes all ids.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
