//! Sessions of the legacy era.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dashmap::DashMap;

use super::addresses::Addresses;
use super::deleted::DeletedIds;
use super::gone::GoneIds;
use super::principals::Principals;
use super::seal::{SealKeys, Seals};
use super::session::Session;
use super::session_id::{self, SessionFacts, SessionScope};
use crate::domain::budget::Account;
use crate::domain::limits::Tracker;
use crate::domain::network::have_many;
use crate::engine::exchange::RetainedExchanges;

/// The maximum number of open sessions.
pub const MAX_SESSIONS: usize = 10_000;
/// How long a sealed id is valid after the session was opened, in milliseconds. Replicas cannot tell each other that a
/// session was idle for too long, so this limit is what ends a session on all of them.
const SEALED_MS: u64 = 24 * 60 * 60 * 1000;
/// Number of sessions that are noted as idle longest whenever all sessions are compared. While the table is full, each of
/// them makes room for one session without another comparison.
const IDLE_BATCH: usize = 128;

/// All sessions of this process.
#[derive(Default)]
pub struct SessionTable {
    by_id: DashMap<String, Arc<Session>>,
    /// Ids of the sessions that are not initialized, the oldest first, among ids of some that are or have ended.
    fresh: Mutex<VecDeque<String>>,
    /// The sessions that were idle longest when all were compared, the longest first: their last use, and their ids.
    idle: Mutex<VecDeque<(u64, String)>>,
    /// The keys that seal ids. If this process shares keys, session ids are sealed too, so that other replicas can take
    /// over sessions.
    seals: Seals,
    /// Sealed ids of sessions that clients ended in this process.
    deleted: DeletedIds,
    /// The exchanges whose streams clients of sessions can continue.
    exchanges: RetainedExchanges,
    gone: GoneIds,
    addresses: Addresses<Tracker>,
    principals: Principals,
    accounts: Addresses<Account>,
}

impl SessionTable {
    /// Opens a session. If [`MAX_SESSIONS`] are already open, first ends the oldest one whose client has neither sent
    /// `notifications/initialized` nor has a call in flight, or else the session that has been idle longest without a
    /// call in flight or an open stream. Returns `None` if no session can be ended, or if no id can be sealed.
    pub fn open(&self, facts: SessionFacts, scope: SessionScope<'_>) -> Option<Arc<Session>> {
        if !self.has_room() {
            return None;
        }
        let now = facts.created_at;
        let (id, ends_at) = if self.is_shared() {
            (session_id::seal(&self.seals, scope, &facts)?, now.saturating_add(SEALED_MS))
        } else {
            // The id has 122 random bits from the operating system.
            (uuid::Uuid::new_v4().simple().to_string(), u64::MAX)
        };
        let session = Arc::new(Session::new(id.clone(), facts, scope, ends_at, now));
        self.by_id.insert(id.clone(), Arc::clone(&session));
        let mut fresh = self.fresh();
        if fresh.len() >= 2 * MAX_SESSIONS {
            fresh.retain(|id| self.is_fresh(id));
        }
        fresh.push_back(id);
        Some(session)
    }

    /// Sets the keys that this process shares with other replicas. Sessions that are already open are not affected.
    pub fn share(&self, keys: SealKeys) {
        self.seals.share(keys);
    }

    /// Whether this process shares keys with other replicas.
    pub fn is_shared(&self) -> bool {
        self.seals.is_shared()
    }

    fn has_room(&self) -> bool {
        self.by_id.len() < MAX_SESSIONS || self.make_room()
    }

    /// Ends a session that is not in use, to make room for a new one. Returns whether one was ended. This is better
    /// than refusing the new client: the client of the ended session is told at its next request to start a new one
    /// (MCP 2025-11-25, session management), while a refused client could not connect at all.
    fn make_room(&self) -> bool {
        self.end_first(|| self.fresh().pop_front().map(|id| self.is_fresh(&id).then_some(id)))
            || self.end_first(|| self.next_idle())
    }

    /// Ends the first candidate that still exists. `next` returns `Some(None)` for a candidate that turned out to be
    /// unsuitable, and `None` if there are no more candidates. Returns whether a session was ended.
    fn end_first(&self, next: impl Fn() -> Option<Option<String>>) -> bool {
        while let Some(candidate) = next() {
            if let Some(id) = candidate.filter(|id| self.end(id)) {
                self.gone.add(id);
                return true;
            }
        }
        false
    }

    /// Returns the id of the next session of [`Self::idle`], which is filled again when it is empty; `Some(None)` if that
    /// session was used in the meantime, and `None` if every session is in use.
    fn next_idle(&self) -> Option<Option<String>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.is_empty() {
            *idle = self.idle_longest();
        }
        let (last_used, id) = idle.pop_front()?;
        let known = self.by_id.get(&id);
        let is_idle = known.is_some_and(|session| !session.is_in_use() && session.last_used() == last_used);
        Some(is_idle.then_some(id))
    }

    /// Returns the sessions that have been idle longest, at most [`IDLE_BATCH`], among those without calls in flight and
    /// without open streams. As far as there are others, they are of clients that have many ([`have_many`]). Compares all
    /// sessions.
    fn idle_longest(&self) -> VecDeque<(u64, String)> {
        let all = self.all();
        let mut counts: HashMap<_, usize> = HashMap::new();
        all.iter().for_each(|session| *counts.entry(session.network()).or_default() += 1);
        let has_many = have_many(&counts);
        let unused = || all.iter().filter(|session| !session.is_in_use());
        let of_many: Vec<_> = unused().filter(|session| has_many(&session.network())).collect();
        let chosen = if of_many.is_empty() { unused().collect() } else { of_many };
        let mut unused: Vec<_> = chosen.into_iter().map(|session| (session.last_used(), session)).collect();
        if unused.len() > IDLE_BATCH {
            unused.select_nth_unstable_by_key(IDLE_BATCH, |(last_used, _)| *last_used);
            unused.truncate(IDLE_BATCH);
        }
        unused.sort_unstable_by_key(|(last_used, _)| *last_used);
        unused.into_iter().map(|(last_used, session)| (last_used, session.id.clone())).collect()
    }

    fn is_fresh(&self, id: &str) -> bool {
        self.by_id.get(id).is_some_and(|session| !session.is_ready() && session.tracker.in_flight() == 0)
    }

    fn fresh(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the session with this id if a client in `scope` may use it, and restarts the idle time of the session. A
    /// session that this process does not know is taken over if another replica sealed its id.
    pub fn find(&self, id: &str, scope: SessionScope<'_>, now: u64) -> Option<Arc<Session>> {
        let session =
            self.known(id).or_else(|| self.take_over(id, scope, now)).filter(|session| session.admits(scope, now))?;
        session.touch(now);
        if session.is_shared() {
            // The client may have sent `notifications/initialized` to another replica.
            session.set_ready();
        }
        Some(session)
    }

    fn take_over(&self, id: &str, scope: SessionScope<'_>, now: u64) -> Option<Arc<Session>> {
        let facts = session_id::open(&self.seals, scope, id).filter(|_| !self.deleted.contains(id))?;
        let ends_at = facts.created_at.saturating_add(SEALED_MS);
        if now >= ends_at || !self.has_room() {
            return None;
        }
        let session = Session::new(id.to_owned(), facts, scope, ends_at, now);
        // A concurrent request with the same id may have taken the session over first.
        let session = Arc::clone(&*self.by_id.entry(id.to_owned()).or_insert_with(|| Arc::new(session)));
        // A concurrent request may have deleted the session since the check above: it is no longer in `by_id` then.
        if self.deleted.contains(id) {
            self.end(id);
            return None;
        }
        Some(session)
    }

    /// The keys that seal ids.
    pub fn seals(&self) -> &Seals {
        &self.seals
    }

    /// The exchanges whose streams clients of sessions can continue.
    pub fn exchanges(&self) -> &RetainedExchanges {
        &self.exchanges
    }

    /// Call counters of modern clients without credentials, by address.
    pub fn addresses(&self) -> &Addresses<Tracker> {
        &self.addresses
    }

    /// Call counters of modern clients with credentials.
    pub fn principals(&self) -> &Principals {
        &self.principals
    }

    /// Accounts of the bytes that clients make the process hold, by address.
    pub fn accounts(&self) -> &Addresses<Account> {
        &self.accounts
    }

    /// Ends a session: its streams are closed, but its calls continue. Returns whether the session existed.
    pub fn end(&self, id: &str) -> bool {
        self.by_id.remove(id).map(|(_, session)| session.end()).is_some()
    }

    /// Ends a session at the request of its client. This process does not take the session over again.
    pub fn delete(&self, id: &str) {
        if self.is_shared() {
            self.deleted.add(id);
        }
        self.end(id);
    }

    /// Whether the client of a session has ended it in this process.
    pub fn was_deleted(&self, id: &str) -> bool {
        self.deleted.contains(id)
    }

    /// Ends sessions that have been idle for at least `idle_ms` at time `now` (in Unix milliseconds), those whose client
    /// did not send `notifications/initialized` in time, and those that are too old. Sessions with calls in flight stay,
    /// and sessions with open streams are not idle.
    pub fn expire(&self, now: u64, idle_ms: u64) {
        self.by_id.retain(|id, session| {
            let ends = session.is_over(now, idle_ms);
            if ends {
                session.end();
                self.gone.add(id.clone());
            }
            !ends
        });
    }

    /// Like [`SessionTable::expire`]. Returns the ids of the sessions that ended by themselves since the last time.
    pub(crate) fn sweep(&self, now: u64, idle_ms: u64) -> Vec<String> {
        self.expire(now, idle_ms);
        self.exchanges.sweep(now);
        self.addresses.sweep();
        self.accounts.sweep();
        self.gone.take()
    }

    /// The session with this id, if it is known here.
    pub(crate) fn known(&self, id: &str) -> Option<Arc<Session>> {
        self.by_id.get(id).map(|session| Arc::clone(&session))
    }

    /// All sessions.
    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.by_id.iter().map(|session| Arc::clone(&session)).collect()
    }

    /// The number of sessions.
    pub fn count(&self) -> usize {
        self.by_id.len()
    }
}
