//! The calls of one process and the clients that they belong to: who waits for what, and which client a message of the
//! server can concern. Does no IO.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::json;

use super::outbox::{Kind, Outbox};
use crate::domain::raw::to_raw;
use crate::domain::rpc::failure;

/// The maximum number of calls of one process that are under way.
const MAX_CALLS: usize = 1024;
/// The maximum number of requests of one process that clients have not answered yet.
const MAX_ASKED: usize = 256;
/// The maximum number of calls of one process that are remembered although nobody waits for them.
const MAX_ABANDONED: usize = 1024;

/// The number of a session within the bridge. It is no secret, unlike the session's id.
pub(super) type SessionKey = u64;

#[derive(Debug, Default)]
pub(super) struct CallState {
    pub(super) last_id: u64,
    pub(super) open: HashMap<u64, OpenCall>,
    /// Calls that nobody waits for and that the server has not answered. It may still be working on them, even if they
    /// were cancelled.
    pub(super) abandoned: BTreeMap<u64, AbandonedCall>,
    /// Whether there were more abandoned calls than are remembered.
    pub(super) forgot_some: bool,
    /// The server's requests that wait for an answer, by their raw ids, and the sessions that are asked.
    pub(super) asked: HashMap<String, SessionKey>,
    /// The streams of the sessions that use the process.
    pub(super) sessions: HashMap<SessionKey, Arc<Outbox>>,
    /// The number of sessions that have ever used the process.
    pub(super) joined: u64,
    /// Why there will be no answers any more.
    pub(super) closed: Option<Closed>,
}

/// Why a process answers no calls any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Closed {
    pub(super) reason: String,
    /// Whether the process ended without being told to.
    pub(super) by_itself: bool,
    /// The last lines that it wrote and that are no messages. Empty unless it ended by itself.
    pub(super) last_words: String,
}

impl Closed {
    pub(super) fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..Self::default() }
    }

    /// Returns the reason for the client of a request. What the server wrote is only for those who begin to use it: a gateway
    /// keeps that answer for its operators, and passes the others on.
    pub(super) fn told(&self, to_beginner: bool) -> String {
        match self.last_words.as_str() {
            words if to_beginner && !words.is_empty() => format!("{}; it wrote last: {words}", self.reason),
            _ => self.reason.clone(),
        }
    }
}

/// A call whose client waits for the answer.
#[derive(Debug)]
pub(super) struct OpenCall {
    /// The client's own id and progress token, as raw JSON.
    pub(super) id: String,
    pub(super) token: Option<String>,
    pub(super) session: Option<SessionKey>,
    pub(super) to: Arc<Outbox>,
    /// Whether the client reads messages before the answer.
    pub(super) takes_events: bool,
    /// Whether the call begins the use of the server; see [`BridgedRequest::begins`](super::message::BridgedRequest::begins).
    pub(super) begins: bool,
}

#[derive(Debug)]
pub(super) struct AbandonedCall {
    /// The client's own id as raw JSON.
    pub(super) id: String,
    pub(super) session: Option<SessionKey>,
}

impl CallState {
    /// Whether another call of this client may begin.
    pub(super) fn has_room_for(&self, session: Option<SessionKey>) -> bool {
        let own = || self.open.values().filter(|call| call.session == session).count();
        self.has_room(MAX_CALLS, self.open.len(), own)
    }

    /// Whether the server may ask this client once more.
    pub(super) fn may_ask(&self, session: SessionKey) -> bool {
        let own = || self.asked.values().filter(|key| **key == session).count();
        self.has_room(MAX_ASKED, self.asked.len(), own)
    }

    /// Whether there is room for one more. If several sessions share more than a half, none of them has more than a
    /// quarter.
    fn has_room(&self, most: usize, all: usize, own: impl FnOnce() -> usize) -> bool {
        all < most && (self.sessions.len() < 2 || all < most / 2 || own() < most / 4)
    }

    /// Removes a call that the server has answered. Returns it if its client waits.
    pub(super) fn answered(&mut self, own: u64) -> Option<OpenCall> {
        self.abandoned.remove(&own);
        self.open.remove(&own)
    }

    /// Ends a call for its client, but remembers it until the server answers it. Returns it if its client waited.
    pub(super) fn abandon(&mut self, own: u64) -> Option<OpenCall> {
        let call = self.open.remove(&own)?;
        if self.abandoned.len() >= MAX_ABANDONED {
            self.forgot_some = true;
            self.abandoned.pop_first();
        }
        self.abandoned.insert(own, AbandonedCall { id: call.id.clone(), session: call.session });
        Some(call)
    }

    /// Answers a call with an error in the server's place. Does nothing if it was answered.
    pub(super) fn refuse(&mut self, own: u64, code: i64, message: &str) {
        if let Some(call) = self.abandon(own) {
            call.to.answer(refusal(&call.id, code, message), Kind::Error);
        }
    }

    /// The client that a request of the server concerns if it names no call: the only one with a call under
    /// way, else the only session. `None` if it can concern another client.
    pub(super) fn addressee(&self) -> Option<(Option<SessionKey>, &Arc<Outbox>)> {
        let mut open = self.open.values();
        let call = open.next().filter(|call| call.takes_events && open.next().is_none());
        let found = call.map(|call| (call.session, &call.to)).or_else(|| {
            let mut sessions = self.sessions.iter();
            sessions.next().filter(|_| sessions.next().is_none()).map(|(key, stream)| (Some(*key), stream))
        });
        found.filter(|(session, _)| self.works_only_for(*session))
    }

    /// Whether the server works on calls of no other client than this one. Clients without a session cannot be told
    /// apart, so each call without a session counts as that of another client.
    fn works_only_for(&self, session: Option<SessionKey>) -> bool {
        if self.forgot_some && self.joined != 1 {
            return false;
        }
        let mut open = self.open.values().map(|call| call.session);
        let mut abandoned = self.abandoned.values().map(|call| call.session);
        match session {
            Some(_) => open.chain(abandoned).all(|of| of == session),
            None => open.nth(1).is_none() && abandoned.next().is_none(),
        }
    }

    /// Passes on a notification that names no call. A log message can be about any call of the process, so it is dropped unless
    /// the process has only been used by one session.
    pub(super) fn publish(&self, method: &str, text: &str) {
        if method == "notifications/message" && self.joined != 1 {
            return;
        }
        for stream in self.sessions.values() {
            stream.offer(text);
        }
    }
}

/// An error answer. `id` is raw JSON.
pub(super) fn refusal(id: &str, code: i64, message: &str) -> String {
    failure(id, &to_raw(&json!({"code": code, "message": message})))
}
