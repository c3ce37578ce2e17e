//! What chains over lists have made of definitions, kept as long as the definitions are listed and the chains are the same.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::domain::ids::ObjectKey;
use crate::domain::item::Item;

/// The maximum number of definitions on which chains run, and of which it is kept what they made of them.
pub(in crate::engine) const MAX_KEPT: usize = 65_536;
/// The maximum number of bytes of definitions that chains have changed.
const MAX_BYTES: usize = 32 << 20;
/// The pause after the first failure of a chain. Each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// What chains have made of a definition.
#[derive(Clone, Debug)]
pub(crate) enum FilterOutcome {
    /// They have left it as it was.
    Same,
    /// They have changed it. The item has the server's own name.
    Changed(Item),
    /// The item is not offered, for this reason.
    Dropped(String),
}

impl FilterOutcome {
    /// The outcome where there is no room for the changed definition.
    pub(crate) fn without_room() -> Self {
        Self::Dropped("there is no room for what its chains made of its definition".to_owned())
    }
}

/// An outcome, and whether the chains run again.
#[derive(Clone, Debug)]
pub(crate) struct KeptOutcome {
    pub(crate) outcome: FilterOutcome,
    /// When the chains run again because an entry failed, by the monotonic clock; `None` if none did.
    pub(crate) again: Option<Duration>,
    /// How often in a row an entry failed.
    failures: u32,
}

/// Counts the definitions on which chains run. If there are too many, each upstream has the same share.
pub(in crate::engine) struct FilterRoom {
    share: usize,
    /// By the index of the upstream.
    taken: HashMap<usize, usize>,
}

impl FilterRoom {
    /// `listed` is how many items each upstream lists.
    pub(in crate::engine) fn new(listed: Vec<usize>) -> Self {
        Self { share: fair_share(listed, MAX_KEPT), taken: HashMap::new() }
    }

    /// Counts a definition of this upstream, if there is room for it. Returns whether there is.
    pub(in crate::engine) fn take(&mut self, upstream: usize) -> bool {
        let taken = self.taken.entry(upstream).or_default();
        let has_room = *taken < self.share;
        *taken += usize::from(has_room);
        has_room
    }
}

/// Returns how much of `total` each may have at most, so that it is enough for all and who needs little gets that.
fn fair_share(mut needs: Vec<usize>, total: usize) -> usize {
    needs.sort_unstable();
    let (mut left, count) = (total, needs.len());
    for (served, need) in needs.into_iter().enumerate() {
        let share = left / (count - served);
        if need > share {
            return share;
        }
        left -= need;
    }
    total
}

/// The outcomes, by the digest of the definition and of the chains.
#[derive(Default)]
pub(crate) struct FilteredDefinitions(Mutex<RetainedFilters>);

#[derive(Default)]
struct RetainedFilters {
    by_key: HashMap<String, KeptOutcome>,
    /// The bytes of the definitions that were changed.
    bytes: usize,
    /// Since when each upstream has had definitions that chains have never seen, by the monotonic clock.
    new_since: HashMap<ObjectKey, Duration>,
}

impl FilteredDefinitions {
    /// Records which upstreams have definitions that chains have never seen.
    pub(crate) fn note_new(&self, upstreams: HashSet<&ObjectKey>, now: Duration) {
        let mut kept = self.lock();
        kept.new_since.retain(|known, _| upstreams.contains(known));
        for upstream in upstreams {
            kept.new_since.entry(upstream.clone()).or_insert(now);
        }
    }

    /// Whether an upstream has had definitions for this time that chains have never seen, and at each moment of it.
    pub(crate) fn are_late(&self, upstream: &ObjectKey, now: Duration, after: Duration) -> bool {
        self.lock().new_since.get(upstream).is_some_and(|since| now.saturating_sub(*since) >= after)
    }

    pub(in crate::engine) fn get(&self, key: &str) -> Option<KeptOutcome> {
        self.lock().by_key.get(key).cloned()
    }

    /// Keeps an outcome. If an entry failed, the chains run again after a pause. If there is no room for the bytes of a changed
    /// definition, the item is dropped. The number of outcomes is bounded by [`FilterRoom`].
    pub(crate) fn put(&self, key: String, outcome: FilterOutcome, has_failed: bool, now: Duration) {
        let mut kept = self.lock();
        let before = kept.by_key.remove(&key);
        kept.bytes -= before.as_ref().map_or(0, |before| bytes(&before.outcome));
        let is_full = kept.bytes + bytes(&outcome) > MAX_BYTES;
        let (outcome, has_failed) = match outcome {
            FilterOutcome::Changed(_) if is_full => (FilterOutcome::without_room(), true),
            outcome => (outcome, has_failed),
        };
        let failures = if has_failed { before.map_or(0, |before| before.failures) + 1 } else { 0 };
        let pause = FIRST_PAUSE.saturating_mul(1 << (failures.min(10)) >> 1).min(LONGEST_PAUSE);
        let again = has_failed.then(|| now + pause);
        kept.bytes += bytes(&outcome);
        kept.by_key.insert(key, KeptOutcome { outcome, again, failures });
    }

    /// Forgets all outcomes but those under these keys.
    pub(in crate::engine) fn retain(&self, used: &HashSet<String>) {
        let mut kept = self.lock();
        kept.by_key.retain(|key, _| used.contains(key));
        kept.bytes = kept.by_key.values().map(|known| bytes(&known.outcome)).sum();
    }

    fn lock(&self) -> MutexGuard<'_, RetainedFilters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes(outcome: &FilterOutcome) -> usize {
    if let FilterOutcome::Changed(item) = outcome { item.definition.get().len() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstreams_with_many_definitions_leave_room_to_those_with_few() {
        let listed = vec![MAX_KEPT, 100, MAX_KEPT, 1];
        let mut room = FilterRoom::new(listed.clone());
        let taken: Vec<_> = (0..4).map(|up| (0..listed[up]).take_while(|_| room.take(up)).count()).collect();
        let share = (MAX_KEPT - 101) / 2;
        assert_eq!(taken, [share, 100, share, 1]);
        assert!(FilterRoom::new(vec![1]).take(0) && !FilterRoom::new(vec![0; 9]).taken.contains_key(&0));
        assert_eq!([fair_share(vec![], 7), fair_share(vec![7], 7), fair_share(vec![4, 4], 7)], [7, 7, 3]);
    }

    #[test]
    fn chains_that_failed_run_again_after_pauses_that_grow() {
        let known = FilteredDefinitions::default();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            known.put("k".into(), FilterOutcome::Same, true, Duration::ZERO);
            pauses.push(known.get("k").unwrap().again.unwrap().as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        known.put("k".into(), FilterOutcome::Same, false, Duration::ZERO);
        assert_eq!(known.get("k").unwrap().again, None);
        known.retain(&HashSet::new());
        assert!(known.get("k").is_none());
    }
}
