//! A table of calls that outlive the requests that they came with.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::budget::Account;

/// Once half of the places are taken, the part of all that one client can have. Behind an ingress all clients can share one
/// address.
const PART_OF_CLIENT: usize = 4;

/// A call in a [`Table`].
pub trait Entry {
    /// The number of bytes that the entry holds after the end of its call; `None` while that is in progress.
    fn ended_size(&self) -> Option<u64>;

    /// The account that identifies the client; `None` if clients have no shares of the places.
    fn account(&self) -> Option<&Arc<Account>> {
        None
    }
}

/// How many calls a table has places for. The oldest ones that have ended make room for others.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Calls in progress. Further ones are refused.
    pub in_progress: usize,
    /// All calls, unless more are in progress.
    pub total: usize,
    /// Calls that have ended.
    pub ended: usize,
    /// The bytes that calls which have ended hold together. The newest one is kept anyway.
    pub ended_bytes: u64,
}

/// There is no place for another call, or none for another one of this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPlace;

/// Calls by their keys, the oldest first.
pub struct Table<K, E> {
    limits: Limits,
    rows: Mutex<Rows<K, E>>,
}

struct Rows<K, E> {
    rows: VecDeque<Row<K, E>>,
    is_closed: bool,
}

/// A place for a call. The table is locked until the call is added.
pub struct Place<'t, K, E> {
    table: &'t Table<K, E>,
    known: MutexGuard<'t, Rows<K, E>>,
}

impl<K, E: Entry> Place<'_, K, E> {
    /// Adds the call, which is removed at `expires_at`, in Unix milliseconds.
    pub fn add(mut self, key: K, entry: &Arc<E>, expires_at: u64) {
        self.known.rows.push_back(Row { key, entry: Arc::clone(entry), expires_at });
        self.table.limits.trim(&mut self.known.rows, Some(entry));
    }
}

struct Row<K, E> {
    key: K,
    entry: Arc<E>,
    /// In Unix milliseconds.
    expires_at: u64,
}

impl<K: PartialEq, E: Entry> Table<K, E> {
    /// Creates a table without calls.
    pub fn new(limits: Limits) -> Self {
        Self { limits, rows: Mutex::new(Rows { rows: VecDeque::new(), is_closed: false }) }
    }

    /// Adds a call, which is removed at `expires_at`, in Unix milliseconds.
    ///
    /// # Errors
    /// If there is no place for it.
    pub fn add(&self, key: K, entry: &Arc<E>, expires_at: u64) -> Result<(), NoPlace> {
        let known = self.known();
        if known.is_closed || !self.limits.admit(&known.rows, entry.account()) {
            return Err(NoPlace);
        }
        Place { table: self, known }.add(key, entry, expires_at);
        Ok(())
    }

    /// Reserves a place for a call of the client with this account, before the call begins. The table is locked meanwhile.
    ///
    /// # Errors
    /// If there is no place for it.
    pub fn place(&self, account: &Arc<Account>) -> Result<Place<'_, K, E>, NoPlace> {
        let known = self.known();
        let is_admitted = !known.is_closed && self.limits.admit(&known.rows, Some(account));
        if is_admitted { Ok(Place { table: self, known }) } else { Err(NoPlace) }
    }

    /// Whether there is a place for another call of the client with this account.
    pub fn has_place(&self, account: &Arc<Account>) -> bool {
        self.place(account).is_ok()
    }

    /// Makes room after the end of this call.
    pub fn ended(&self, entry: &Arc<E>) {
        self.limits.trim(&mut self.known().rows, Some(entry));
    }

    /// Returns the call with this key.
    pub fn find<Q: PartialEq + ?Sized>(&self, key: &Q) -> Option<Arc<E>>
    where
        K: Borrow<Q>,
    {
        self.known().rows.iter().rev().find(|row| row.key.borrow() == key).map(|row| Arc::clone(&row.entry))
    }

    /// Removes the call with this key. Of two tasks that remove it, one gets it.
    pub fn remove(&self, key: &K) -> Option<Arc<E>> {
        let mut known = self.known();
        let place = known.rows.iter().position(|row| row.key == *key)?;
        known.rows.remove(place).map(|row| row.entry)
    }

    /// Returns all calls, the newest first.
    pub fn newest_first(&self) -> Vec<Arc<E>> {
        self.known().rows.iter().rev().map(|row| Arc::clone(&row.entry)).collect()
    }

    /// Removes the calls that have expired, and those that have ended and are more than are kept.
    pub fn expire(&self, now: u64) {
        let mut known = self.known();
        let (expired, rows): (VecDeque<_>, _) =
            std::mem::take(&mut known.rows).into_iter().partition(|row| row.expires_at <= now);
        known.rows = rows;
        self.limits.trim(&mut known.rows, None);
        drop(known);
        drop(expired);
    }

    /// Removes all calls. From now on there is no place for another.
    pub fn close(&self) {
        let mut known = self.known();
        known.is_closed = true;
        let removed = std::mem::take(&mut known.rows);
        drop(known);
        drop(removed);
    }

    fn known(&self) -> MutexGuard<'_, Rows<K, E>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Limits {
    /// Whether a call of this client can be added.
    fn admit<K, E: Entry>(&self, rows: &VecDeque<Row<K, E>>, account: Option<&Arc<Account>>) -> bool {
        let in_progress = || rows.iter().filter(|row| row.entry.ended_size().is_none());
        let count = in_progress().count();
        let is_of = |account: &Arc<Account>, row: &Row<K, E>| {
            row.entry.account().is_some_and(|other| Arc::ptr_eq(other, account))
        };
        let of_client = || account.map_or(0, |account| in_progress().filter(|row| is_of(account, row)).count());
        count < self.in_progress && (count < self.in_progress / 2 || of_client() < self.in_progress / PART_OF_CLIENT)
    }

    /// Removes the oldest calls that have ended until the rest is within the limits. `newest` stays.
    fn trim<K, E: Entry>(&self, rows: &mut VecDeque<Row<K, E>>, newest: Option<&Arc<E>>) {
        let ended = rows.iter().filter_map(|row| row.entry.ended_size());
        let (mut count, mut bytes) = ended.fold((0_usize, 0_u64), |(count, bytes), size| (count + 1, bytes + size));
        let mut all = rows.len();
        let is_within = |all: usize, count: usize, bytes: u64| {
            all <= self.total && count <= self.ended && bytes <= self.ended_bytes
        };
        if is_within(all, count, bytes) {
            return;
        }
        rows.retain(|row| {
            let is_newest = newest.is_some_and(|newest| Arc::ptr_eq(&row.entry, newest));
            match row.entry.ended_size().filter(|_| !is_newest && !is_within(all, count, bytes)) {
                Some(size) => {
                    (all, count, bytes) = (all - 1, count.saturating_sub(1), bytes.saturating_sub(size));
                    false
                }
                None => true,
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call of this client that holds so many bytes once it has ended.
    struct Call(Arc<Account>, Mutex<Option<u64>>);

    impl Call {
        fn new(account: &Arc<Account>) -> Arc<Self> {
            Arc::new(Self(Arc::clone(account), Mutex::default()))
        }

        fn end(&self, bytes: u64) {
            *self.1.lock().unwrap() = Some(bytes);
        }
    }

    impl Entry for Call {
        fn ended_size(&self) -> Option<u64> {
            *self.1.lock().unwrap()
        }

        fn account(&self) -> Option<&Arc<Account>> {
            Some(&self.0)
        }
    }

    fn table(in_progress: usize) -> Table<u64, Call> {
        Table::new(Limits { in_progress, total: 20, ended: 6, ended_bytes: 100 })
    }

    /// Adds a call to the table for each key.
    fn added(table: &Table<u64, Call>, keys: std::ops::Range<u64>) -> Vec<Arc<Call>> {
        let each = |key| {
            let call = Call::new(&Arc::default());
            table.add(key, &call, u64::MAX).unwrap();
            call
        };
        keys.map(each).collect()
    }

    fn keys(table: &Table<u64, Call>) -> Vec<u64> {
        table.known().rows.iter().map(|row| row.key).collect()
    }

    #[test]
    fn one_client_leaves_places_to_others() {
        let table = table(16);
        let [one, other] = [(); 2].map(|()| Arc::<Account>::default());
        let mut key = 0;
        let mut add = |account: &Arc<Account>| {
            key += 1;
            table.add(key, &Call::new(account), u64::MAX)
        };
        assert!((0..8).all(|_| add(&one).is_ok()), "half of the places are for anybody");
        assert_eq!((add(&one), table.has_place(&one), table.has_place(&other)), (Err(NoPlace), false, true));
        assert_eq!((0..16).map_while(|_| add(&other).ok()).count(), 4);
        assert!((1..=5).all(|key| table.remove(&key).is_some()));
        assert_eq!(add(&one), Ok(()), "fewer than half of the places are taken");
    }

    #[test]
    fn calls_in_progress_are_refused_a_place_and_those_that_have_ended_make_room() {
        let table = table(16);
        let calls = added(&table, 0..16);
        assert_eq!(table.add(16, &Call::new(&Arc::default()), u64::MAX), Err(NoPlace));
        calls[..5].iter().for_each(|call| call.end(1));
        added(&table, 16..21);
        assert_eq!(keys(&table), (1..21).collect::<Vec<_>>(), "the oldest that has ended made room");
        calls[5..9].iter().for_each(|call| call.end(1));
        table.ended(&calls[8]);
        assert_eq!(keys(&table)[..2], [3, 4], "six that have ended are kept");
    }

    #[test]
    fn large_answers_push_older_ones_out_but_the_newest_is_kept() {
        let table = table(16);
        let calls = added(&table, 0..4);
        calls[1].end(60);
        table.ended(&calls[1]);
        calls[2].end(60);
        table.ended(&calls[2]);
        assert_eq!(keys(&table), [0, 2, 3]);
        calls[3].end(1);
        calls[0].end(140);
        table.ended(&calls[0]);
        assert_eq!(keys(&table), [0]);
    }

    #[test]
    fn calls_that_ended_by_themselves_make_room_when_others_expire() {
        let table = table(16);
        let calls = added(&table, 0..10);
        calls[2..].iter().for_each(|call| call.end(20));
        table.expire(0);
        assert_eq!(keys(&table), [0, 1, 5, 6, 7, 8, 9], "100 bytes, and six calls, are kept");
    }

    #[test]
    fn a_place_is_one_for_a_call_that_begins_later() {
        let table = table(16);
        added(&table, 0..15);
        let account = Arc::<Account>::default();
        table.place(&account).unwrap().add(15, &Call::new(&account), u64::MAX);
        assert!(table.place(&account).is_err());
        assert_eq!(keys(&table), (0..16).collect::<Vec<_>>());
    }

    #[test]
    fn calls_expire_and_a_closed_table_has_none() {
        let table = table(16);
        let calls = added(&table, 0..2);
        table.add(2, &Call::new(&Arc::default()), 7).unwrap();
        table.expire(6);
        assert!(table.find(&2).is_some());
        table.expire(7);
        assert_eq!(keys(&table), [0, 1]);
        assert!(Arc::ptr_eq(&table.newest_first()[0], &calls[1]));
        table.close();
        assert_eq!((table.newest_first().len(), table.has_place(&Arc::default())), (0, false));
        assert_eq!(table.add(3, &calls[0], u64::MAX), Err(NoPlace));
        assert_eq!(Arc::strong_count(&calls[1]), 1, "what is removed is dropped");
    }
}
