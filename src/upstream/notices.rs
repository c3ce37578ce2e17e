//! What a server says or asks outside of the responses to requests, whatever the transport. It is for one client only if the
//! connection is for one session.

use serde_json::value::RawValue;

use super::call_questions::Replies;
use super::context::UpstreamContext;
use super::metrics::Dropped;
use super::questions::{AskableCalls, SHARED, ServerQuestion};
use super::server_message::{self, NotificationKind, ServerMessage};
use super::subscriptions::Covered;
use crate::domain::ids::ObjectKey;
use crate::domain::upstream::{ClientKey, UpstreamEvent};

/// The maximum number of bytes of the parameters of a log message outside of a response. A larger one is dropped.
const MAX_MESSAGE: usize = 64 << 10;

/// The clients that use one connection.
#[derive(Debug)]
pub(super) struct Users {
    /// The session that the connection is for; `None` if it is for several clients.
    session: Option<String>,
    /// The calls of that session that can be asked. `None` if several clients use the connection, because questions outside of
    /// responses do not say to which call they belong: these are refused then.
    pub(super) askable: Option<AskableCalls>,
    /// Whether the connection is for all clients.
    pub(super) are_all: bool,
}

impl Users {
    /// The users of a connection for the client `of`; `None` if it is for all.
    pub(super) fn of(of: Option<&ClientKey>) -> Self {
        let session = of.map(|client| client.session.clone()).filter(|session| !session.is_empty());
        let askable = session.as_ref().map(|_| AskableCalls::default());
        Self { session, askable, are_all: of.is_none() }
    }
}

/// Takes what a server says over one connection.
pub(super) struct Notices<'a> {
    pub(super) upstream: &'a ObjectKey,
    pub(super) shared: &'a UpstreamContext,
    pub(super) users: &'a Users,
    pub(super) server: &'a dyn Replies,
}

impl Notices<'_> {
    /// Takes a message that is not for the caller of one request.
    pub(super) fn take(&self, message: ServerMessage<'_>) {
        match message {
            ServerMessage::Request { id, method, params } => self.put(id, &method, params.as_deref()),
            ServerMessage::Notification { notice, params } => self.note(notice, params.as_deref()),
            ServerMessage::Answer { .. } => {
                tracing::debug!(upstream = %self.upstream, "an answer that nobody waits for was dropped");
            }
        }
    }

    fn note(&self, notice: NotificationKind, params: Option<&RawValue>) {
        match notice {
            NotificationKind::ListChanged(kind) => {
                self.shared.events.push(UpstreamEvent::ListChanged(self.upstream.clone(), kind));
            }
            NotificationKind::Updated => self.updated(params),
            NotificationKind::Message => params.into_iter().for_each(|params| self.logged(params)),
            NotificationKind::Cancelled => {
                if let (Some(calls), Some(id)) = (&self.users.askable, server_message::cancelled(params)) {
                    calls.withdraw(&id);
                }
            }
            // What is about one request is taken where its answer is read.
            NotificationKind::Progress | NotificationKind::Acknowledged | NotificationKind::Other => {}
        }
    }

    /// Puts a question of the server to a call. What nobody is asked is answered at once.
    fn put(&self, id: &RawValue, method: &str, params: Option<&RawValue>) {
        let put = ServerQuestion::read(id, method, params).and_then(|asked| match &self.users.askable {
            Some(calls) => calls.put(asked),
            None => Err(asked.refused(SHARED)),
        });
        if let Err(answer) = put {
            self.server.reply_later(answer);
        }
    }

    /// Takes a change of a resource, if anybody wants to hear of it.
    fn updated(&self, params: Option<&RawValue>) {
        let Some(uri) = server_message::updated(params) else { return };
        let events = &self.shared.events;
        match self.shared.known_watched(self.upstream).map(|watched| watched.covers(&uri)) {
            Some(Covered::Whole) => events.push(UpstreamEvent::Updated(self.upstream.clone(), uri)),
            Some(Covered::PartOf(wholes)) if !wholes.is_empty() => events.push_part(self.upstream, uri, wholes),
            _ => {}
        }
    }

    /// Takes a log message. It is passed on if the connection is for one session; else no client can be named that it is for.
    fn logged(&self, params: &RawValue) {
        let text = params.get();
        let is_passed = self.users.session.as_ref().is_some_and(|session| {
            let event = || UpstreamEvent::Logged(self.upstream.clone(), session.clone(), text.to_owned());
            text.len() <= MAX_MESSAGE
                && self.shared.watched(self.upstream).may_log()
                && self.shared.events.try_push(event())
        });
        if !is_passed {
            self.shared.metrics.dropped(&self.upstream.name, Dropped::Message);
        }
    }
}
