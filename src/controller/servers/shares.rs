//! Decides which kinds are watched if there are too many: each namespace that names kinds has a share. Pure functions.

use std::collections::{BTreeMap, HashSet};

use super::watching::WatchedKind;

/// Maximum number of kinds that the upstreams of one namespace can name.
pub(super) const MAX_OF_NAMESPACE: usize = 8;
/// Maximum number of watches of existing kinds. If the operator watches only some namespaces, a kind needs a watch in
/// each namespace whose upstreams name it.
pub(super) const MAX_WATCHES: usize = 64;
/// Maximum number of kinds that are watched or looked for. Kinds that do not exist do not reduce the number of
/// watches for kinds that do.
pub(super) const MAX_FOLLOWED: usize = 320;

/// The state of a kind. Kinds whose state comes earlier in this list get a watch first, so that no kind loses its watch
/// to one that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KindState {
    /// The kind is watched, or being looked for.
    There,
    /// The kind is watched, but did not exist when watches were last granted.
    Found,
    /// The kind does not exist, or cannot be read.
    Absent,
    /// Nothing is known yet.
    New,
}

/// Which kinds are followed, and whether [`MAX_WATCHES`] is reached.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) granted: HashSet<WatchedKind>,
    pub(super) is_full: bool,
}

/// Decides which kinds to follow. `named` contains the kinds that each namespace names, in the order of [`KindState`].
/// Namespaces take turns: none gets a second kind before every other namespace has one.
pub(super) fn share(named: &BTreeMap<&str, Vec<WatchedKind>>, known: impl Fn(&WatchedKind) -> KindState) -> Shares {
    let (mut granted, mut there) = (HashSet::new(), 0);
    for turn in 0..MAX_OF_NAMESPACE {
        let mut next: Vec<_> = named.values().filter_map(|kinds| kinds.get(turn)).collect();
        next.sort_by_key(|watched| known(watched));
        for watched in next {
            let is_there = known(watched) != KindState::Absent;
            let is_room = granted.len() < MAX_FOLLOWED && (!is_there || there < MAX_WATCHES);
            if is_room && granted.insert(watched.clone()) && is_there {
                there += 1;
            }
        }
    }
    Shares { granted, is_full: there >= MAX_WATCHES }
}

/// Explains why `watched`, one of the `kinds` that a namespace names, is not followed.
pub(super) fn refusal(namespace: &str, kinds: &[WatchedKind], watched: &WatchedKind, is_full: bool) -> String {
    let instead = "name the server by its URL (external.url)";
    if kinds.iter().position(|kind| kind == watched).is_none_or(|place| place >= MAX_OF_NAMESPACE) {
        return format!(
            "the upstreams of a namespace may name servers of {MAX_OF_NAMESPACE} kinds, and others of {namespace} name \
             that many: {instead}"
        );
    }
    if !is_full {
        return format!(
            "the operator watches or looks for {MAX_FOLLOWED} kinds of servers, which is the most, and the share of \
             {namespace} in them is used up: {instead}"
        );
    }
    format!(
        "the operator makes {MAX_WATCHES} watches of servers, which is the most, and the share of {namespace} in them is \
         used up: {instead}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(namespace: &str, number: usize) -> WatchedKind {
        let (group, kind) = ("example.org".to_owned(), format!("K{number}"));
        WatchedKind { group, kind, namespace: Some(namespace.to_owned()) }
    }

    /// Returns namespaces that name this many kinds each.
    fn named<'n>(namespaces: impl IntoIterator<Item = (&'n String, usize)>) -> BTreeMap<&'n str, Vec<WatchedKind>> {
        let kinds = |(name, count): (&'n String, usize)| {
            (name.as_str(), (0..count).map(|number| watched(name, number)).collect())
        };
        namespaces.into_iter().map(kinds).collect()
    }

    fn of<'g>(granted: &'g HashSet<WatchedKind>, namespace: &str) -> Vec<&'g WatchedKind> {
        granted.iter().filter(|watched| watched.namespace.as_deref() == Some(namespace)).collect()
    }

    #[test]
    fn one_tenant_with_many_namespaces_does_not_take_what_another_needs() {
        let greedy: Vec<_> = (0..8).map(|number| format!("greedy-{number}")).collect();
        let modest = "modest".to_owned();
        let before = share(&named(greedy.iter().map(|name| (name, 20))), |_| KindState::New).granted;
        assert_eq!(before.len(), MAX_WATCHES, "while nobody else needs them");
        let all = named(greedy.iter().map(|name| (name, 20)).chain([(&modest, 2)]));
        let known = |watched: &WatchedKind| if before.contains(watched) { KindState::There } else { KindState::New };
        let after = share(&all, known).granted;
        assert_eq!((after.len(), of(&after, &modest).len()), (MAX_WATCHES, 2));
        assert!(greedy.iter().all(|name| (7..=8).contains(&of(&after, name).len())), "no one pays alone");
        let known = |watched: &WatchedKind| if after.contains(watched) { KindState::There } else { KindState::New };
        assert_eq!(share(&all, known), Shares { granted: after.clone(), is_full: true }, "it stays so");
    }

    #[test]
    fn kinds_that_are_not_there_take_no_place() {
        let greedy: Vec<_> = (0..32).map(|number| format!("greedy-{number}")).collect();
        let modest = "modest".to_owned();
        let all = named(greedy.iter().map(|name| (name, 8)).chain([(&modest, 8)]));
        let known = |watched: &WatchedKind| {
            if watched.namespace.as_ref() == Some(&modest) { KindState::New } else { KindState::Absent }
        };
        let granted = share(&all, known).granted;
        assert_eq!((granted.len(), of(&granted, &modest).len()), (32 * 8 + 8, 8));
        let many: Vec<_> = (0..100).map(|number| format!("greedy-{number}")).collect();
        let granted = share(&named(many.iter().map(|name| (name, 8))), |_| KindState::Absent).granted;
        assert_eq!(granted.len(), MAX_FOLLOWED, "and are bounded too");
        assert!(many.iter().all(|name| (3..=4).contains(&of(&granted, name).len())));
    }

    #[test]
    fn a_kind_that_was_absent_takes_no_place_of_one_that_is_watched() {
        let names: Vec<_> = (0..=MAX_WATCHES).map(|number| format!("n{number:02}")).collect();
        let all = named(names.iter().map(|name| (name, 1)));
        let after = |first: KindState| {
            let known = |watched: &WatchedKind| match watched.namespace.as_ref() == names.first() {
                true => first,
                false => KindState::There,
            };
            share(&all, known).granted
        };
        let first = watched(&names[0], 0);
        assert!(after(KindState::Absent).contains(&first), "it is looked for");
        let found = after(KindState::Found);
        assert!(found.len() == MAX_WATCHES && !found.contains(&first));
    }

    #[test]
    fn a_kind_that_many_namespaces_name_is_watched_once() {
        let namespaces: Vec<_> = (0..100).map(|number| format!("n{number}")).collect();
        let one = WatchedKind { namespace: None, ..watched("", 0) };
        let all = namespaces.iter().map(|name| (name.as_str(), vec![one.clone()])).collect();
        assert_eq!(share(&all, |_| KindState::New).granted, [one].into());
    }

    #[test]
    fn a_refusal_says_which_bound_was_met() {
        let kinds: Vec<_> = (0..9).map(|number| watched("a", number)).collect();
        let refusal = |number: usize, is_full| refusal("a", &kinds, &kinds[number], is_full);
        assert!(refusal(8, true).contains("of 8 kinds, and others of a"));
        assert!(refusal(7, true).contains("64 watches of servers, which is the most, and the share of a"));
        assert!(refusal(7, false).contains("looks for 320 kinds"));
    }
}
