//! Exchanges of sessions whose clients can come back after their stream was cut.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dashmap::DashMap;

use super::Exchange;
use super::handle::new_handle;
use crate::domain::budget::Account;

/// How long an exchange is kept after it has ended, in milliseconds.
const KEPT_MS: u64 = 60_000;
/// The same as a duration.
pub const KEPT_AFTER_END: Duration = Duration::from_millis(KEPT_MS);
/// The maximum number of bytes of all ended exchanges that are kept. If there are more, the client that has most of them
/// loses its oldest.
const MAX_BYTES: u64 = 8 << 20;
/// The maximum number of bytes of one ended exchange that is kept, so that one does not displace all others.
const MAX_EACH: u64 = 1 << 20;
/// The maximum number of ended exchanges that are kept. If there are more, the client that has most of them loses its oldest.
const MAX_ENDED: usize = 4096;

/// Exchanges by the handle in the sealed id that the ids of their events begin with.
#[derive(Debug, Default)]
pub struct RetainedExchanges {
    by_handle: DashMap<u64, Entry>,
    ended: Mutex<Ended>,
}

#[derive(Debug)]
struct Entry {
    /// The id of the session.
    session: String,
    exchange: Arc<Exchange>,
}

/// The exchanges that have ended. All sessions of one client address share its account, so that none of them takes the room
/// of other clients.
#[derive(Debug, Default)]
struct Ended {
    /// By the address in memory of the client's account, which the value keeps alive.
    by_client: HashMap<usize, OfClient>,
    count: usize,
    bytes: u64,
    next: u64,
}

#[derive(Debug)]
struct OfClient {
    _account: Arc<Account>,
    /// The oldest first.
    exchanges: VecDeque<EndedExchange>,
    bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct EndedExchange {
    handle: u64,
    /// Its place in the order in which exchanges have ended.
    number: u64,
    /// When it ended, in Unix milliseconds.
    at: u64,
    bytes: u64,
}

impl Ended {
    fn add(&mut self, account: &Arc<Account>, handle: u64, at: u64, bytes: u64) {
        self.next += 1;
        self.count += 1;
        self.bytes += bytes;
        let client = Arc::as_ptr(account).addr();
        let of_client = self.by_client.entry(client).or_insert_with(|| OfClient {
            _account: Arc::clone(account),
            exchanges: VecDeque::new(),
            bytes: 0,
        });
        of_client.bytes += bytes;
        of_client.exchanges.push_back(EndedExchange { handle, number: self.next, at, bytes });
    }

    /// Removes the oldest exchange of a client. Returns its handle.
    fn remove_oldest(&mut self, client: usize) -> Option<u64> {
        let of_client = self.by_client.get_mut(&client)?;
        let oldest = of_client.exchanges.pop_front()?;
        of_client.bytes -= oldest.bytes;
        if of_client.exchanges.is_empty() {
            self.by_client.remove(&client);
        }
        self.count -= 1;
        self.bytes -= oldest.bytes;
        Some(oldest.handle)
    }

    /// Returns the client that has to make room; `None` if there is enough. Of several that have as much, it is the one whose
    /// oldest exchange is the oldest.
    fn largest(&self) -> Option<usize> {
        let by_bytes = self.bytes > MAX_BYTES;
        if !by_bytes && self.count <= MAX_ENDED {
            return None;
        }
        let held = |client: &OfClient| if by_bytes { client.bytes } else { client.exchanges.len() as u64 };
        let age = |client: &OfClient| Reverse(client.exchanges.front().map(|oldest| oldest.number));
        self.by_client.iter().max_by_key(|(_, client)| (held(client), age(client))).map(|(client, _)| *client)
    }

    /// The clients that have exchanges which were kept long enough.
    fn with_old(&self, now: u64) -> Vec<usize> {
        let is_old = |client: &OfClient| client.exchanges.front().is_some_and(|oldest| oldest.is_old(now));
        self.by_client.iter().filter(|(_, client)| is_old(client)).map(|(client, _)| *client).collect()
    }

    fn has_old(&self, client: usize, now: u64) -> bool {
        self.by_client.get(&client).and_then(|client| client.exchanges.front()).is_some_and(|oldest| oldest.is_old(now))
    }
}

impl EndedExchange {
    fn is_old(&self, now: u64) -> bool {
        now.saturating_sub(self.at) >= KEPT_MS
    }
}

impl RetainedExchanges {
    /// Makes an exchange of a session findable and lets it keep what was sent. Returns its handle.
    pub fn add(&self, session: &str, exchange: &Arc<Exchange>) -> u64 {
        exchange.keep();
        let handle = new_handle();
        let entry = Entry { session: session.to_owned(), exchange: Arc::clone(exchange) };
        self.by_handle.insert(handle, entry);
        handle
    }

    /// Returns the exchange of this session with this handle, unless it is gone.
    pub fn find(&self, session: &str, handle: u64) -> Option<Arc<Exchange>> {
        self.by_handle.get(&handle).filter(|entry| entry.session == session).map(|entry| Arc::clone(&entry.exchange))
    }

    /// Says that an exchange has ended at `now`, in Unix milliseconds, so that it is kept for a limited time only.
    pub fn ended(&self, handle: u64, now: u64) {
        let Some(exchange) = self.by_handle.get(&handle).map(|entry| Arc::clone(&entry.exchange)) else { return };
        // A client that was told to come back gets its answer, however large: the client's share of the budget bounds it.
        let bytes = if exchange.was_left() { 0 } else { exchange.size() };
        if bytes > MAX_EACH {
            self.by_handle.remove(&handle);
            return;
        }
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.add(exchange.account(), handle, now, bytes);
        while let Some(client) = ended.largest() {
            self.remove_oldest(&mut ended, client);
        }
    }

    /// Drops the ended exchanges that were kept long enough.
    pub(crate) fn sweep(&self, now: u64) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        for client in ended.with_old(now) {
            while ended.has_old(client, now) {
                self.remove_oldest(&mut ended, client);
            }
        }
    }

    fn remove_oldest(&self, ended: &mut Ended, client: usize) {
        if let Some(handle) = ended.remove_oldest(client) {
            self.by_handle.remove(&handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::budget::ByteBudget;

    fn exchange() -> Arc<Exchange> {
        Arc::new(Exchange::new(&Arc::new(ByteBudget::new(1 << 30)), &Arc::default(), true))
    }

    #[test]
    fn an_exchange_is_found_by_its_own_session() {
        let (kept, exchange) = (RetainedExchanges::default(), exchange());
        let id = kept.add("a", &exchange);
        assert!(kept.find("a", id).is_some_and(|found| Arc::ptr_eq(&found, &exchange)));
        assert!(kept.find("b", id).is_none() && kept.find("a", id + 1).is_none());
        kept.ended(id + 1, 0);
        assert_eq!(kept.ended.lock().unwrap().count, 0, "what is not kept does not end");
    }

    #[test]
    fn an_exchange_that_has_ended_is_kept_for_a_while() {
        let (kept, exchange) = (RetainedExchanges::default(), exchange());
        let id = kept.add("a", &exchange);
        exchange.finish("answer".into());
        kept.ended(id, 7);
        kept.sweep(6 + KEPT_MS);
        assert!(kept.find("a", id).is_some());
        kept.sweep(7 + KEPT_MS);
        assert!(kept.find("a", id).is_none() && kept.by_handle.is_empty());
    }

    fn found_again(kept: &RetainedExchanges, ids: &[u64]) -> bool {
        ids.iter().all(|id| kept.find("a", *id).is_some())
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        let kept = RetainedExchanges::default();
        let each = usize::try_from(MAX_EACH).unwrap();
        let ids: Vec<_> = (0..MAX_BYTES / MAX_EACH + 1)
            .map(|_| {
                let exchange = exchange();
                let id = kept.add("a", &exchange);
                exchange.finish("x".repeat(each).into());
                kept.ended(id, 7);
                id
            })
            .collect();
        let found: Vec<_> = ids.iter().map(|id| kept.find("a", *id).is_some()).collect();
        assert!(!found[0] && found[1..].iter().all(|found| *found), "{found:?}");
        let huge = exchange();
        let id = kept.add("a", &huge);
        huge.finish("x".repeat(each + 1).into());
        kept.ended(id, 7);
        assert!(kept.find("a", id).is_none(), "one that is too large is not kept");
        let left = exchange();
        let id = kept.add("a", &left);
        left.leave(None);
        left.finish("x".repeat(each + 1).into());
        kept.ended(id, 7);
        assert!(kept.find("a", id).is_some() && found_again(&kept, &ids[1..]), "its client was told to come back");
    }

    #[test]
    fn the_client_that_has_most_makes_room() {
        let (kept, budget) = (RetainedExchanges::default(), Arc::new(ByteBudget::new(1 << 30)));
        let (greedy, modest) = (Arc::default(), Arc::default());
        let end = |account: &Arc<Account>, session: &str| {
            let exchange = Arc::new(Exchange::new(&budget, account, true));
            let id = kept.add(session, &exchange);
            exchange.finish("answer".into());
            kept.ended(id, 7);
            id
        };
        let of_modest = end(&modest, "m");
        // The client has many sessions.
        let of_greedy: Vec<_> = (0..MAX_ENDED + 10).map(|n| end(&greedy, &n.to_string())).collect();
        assert!(kept.find("m", of_modest).is_some(), "another client loses nothing");
        let of_greedy = of_greedy.iter().enumerate();
        let kept_of_greedy: Vec<_> = of_greedy.filter(|(n, id)| kept.find(&n.to_string(), **id).is_some()).collect();
        assert_eq!((kept_of_greedy.len(), kept_of_greedy[0].0), (MAX_ENDED - 1, 11), "the oldest go first");
        assert_eq!(kept.by_handle.len(), MAX_ENDED);
        kept.sweep(7 + KEPT_MS);
        assert!(kept.by_handle.is_empty() && kept.ended.lock().unwrap().by_client.is_empty());
    }
}
