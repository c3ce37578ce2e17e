//! Ids of sessions that clients ended. Without this list, the process would take such a session over again, because its
//! sealed id is still valid.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum number of ids that are kept. The oldest are forgotten first.
const MAX_DELETED: usize = 65_536;
/// The number of characters at the beginning of an id that encode its nonce. They identify the id.
const NONCE: usize = 16;

/// The ids that were added most recently.
#[derive(Default)]
pub(super) struct DeletedIds(Mutex<RetainedIds>);

#[derive(Default)]
struct RetainedIds {
    ids: HashSet<[u8; NONCE]>,
    oldest_first: VecDeque<[u8; NONCE]>,
}

impl DeletedIds {
    /// Adds an id. An id that is too short to contain a nonce is ignored.
    pub(super) fn add(&self, id: &str) {
        let Some(nonce) = nonce(id) else { return };
        let mut kept = self.lock();
        if !kept.ids.insert(nonce) {
            return;
        }
        kept.oldest_first.push_back(nonce);
        if kept.oldest_first.len() > MAX_DELETED
            && let Some(oldest) = kept.oldest_first.pop_front()
        {
            kept.ids.remove(&oldest);
        }
    }

    /// Whether the id was added and has not been forgotten since.
    pub(super) fn contains(&self, id: &str) -> bool {
        nonce(id).is_some_and(|nonce| self.lock().ids.contains(&nonce))
    }

    fn lock(&self) -> MutexGuard<'_, RetainedIds> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nonce(id: &str) -> Option<[u8; NONCE]> {
    id.as_bytes().first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_first() {
        let deleted = DeletedIds::default();
        let id = |n: usize| format!("{n:016}the rest");
        (0..=MAX_DELETED).for_each(|n| deleted.add(&id(n)));
        deleted.add(&id(1));
        deleted.add("short");
        assert!(!deleted.contains(&id(0)) && deleted.contains(&id(1)) && deleted.contains(&id(MAX_DELETED)));
        assert!(!deleted.contains("short"));
        assert_eq!(deleted.lock().ids.len(), MAX_DELETED);
    }
}
