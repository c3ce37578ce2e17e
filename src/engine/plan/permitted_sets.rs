//! The sets of items that clients of a snapshot may see, so that a list is decided once for all clients of which the rules read the
//! same.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

use crate::domain::digest::revision;
use crate::domain::item::ItemKind;
use crate::domain::route::Route;

/// The items of one kind that a client may see.
#[derive(Debug)]
pub(crate) struct PermittedItems {
    /// A bit for each route of the snapshot.
    routes: Box<[u64]>,
    /// The same for all clients that may see the same items.
    pub(crate) digest: String,
}

impl PermittedItems {
    /// `routes` is how many there are, and `permitted` are the indexes of those that the client may see.
    pub(crate) fn new(routes: usize, permitted: &[usize]) -> Self {
        let mut bits = vec![0; routes.div_ceil(64)];
        permitted.iter().for_each(|index| bits[index / 64] |= 1 << (index % 64));
        Self { routes: bits.into(), digest: revision(&permitted) }
    }

    pub(crate) fn has(&self, route: &Route) -> bool {
        self.routes.get(route.index / 64).is_some_and(|bits| *bits >> (route.index % 64) & 1 == 1)
    }

    fn bytes(&self) -> usize {
        self.routes.len() * 8 + BESIDE_ROUTES
    }
}

/// The maximum number of sets of items that a snapshot keeps, and of their bytes.
const MAX_SETS: usize = 1024;
const MAX_BYTES: usize = 4 << 20;
/// What a set takes besides its routes, about.
const BESIDE_ROUTES: usize = 256;

/// The kind of items, and the digest of what the rules read of a client.
pub(crate) type SetKey = (ItemKind, String);

/// The sets of items that clients of a snapshot may see. The oldest goes if there are too many.
#[derive(Default)]
pub(crate) struct PermittedSets {
    sets: Mutex<Sets>,
    /// Who holds it decides on a set that is not known yet.
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Sets {
    by_key: HashMap<SetKey, Arc<PermittedItems>>,
    oldest: VecDeque<SetKey>,
    bytes: usize,
}

impl PermittedSets {
    /// Returns the set with this key, if it is known.
    pub(crate) fn get(&self, key: &SetKey) -> Option<Arc<PermittedItems>> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner).by_key.get(key).cloned()
    }

    /// Waits until no other set is being decided.
    pub(crate) async fn turn(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.turn).lock_owned().await
    }

    /// Returns the set with this key, which is made if it is not known.
    pub(crate) fn get_or_make(&self, key: SetKey, make: impl FnOnce() -> PermittedItems) -> Arc<PermittedItems> {
        if let Some(known) = self.get(&key) {
            return known;
        }
        let made = Arc::new(make());
        let Sets { by_key, oldest, bytes } = &mut *self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = |count: usize, bytes: usize| count < MAX_SETS && bytes + made.bytes() <= MAX_BYTES;
        while !has_room(by_key.len(), *bytes) {
            let Some(gone) = oldest.pop_front().and_then(|key| by_key.remove(&key)) else { return made };
            *bytes -= gone.bytes();
        }
        if by_key.insert(key.clone(), Arc::clone(&made)).is_none() {
            oldest.push_back(key);
            *bytes += made.bytes();
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_made_once_and_the_oldest_goes() {
        let (sets, made) = (PermittedSets::default(), std::cell::Cell::new(0));
        let get = |client: usize, routes: usize| {
            sets.get_or_make((ItemKind::Tool, client.to_string()), || {
                made.set(made.get() + 1);
                PermittedItems::new(routes, &[0, routes - 1])
            })
        };
        assert_eq!(get(0, 301).digest, get(0, 301).digest);
        assert_eq!(made.get(), 1);
        (1..=MAX_SETS).for_each(|client| drop(get(client, 301)));
        get(MAX_SETS, 301);
        assert_eq!(made.get(), MAX_SETS + 1, "the newest is kept");
        get(0, 301);
        assert_eq!(made.get(), MAX_SETS + 2, "the oldest is not");
        // A set of a fourth of the bytes takes the room of many.
        let large = MAX_BYTES / 4 * 8;
        (2000..2008).for_each(|client| drop(get(client, large)));
        let held = || {
            let sets = sets.sets.lock().unwrap();
            assert_eq!(sets.bytes, sets.by_key.values().map(|set| set.bytes()).sum::<usize>());
            assert_eq!(sets.by_key.len(), sets.oldest.len());
            (sets.by_key.len(), sets.bytes)
        };
        assert!(held().0 == 3 && held().1 <= MAX_BYTES, "{:?}", held());
        get(3000, MAX_BYTES * 8);
        assert_eq!(held(), (0, 0), "what has no room is not kept");
    }
}
