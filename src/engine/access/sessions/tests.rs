//! The table of sessions, at one replica and at several.

use std::sync::LazyLock;

use super::super::session::READY_WITHIN_MS;
use super::*;
use crate::domain::capabilities::ClientCapabilities;
use crate::domain::ids::ObjectKey;
use crate::domain::secret::SecretText;

static GATEWAY: LazyLock<ObjectKey> = LazyLock::new(|| ObjectKey::new("mcp", "main"));

fn scope() -> SessionScope<'static> {
    SessionScope { gateway: &GATEWAY, principal: "alice", upstream: None }
}

fn open(sessions: &SessionTable, now: u64) -> Option<Arc<Session>> {
    let (version, client, capabilities) = ("2025-11-25".to_owned(), "t".to_owned(), ClientCapabilities::default());
    sessions.open(SessionFacts { version, client, capabilities, created_at: now, replica: None }, scope())
}

fn find(sessions: &SessionTable, id: &str, now: u64) -> Option<Arc<Session>> {
    sessions.find(id, scope(), now)
}

/// Returns the sessions of a replica that has these keys.
fn replica(keys: &str) -> SessionTable {
    let sessions = SessionTable::default();
    sessions.share(SealKeys::parse(&SecretText::new(keys)).unwrap_or_else(|why| panic!("{why}")));
    sessions
}

const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const NEWER: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";

#[test]
fn a_session_goes_on_at_another_replica_within_its_scope_and_its_day() {
    let (home, other) = (replica(KEY), replica(&format!("{NEWER}\n{KEY}")));
    let begun = open(&home, 5).unwrap();
    for foreign in [SessionScope { principal: "bob", ..scope() }, SessionScope { upstream: Some("up"), ..scope() }] {
        assert!(home.find(&begun.id, foreign, 6).is_none() && other.find(&begun.id, foreign, 6).is_none());
    }
    let taken = find(&other, &begun.id, 6).expect("it goes on");
    assert_eq!((&*taken.version, &*taken.client, taken.created_at), ("2025-11-25", "t", 5));
    assert!(other.find(&begun.id, SessionScope { principal: "bob", ..scope() }, 7).is_none(), "nor once it is known");
    assert!(Arc::ptr_eq(&taken, &find(&other, &begun.id, 7).unwrap()));
    other.expire(READY_WITHIN_MS + 5, u64::MAX);
    assert_eq!(other.count(), 1, "its client is ready");
    find(&home, &begun.id, 8).unwrap();
    home.expire(READY_WITHIN_MS + 5, u64::MAX);
    assert_eq!(home.count(), 1, "its client may have said so to the other replica");
    // A replica cannot open ids that were sealed with a key which it does not have yet.
    assert!(find(&home, &open(&other, 8).unwrap().id, 9).is_none());
    for sessions in [&home, &other] {
        assert!(find(sessions, &begun.id, SEALED_MS + 4).is_some());
        assert!(find(sessions, &begun.id, SEALED_MS + 5).is_none());
    }
    other.expire(SEALED_MS + 5, u64::MAX);
    assert!(taken.ended.is_cancelled());
    assert!(find(&replica(KEY), &begun.id, SEALED_MS + 5).is_none());
}

#[test]
fn a_session_that_its_client_ended_is_not_taken_over_again() {
    let (home, other) = (replica(KEY), replica(KEY));
    let [ended, idle] = [(); 2].map(|()| open(&home, 0).unwrap().id.clone());
    home.delete(&ended);
    home.expire(1000, 1000);
    assert_eq!(home.count(), 0);
    assert!(find(&home, &ended, 1001).is_none() && find(&home, &idle, 1001).is_some());
    assert!(find(&other, &ended, 1001).is_some());
}

#[test]
fn without_a_shared_key_an_id_is_worth_nothing_elsewhere() {
    let sessions = SessionTable::default();
    let id = open(&sessions, 0).unwrap().id.clone();
    sessions.expire(1000, 1000);
    assert!(!sessions.is_shared() && find(&sessions, &id, 1001).is_none() && find(&replica(KEY), &id, 1).is_none());
    let sealed = open(&replica(KEY), 0).unwrap();
    assert!(find(&sessions, &sealed.id, 1).is_none());
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
    find(&sessions, &all[2].id, u64::MAX - 1).unwrap();
    open(&sessions, u64::MAX - 1).expect("the one that was idle longest goes");
    let ended: Vec<_> = (0..5).filter(|n| all[*n].ended.is_cancelled()).collect();
    assert_eq!((ended, sessions.count()), (vec![3], MAX_SESSIONS));
    all.iter().for_each(|session| session.tracker.enter(None, None).unwrap());
    assert!(open(&sessions, u64::MAX - 1).is_some_and(|last| last.tracker.enter(None, None).is_ok()));
    assert!(open(&sessions, u64::MAX - 1).is_none(), "each of them has a call");
}

#[test]
fn who_opens_many_sessions_loses_its_own() {
    let sessions = SessionTable::default();
    let open_from = |address: &str, now| {
        let session = open(&sessions, now).unwrap();
        session.note_address(address.parse().unwrap());
        session.set_ready();
        session
    };
    let idle: Vec<_> = (0..10).map(|n| open_from(&format!("10.0.0.{n}"), 0)).collect();
    for n in 0..2 * MAX_SESSIONS {
        open_from(&format!("2001:db8::{n:x}"), 1 + n as u64);
    }
    assert!(idle.iter().all(|session| !session.ended.is_cancelled()));
    assert_eq!(sessions.count(), MAX_SESSIONS);
}

#[test]
fn a_full_table_compares_its_sessions_once_for_many_that_it_takes_over() {
    let (sessions, home) = (replica(KEY), replica(KEY));
    let all: Vec<_> = (0..MAX_SESSIONS).map(|n| open(&sessions, n as u64).unwrap()).collect();
    all.iter().for_each(|session| session.set_ready());
    let elsewhere: Vec<_> = (0..=IDLE_BATCH).map(|_| open(&home, 0).unwrap().id.clone()).collect();
    let noted = || sessions.idle.lock().unwrap().len();
    for (n, id) in elsewhere[..2].iter().enumerate() {
        find(&sessions, id, MAX_SESSIONS as u64).expect("it is taken over");
        assert!(all[n].ended.is_cancelled());
        assert_eq!(noted(), IDLE_BATCH - 1 - n, "they are not compared again");
    }
    find(&sessions, &all[2].id, MAX_SESSIONS as u64 + 1).unwrap();
    find(&sessions, &elsewhere[2], MAX_SESSIONS as u64 + 1).unwrap();
    assert!(!all[2].ended.is_cancelled() && all[3].ended.is_cancelled(), "one that was used stays");
    elsewhere[3..].iter().for_each(|id| drop(find(&sessions, id, MAX_SESSIONS as u64 + 2).unwrap()));
    assert!((3..IDLE_BATCH + 2).all(|n| all[n].ended.is_cancelled()));
    assert!(all[IDLE_BATCH + 2..].iter().all(|session| !session.ended.is_cancelled()));
    assert_eq!(sessions.count(), MAX_SESSIONS);
}

#[test]
fn an_idle_session_ends_unless_a_call_is_in_flight_or_a_stream_is_open() {
    let sessions = SessionTable::default();
    let [idle, busy, listening] = [(); 3].map(|()| open(&sessions, 0).unwrap());
    busy.tracker.enter(None, None).unwrap();
    listening.streams.enter(None, None).unwrap();
    sessions.expire(100, 100);
    assert!(find(&sessions, &idle.id, 101).is_none() && idle.ended.is_cancelled());
    assert!(find(&sessions, &busy.id, 101).is_some() && find(&sessions, &listening.id, 101).is_some());
    sessions.expire(READY_WITHIN_MS, u64::MAX);
    assert!(listening.ended.is_cancelled(), "a stream does not make its client ready");
}
