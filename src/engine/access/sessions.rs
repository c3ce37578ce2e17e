//! Sessions of the legacy era.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dashmap::DashMap;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::addresses::Addresses;
use crate::domain::budget::Account;
use crate::domain::limits::Tracker;
use crate::domain::log_level::LogLevel;

/// The maximum number of open sessions.
pub const MAX_SESSIONS: usize = 10_000;
/// How long a client has to send `notifications/initialized` (MCP 2025-11-25, lifecycle), in milliseconds.
const READY_WITHIN_MS: u64 = 30_000;
/// The maximum number of requests of one session that can be cancelled at the same time.
const MAX_CANCELLABLE: usize = 1024;

/// All sessions of this process.
#[derive(Default)]
pub struct SessionTable {
    by_id: DashMap<String, Arc<Session>>,
    /// Ids of the sessions whose client has not sent `notifications/initialized`, the oldest first. The list can also
    /// contain ids of sessions that are initialized or have ended.
    fresh: Mutex<VecDeque<String>>,
    addresses: Addresses<Tracker>,
    accounts: Addresses<Account>,
}

/// A session of one client.
pub struct Session {
    /// Visible ASCII and impossible to guess.
    pub id: String,
    /// The negotiated protocol version.
    pub version: String,
    /// Name and version of the client, as it reports them.
    pub client: String,
    /// The upstream whose endpoint the session was opened on; `None` for the endpoint of all upstreams.
    pub upstream: Option<String>,
    /// When it was opened, in Unix milliseconds.
    pub created_at: u64,
    /// Counts the session's calls.
    pub tracker: Arc<Tracker>,
    /// Counts the session's open event streams.
    pub streams: Tracker,
    /// Cancelled when the session ends.
    pub ended: CancellationToken,
    ready: AtomicBool,
    last_used: AtomicU64,
    log_level: Mutex<LogLevel>,
    in_flight: DashMap<String, CancellationToken>,
}

/// A session as the admin API shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionView {
    /// The first 8 characters of its id: enough to identify the session, too few to use it.
    pub id: String,
    /// The negotiated protocol version.
    pub version: String,
    /// Name and version of the client, as it reports them.
    pub client: String,
    /// The upstream whose endpoint the session was opened on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// When it was opened, in Unix milliseconds.
    pub created_at: u64,
    /// When it was last used, in Unix milliseconds.
    pub last_used_at: u64,
    /// The number of calls in flight.
    pub calls_in_flight: u32,
    /// The number of calls so far.
    pub calls_total: u64,
}

impl SessionTable {
    /// Opens a session. If there are too many, first ends the oldest one whose client never sent
    /// `notifications/initialized`, or else the one that has been idle longest. Returns `None` if every session has a
    /// call in flight or an open stream.
    pub fn open(&self, version: String, client: String, upstream: Option<String>, now: u64) -> Option<Arc<Session>> {
        if self.by_id.len() >= MAX_SESSIONS && !self.make_room() {
            return None;
        }
        // The id has 122 random bits from the operating system.
        let id = uuid::Uuid::new_v4().simple().to_string();
        let session = Arc::new(Session {
            id: id.clone(),
            version,
            client,
            upstream,
            created_at: now,
            tracker: Arc::default(),
            streams: Tracker::default(),
            ended: CancellationToken::new(),
            ready: AtomicBool::new(false),
            last_used: AtomicU64::new(now),
            log_level: Mutex::default(),
            in_flight: DashMap::new(),
        });
        self.by_id.insert(id.clone(), Arc::clone(&session));
        let mut fresh = self.fresh();
        if fresh.len() >= 2 * MAX_SESSIONS {
            fresh.retain(|id| self.is_fresh(id));
        }
        fresh.push_back(id);
        drop(fresh);
        Some(session)
    }

    /// Ends a session that is not in use, to make room for a new one. Returns whether one was ended. This is better
    /// than refusing the new client: the client of the ended session is told at its next request to start a new one
    /// (MCP 2025-11-25, session management), while a refused client could not connect at all.
    fn make_room(&self) -> bool {
        self.end_first(|| self.fresh().pop_front().map(|id| self.is_fresh(&id).then_some(id)))
            || self.end_first(|| self.idle_longest().map(Some))
    }

    /// Ends the first candidate that still exists. `next` returns `Some(None)` for a candidate that turned out to be
    /// unsuitable.
    fn end_first(&self, next: impl Fn() -> Option<Option<String>>) -> bool {
        while let Some(candidate) = next() {
            if candidate.is_some_and(|id| self.end(&id)) {
                return true;
            }
        }
        false
    }

    /// Returns the session that has been idle longest, among those without calls in flight and open streams.
    fn idle_longest(&self) -> Option<String> {
        let unused = self.by_id.iter().filter(|session| !session.is_in_use());
        let oldest = unused.min_by_key(|session| session.last_used.load(Ordering::Relaxed))?;
        Some(oldest.id.clone())
    }

    fn is_fresh(&self, id: &str) -> bool {
        self.by_id.get(id).is_some_and(|session| !session.is_ready() && session.tracker.in_flight() == 0)
    }

    fn fresh(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the session with this id, and restarts its idle time.
    pub fn find(&self, id: &str, now: u64) -> Option<Arc<Session>> {
        let session = Arc::clone(&*self.by_id.get(id)?);
        session.last_used.store(now, Ordering::Relaxed);
        Some(session)
    }

    /// Call counters of modern clients without credentials, by address.
    pub fn addresses(&self) -> &Addresses<Tracker> {
        &self.addresses
    }

    /// Accounts of the bytes that clients make the process hold, by address.
    pub fn accounts(&self) -> &Addresses<Account> {
        &self.accounts
    }

    /// Ends a session. Its streams are closed, its calls continue. Returns whether it existed.
    pub fn end(&self, id: &str) -> bool {
        let ended = self.by_id.remove(id);
        if let Some((_, session)) = &ended {
            session.ended.cancel();
        }
        ended.is_some()
    }

    /// Ends sessions that have been idle for at least `idle_ms` at time `now` (in Unix milliseconds), and those whose
    /// client did not send `notifications/initialized` in time. Sessions with calls in flight stay.
    pub fn expire(&self, now: u64, idle_ms: u64) {
        self.by_id.retain(|_, session| {
            let idle = now.saturating_sub(session.last_used.load(Ordering::Relaxed)) >= idle_ms;
            let late = !session.is_ready() && now.saturating_sub(session.created_at) >= READY_WITHIN_MS;
            let ends = (idle || late) && session.tracker.in_flight() == 0;
            if ends {
                session.ended.cancel();
            }
            !ends
        });
    }

    /// Ends sessions as [`SessionTable::expire`] does, and removes addresses that are no longer in use.
    pub(crate) fn sweep(&self, now: u64, idle_ms: u64) {
        self.expire(now, idle_ms);
        self.addresses.sweep();
        self.accounts.sweep();
    }

    /// The number of sessions.
    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// Describes all sessions, oldest first.
    pub fn view(&self) -> Vec<SessionView> {
        let mut views: Vec<_> = self.by_id.iter().map(|session| session.view()).collect();
        views.sort_by_key(|view| view.created_at);
        views
    }
}

impl Session {
    /// Records that the client has sent `notifications/initialized`.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    fn is_in_use(&self) -> bool {
        self.tracker.in_flight() > 0 || self.streams.in_flight() > 0
    }

    /// The lowest severity of log messages that the client wants. By default all messages are sent.
    pub fn log_level(&self) -> LogLevel {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the lowest severity of log messages that the client wants.
    pub fn set_log_level(&self, level: LogLevel) {
        *self.log_level.lock().unwrap_or_else(PoisonError::into_inner) = level;
    }

    /// Registers the request with this id (raw JSON) as in flight. [`Session::cancel`] cancels the returned token.
    pub fn begin(&self, request: &str) -> CancellationToken {
        let token = CancellationToken::new();
        if self.in_flight.len() < MAX_CANCELLABLE {
            self.in_flight.insert(request.to_owned(), token.clone());
        }
        token
    }

    /// Removes the request with this id from those in flight.
    pub fn finish(&self, request: &str) {
        self.in_flight.remove(request);
    }

    /// Cancels the request with this id, if it is in flight.
    pub fn cancel(&self, request: &str) {
        if let Some(token) = self.in_flight.get(request) {
            token.cancel();
        }
    }

    fn view(&self) -> SessionView {
        SessionView {
            id: self.id.chars().take(8).collect(),
            version: self.version.clone(),
            client: self.client.clone(),
            upstream: self.upstream.clone(),
            created_at: self.created_at,
            last_used_at: self.last_used.load(Ordering::Relaxed),
            calls_in_flight: self.tracker.in_flight(),
            calls_total: self.tracker.total(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(sessions: &SessionTable, now: u64) -> Option<Arc<Session>> {
        sessions.open("2025-11-25".into(), "t".into(), None, now)
    }

    #[test]
    fn a_session_whose_client_never_says_that_it_is_ready_is_short() {
        let sessions = SessionTable::default();
        let [silent, ready, busy] = [(); 3].map(|()| open(&sessions, 0).unwrap());
        ready.set_ready();
        busy.tracker.enter(None, None).unwrap();
        sessions.expire(READY_WITHIN_MS - 1, u64::MAX);
        assert_eq!(sessions.count(), 3);
        sessions.expire(READY_WITHIN_MS, u64::MAX);
        assert!(silent.ended.is_cancelled() && !ready.ended.is_cancelled() && !busy.ended.is_cancelled());
    }

    #[test]
    fn a_flood_of_sessions_that_nobody_uses_shuts_no_client_out() {
        let sessions = SessionTable::default();
        let used = open(&sessions, 0).unwrap();
        used.set_ready();
        let flood: Vec<_> = (1..MAX_SESSIONS).map(|_| open(&sessions, 0).unwrap()).collect();
        let client = open(&sessions, 1).expect("the oldest of the flood goes");
        assert!(flood[0].ended.is_cancelled() && !flood[1].ended.is_cancelled() && !used.ended.is_cancelled());
        assert_eq!(sessions.count(), MAX_SESSIONS);
        sessions.end(&client.id);
        (0..3 * MAX_SESSIONS).for_each(|_| drop(open(&sessions, 1)));
        assert!(sessions.fresh().len() <= 2 * MAX_SESSIONS && sessions.count() == MAX_SESSIONS);
    }

    #[test]
    fn a_flood_of_ready_sessions_shuts_no_client_out() {
        let sessions = SessionTable::default();
        let all: Vec<_> = (0..MAX_SESSIONS).map(|n| open(&sessions, n as u64).unwrap()).collect();
        all.iter().for_each(|session| session.set_ready());
        all[0].tracker.enter(None, None).unwrap();
        all[1].streams.enter(None, None).unwrap();
        sessions.find(&all[2].id, u64::MAX).unwrap();
        open(&sessions, u64::MAX).expect("the one that was idle longest goes");
        let ended: Vec<_> = (0..5).filter(|n| all[*n].ended.is_cancelled()).collect();
        assert_eq!((ended, sessions.count()), (vec![3], MAX_SESSIONS));
        all.iter().for_each(|session| session.tracker.enter(None, None).unwrap());
        assert!(open(&sessions, u64::MAX).is_some_and(|last| last.tracker.enter(None, None).is_ok()));
        assert!(open(&sessions, u64::MAX).is_none(), "each of them has a call");
    }

    #[test]
    fn an_idle_session_ends_unless_a_call_is_in_flight() {
        let sessions = SessionTable::default();
        let open = || sessions.open("2025-11-25".into(), "t".into(), None, 0).unwrap();
        let (idle, busy) = (open(), open());
        busy.tracker.enter(None, None).unwrap();
        sessions.expire(100, 100);
        assert!(sessions.find(&idle.id, 101).is_none() && idle.ended.is_cancelled());
        assert!(sessions.find(&busy.id, 101).is_some());
    }
}
