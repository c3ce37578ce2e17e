//! Counters for each client that has proved its identity and has no session.

use std::sync::Arc;

use dashmap::DashMap;

use crate::domain::identity::Identity;
use crate::domain::limits::Tracker;

/// The maximum number of clients with their own counter. If there are more, those without calls in flight are forgotten.
const MAX_CLIENTS: usize = 16_384;

/// Call counters, and the subjects with their issuers that they count for, by the key of an identity.
#[derive(Default)]
pub struct Principals {
    known: DashMap<String, (String, Arc<Tracker>)>,
    others: Arc<Tracker>,
}

impl Principals {
    /// Returns the counter of a client.
    pub fn of(&self, identity: &Identity) -> Arc<Tracker> {
        if let Some(known) = self.known.get(identity.key()) {
            return Arc::clone(&known.1);
        }
        if self.known.len() >= MAX_CLIENTS {
            self.known.retain(|_, (_, tracker)| Arc::strong_count(tracker) > 1);
        }
        if self.known.len() >= MAX_CLIENTS {
            return Arc::clone(&self.others);
        }
        let new = || (identity.name_with_issuer(), Arc::default());
        Arc::clone(&self.known.entry(identity.key().to_owned()).or_insert_with(new).1)
    }

    /// Returns the subjects, with their issuers, that have a counter of their own, in their order.
    pub(crate) fn known(&self) -> Vec<(String, Arc<Tracker>)> {
        let mut known: Vec<_> = self.known.iter().map(|entry| entry.value().clone()).collect();
        known.sort_by(|(one, _), (other, _)| one.cmp(other));
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::identity::IdentityMethod;

    #[test]
    fn clients_with_one_subject_of_two_issuers_are_told_apart() {
        let principals = Principals::default();
        for (method, issuer) in
            [(IdentityMethod::Jwt, "https://a"), (IdentityMethod::Jwt, "https://b"), (IdentityMethod::ApiKey, "")]
        {
            principals.of(&Identity::new(method, issuer, "ann".into()).unwrap());
        }
        let known: Vec<_> = principals.known().into_iter().map(|(name, _)| name).collect();
        assert_eq!(known, ["ann", "ann of https://a", "ann of https://b"]);
    }

    #[test]
    fn a_client_keeps_its_counter_until_there_is_no_room() {
        let principals = Principals::default();
        let of = |key: &str| principals.of(&Identity::forwarded(key, "ann"));
        of("a").enter(None, None).unwrap();
        assert_eq!((of("a").total(), of("b").total()), (1, 0));
        let held: Vec<_> = (0..MAX_CLIENTS + 8).map(|n| of(&n.to_string())).collect();
        assert!(principals.known.len() <= MAX_CLIENTS && Arc::ptr_eq(&held[MAX_CLIENTS + 7], &principals.others));
    }
}
