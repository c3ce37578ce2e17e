//! What a server says or asks outside of the responses to requests, whatever the transport. Which client it is for, if it can be
//! for one, follows from who uses the connection.

use serde_json::value::RawValue;

use super::call_questions::Replies;
use super::context::UpstreamContext;
use super::metrics::Dropped;
use super::questions::{AskableCalls, SHARED, ServerQuestion};
use super::server_message::{self, Notice, ServerMessage};
use super::under_way::{UnderWay, Whose};
use super::watched::Covered;
use crate::domain::ids::ObjectKey;
use crate::domain::upstream::{ClientKey, UpstreamEvent};
use crate::domain::version::Era;

/// The maximum number of bytes of the parameters of a log message outside of a response. A larger one is dropped.
const MAX_MESSAGE: usize = 64 << 10;

/// Who hears log messages that belong to no request.
#[derive(Debug, Default)]
enum Audience {
    /// All clients.
    #[default]
    All,
    /// The client of this session.
    Session(String),
    /// Nobody: clients without a session use the connection.
    Nobody,
}

/// The clients that use one connection.
#[derive(Debug, Default)]
pub(super) struct Users {
    /// Their requests that are under way.
    pub(super) under_way: UnderWay,
    /// Their calls that can be asked. `None` if several clients use the connection, because questions outside of responses do
    /// not say to which call they belong: these are refused then.
    pub(super) askable: Option<AskableCalls>,
    audience: Audience,
}

impl Users {
    /// The users of a connection for the client `of`; `None` if it is for all.
    pub(super) fn of(of: Option<&ClientKey>) -> Self {
        let audience = match of {
            None => Audience::All,
            Some(client) if client.session.is_empty() => Audience::Nobody,
            Some(client) => Audience::Session(client.session.clone()),
        };
        let askable = matches!(audience, Audience::Session(_)).then(AskableCalls::default);
        Self { under_way: UnderWay::default(), askable, audience }
    }

    /// Whether the connection is for all clients.
    pub(super) fn are_all(&self) -> bool {
        matches!(self.audience, Audience::All)
    }
}

/// Takes what a server says over one connection.
pub(super) struct Notices<'a> {
    pub(super) upstream: &'a ObjectKey,
    pub(super) shared: &'a UpstreamContext,
    pub(super) users: &'a Users,
    pub(super) era: Era,
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

    fn note(&self, notice: Notice, params: Option<&RawValue>) {
        match notice {
            Notice::ListChanged(kind) => {
                self.shared.events.push(UpstreamEvent::ListChanged(self.upstream.clone(), kind));
            }
            Notice::Updated => self.updated(params),
            Notice::Message => params.into_iter().for_each(|params| self.logged(params)),
            Notice::Cancelled => {
                if let (Some(calls), Some(id)) = (&self.users.askable, server_message::cancelled(params)) {
                    calls.withdraw(&id);
                }
            }
            // What is about one request is taken where its answer is read.
            Notice::Progress | Notice::Acknowledged | Notice::Other => {}
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

    /// Takes a log message. One that belongs to no request is for the audience of the connection.
    fn logged(&self, params: &RawValue) {
        let session = match &self.users.audience {
            Audience::Session(session) => Some(session),
            Audience::All | Audience::Nobody => None,
        };
        let whose = match params.get().len() {
            ..=MAX_MESSAGE => self.users.under_way.say(params, session.is_some()),
            _ => Whose::Unknown,
        };
        match whose {
            Whose::OneClients => {}
            Whose::Nobodys if self.has_audience() && self.shared.watched(self.upstream).may_log() => {
                let text = params.get().to_owned();
                if !self.shared.events.try_push(UpstreamEvent::Logged(self.upstream.clone(), session.cloned(), text)) {
                    self.shared.metrics.dropped(&self.upstream.name, Dropped::Message);
                }
            }
            Whose::Nobodys | Whose::Unknown => self.shared.metrics.dropped(&self.upstream.name, Dropped::Message),
        }
    }

    /// Whether somebody may hear a log message that belongs to no request. Those of a modern server belong to the request that
    /// asked for them (MCP 2026-07-28, logging), so that such a message can be of any client that uses the connection.
    fn has_audience(&self) -> bool {
        match self.users.audience {
            Audience::All => self.era == Era::Legacy,
            Audience::Session(_) => true,
            Audience::Nobody => false,
        }
    }
}
