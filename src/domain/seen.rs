//! Names of tools that upstreams were ever seen to have.
//!
//! Where tools keep their own names, a name belongs to the first upstream that was seen to have it. An outage must not
//! hand it to another server, nor must a restart, so these names outlive both.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::ids::ObjectKey;
use super::tool_name::{MAX_NAME, is_valid_name};

/// The most names that are kept, of all upstreams together, and of one: no server fills the room of the others. A tool
/// that is seen later always has its upstream's prefix.
pub const MAX_SEEN: usize = 4096;
/// See [`MAX_SEEN`].
pub const MAX_OF_ONE: usize = 512;
/// The same in bytes. All of them fit into the index of a gateway's snapshots, beside what else is in it.
pub const MAX_BYTES: usize = 128 << 10;
const MAX_BYTES_OF_ONE: usize = MAX_BYTES / 8;
/// What a name takes besides itself where it is written as JSON, and what an upstream does.
const AROUND_NAME: usize = 3;
const AROUND_UPSTREAM: usize = 40;
/// The most that a name takes which is the first of its upstream, whose namespace and name have 63 characters at most.
const LARGEST: usize = AROUND_UPSTREAM + 127 + MAX_NAME + AROUND_NAME;

/// Tools' own names by upstream (`namespace/name`), at most [`MAX_SEEN`] and [`MAX_BYTES`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SeenNames(BTreeMap<String, BTreeSet<String>>);

impl SeenNames {
    /// The names of one upstream.
    pub fn of(&self, upstream: &ObjectKey) -> Option<&BTreeSet<String>> {
        self.0.get(&upstream.to_string())
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }

    /// Upstreams (`namespace/name`) and their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        self.0.iter().map(|(upstream, names)| (upstream.as_str(), names))
    }

    /// Whether a name may find no room, however few its upstream has.
    pub fn is_full(&self) -> bool {
        self.len() >= MAX_SEEN || self.bytes() + LARGEST > MAX_BYTES
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds names of one upstream, as far as there is room. Returns whether any was new.
    pub fn add<'a>(&mut self, upstream: &ObjectKey, names: impl IntoIterator<Item = &'a str>) -> bool {
        self.add_under(&upstream.to_string(), names)
    }

    /// Adds all names of `other`, as far as there is room. Returns whether any was new.
    pub fn merge(&mut self, other: &Self) -> bool {
        let added = other.0.iter().map(|(upstream, names)| self.add_under(upstream, names.iter().map(String::as_str)));
        added.fold(false, |any, new| any | new)
    }

    /// Forgets the names of an upstream. Returns whether there were any.
    pub fn forget(&mut self, upstream: &ObjectKey) -> bool {
        self.0.remove(&upstream.to_string()).is_some()
    }

    /// Forgets the names of every upstream that `keep` does not want. Returns whether there were any.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|upstream, _| keep(upstream));
        self.0.len() < before
    }

    /// Takes out the names that `other` has too.
    pub fn subtract(&mut self, other: &Self) {
        for (upstream, names) in &other.0 {
            if let Some(own) = self.0.get_mut(upstream) {
                own.retain(|name| !names.contains(name));
            }
        }
        self.0.retain(|_, names| !names.is_empty());
    }

    /// What it takes where it is written as JSON, about.
    fn bytes(&self) -> usize {
        self.0.iter().map(|(upstream, names)| bytes_of(upstream, names)).sum()
    }

    fn add_under<'a>(&mut self, upstream: &str, names: impl IntoIterator<Item = &'a str>) -> bool {
        let before = self.len();
        let mut own = self.0.get(upstream).cloned().unwrap_or_default();
        let (others, others_bytes) =
            (before - own.len(), self.bytes() - self.0.get(upstream).map_or(0, |own| bytes_of(upstream, own)));
        let mut own_bytes = bytes_of(upstream, &own);
        for name in names {
            let bytes = own_bytes + name.len() + AROUND_NAME;
            let is_room = own.len() < MAX_OF_ONE.min(MAX_SEEN.saturating_sub(others))
                && bytes <= MAX_BYTES_OF_ONE.min(MAX_BYTES.saturating_sub(others_bytes));
            if is_room && is_valid_name(name) && own.insert(name.to_owned()) {
                own_bytes = bytes;
            }
        }
        let is_new = others + own.len() > before;
        if is_new {
            self.0.insert(upstream.to_owned(), own);
        }
        is_new
    }
}

fn bytes_of(upstream: &str, names: &BTreeSet<String>) -> usize {
    AROUND_UPSTREAM + upstream.len() + names.iter().map(|name| name.len() + AROUND_NAME).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` names of this length.
    fn names(count: usize, length: usize) -> Vec<String> {
        (0..count).map(|n| format!("{n:0>length$}")).collect()
    }

    fn add(seen: &mut SeenNames, upstream: &str, names: &[String]) -> bool {
        seen.add(&ObjectKey::new("default", upstream), names.iter().map(String::as_str))
    }

    #[test]
    fn no_upstream_takes_the_room_of_the_others() {
        let mut seen = SeenNames::default();
        assert!(add(&mut seen, "greedy", &names(2 * MAX_SEEN, 8)) && add(&mut seen, "b", &names(MAX_OF_ONE, 8)));
        assert_eq!(seen.iter().map(|(_, names)| names.len()).collect::<Vec<_>>(), [MAX_OF_ONE; 2]);
        assert!(!add(&mut seen, "greedy", &names(1, 9)) && !add(&mut seen, "greedy", &names(1, 8)), "full, and known");
        let mut long = SeenNames::default();
        assert!(add(&mut long, "greedy", &names(MAX_OF_ONE, MAX_NAME)) && long.bytes() <= MAX_BYTES_OF_ONE);
    }

    #[test]
    fn at_most_so_many_names_are_kept_and_so_many_bytes() {
        for (length, few) in [(8, false), (MAX_NAME, true)] {
            let mut seen = SeenNames::default();
            for n in 0..10 {
                add(&mut seen, &format!("up{n}"), &names(MAX_OF_ONE, length));
            }
            assert!(seen.is_full() && seen.bytes() <= MAX_BYTES, "{} bytes", seen.bytes());
            assert_eq!(seen.len() < MAX_SEEN, few);
            assert!(seen.of(&ObjectKey::new("default", "up9")).is_none(), "one too many");
            let b = ObjectKey::new("default", "b");
            let mut merged = SeenNames::default();
            merged.add(&b, ["first"]);
            assert!(merged.merge(&seen) && merged.len() <= MAX_SEEN && merged.of(&b).unwrap().contains("first"));
            assert!(merged.forget(&ObjectKey::new("default", "up0")) && merged.add(&b, ["z"]));
            assert!(merged.retain(|upstream| upstream == "default/a") && merged.is_empty());
        }
    }

    #[test]
    fn what_is_left_is_what_the_other_lacks() {
        let mut seen: SeenNames = serde_json::from_str(r#"{"d/a": ["x", "y"], "d/b": ["x"]}"#).unwrap();
        seen.subtract(&serde_json::from_str(r#"{"d/a": ["x", "z"], "d/b": ["x"], "d/c": ["y"]}"#).unwrap());
        assert_eq!(serde_json::to_string(&seen).unwrap(), r#"{"d/a":["y"]}"#);
    }

    #[test]
    fn what_is_no_name_is_not_taken_in() {
        let read: SeenNames = serde_json::from_str(r#"{"default/a": ["ok", "", "a b"]}"#).unwrap();
        let mut seen = SeenNames::default();
        seen.merge(&read);
        assert_eq!(serde_json::to_string(&seen).unwrap(), r#"{"default/a":["ok"]}"#);
    }
}
