//! What is under way between the clients and one process of the server: which call has which id, and which client is
//! asked what. Decides to whom each message of the server goes. Does no IO.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;

use super::message::{self, About, ClientRequest, ServerMessage};
use super::outbox::{Kind, Outbox};
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::rpc::{INTERNAL_ERROR, METHOD_NOT_FOUND, REFUSED, RpcError, failure};

/// The maximum number of calls of one process that are under way.
const MAX_CALLS: usize = 1024;
/// The maximum number of requests of one process that clients have not answered yet.
const MAX_ASKED: usize = 256;

/// The number of a session within the bridge. It is no secret, unlike the session's id.
pub(super) type SessionKey = u64;

#[derive(Debug, Default)]
pub(super) struct Calls(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last_id: u64,
    open: HashMap<u64, OpenCall>,
    /// The server's requests that wait for an answer, by their raw ids, and the sessions that are asked.
    asked: HashMap<String, SessionKey>,
    /// The streams of the sessions that share the process.
    sessions: HashMap<SessionKey, Arc<Outbox>>,
    /// Why there will be no answers any more.
    closed: Option<String>,
}

#[derive(Debug)]
struct OpenCall {
    /// The client's own id and progress token, as raw JSON.
    id: String,
    token: Option<String>,
    session: Option<SessionKey>,
    to: Arc<Outbox>,
    /// Whether the client reads messages before the answer.
    takes_events: bool,
}

/// Where the messages of a call go.
#[derive(Debug)]
pub(super) struct Caller<'a> {
    pub(super) session: Option<SessionKey>,
    pub(super) outbox: &'a Arc<Outbox>,
    pub(super) takes_events: bool,
}

impl Calls {
    /// Registers a call and returns its id at the server.
    ///
    /// # Errors
    /// If the process has ended, or too many calls are under way.
    pub(super) fn open(&self, request: &ClientRequest, caller: &Caller<'_>) -> Result<u64, RpcError> {
        let mut state = self.lock();
        if let Some(reason) = &state.closed {
            return Err(RpcError::new(INTERNAL_ERROR, reason.clone()));
        }
        if state.open.len() >= MAX_CALLS {
            let message = format!("{MAX_CALLS} calls of this server are under way: try again later");
            return Err(RpcError::new(REFUSED, message));
        }
        state.last_id += 1;
        let own = state.last_id;
        let call = OpenCall {
            id: request.id.clone(),
            token: request.token.clone(),
            session: caller.session,
            to: Arc::clone(caller.outbox),
            takes_events: caller.takes_events,
        };
        state.open.insert(own, call);
        Ok(own)
    }

    /// Returns the id at the server of the call that a session's client knows by this raw id.
    pub(super) fn id_of(&self, session: SessionKey, id: &str) -> Option<u64> {
        let state = self.lock();
        state.open.iter().find(|(_, call)| call.session == Some(session) && call.id == id).map(|(own, _)| *own)
    }

    /// Forgets a call whose client is gone. Returns whether it was still under way.
    pub(super) fn forget(&self, own: u64) -> bool {
        self.lock().open.remove(&own).is_some()
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
        if state.closed.is_none() {
            state.sessions.insert(session, Arc::clone(stream));
        }
        state.closed.is_none()
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
            if let Some(call) = state.open.remove(&own) {
                call.to.answer(refusal(&call.id, INTERNAL_ERROR, "the session has ended"), Kind::Error);
            }
        }
        state.asked.retain(|_, key| *key != session);
        tell
    }

    /// Answers all calls with an error, those to come too: the process has ended.
    pub(super) fn close(&self, reason: &str) {
        let mut state = self.lock();
        if state.closed.is_some() {
            return;
        }
        state.closed = Some(reason.to_owned());
        let open = std::mem::take(&mut state.open);
        let sessions = std::mem::take(&mut state.sessions);
        state.asked.clear();
        drop(state);
        for call in open.into_values() {
            call.to.answer(refusal(&call.id, INTERNAL_ERROR, reason), Kind::Error);
        }
        sessions.into_values().for_each(|stream| stream.close());
    }

    /// Answers a call with an error in the server's place. Does nothing if it was answered.
    pub(super) fn fail(&self, own: u64, code: i64, message: &str) {
        if let Some(call) = self.lock().open.remove(&own) {
            call.to.answer(refusal(&call.id, code, message), Kind::Error);
        }
    }

    /// Passes a message of the server on. `text` is the whole message. Returns what must be answered to the server in the clients' place.
    pub(super) fn take(&self, message: ServerMessage, text: &str) -> Option<String> {
        match message {
            ServerMessage::Answer { id, is_error, object } => {
                self.answer(id, is_error, object);
                None
            }
            ServerMessage::Request { id, method } if method == "ping" => {
                Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#))
            }
            ServerMessage::Request { id, .. } => self.ask(&id, text),
            ServerMessage::Notification { method, object } => {
                self.notify(&method, object);
                None
            }
        }
    }

    fn answer(&self, own: u64, is_error: bool, object: RawObject) {
        let Some(call) = self.lock().open.remove(&own) else { return };
        let kind = if is_error { Kind::Error } else { Kind::Result };
        if !call.to.answer(message::with_id(object, &call.id), kind) {
            let full = "the answer was dropped: the bridge holds as many bytes as it may; what was asked may be done";
            call.to.answer(refusal(&call.id, REFUSED, full), Kind::Error);
        }
    }

    /// Passes a request of the server on to the client whose call is under way, or to the only session there is.
    /// Returns the server's answer if it is not clear whom it asks, or if the client does not take it.
    fn ask(&self, id: &str, text: &str) -> Option<String> {
        let mut state = self.lock();
        let sole = state.sole_call().and_then(|call| Some((call.session?, Arc::clone(&call.to))));
        let only = || match state.sessions.len() {
            1 => state.sessions.iter().next().map(|(key, stream)| (*key, Arc::clone(stream))),
            _ => None,
        };
        let Some((session, to)) = sole.or_else(only) else {
            return Some(refusal(id, METHOD_NOT_FOUND, "it is not clear which of the clients is asked"));
        };
        if state.asked.len() >= MAX_ASKED || !to.offer(text) {
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The only call that is under way, if its client reads messages before the answer.
    fn sole_call(&self) -> Option<&OpenCall> {
        let mut calls = self.open.values();
        calls.next().filter(|call| call.takes_events && calls.next().is_none())
    }

    /// Passes on a notification that names no call. A log message may contain what one client sent, so it goes to the
    /// call under way or to the only session; others, such as of changed lists, go to all sessions.
    fn publish(&self, method: &str, text: &str) {
        let is_log = method == "notifications/message";
        if let Some(call) = self.sole_call().filter(|_| is_log) {
            call.to.offer(text);
        } else if !is_log || self.sessions.len() == 1 {
            for stream in self.sessions.values() {
                stream.offer(text);
            }
        }
    }
}

/// An error answer. `id` is raw JSON.
pub(super) fn refusal(id: &str, code: i64, message: &str) -> String {
    failure(id, &to_raw(&json!({"code": code, "message": message})))
}
