//! The requests that are under way over one connection, and which of them a log message of the server is given to. A server
//! with sessions does not say what a message outside of an answer belongs to (MCP 2025-11-25, logging; stdio has no other
//! messages).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::domain::task::begun_task;
use crate::domain::upstream::{Answer, ClientKey};
use crate::upstream::waiting_messages::WaitingMessages;

/// How much work that nobody waits for is remembered. If there is more, no message passes until the connection ends, unless all
/// are for one client.
const MAX_LEFT: usize = 256;
/// How long after an answer over Streamable HTTP a message of the call can still be read: it comes on another stream.
const READ_LATER: Duration = Duration::from_secs(1);

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

/// Whom a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// No request: the server works on none.
    Nobodys,
    /// One client, whose newest request is given the message if it hears any.
    OneClients,
    /// Nobody can tell.
    Unknown,
}

/// The requests of clients that the server may work on.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// The oldest first.
    requests: Vec<Request>,
    /// Until when messages of answered requests can be read.
    unread_until: Option<Instant>,
    /// Whether the server may work on something that is not remembered.
    is_lost: bool,
}

/// What a request can bring besides its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    /// Whether messages are for it.
    pub(super) hears: bool,
    /// Whether its answer can begin a task.
    pub(super) may_begin_task: bool,
    /// Whether its messages can be read after its answer.
    pub(super) are_read_later: bool,
}

#[derive(Debug)]
struct Request {
    number: u64,
    /// The session of the client; empty if it has none.
    session: String,
    /// Its id, if the answer can come after the request was given up.
    id: Option<u64>,
    expected: Expected,
    /// Whether somebody waits for the answer.
    is_open: bool,
    /// `None` if no messages are for this request.
    messages: Option<Arc<WaitingMessages>>,
    left: Left,
}

/// Why messages can still be of a request when nobody waits for its answer any more.
#[derive(Debug)]
enum Left {
    /// It was not answered. The server is told when a request is given up, but need not answer then, nor stop (MCP,
    /// cancellation), so that it is unknown for how long it works on it.
    Unanswered,
    /// The task with this id goes on.
    Task(String),
    /// It was answered. Messages that were sent before can be read for a while.
    Unread,
    /// They cannot.
    Nothing,
}

impl State {
    /// Whether messages of answered requests can still be read.
    fn is_unread(&self, now: Instant) -> bool {
        self.unread_until.is_some_and(|until| until > now)
    }

    /// Ends the wait for the answer of the request at this place. It is forgotten, unless the server may still work on it.
    fn close(&mut self, place: usize) {
        let request = &mut self.requests[place];
        (request.is_open, request.messages) = (false, None);
        if matches!(request.left, Left::Unread) {
            self.unread_until = Some(Instant::now() + READ_LATER);
        }
        if self.is_lost || matches!(request.left, Left::Unread | Left::Nothing) {
            self.requests.remove(place);
        } else if self.requests.iter().filter(|request| !request.is_open).count() > MAX_LEFT {
            self.requests.retain(|request| request.is_open);
            self.is_lost = true;
        }
    }
}

impl Request {
    /// Records the answer; `None` if it was not usable.
    fn take(&mut self, answer: Option<&Answer>) {
        let task = match answer {
            Some(Answer::Result(result)) if self.expected.may_begin_task => begun_task(result),
            _ => None,
        };
        self.left = match task {
            Some(task) => Left::Task(task),
            None if self.expected.are_read_later => Left::Unread,
            None => Left::Nothing,
        };
    }
}

/// A request that is under way, until this value is dropped.
pub(super) struct Hearing<'a> {
    requests: &'a UnderWay,
    number: u64,
    /// `None` if no messages are for this request.
    messages: Option<Arc<WaitingMessages>>,
}

impl UnderWay {
    /// Registers a request of the client with this session.
    pub(super) fn begin(&self, session: &str, expected: Expected) -> Hearing<'_> {
        let messages = expected.hears.then(Arc::<WaitingMessages>::default);
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.requests.push(Request {
            number,
            session: session.to_owned(),
            id: None,
            expected,
            is_open: true,
            messages: messages.clone(),
            left: Left::Unanswered,
        });
        Hearing { requests: self, number, messages }
    }

    /// Gives a message to the newest request that waits, if all that the server may work on is of one client; else it could
    /// hold what another client sent, and is dropped. What nobody waits for does not count where the connection `is_of_one`
    /// client.
    pub(super) fn say(&self, params: &RawValue, is_of_one: bool) -> Whose {
        let state = self.lock();
        let is_waited_for = state.requests.iter().any(|request| request.is_open);
        // One that is read after the answer of its call, but while another is under way, is so rare that no other is dropped for it.
        if !is_of_one && (state.is_lost || !is_waited_for && state.is_unread(Instant::now())) {
            return Whose::Unknown;
        }
        let mut counted = state.requests.iter().filter(|request| request.is_open || !is_of_one);
        let Some(first) = counted.next() else { return Whose::Nobodys };
        let is_of_same = |request: &Request| !first.session.is_empty() && request.session == first.session;
        if !counted.all(is_of_same) {
            return Whose::Unknown;
        }
        let Some(newest) = state.requests.iter().rev().find(|request| request.is_open) else { return Whose::Unknown };
        if let Some(messages) = &newest.messages {
            messages.add(params.to_owned());
        }
        Whose::OneClients
    }

    /// Records the answer to the request with this id, which may have been given up.
    pub(super) fn answered(&self, id: u64, answer: &Answer) {
        let mut state = self.lock();
        let Some(place) = state.requests.iter().rposition(|request| request.id == Some(id)) else { return };
        state.requests[place].take(Some(answer));
        if !state.requests[place].is_open {
            state.close(place);
        }
    }

    /// Records that the server works no more on the task that has this id.
    pub(super) fn task_ended(&self, id: &str) {
        self.lock()
            .requests
            .retain(|request| !matches!(&request.left, Left::Task(task) if task == id && !request.is_open));
    }

    /// Records the id with which a request is sent, whose answer can come after the request was given up.
    pub(super) fn sent_as(&self, number: u64, id: u64) {
        self.change(number, |request| request.id = Some(id));
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut Request)) {
        if let Some(request) = self.lock().requests.iter_mut().rev().find(|request| request.number == number) {
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

    /// Records the answer to the request, or that the server works on it no more.
    pub(super) fn answered(&self, answer: Option<&Answer>) {
        self.requests.change(self.number, |request| request.take(answer));
    }

    /// The next message. Never completes if there will be none.
    pub(super) async fn next(&self) -> Box<RawValue> {
        match &self.messages {
            Some(messages) => messages.next().await,
            None => std::future::pending().await,
        }
    }

    /// The next message, if one waits.
    pub(super) fn waiting(&self) -> Option<Box<RawValue>> {
        self.messages.as_ref()?.take()
    }
}

impl Drop for Hearing<'_> {
    fn drop(&mut self) {
        let mut state = self.requests.lock();
        if let Some(place) = state.requests.iter().rposition(|request| request.number == self.number) {
            state.close(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Expected = Expected { hears: true, may_begin_task: false, are_read_later: false };

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    /// Whether a message over a shared connection belongs to no request.
    fn is_own(requests: &UnderWay) -> bool {
        requests.say(RawValue::NULL, false) == Whose::Nobodys
    }

    #[test]
    fn a_message_is_given_to_a_request_that_it_must_belong_to() {
        let requests = UnderWay::default();
        assert!(is_own(&requests), "it is the server's own");
        let one = requests.begin("a", PLAIN);
        assert!(!is_own(&requests) && one.waiting().is_some());
        let newer = requests.begin("a", PLAIN);
        assert!(!is_own(&requests) && one.waiting().is_none() && newer.waiting().is_some());
        let of_another = requests.begin("b", PLAIN);
        assert!(!is_own(&requests));
        assert!(newer.waiting().is_none() && of_another.waiting().is_none(), "it may be of either client");
        [&one, &newer].into_iter().for_each(|request| request.answered(None));
        drop((one, newer));
        assert!(!is_own(&requests) && of_another.waiting().is_some());
        of_another.answered(None);
        drop(of_another);
        let nameless = [requests.begin("", PLAIN), requests.begin("", PLAIN)];
        assert!(!is_own(&requests) && nameless.iter().all(|request| request.waiting().is_none()));
        nameless.iter().for_each(|request| request.answered(None));
        drop(nameless);
        let deaf = requests.begin("a", Expected { hears: false, ..PLAIN });
        assert!(!is_own(&requests) && deaf.waiting().is_none());
    }

    #[test]
    fn what_may_belong_to_a_request_that_was_given_up_is_for_nobody_until_it_is_answered() {
        let requests = UnderWay::default();
        let given_up = requests.begin("a", PLAIN);
        requests.sent_as(given_up.number(), 7);
        drop(given_up);
        assert!(!is_own(&requests), "the server may still work on it");
        requests.lock().unread_until = None;
        assert!(!is_own(&requests), "nor does it say when it stops");
        assert_eq!(requests.say(RawValue::NULL, true), Whose::Nobodys, "the connection is of one client");
        let of_another = requests.begin("b", PLAIN);
        assert!(!is_own(&requests) && of_another.waiting().is_none());
        let newer = requests.begin("a", PLAIN);
        of_another.answered(None);
        drop(of_another);
        assert!(!is_own(&requests) && newer.waiting().is_some(), "it is of the same client");
        newer.answered(None);
        drop(newer);
        let answer = Answer::Result(raw("{}"));
        requests.answered(8, &answer);
        assert!(!is_own(&requests), "another request was answered");
        requests.answered(7, &answer);
        assert!(is_own(&requests));
        (0..=MAX_LEFT).for_each(|_| drop(requests.begin("a", PLAIN)));
        assert!(requests.lock().requests.is_empty() && !is_own(&requests), "what is left is not remembered");
        assert_eq!(requests.say(RawValue::NULL, true), Whose::Nobodys);
    }

    #[test]
    fn what_may_belong_to_a_task_is_for_nobody_until_the_task_has_ended() {
        let begins = Expected { may_begin_task: true, ..PLAIN };
        for is_late in [false, true] {
            let requests = UnderWay::default();
            let request = requests.begin("a", begins);
            requests.sent_as(request.number(), 7);
            let answer = Answer::Result(raw(r#"{"task":{"taskId":"t","status":"working"}}"#));
            if is_late {
                drop(request);
                requests.answered(7, &answer);
            } else {
                requests.answered(7, &answer);
                request.answered(Some(&answer));
                drop(request);
            }
            assert!(!is_own(&requests), "{is_late}");
            let of_another = requests.begin("b", PLAIN);
            assert!(!is_own(&requests) && of_another.waiting().is_none());
            requests.task_ended("u");
            assert!(!is_own(&requests) && of_another.waiting().is_none());
            requests.task_ended("t");
            assert!(!is_own(&requests) && of_another.waiting().is_some());
        }
    }

    #[test]
    fn what_was_said_on_another_stream_before_an_answer_may_be_read_after_it() {
        let later = Expected { are_read_later: true, ..PLAIN };
        let requests = UnderWay::default();
        let request = requests.begin("a", later);
        request.answered(Some(&Answer::Result(raw("{}"))));
        drop(request);
        assert!(!is_own(&requests));
        let newer = requests.begin("b", PLAIN);
        assert!(!is_own(&requests) && newer.waiting().is_some());
        newer.answered(None);
        drop(newer);
        assert!(requests.lock().requests.is_empty(), "it was answered");
        assert!(!is_own(&requests), "there may be one more");
        requests.lock().unread_until = Some(Instant::now());
        assert!(is_own(&requests), "that is soon over");
    }
}
