//! Names of tools that upstreams were ever seen to have.
//!
//! Where tools keep their own names, a name belongs to the first upstream that was seen to have it. An outage must not
//! hand it to another server, nor must a restart, so these names outlive both.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::ids::ObjectKey;
use super::tool::is_valid_name;

/// The most names that are kept, of all upstreams together. A tool that is seen later always has its upstream's prefix.
pub const MAX_SEEN: usize = 4096;

/// Tools' own names by upstream (`namespace/name`), at most [`MAX_SEEN`].
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

    fn add_under<'a>(&mut self, upstream: &str, names: impl IntoIterator<Item = &'a str>) -> bool {
        let (before, mut room) = (self.len(), MAX_SEEN.saturating_sub(self.len()));
        let known = self.0.get(upstream);
        let new = names.into_iter().filter(|name| is_valid_name(name) && !known.is_some_and(|k| k.contains(*name)));
        let mut added = BTreeSet::new();
        for name in new {
            if room == 0 {
                break;
            }
            room -= usize::from(added.insert(name.to_owned()));
        }
        if !added.is_empty() {
            self.0.entry(upstream.to_owned()).or_default().append(&mut added);
        }
        self.len() > before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_so_many_names_are_kept() {
        let (a, b) = (ObjectKey::new("default", "a"), ObjectKey::new("default", "b"));
        let names: Vec<_> = (0..MAX_SEEN).map(|n| format!("tool{n}")).collect();
        let mut seen = SeenNames::default();
        assert!(seen.add(&a, names.iter().skip(1).map(String::as_str)) && seen.add(&b, ["x", "y"]));
        assert_eq!((seen.len(), seen.of(&b).unwrap().len()), (MAX_SEEN, 1));
        assert!(!seen.add(&b, ["z"]) && !seen.add(&a, ["tool7"]), "full, and known already");
        let mut merged = SeenNames::default();
        merged.add(&b, ["first"]);
        assert!(merged.merge(&seen) && merged.len() == MAX_SEEN && merged.of(&b).unwrap().contains("first"));
        assert!(merged.forget(&a) && merged.add(&b, ["z"]));
        assert!(merged.retain(|upstream| upstream == "default/a") && merged.is_empty());
    }

    #[test]
    fn what_is_no_name_is_not_taken_in() {
        let read: SeenNames = serde_json::from_str(r#"{"default/a": ["ok", "", "a b"]}"#).unwrap();
        let mut seen = SeenNames::default();
        seen.merge(&read);
        assert_eq!(serde_json::to_string(&seen).unwrap(), r#"{"default/a":["ok"]}"#);
    }
}
