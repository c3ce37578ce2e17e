//! The requests that are under way over one connection, and which of them a log message of the server is given to. A server
//! with sessions does not say what a message outside of an answer belongs to (MCP 2025-11-25, logging; stdio has no other
//! messages).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::domain::upstream::ClientKey;

/// How many messages may wait for one request. Later ones are dropped meanwhile.
const MAX_WAITING: usize = 32;
/// How many requests that were given up are remembered. If there are more, no message is given to anybody meanwhile.
const MAX_GIVEN_UP: usize = 256;
/// How long a request that was given up is remembered. The server is told, and servers do not answer then (MCP,
/// cancellation), so that it is unknown when one has stopped.
const GIVEN_UP_FOR: Duration = Duration::from_secs(1);

/// Who hears log messages that belong to no request.
#[derive(Clone, Debug, Default)]
pub(super) enum Audience {
    /// All clients.
    #[default]
    All,
    /// The client of this session.
    Session(String),
    /// Nobody: clients without a session use the connection.
    Nobody,
}

impl Audience {
    /// The audience of a connection for the client `of`; `None` if it is for all.
    pub(super) fn of(of: Option<&ClientKey>) -> Self {
        match of {
            None => Self::All,
            Some(client) if client.session.is_empty() => Self::Nobody,
            Some(client) => Self::Session(client.session.clone()),
        }
    }
}

/// The requests of clients that wait for their answers.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// The oldest first. Those that were given up stay for a while, because the server may still work on them.
    requests: Vec<Request>,
    /// Until when more requests than are remembered count as given up.
    lost_until: Option<Instant>,
}

impl State {
    /// Forgets requests that were given up long enough ago.
    fn forget(&mut self, now: Instant) {
        self.requests.retain(|request| request.forgotten_at.is_none_or(|at| at > now));
        self.lost_until = self.lost_until.filter(|until| *until > now);
    }
}

#[derive(Debug)]
struct Request {
    number: u64,
    /// The session of the client; empty if it has none.
    session: String,
    /// Its id, if the answer can come after the request was given up.
    id: Option<u64>,
    is_answered: bool,
    /// When a request that was given up is forgotten; `None` for one that waits for its answer.
    forgotten_at: Option<Instant>,
    /// `None` if no messages are for this request.
    messages: Option<mpsc::Sender<Box<RawValue>>>,
}

/// A request that is under way, until this value is dropped.
pub(super) struct Hearing<'a> {
    requests: &'a UnderWay,
    number: u64,
    messages: mpsc::Receiver<Box<RawValue>>,
}

impl UnderWay {
    /// Registers a request of the client with this session. `hears` tells whether messages are for it.
    pub(super) fn begin(&self, session: &str, hears: bool) -> Hearing<'_> {
        let (sender, messages) = mpsc::channel(MAX_WAITING);
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        let messages_to = hears.then_some(sender);
        let (session, id) = (session.to_owned(), None);
        let (is_answered, forgotten_at) = (false, None);
        state.requests.push(Request { number, session, id, is_answered, forgotten_at, messages: messages_to });
        Hearing { requests: self, number, messages }
    }

    /// Gives a message to the newest request, if all that the server may work on are of one client; else it could hold what
    /// another client sent, and is dropped. Returns whether it belongs to no request, because the server works on none.
    pub(super) fn say(&self, params: &RawValue) -> bool {
        let mut state = self.lock();
        state.forget(Instant::now());
        let is_lost = state.lost_until.is_some();
        let Some(first) = state.requests.first() else { return !is_lost };
        let is_of_one = state.requests.len() == 1
            || !first.session.is_empty() && state.requests.iter().all(|request| request.session == first.session);
        let newest = state.requests.iter().rev().find(|request| request.forgotten_at.is_none());
        if is_of_one
            && !is_lost
            && let Some(messages) = newest.and_then(|newest| newest.messages.as_ref())
        {
            let _ = messages.try_send(params.to_owned());
        }
        false
    }

    /// Records that the server answered the request with this id, which may have been given up.
    pub(super) fn answered(&self, id: u64) {
        let mut state = self.lock();
        state.requests.retain_mut(|request| {
            let is_this = request.id == Some(id);
            request.is_answered |= is_this;
            !(is_this && request.forgotten_at.is_some())
        });
    }

    /// Records the id with which a request is sent, whose answer can come after the request was given up.
    pub(super) fn sent_as(&self, number: u64, id: u64) {
        self.change(number, |request| request.id = Some(id));
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut Request)) {
        if let Some(request) = self.lock().requests.iter_mut().find(|request| request.number == number) {
            change(request);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hearing<'_> {
    /// The number of the request, for [`UnderWay::sent_as`].
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Records that the server works on the request no more.
    pub(super) fn answered(&self) {
        self.requests.change(self.number, |request| request.is_answered = true);
    }

    /// The next message. Never completes if there will be none.
    pub(super) async fn next(&mut self) -> Box<RawValue> {
        match self.messages.recv().await {
            Some(message) => message,
            None => std::future::pending().await,
        }
    }

    /// The next message, if one waits.
    pub(super) fn waiting(&mut self) -> Option<Box<RawValue>> {
        self.messages.try_recv().ok()
    }
}

impl Drop for Hearing<'_> {
    fn drop(&mut self) {
        let (mut state, now) = (self.requests.lock(), Instant::now());
        let forgotten_at = Some(now + GIVEN_UP_FOR);
        state.forget(now);
        state.requests.retain_mut(|request| {
            let is_this = request.number == self.number;
            if is_this {
                (request.forgotten_at, request.messages) = (forgotten_at, None);
            }
            !(is_this && request.is_answered)
        });
        let given_up = state.requests.iter().filter(|request| request.forgotten_at.is_some());
        if given_up.clone().count() > MAX_GIVEN_UP
            && let Some(oldest) = given_up.map(|request| request.number).next()
        {
            state.requests.retain(|request| request.number != oldest);
            state.lost_until = forgotten_at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_given_to_a_request_that_it_must_belong_to() {
        let requests = UnderWay::default();
        let message = RawValue::from_string("{}".into()).unwrap();
        assert!(requests.say(&message), "it is the server's own");
        let mut one = requests.begin("a", true);
        assert!(!requests.say(&message) && one.waiting().is_some());
        let mut newer = requests.begin("a", true);
        assert!(!requests.say(&message) && one.waiting().is_none() && newer.waiting().is_some());
        let mut of_another = requests.begin("b", true);
        assert!(!requests.say(&message));
        assert!(newer.waiting().is_none() && of_another.waiting().is_none(), "it may be of either client");
        [&one, &newer].into_iter().for_each(Hearing::answered);
        drop((one, newer));
        assert!(!requests.say(&message) && of_another.waiting().is_some());
        of_another.answered();
        drop(of_another);
        let mut nameless = [requests.begin("", true), requests.begin("", true)];
        assert!(!requests.say(&message) && nameless.iter_mut().all(|request| request.waiting().is_none()));
        nameless.iter().for_each(Hearing::answered);
        drop(nameless);
        let mut deaf = requests.begin("a", false);
        assert!(!requests.say(&message) && deaf.waiting().is_none());
    }

    #[test]
    fn what_may_belong_to_a_request_that_was_given_up_is_for_nobody_for_a_while() {
        let requests = UnderWay::default();
        let message = RawValue::from_string("{}".into()).unwrap();
        let given_up = requests.begin("a", true);
        requests.sent_as(given_up.number(), 7);
        drop(given_up);
        assert!(!requests.say(&message), "the server may still work on it");
        let mut of_another = requests.begin("b", true);
        assert!(!requests.say(&message) && of_another.waiting().is_none());
        let mut newer = requests.begin("a", true);
        of_another.answered();
        drop(of_another);
        assert!(!requests.say(&message) && newer.waiting().is_some(), "it is of the same client");
        newer.answered();
        drop(newer);
        requests.answered(8);
        assert!(!requests.say(&message), "another request was answered");
        requests.answered(7);
        assert!(requests.say(&message));
        (0..=MAX_GIVEN_UP).for_each(|_| drop(requests.begin("a", true)));
        assert_eq!(requests.lock().requests.len(), MAX_GIVEN_UP);
        requests.lock().requests.clear();
        assert!(!requests.say(&message), "one was forgotten");
        drop(requests.begin("a", true));
        requests.lock().forget(Instant::now() + GIVEN_UP_FOR);
        assert!(requests.say(&message));
    }
}
