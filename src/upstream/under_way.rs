//! The requests that are under way over one connection, and which of them a log message of the server is given to. A server
//! with sessions does not say what a message outside of an answer belongs to (MCP 2025-11-25, logging; stdio has no other
//! messages).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::domain::requester::Requester;
use crate::domain::task::begun_task;
use crate::domain::upstream::{Answer, ClientKey};
use crate::upstream::unread::{Readable, Unread};
use crate::upstream::waiting_messages::WaitingMessages;

/// How much work that nobody waits for is remembered. If there is more, no message passes until the connection ends, unless all
/// are for one client.
const MAX_LEFT: usize = 256;

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
    unread: Unread,
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
    client: Requester,
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
    /// Ends the wait for the answer of the request at this place. It is forgotten, unless the server may still work on it.
    fn close(&mut self, place: usize) {
        let request = &mut self.requests[place];
        (request.is_open, request.messages) = (false, None);
        if matches!(request.left, Left::Unread) {
            let request = self.requests.remove(place);
            self.unread.answered(request.client, Instant::now());
        } else if self.is_lost || matches!(request.left, Left::Nothing) {
            self.requests.remove(place);
        } else if self.requests.iter().filter(|request| !request.is_open).count() > MAX_LEFT {
            self.requests.retain(|request| request.is_open);
            self.is_lost = true;
        }
    }
}

/// Whom a message belongs to if it is about one of these requests, or about an answered one whose messages are readable. Of
/// two open requests of clients without a session nobody can tell, even at one address. If one is open, it is given the
/// messages of those that were answered there, because it would hear none if they counted as another client's.
fn whose<'a>(requests: impl Iterator<Item = &'a Request>, readable: Readable<'a>) -> Whose {
    let mut client = match readable {
        Readable::Nobodys => None,
        Readable::Of(client) => Some(client),
        Readable::Several => return Whose::Unknown,
    };
    let (mut is_one_nameless, mut is_waited_for) = (false, false);
    for request in requests {
        if is_one_nameless || client.is_some_and(|client| *client != request.client) {
            return Whose::Unknown;
        }
        client = Some(&request.client);
        is_one_nameless = !request.client.has_session();
        is_waited_for |= request.is_open;
    }
    match client {
        None => Whose::Nobodys,
        Some(_) if is_waited_for => Whose::OneClients,
        Some(_) => Whose::Unknown,
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
    /// Registers a request of this client.
    pub(super) fn begin(&self, client: Requester, expected: Expected) -> Hearing<'_> {
        let messages = expected.hears.then(Arc::<WaitingMessages>::default);
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.requests.push(Request {
            number,
            client,
            id: None,
            expected,
            is_open: true,
            messages: messages.clone(),
            left: Left::Unanswered,
        });
        Hearing { requests: self, number, messages }
    }

    /// Gives a message to the newest request that waits, if all that the server may work on, and all messages that can still be
    /// read, are of one client; else it could hold what another client sent, and is dropped. What nobody waits for does not
    /// count where the connection `is_of_one` client.
    pub(super) fn say(&self, params: &RawValue, is_of_one: bool) -> Whose {
        let state = self.lock();
        let readable = if is_of_one { Readable::Nobodys } else { state.unread.readable(Instant::now()) };
        let told = match state.is_lost && !is_of_one {
            true => Whose::Unknown,
            false => whose(state.requests.iter().filter(|request| request.is_open || !is_of_one), readable),
        };
        if told != Whose::OneClients {
            return told;
        }
        let Some(newest) = state.requests.iter().rev().find(|request| request.is_open) else { return Whose::Unknown };
        if let Some(messages) = &newest.messages {
            messages.add(params.to_owned());
        }
        Whose::OneClients
    }

    /// Records that in this time nothing was read of the stream on which messages come.
    pub(super) fn held_back(&self, from: Instant, to: Instant) {
        self.lock().unread.held_back(from, to);
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
mod tests;
