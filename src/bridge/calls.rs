//! What is under way between the clients and one process of the server: each call from its id to its one end (answered,
//! cancelled, abandoned, or failed), and to whom each message of the server goes. Does no IO.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::call_state::{CallState, Closed, OpenCall, SessionKey, refusal};
use super::message::{self, About, BridgedRequest, ProcessMessage};
use super::outbox::{Kind, Outbox};
use crate::domain::raw::RawObject;
use crate::domain::rpc::{INTERNAL_ERROR, METHOD_NOT_FOUND, REFUSED, REQUEST_CANCELLED, RpcError};

/// What clients are told instead of an answer for which there is no memory.
pub(super) const FULL: &str =
    "the answer was dropped: the bridge holds as many bytes as it may; what was asked may be done";

#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<CallState>);

/// Where the messages of a call go.
#[derive(Debug)]
pub(super) struct CallOutput<'a> {
    pub(super) session: Option<SessionKey>,
    pub(super) outbox: &'a Arc<Outbox>,
    pub(super) takes_events: bool,
}

impl Calls {
    /// Registers a call and returns its id at the server.
    ///
    /// # Errors
    /// If the process has ended, or too many calls are under way.
    pub(super) fn open(&self, request: &BridgedRequest, caller: &CallOutput<'_>) -> Result<u64, RpcError> {
        let mut state = self.lock();
        if let Some(closed) = &state.closed {
            return Err(RpcError::new(INTERNAL_ERROR, closed.told(request.begins())));
        }
        if !state.has_room_for(caller.session) {
            return Err(RpcError::new(REFUSED, "too many calls of this server are under way: try again later"));
        }
        state.last_id += 1;
        let own = state.last_id;
        let call = OpenCall {
            id: request.id.clone(),
            token: request.token.clone(),
            session: caller.session,
            to: Arc::clone(caller.outbox),
            takes_events: caller.takes_events,
            begins: request.begins(),
        };
        state.open.insert(own, call);
        Ok(own)
    }

    /// Cancels the call that a session's client knows by this raw id: answers its POST, because the server need not
    /// answer any more. Returns the id of the call at the server, unless the server has answered it.
    pub(super) fn cancel(&self, session: SessionKey, id: &str) -> Option<u64> {
        let mut state = self.lock();
        let is_it = |of: Option<SessionKey>, known: &str| of == Some(session) && known == id;
        let open = state.open.iter().find(|(_, call)| is_it(call.session, &call.id)).map(|(own, _)| *own);
        if let Some(own) = open {
            state.refuse(own, REQUEST_CANCELLED, "Request cancelled");
            return Some(own);
        }
        state.abandoned.iter().rev().find(|(_, call)| is_it(call.session, &call.id)).map(|(own, _)| *own)
    }

    /// Abandons a call whose client is gone. Returns whether the server has not answered it yet.
    pub(super) fn abandon(&self, own: u64) -> bool {
        self.lock().abandon(own).is_some()
    }

    /// Forgets a call that was not sent to the server.
    pub(super) fn forget(&self, own: u64) {
        let mut state = self.lock();
        state.open.remove(&own);
        state.abandoned.remove(&own);
    }

    /// Whether the server asked this session by this raw id. It is then answered, and a second answer is not one.
    pub(super) fn take_asked(&self, session: SessionKey, id: &str) -> bool {
        let mut state = self.lock();
        let is_own = state.asked.get(id) == Some(&session);
        is_own && state.asked.remove(id).is_some()
    }

    /// Adds a session with its own stream. Returns false if the process has ended.
    pub(super) fn join(&self, session: SessionKey, stream: &Arc<Outbox>) -> bool {
        let mut state = self.lock();
        if state.closed.is_some() {
            return false;
        }
        state.sessions.insert(session, Arc::clone(stream));
        state.joined += 1;
        true
    }

    /// Removes a session that has ended, and answers its calls. Returns what the server must be told: that the session's
    /// calls are taken back, and that its requests to the session are not answered.
    pub(super) fn leave(&self, session: SessionKey) -> Vec<String> {
        let mut state = self.lock();
        state.sessions.remove(&session);
        let calls: Vec<u64> =
            state.open.iter().filter(|(_, call)| call.session == Some(session)).map(|(id, _)| *id).collect();
        let asked: Vec<String> =
            state.asked.iter().filter(|(_, key)| **key == session).map(|(id, _)| id.clone()).collect();
        let gone = |id: &String| refusal(id, INTERNAL_ERROR, "the client's session has ended");
        let tell = calls.iter().map(|own| message::cancelled(*own)).chain(asked.iter().map(gone)).collect();
        for own in calls {
            state.refuse(own, INTERNAL_ERROR, "the session has ended");
        }
        state.asked.retain(|_, key| *key != session);
        tell
    }

    /// Why there will be no answers any more.
    pub(super) fn why_closed(&self) -> Option<Closed> {
        self.lock().closed.clone()
    }

    /// Answers all calls with an error, those to come too: the process has ended.
    pub(super) fn close(&self, closed: Closed) {
        let mut state = self.lock();
        if state.closed.is_some() {
            return;
        }
        state.closed = Some(closed.clone());
        let open = std::mem::take(&mut state.open);
        let sessions = std::mem::take(&mut state.sessions);
        state.asked.clear();
        state.abandoned.clear();
        drop(state);
        for call in open.into_values() {
            call.to.answer(refusal(&call.id, INTERNAL_ERROR, &closed.told(call.begins)), Kind::Error);
        }
        sessions.into_values().for_each(|stream| stream.close());
    }

    /// Answers a call with an error because the server's answer to it cannot be used.
    pub(super) fn fail(&self, own: u64, message: &str) {
        let mut state = self.lock();
        state.refuse(own, INTERNAL_ERROR, message);
        state.abandoned.remove(&own);
    }

    /// Does the same with all calls: the answer to one of them, it is not known to which, cannot be used. None of them
    /// may wait for ever.
    pub(super) fn fail_all(&self, message: &str) {
        let mut state = self.lock();
        let open: Vec<u64> = state.open.keys().copied().collect();
        open.into_iter().for_each(|own| state.refuse(own, INTERNAL_ERROR, message));
    }

    /// Passes a message of the server on. `text` is the whole message. Returns what must be answered to the server in the
    /// clients' place.
    pub(super) fn take(&self, message: ProcessMessage, text: &str) -> Option<String> {
        match message {
            ProcessMessage::Answer { id, is_error, object } => {
                self.answer(id, is_error, object);
                None
            }
            ProcessMessage::Request { id, method } if method == "ping" => {
                Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#))
            }
            ProcessMessage::Request { id, .. } => self.ask(&id, text),
            ProcessMessage::Notification { method, object } => {
                self.notify(&method, object);
                None
            }
        }
    }

    fn answer(&self, own: u64, is_error: bool, object: RawObject) {
        let Some(call) = self.lock().answered(own) else { return };
        let kind = if is_error { Kind::Error } else { Kind::Result };
        if !call.to.answer(message::with_id(object, &call.id), kind) {
            call.to.answer(refusal(&call.id, REFUSED, FULL), Kind::Error);
        }
    }

    /// Passes a request of the server on to the only client that it can mean. Returns the server's answer if it is not
    /// clear whom it asks, or if the client does not take it.
    fn ask(&self, id: &str, text: &str) -> Option<String> {
        let mut state = self.lock();
        let Some((session, to)) = state.addressee().and_then(|(session, to)| Some((session?, Arc::clone(to)))) else {
            return Some(refusal(id, METHOD_NOT_FOUND, "it is not clear which of the clients is asked"));
        };
        if !state.may_ask(session) || !to.offer(text) {
            return Some(refusal(id, INTERNAL_ERROR, "the client takes no more requests"));
        }
        state.asked.insert(id.to_owned(), session);
        None
    }

    fn notify(&self, method: &str, object: RawObject) {
        let mut state = self.lock();
        match message::about(method, &object) {
            About::Progress(own) => {
                let Some(call) = state.open.get(&own).filter(|call| call.takes_events) else { return };
                if let Some(token) = &call.token {
                    call.to.offer(&message::with_token(object, token));
                }
            }
            About::Subscription(own) => {
                if let Some(call) = state.open.get(&own) {
                    call.to.offer(&message::with_subscription(object, &call.id));
                }
            }
            About::Cancelled(id) => {
                let session = state.asked.remove(&id);
                if let Some(stream) = session.and_then(|session| state.sessions.get(&session)) {
                    stream.offer(object.to_raw().get());
                }
            }
            About::Nothing => state.publish(method, object.to_raw().get()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, CallState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
