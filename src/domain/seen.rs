//! The names of all tools and prompts that upstreams were ever seen to have.
//!
//! If they keep their own names, a name belongs to the first upstream that was seen to have it. Neither an outage
//! nor a restart must give the name to another server, so these names are kept through both.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

use super::ids::ObjectKey;
use super::tool_name::{MAX_NAME, is_seen_name};

/// Maximum number of names that are kept of all upstreams together. There are lower limits for one namespace and for
/// one upstream, so that none of them can use up the room of the others. A tool that is first seen when there is no
/// room always has its upstream's prefix.
pub const MAX_SEEN: usize = 4096;
/// Maximum number of names that are kept of the upstreams of one namespace; see [`MAX_SEEN`].
pub const MAX_OF_NAMESPACE: usize = MAX_SEEN / SHARES;
/// Maximum number of names that are kept of one upstream; see [`MAX_SEEN`].
pub const MAX_OF_ONE: usize = 512;
/// Maximum size of the names as JSON, in bytes. Names of this size fit into the index of a gateway's snapshots,
/// together with the rest of the index.
pub const MAX_BYTES: usize = 128 << 10;
const MAX_BYTES_OF_NAMESPACE: usize = MAX_BYTES / SHARES;
const MAX_BYTES_OF_ONE: usize = MAX_BYTES / 8;
/// The limits of a namespace are the total limits divided by this number.
const SHARES: usize = 4;
/// The JSON overhead of a name, in bytes: two quotes and a comma.
const AROUND_NAME: usize = 3;
/// An upper estimate of the JSON overhead of an upstream, in bytes: quotes, a colon, brackets and a comma.
const AROUND_UPSTREAM: usize = 40;
/// Maximum number of bytes that a single name can add. This is the case for the first name of an upstream whose
/// namespace and name have 63 characters each, the most that is allowed.
const LARGEST: usize = AROUND_UPSTREAM + 127 + MAX_NAME + AROUND_NAME;

/// Names of tools by upstream (`namespace/name`). Adding is limited by [`MAX_SEEN`] and [`MAX_BYTES`], among others.
/// Deserializing is not limited, so deserialized names must be merged into a limited set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct SeenNames(BTreeMap<String, BTreeSet<String>>);

impl SeenNames {
    /// Returns the names of one upstream.
    pub fn of(&self, upstream: &ObjectKey) -> Option<&BTreeSet<String>> {
        self.0.get(&upstream.to_string())
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }

    /// Iterates over the upstreams (`namespace/name`) and their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        self.0.iter().map(|(upstream, names)| (upstream.as_str(), names))
    }

    /// Whether one more name could exceed the limits of all upstreams together, or those of any namespace.
    pub fn is_full(&self) -> bool {
        let taken = self.taken();
        taken.all.is_full(MAX_SEEN, MAX_BYTES)
            || taken.namespaces.values().any(|of| of.is_full(MAX_OF_NAMESPACE, MAX_BYTES_OF_NAMESPACE))
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds names of one upstream while there is room. Returns whether any was new.
    pub fn add<'a>(&mut self, upstream: &ObjectKey, names: impl IntoIterator<Item = &'a str>) -> bool {
        let mut taken = self.taken();
        self.add_within(&mut taken, &upstream.to_string(), names)
    }

    /// Adds all names of `other` while there is room. Returns whether any was new.
    pub fn merge(&mut self, other: &Self) -> bool {
        self.merge_all(other.iter().map(|(upstream, names)| (upstream, names.iter().map(String::as_str))))
    }

    /// Adds names by upstream (`namespace/name`) while there is room. Returns whether any was new.
    pub fn merge_all<'a, U, N>(&mut self, all: impl IntoIterator<Item = (U, N)>) -> bool
    where
        U: AsRef<str>,
        N: IntoIterator<Item = &'a str>,
    {
        let mut taken = self.taken();
        let added = all.into_iter().map(|(upstream, names)| self.add_within(&mut taken, upstream.as_ref(), names));
        added.fold(false, |any, new| any | new)
    }

    /// Removes the names of an upstream. Returns whether the upstream had any.
    pub fn forget(&mut self, upstream: &ObjectKey) -> bool {
        self.0.remove(&upstream.to_string()).is_some()
    }

    /// Removes the names of every upstream for which `keep` returns false. Returns whether any were removed.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|upstream, _| keep(upstream));
        self.0.len() < before
    }

    /// Removes the names of upstreams for which `keep` returns false, but only where room is needed: in each namespace
    /// that is full, or in all namespaces if all upstreams together have reached a limit. Returns whether any were
    /// removed.
    pub fn make_room(&mut self, keep: impl Fn(&str) -> bool) -> bool {
        let Taken { all, namespaces } = self.taken();
        let no_room = all.is_full(MAX_SEEN, MAX_BYTES);
        let is_full = |of: &Amount| of.is_full(MAX_OF_NAMESPACE, MAX_BYTES_OF_NAMESPACE);
        self.retain(|upstream| {
            let counts = no_room || namespaces.get(namespace(upstream)).is_some_and(is_full);
            !counts || keep(upstream)
        })
    }

    /// Removes the names that `other` also contains.
    pub fn subtract(&mut self, other: &Self) {
        for (upstream, names) in &other.0 {
            if let Some(own) = self.0.get_mut(upstream) {
                own.retain(|name| !names.contains(name));
            }
        }
        self.0.retain(|_, names| !names.is_empty());
    }

    fn taken(&self) -> Taken {
        let mut taken = Taken::default();
        for (upstream, names) in &self.0 {
            let amount = Amount::of(upstream, names);
            taken.all += amount;
            *taken.of(upstream) += amount;
        }
        taken
    }

    fn add_within<'a>(&mut self, taken: &mut Taken, upstream: &str, names: impl IntoIterator<Item = &'a str>) -> bool {
        let known = self.0.get(upstream);
        let new = |name: &&str| is_seen_name(name) && known.is_none_or(|known| !known.contains(*name));
        let new: BTreeSet<_> = names.into_iter().filter(new).collect();
        let mut own = known.map(|known| Amount::of(upstream, known)).unwrap_or_default();
        let mut added = Vec::new();
        for name in new {
            let first = if own.names == 0 { AROUND_UPSTREAM + upstream.len() } else { 0 };
            let more = Amount { names: 1, bytes: first + name.len() + AROUND_NAME };
            if taken.has_room(upstream, own, more) {
                own += more;
                taken.all += more;
                *taken.of(upstream) += more;
                added.push(name.to_owned());
            }
        }
        let is_new = !added.is_empty();
        if is_new {
            self.0.entry(upstream.to_owned()).or_default().extend(added);
        }
        is_new
    }
}

/// A number of names, and an upper estimate of their size as JSON in bytes.
#[derive(Clone, Copy, Default)]
struct Amount {
    names: usize,
    bytes: usize,
}

impl Amount {
    fn of(upstream: &str, names: &BTreeSet<String>) -> Self {
        let bytes = names.iter().map(|name| name.len() + AROUND_NAME).sum::<usize>();
        Self { names: names.len(), bytes: AROUND_UPSTREAM + upstream.len() + bytes }
    }

    fn is_within(self, names: usize, bytes: usize) -> bool {
        self.names <= names && self.bytes <= bytes
    }

    /// Whether one more name could exceed these limits.
    fn is_full(self, names: usize, bytes: usize) -> bool {
        self.names >= names || self.bytes + LARGEST > bytes
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self { names: self.names + more.names, bytes: self.bytes + more.bytes }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, more: Self) {
        *self = *self + more;
    }
}

/// The room that is taken in total, and by each namespace.
#[derive(Default)]
struct Taken {
    all: Amount,
    namespaces: HashMap<String, Amount>,
}

impl Taken {
    /// Returns the room that is taken by the namespace of an upstream.
    fn of(&mut self, upstream: &str) -> &mut Amount {
        self.namespaces.entry(namespace(upstream).to_owned()).or_default()
    }

    /// Whether an upstream whose names take up `own` has room for `more`.
    fn has_room(&mut self, upstream: &str, own: Amount, more: Amount) -> bool {
        (own + more).is_within(MAX_OF_ONE, MAX_BYTES_OF_ONE)
            && (*self.of(upstream) + more).is_within(MAX_OF_NAMESPACE, MAX_BYTES_OF_NAMESPACE)
            && (self.all + more).is_within(MAX_SEEN, MAX_BYTES)
    }
}

/// Returns the namespace of an upstream (`namespace/name`).
fn namespace(upstream: &str) -> &str {
    upstream.split_once('/').map_or("", |(namespace, _)| namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `count` names of `length` characters.
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
        assert!(add(&mut long, "greedy", &names(MAX_OF_ONE, MAX_NAME)) && long.taken().all.bytes <= MAX_BYTES_OF_ONE);
    }

    #[test]
    fn no_namespace_takes_the_room_of_the_others() {
        for length in [8, MAX_NAME] {
            let mut seen = SeenNames::default();
            for n in 0..MAX_SEEN / MAX_OF_ONE {
                add(&mut seen, &format!("up{n}"), &names(MAX_OF_ONE, length));
            }
            assert!(seen.is_full() && seen.taken().all.is_within(MAX_OF_NAMESPACE, MAX_BYTES_OF_NAMESPACE));
            assert!(!add(&mut seen, "another", &names(1, length)), "of the same namespace");
            assert!(seen.add(&ObjectKey::new("team", "up"), ["read"]));
            assert!(seen.forget(&ObjectKey::new("default", "up0")) && !seen.is_full());
            assert!(add(&mut seen, "another", &names(1, length)), "what is forgotten makes room");
        }
    }

    #[test]
    fn room_is_made_in_the_namespaces_that_have_none() {
        let mut seen = SeenNames::default();
        let (other, gone) = (ObjectKey::new("team", "up"), ObjectKey::new("default", "up0"));
        seen.add(&other, ["read"]);
        assert!(!seen.make_room(|_| false), "there is room");
        for n in 0..MAX_OF_NAMESPACE / MAX_OF_ONE {
            add(&mut seen, &format!("up{n}"), &names(MAX_OF_ONE, 8));
        }
        assert!(seen.make_room(|upstream| upstream == "default/up1"));
        assert!(seen.of(&gone).is_none() && seen.of(&ObjectKey::new("default", "up1")).is_some());
        assert!(seen.of(&other).is_some(), "its namespace has room");
        for n in 0..SHARES * MAX_OF_NAMESPACE / MAX_OF_ONE {
            let upstream = ObjectKey::new(format!("ns{}", n / 2), format!("up{n}"));
            seen.add(&upstream, names(MAX_OF_ONE, 8).iter().map(String::as_str));
        }
        assert!(seen.make_room(|_| false) && seen.is_empty(), "there is no room in any namespace");
    }

    #[test]
    fn at_most_so_many_names_are_kept_and_so_many_bytes() {
        for (length, few) in [(8, false), (MAX_NAME, true)] {
            let mut seen = SeenNames::default();
            for n in 0..=SHARES * MAX_OF_NAMESPACE / MAX_OF_ONE {
                let upstream = ObjectKey::new(format!("ns{}", n / (MAX_OF_NAMESPACE / MAX_OF_ONE)), format!("up{n}"));
                seen.add(&upstream, names(MAX_OF_ONE, length).iter().map(String::as_str));
            }
            let Amount { names, bytes } = seen.taken().all;
            assert!(seen.is_full() && bytes <= MAX_BYTES, "{bytes} bytes");
            assert_eq!((seen.len(), names < MAX_SEEN), (names, few));
            let too_many = seen.of(&ObjectKey::new("ns4", "up8")).map_or(0, BTreeSet::len);
            assert!(too_many < 8, "what is left is less than a share: {too_many}");
            let b = ObjectKey::new("default", "b");
            let mut merged = SeenNames::default();
            merged.add(&b, ["first"]);
            assert!(merged.merge(&seen) && merged.len() <= MAX_SEEN && merged.of(&b).unwrap().contains("first"));
            assert!(!merged.merge(&seen), "it is known, or has no room");
            assert!(merged.forget(&ObjectKey::new("ns0", "up0")) && merged.add(&b, ["z"]));
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
