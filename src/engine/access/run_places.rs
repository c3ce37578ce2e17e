//! Places for runs of pipelines. A run can wait for a user for as long as its pipeline lets it, so that one client must not
//! have all places.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::budget::Account;

/// The part of all places that one client can have.
const FAIR_PART: u32 = 4;

/// The number of runs in progress of each client. Clients that have none are not in it.
#[derive(Default)]
pub(crate) struct RunPlaces(Mutex<HashMap<Holder, u32>>);

/// A session, or else an address. Accounts are told apart by where they are, which nothing else is while a place has them.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Holder {
    Session(String),
    Address(usize),
}

/// The place of a run, until this is dropped.
pub(crate) struct RunPlace {
    places: Arc<RunPlaces>,
    holder: Holder,
    _account: Option<Arc<Account>>,
}

impl RunPlaces {
    /// Takes one of `most` places for a run of this session, or, if that is empty, of the address with this account.
    ///
    /// # Errors
    /// Says which limit is reached.
    pub(crate) fn take(
        self: &Arc<Self>,
        session: &str,
        account: Option<&Arc<Account>>,
        most: u32,
    ) -> Result<RunPlace, String> {
        let address = || Holder::Address(account.map_or(0, |account| Arc::as_ptr(account).addr()));
        let holder = if session.is_empty() { address() } else { Holder::Session(session.to_owned()) };
        let (mut places, part) = (self.lock(), (most / FAIR_PART).max(1));
        if places.values().sum::<u32>() >= most {
            return Err(format!("{most} runs of pipelines are in progress, as many as this gateway takes"));
        }
        let count = places.entry(holder.clone()).or_default();
        if *count >= part {
            let client = if session.is_empty() { "from your address" } else { "of this session" };
            return Err(format!("{part} runs {client} are in progress, a part of the {most} that this gateway takes"));
        }
        *count += 1;
        drop(places);
        Ok(RunPlace { places: Arc::clone(self), holder, _account: account.cloned() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Holder, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunPlace {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.places.lock().entry(self.holder.clone()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_session_or_address_has_a_quarter_of_the_places() {
        let (places, accounts) = (Arc::<RunPlaces>::default(), [Arc::default(), Arc::default()]);
        let take = |session: &str, account: usize| places.take(session, Some(&accounts[account]), 8);
        let words = |taken: Result<RunPlace, String>| taken.map(drop).unwrap_err();
        let mut of_address: Vec<_> = (0..2).map(|_| take("", 0).unwrap()).collect();
        assert_eq!(
            words(take("", 0)),
            "2 runs from your address are in progress, a part of the 8 that this gateway takes"
        );
        let _of_other: Vec<_> = (0..2).map(|_| take("", 1).unwrap()).collect();
        let _of_session: Vec<_> = (0..2).map(|_| take("s", 0).unwrap()).collect();
        assert!(words(take("s", 0)).starts_with("2 runs of this session"));
        let _of_another: Vec<_> = (0..2).map(|_| take("t", 0).unwrap()).collect();
        assert_eq!(words(take("u", 0)), "8 runs of pipelines are in progress, as many as this gateway takes");
        of_address.pop();
        drop(take("u", 0).unwrap());
        drop(take("", 0).unwrap());
        drop(of_address);
        assert_eq!(places.lock().len(), 3, "a client without runs takes no room");
    }

    #[test]
    fn there_is_a_place_where_a_quarter_is_less_than_one() {
        let places = Arc::<RunPlaces>::default();
        let place = places.take("", None, 1).unwrap();
        assert!(places.take("s", None, 1).is_err());
        drop(place);
        assert!(places.take("s", None, 1).is_ok());
    }
}
