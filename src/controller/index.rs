//! Computes a gateway's index. Pure functions.

use std::collections::BTreeMap;

use crate::api::snapshot::{NotLoadedForm, SnapshotIndex, SnapshotRestrictions, SnapshotRevision};
use crate::api::{restrictions, seen};
use crate::domain::plan::Restrictions;
use crate::domain::seen::SeenNames;

/// How many of the newest revisions are kept. The current revision is kept even if it is older.
const KEPT: usize = 3;
/// Maximum size of an index in bytes. etcd accepts requests of at most 1.5 MiB (etcd, `--max-request-bytes`).
const MAX_INDEX: usize = 1_300_000;
/// Number of bytes that the API server adds for each shard, besides the shard's name, to record which fields of the
/// shard's entry the operator owns (Kubernetes, managed fields).
const OF_SHARD: usize = 120;

/// The content of a gateway's next index, as the planning loop computed it.
pub(super) struct WantedIndex<'p> {
    /// The revision of the newest plan; `None` if that plan cannot be stored.
    pub(super) newest: Option<&'p SnapshotRevision>,
    /// `spec.pinnedRevision`.
    pub(super) pinned: Option<&'p str>,
    /// Restrictions that apply while another revision than the newest is current.
    pub(super) restrictions: &'p Restrictions,
    /// Restrictions that apply while the newest revision is current.
    pub(super) restrictions_of_newest: &'p Restrictions,
    /// Plugin forms that pods could not load.
    pub(super) not_loaded: &'p [NotLoadedForm],
    /// Tool names that pods have received from upstreams.
    pub(super) seen_names: &'p SeenNames,
    /// Restrictions for each kept revision, for pods that still run it.
    pub(super) kept: &'p BTreeMap<String, Restrictions>,
}

impl WantedIndex<'_> {
    /// Returns the restrictions for the entry of a kept revision; `None` for the current revision, whose restrictions
    /// are in the index itself.
    fn restrictions_of(&self, known: &SnapshotRevision, current: &str) -> Option<SnapshotRestrictions> {
        if known.revision == current {
            return None;
        }
        if self.newest.is_some_and(|newest| newest.revision == known.revision) {
            return Some(restrictions::written_of_older(self.restrictions_of_newest));
        }
        let found = self.kept.get(&known.revision).map(restrictions::written_of_older);
        found.or_else(|| known.restrictions.clone())
    }
}

/// Returns the next index, or `None` if there is no revision that pods can run. A pinned revision is current as long as
/// it is kept. If it is not kept, the current revision stays current; the newest revision never silently replaces it.
pub(super) fn index(before: Option<&SnapshotIndex>, wanted: &WantedIndex<'_>) -> Option<SnapshotIndex> {
    let older = before.map_or(&[][..], |before| &before.revisions);
    let mut revisions: Vec<_> = older.to_vec();
    if let Some(newest) = wanted.newest.filter(|newest| older.first().is_none_or(|f| f.revision != newest.revision)) {
        revisions.retain(|known| known.revision != newest.revision);
        revisions.insert(0, newest.clone());
    }
    let newest = wanted.newest.map(|newest| &newest.revision);
    let stays = || before.map(|before| &before.current);
    let current = match wanted.pinned {
        Some(pinned) => revisions.iter().map(|known| &known.revision).find(|known| *known == pinned).or_else(stays),
        None => newest.or_else(stays),
    };
    let current = current?.clone();
    let restrictions = if newest == Some(&current) { wanted.restrictions_of_newest } else { wanted.restrictions };
    let mut place = 0;
    revisions.retain(|known| {
        place += 1;
        place <= KEPT || known.revision == current
    });
    for known in &mut revisions {
        known.restrictions = wanted.restrictions_of(known, &current);
    }
    let not_loaded = (!wanted.not_loaded.is_empty()).then(|| wanted.not_loaded.to_vec());
    let (restrictions, seen_names) = (Some(restrictions::written(restrictions)), seen::written(wanted.seen_names));
    Some(within_bounds(SnapshotIndex { current, revisions, restrictions, not_loaded, seen_names }))
}

/// Returns `before` with these tool names, shrunk if it is too large with them.
pub(super) fn with_names(before: &SnapshotIndex, names: &SeenNames) -> SnapshotIndex {
    within_bounds(SnapshotIndex { seen_names: seen::written(names), ..before.clone() })
}

/// Shrinks an index until it can be stored. Drops the oldest revisions first, but never the newest or the current one,
/// then the forms that could not be loaded and the tool names. If there is still no room for the revocations, a refusal
/// of every call replaces them. The stop switch is never dropped.
fn within_bounds(mut index: SnapshotIndex) -> SnapshotIndex {
    let is_spare = |index: &SnapshotIndex, place: &usize| index.revisions[*place].revision != index.current;
    while is_too_large(&index)
        && let Some(oldest) = (1..index.revisions.len()).rev().find(|place| is_spare(&index, place))
    {
        index.revisions.remove(oldest);
    }
    if is_too_large(&index) {
        (index.not_loaded, index.seen_names) = (None, None);
    }
    if is_too_large(&index) {
        index
            .revisions
            .iter_mut()
            .for_each(|known| known.restrictions = known.restrictions.take().map(restrictions::closed));
    }
    if is_too_large(&index) {
        index.restrictions = index.restrictions.map(restrictions::closed);
    }
    index
}

/// Returns how many revisions of `before` are missing from `after` for lack of room, or `None` if none is. Lack of room
/// is the reason if `after` has fewer than [`KEPT`] revisions.
pub(super) fn crowded_out(before: Option<&SnapshotIndex>, after: &SnapshotIndex) -> Option<usize> {
    let known = before.iter().flat_map(|before| &before.revisions);
    let gone = known.filter(|known| after.revisions.iter().all(|kept| kept.revision != known.revision)).count();
    (gone > 0 && after.revisions.len() < KEPT).then_some(gone)
}

fn is_too_large(index: &SnapshotIndex) -> bool {
    let shards = index.revisions.iter().flat_map(|known| &known.shards);
    let besides: usize = shards.map(|shard| shard.name.len() + OF_SHARD).sum();
    besides + serde_json::to_vec(index).map_or(0, |json| json.len()) > MAX_INDEX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::snapshot::tests::empty_revision;
    use crate::api::snapshot::{ShardKind, ShardRef};
    use crate::domain::ids::ObjectKey;
    use crate::domain::plan::{Refusal, Revoked};
    use crate::domain::reason::Reason;

    fn kept(index: &SnapshotIndex) -> Vec<&str> {
        index.revisions.iter().map(|revision| revision.revision.as_str()).collect()
    }

    /// Returns the index that follows `before` after a plan named `newest` was compiled.
    fn next(before: Option<&SnapshotIndex>, newest: &str, pinned: Option<&str>) -> Option<SnapshotIndex> {
        let (newest, stop) = (empty_revision(newest), Restrictions::default());
        let restrictions =
            Restrictions { revoked: vec![Revoked::Upstream(ObjectKey::new("ns", "gone"))], ..Restrictions::default() };
        let kept = before
            .iter()
            .flat_map(|index| &index.revisions)
            .map(|known| (known.revision.clone(), restrictions.clone()));
        index(
            before,
            &WantedIndex {
                newest: Some(&newest),
                pinned,
                restrictions: &restrictions,
                restrictions_of_newest: &stop,
                not_loaded: &[],
                seen_names: &SeenNames::default(),
                kept: &kept.collect(),
            },
        )
    }

    fn revoked(index: &SnapshotIndex) -> usize {
        index.restrictions.as_ref().unwrap().revoked.as_ref().map_or(0, Vec::len)
    }

    #[test]
    fn three_revisions_are_kept_and_a_pinned_one() {
        let mut last = None;
        for name in ["a", "b", "c", "d"] {
            last = next(last.as_ref(), name, None);
        }
        let free = last.unwrap();
        assert_eq!((free.current.as_str(), kept(&free), revoked(&free)), ("d", vec!["d", "c", "b"], 0));
        let mut pinned = next(Some(&free), "d", Some("b")).unwrap();
        assert_eq!((pinned.current.as_str(), kept(&pinned)), ("b", vec!["d", "c", "b"]));
        for name in ["e", "f"] {
            pinned = next(Some(&pinned), name, Some("b")).unwrap();
        }
        assert_eq!((pinned.current.as_str(), kept(&pinned), revoked(&pinned)), ("b", vec!["f", "e", "d", "b"], 1));
        let free = next(Some(&pinned), "f", None).unwrap();
        assert_eq!((free.current.as_str(), kept(&free), revoked(&free)), ("f", vec!["f", "e", "d"], 0));
    }

    #[test]
    fn each_revision_says_what_was_taken_away_from_it_while_another_is_current() {
        let of_older = |index: &SnapshotIndex| {
            let of = |known: &SnapshotRevision| {
                known.restrictions.as_ref().map(|restrictions| restrictions.revoked.as_ref().map_or(0, Vec::len))
            };
            index.revisions.iter().map(of).collect::<Vec<_>>()
        };
        let before = ["a", "b"].iter().fold(None, |last, name| next(last.as_ref(), name, None)).unwrap();
        assert_eq!((kept(&before), of_older(&before)), (vec!["b", "a"], vec![None, Some(1)]));
        let pinned = next(Some(&before), "c", Some("b")).unwrap();
        assert_eq!((kept(&pinned), of_older(&pinned)), (vec!["c", "b", "a"], vec![Some(0), None, Some(1)]));
        // Without the pin, pods that cannot run the newest revision keep running the formerly pinned one, and still
        // learn what was revoked from it.
        let free = next(Some(&pinned), "c", None).unwrap();
        assert_eq!((free.current.as_str(), of_older(&free)), ("c", vec![None, Some(1), Some(1)]));
        // A revision that is missing from `kept` keeps its restrictions.
        let (newest, none) = (empty_revision("c"), Restrictions::default());
        let wanted = WantedIndex {
            newest: Some(&newest),
            pinned: None,
            restrictions: &none,
            restrictions_of_newest: &none,
            not_loaded: &[],
            seen_names: &SeenNames::default(),
            kept: &BTreeMap::new(),
        };
        assert_eq!(index(Some(&free), &wanted), Some(free));
    }

    #[test]
    fn a_pin_that_is_not_kept_runs_nothing_new() {
        let before = next(None, "a", None).unwrap();
        let lost = next(Some(&before), "b", Some("x")).unwrap();
        assert_eq!((lost.current.as_str(), kept(&lost), revoked(&lost)), ("a", vec!["b", "a"], 1));
        assert_eq!(next(None, "a", Some("x")), None);
        assert_eq!(next(None, "a", Some("a")).unwrap().current, "a");
    }

    #[test]
    fn a_plan_that_cannot_be_stored_leaves_what_runs_and_what_counts_at_once() {
        let before = next(None, "a", None).unwrap();
        let restrictions = Restrictions { stopped: true, ..Restrictions::default() };
        let mut seen = SeenNames::default();
        seen.add(&ObjectKey::new("ns", "up"), ["read"]);
        let wanted = WantedIndex {
            newest: None,
            pinned: None,
            restrictions: &restrictions,
            restrictions_of_newest: &restrictions,
            not_loaded: &[],
            seen_names: &seen,
            kept: &BTreeMap::new(),
        };
        let stopped = index(Some(&before), &wanted).unwrap();
        assert_eq!((stopped.current.as_str(), stopped.restrictions.unwrap().stopped), ("a", true));
        assert_eq!(stopped.seen_names.map(|names| names.len()), Some(1));
        assert_eq!(index(None, &wanted), None);
    }

    #[test]
    fn a_revision_that_comes_back_is_the_newest() {
        let before = ["a", "b"].iter().fold(None, |last, name| next(last.as_ref(), name, None));
        let back = next(before.as_ref(), "a", None).unwrap();
        assert_eq!((back.current.as_str(), kept(&back)), ("a", vec!["a", "b"]));
        assert_eq!(next(Some(&back), "a", None).unwrap(), back);
    }

    /// Returns a revision with as many shards and as long names as are allowed.
    fn large(name: &str) -> SnapshotRevision {
        let shard = |number: u32| ShardRef {
            name: format!("{}.upstreams.{number:032}", "g".repeat(63)),
            kind: ShardKind::Upstreams,
            bucket: Some(63),
            sha256: format!("{number:064}"),
            size_bytes: 1 << 20,
        };
        SnapshotRevision { shards: (0..1024).map(shard).collect(), ..empty_revision(name) }
    }

    /// Returns the index after large revisions with these `names` were stored one after another. Every revision except
    /// the newest has `revoked` revocations.
    fn after(names: &[&str], pinned: Option<&str>, revoked: usize) -> SnapshotIndex {
        let long = |number: usize| format!("{number:063}");
        let plugin = |number| ObjectKey::new(long(0), long(number));
        let taken = |number| Revoked::Plugin {
            plugin: plugin(number),
            chain: Some(plugin(number)),
            refusal: Refusal::of_revoked(Reason::PluginNotFound, &plugin(number)),
        };
        let restrictions =
            Restrictions { stopped: true, revoked: (0..revoked).map(taken).collect(), ..Restrictions::default() };
        let stop = Restrictions { revoked: Vec::new(), ..restrictions.clone() };
        let kept = names.iter().map(|name| ((*name).to_owned(), restrictions.clone())).collect();
        let mut last = None;
        for name in names {
            let newest = large(name);
            let wanted = WantedIndex {
                newest: Some(&newest),
                pinned,
                restrictions: &restrictions,
                restrictions_of_newest: &stop,
                not_loaded: &[],
                seen_names: &SeenNames::default(),
                kept: &kept,
            };
            last = index(last.as_ref(), &wanted);
        }
        last.unwrap()
    }

    #[test]
    fn an_index_that_cannot_be_stored_lacks_the_oldest_revisions() {
        let free = after(&["a", "b", "c"], None, 0);
        assert!(!is_too_large(&free));
        assert_eq!((free.current.as_str(), kept(&free)), ("c", vec!["c", "b"]));
        let pinned = after(&["a", "b", "c"], Some("a"), 0);
        assert_eq!((pinned.current.as_str(), kept(&pinned)), ("a", vec!["c", "a"]));
    }

    #[test]
    fn a_stop_is_stored_however_much_was_taken_away() {
        let pinned = after(&["a", "b", "c"], Some("a"), 1024);
        assert!(!is_too_large(&pinned));
        assert_eq!(kept(&pinned), ["c", "a"]);
        let restrictions = pinned.restrictions.unwrap();
        assert!(
            restrictions.stopped && restrictions.refusing.is_some() && restrictions.revoked.is_none(),
            "{:?}",
            restrictions.refusing
        );
    }

    #[test]
    fn revisions_that_go_while_fewer_are_kept_than_may_be_had_no_room() {
        let with = |names: &[&str]| SnapshotIndex {
            current: names[0].to_owned(),
            revisions: names.iter().map(|name| empty_revision(name)).collect(),
            restrictions: None,
            not_loaded: None,
            seen_names: None,
        };
        let crowded = |before: &[&str], after: &[&str]| crowded_out(Some(&with(before)), &with(after));
        assert_eq!(crowded(&["c", "b", "a"], &["d", "c"]), Some(2));
        assert_eq!(crowded(&["c", "b", "a"], &["d", "c", "b"]), None, "as many as may be");
        assert_eq!(crowded(&["b", "a"], &["b", "a"]), None, "none goes");
        assert_eq!(crowded_out(None, &with(&["a"])), None);
    }
}
