//! Exchanges of sessions whose clients can come back after their stream was cut.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dashmap::DashMap;

use super::Exchange;
use crate::engine::access::sealed_id::new_handle;

/// How long an exchange is kept after it has ended, in milliseconds.
const KEPT_MS: u64 = 60_000;
/// The same as a duration.
pub const KEPT_AFTER_END: Duration = Duration::from_millis(KEPT_MS);
/// The maximum number of bytes of all ended exchanges that are kept. If there are more, the oldest are dropped.
const MAX_BYTES: u64 = 8 << 20;
/// The maximum number of bytes of one ended exchange that is kept, so that one does not displace all others.
const MAX_EACH: u64 = 1 << 20;
/// The maximum number of ended exchanges that are kept.
const MAX_ENDED: usize = 4096;

/// Exchanges by the handle in the sealed id that the ids of their events begin with.
#[derive(Debug, Default)]
pub struct KeptExchanges {
    by_handle: DashMap<u64, Entry>,
    ended: Mutex<Ended>,
}

#[derive(Debug)]
struct Entry {
    /// The id of the session.
    session: String,
    exchange: Arc<Exchange>,
}

#[derive(Debug, Default)]
struct Ended {
    /// The handles, the oldest first, each with the exchange's end in Unix milliseconds and its number of bytes.
    handles: VecDeque<(u64, u64, u64)>,
    bytes: u64,
}

impl KeptExchanges {
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
        let sizes = self.by_handle.get(&handle).map(|entry| (entry.exchange.size(), entry.exchange.was_left()));
        let Some((size, was_left)) = sizes else { return };
        // A client that was told to come back gets its answer, however large: the client's share of the budget bounds it.
        let size = if was_left { 0 } else { size };
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if size > MAX_EACH {
            drop(ended);
            self.by_handle.remove(&handle);
            return;
        }
        ended.bytes += size;
        ended.handles.push_back((now, size, handle));
        self.drop_old(&mut ended, now);
    }

    /// Drops the ended exchanges that were kept long enough.
    pub(crate) fn sweep(&self, now: u64) {
        self.drop_old(&mut self.ended.lock().unwrap_or_else(PoisonError::into_inner), now);
    }

    fn drop_old(&self, ended: &mut Ended, now: u64) {
        while let Some((at, size, handle)) = ended.handles.front()
            && (ended.bytes > MAX_BYTES || ended.handles.len() > MAX_ENDED || now.saturating_sub(*at) >= KEPT_MS)
        {
            self.by_handle.remove(handle);
            ended.bytes -= size;
            ended.handles.pop_front();
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
        let (kept, exchange) = (KeptExchanges::default(), exchange());
        let id = kept.add("a", &exchange);
        assert!(kept.find("a", id).is_some_and(|found| Arc::ptr_eq(&found, &exchange)));
        assert!(kept.find("b", id).is_none() && kept.find("a", id + 1).is_none());
        kept.ended(id + 1, 0);
        assert_eq!(kept.ended.lock().unwrap().handles.len(), 0, "what is not kept does not end");
    }

    #[test]
    fn an_exchange_that_has_ended_is_kept_for_a_while() {
        let (kept, exchange) = (KeptExchanges::default(), exchange());
        let id = kept.add("a", &exchange);
        exchange.finish("answer".into());
        kept.ended(id, 7);
        kept.sweep(6 + KEPT_MS);
        assert!(kept.find("a", id).is_some());
        kept.sweep(7 + KEPT_MS);
        assert!(kept.find("a", id).is_none() && kept.by_handle.is_empty());
    }

    fn found_again(kept: &KeptExchanges, ids: &[u64]) -> bool {
        ids.iter().all(|id| kept.find("a", *id).is_some())
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        let kept = KeptExchanges::default();
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
}
