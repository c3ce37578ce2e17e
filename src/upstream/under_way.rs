//! The requests that are under way over one connection, and which of them a log message of the server is given to. A server
//! with sessions does not say what a message outside of an answer belongs to (MCP 2025-11-25, logging; stdio has no other
//! messages).

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::mpsc;

/// How many messages may wait for one request. Later ones are dropped meanwhile.
const MAX_WAITING: usize = 32;

/// The requests of clients that wait for their answers.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// The oldest first.
    requests: Vec<Request>,
}

#[derive(Debug)]
struct Request {
    number: u64,
    /// The session of the client; empty if it has none.
    session: String,
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
        state.requests.push(Request { number, session: session.to_owned(), messages: messages_to });
        Hearing { requests: self, number, messages }
    }

    /// Gives a message to the newest request, if all that are under way are of one client; else it could hold what another
    /// client sent, and is dropped. Returns whether it belongs to no request, because none is under way.
    pub(super) fn say(&self, params: &RawValue) -> bool {
        let state = self.lock();
        let Some(last) = state.requests.last() else { return true };
        let is_of_one = state.requests.len() == 1
            || !last.session.is_empty() && state.requests.iter().all(|request| request.session == last.session);
        if is_of_one && let Some(messages) = &last.messages {
            let _ = messages.try_send(params.to_owned());
        }
        false
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hearing<'_> {
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
        self.requests.lock().requests.retain(|request| request.number != self.number);
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
        drop((one, newer));
        assert!(!requests.say(&message) && of_another.waiting().is_some());
        drop(of_another);
        let mut nameless = [requests.begin("", true), requests.begin("", true)];
        assert!(!requests.say(&message) && nameless.iter_mut().all(|request| request.waiting().is_none()));
        drop(nameless);
        let mut deaf = requests.begin("a", false);
        assert!(!requests.say(&message) && deaf.waiting().is_none());
    }
}
