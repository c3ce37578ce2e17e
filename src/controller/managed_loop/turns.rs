//! Decides in which order servers are brought up to date, so that one namespace whose requests hang delays no other.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::domain::ids::ObjectKey;

/// How many servers are brought up to date concurrently.
const AT_ONCE: usize = 64;
/// How many of them belong to one namespace. Most of a server's turn is waiting for the API server, so that fewer would
/// make a namespace of a thousand servers slow.
const OF_NAMESPACE: usize = 16;

/// The servers that wait for their turn, and those that have it.
#[derive(Default)]
pub(super) struct Turns {
    /// Those that wait, the longest wait first.
    order: VecDeque<ObjectKey>,
    waiting: HashSet<ObjectKey>,
    running: HashSet<ObjectKey>,
    /// How many of a namespace run.
    of_namespace: HashMap<String, usize>,
}

impl Turns {
    /// Notes that a server is due. One that has its turn gets another one after it.
    pub(super) fn add(&mut self, server: &ObjectKey) {
        if self.waiting.insert(server.clone()) {
            self.order.push_back(server.clone());
        }
    }

    /// Returns the server whose turn it is now, if it is anybody's.
    pub(super) fn next(&mut self) -> Option<ObjectKey> {
        if self.running.len() >= AT_ONCE {
            return None;
        }
        let is_free = |server: &ObjectKey| {
            let of_namespace = self.of_namespace.get(&server.namespace).copied().unwrap_or_default();
            of_namespace < OF_NAMESPACE && !self.running.contains(server)
        };
        let place = self.order.iter().position(is_free)?;
        let server = self.order.remove(place)?;
        self.waiting.remove(&server);
        *self.of_namespace.entry(server.namespace.clone()).or_default() += 1;
        self.running.insert(server.clone());
        Some(server)
    }

    /// Notes that the turn of a server is over.
    pub(super) fn ended(&mut self, server: &ObjectKey) {
        self.running.remove(server);
        if let Some(running) = self.of_namespace.get_mut(&server.namespace) {
            *running -= 1;
        }
        self.of_namespace.retain(|_, running| *running > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_namespace_has_all_the_turns_and_none_runs_twice_at_once() {
        let mut turns = Turns::default();
        let server = |namespace: &str, number: usize| ObjectKey::new(namespace, format!("up-{number}"));
        for (namespace, number) in (0..100).map(|number| ("slow", number)).chain([("other", 0)]) {
            turns.add(&server(namespace, number));
        }
        let mut begun: Vec<_> = std::iter::from_fn(|| turns.next()).collect();
        assert_eq!(begun.pop(), Some(server("other", 0)));
        assert!(begun.into_iter().eq((0..OF_NAMESPACE).map(|number| server("slow", number))));
        turns.add(&server("other", 0));
        turns.add(&server("slow", 0));
        turns.add(&server("slow", OF_NAMESPACE));
        assert_eq!(turns.next(), None, "it has its turn, and so has as much of the other namespace as may");
        turns.ended(&server("other", 0));
        assert_eq!(turns.next(), Some(server("other", 0)));
        turns.ended(&server("slow", 0));
        assert_eq!(turns.next(), Some(server("slow", OF_NAMESPACE)), "that of before comes last");
    }

    #[test]
    fn no_more_run_at_once_than_may() {
        let mut turns = Turns::default();
        let servers: Vec<_> = (0..100).map(|number| ObjectKey::new(format!("ns-{number}"), "up")).collect();
        servers.iter().for_each(|server| turns.add(server));
        assert_eq!(std::iter::from_fn(|| turns.next()).count(), AT_ONCE);
        turns.ended(&servers[0]);
        assert_eq!(turns.next().as_ref(), Some(&servers[AT_ONCE]));
    }
}
