//! The questions of a server during one request: those in the response to the request, and those that come elsewhere and are
//! put to this request.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::questions::{AboutQuestion, Askable, AskableCalls, OpenQuestions, ServerQuestion};
use super::wire::{self, McpRequest};
use crate::domain::ports::ToClient;
use crate::domain::upstream::UpstreamError;
use crate::domain::version::Era;

/// Sends a reply.
pub(super) type Replying<'a> = Pin<Box<dyn Future<Output = Result<(), UpstreamError>> + Send + 'a>>;

/// The way of replies to the server.
pub(super) trait Replies: Send + Sync {
    /// Sends a reply to a question of the server.
    ///
    /// # Errors
    /// If the server does not take it, because it may then wait for the reply for ever.
    fn reply(&self, text: String) -> Replying<'_>;

    /// Sends a reply in the background, or drops it if too many are waiting.
    fn reply_later(&self, text: String);
}

/// The questions of one request.
pub(super) struct CallQuestions<'a>(Option<Asking<'a>>);

struct Asking<'a> {
    server: &'a dyn Replies,
    open: OpenQuestions<'a>,
    /// `None` if only questions in the response to the request are for its client.
    put: Option<Askable<'a>>,
    /// Why an answer could not be delivered.
    undelivered: Arc<Undelivered>,
}

/// An answer that the server did not take. It may wait for the answer for ever, so the request has failed.
#[derive(Default)]
struct Undelivered {
    why: OnceLock<UpstreamError>,
    set: Notify,
}

impl Undelivered {
    fn set(&self, why: UpstreamError) {
        self.why.get_or_init(|| why);
        self.set.notify_one();
    }

    async fn wait(&self) -> UpstreamError {
        loop {
            if let Some(why) = self.why.get() {
                return why.clone();
            }
            self.set.notified().await;
        }
    }
}

impl<'a> CallQuestions<'a> {
    /// The questions of a request whose client is never asked.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// The questions during `request`. Only legacy servers ask, and only during calls. `askable` has the calls of the
    /// connection if it serves one client.
    pub(super) fn new(
        server: &'a dyn Replies,
        askable: Option<&'a AskableCalls>,
        request: &McpRequest<'_>,
        era: Era,
        to: Option<&'a dyn ToClient>,
    ) -> Self {
        let (Some(client), McpRequest::Use(call), Era::Legacy) = (to, request, era) else {
            return Self::none();
        };
        if call.client.capabilities.answers_nothing() && askable.is_none() {
            return Self::none();
        }
        let put = askable.map(|calls| calls.add(call.watch));
        Self(Some(Asking { server, open: OpenQuestions::new(client), put, undelivered: Arc::default() }))
    }

    /// Takes a request of the server that is in the response.
    pub(super) fn ask(&mut self, server: &dyn Replies, id: &RawValue, method: &str, params: Option<&RawValue>) {
        let Some(asking) = &mut self.0 else { return server.reply_later(wire::reply(id, method)) };
        match ServerQuestion::read(id, method, params) {
            Ok(asked) => asking.ask(asked),
            Err(answer) => server.reply_later(answer),
        }
    }

    /// Takes the withdrawal of a question that is in the response.
    pub(super) fn withdraw(&mut self, id: &RawValue) {
        if let Some(asking) = &mut self.0 {
            asking.open.withdraw(id);
        }
    }

    /// Awaits `future`, and drives the open questions meanwhile. It is borrowed, because an async function has room for each
    /// of its arguments twice.
    ///
    /// # Errors
    /// If the server does not take the answer to a question of its own.
    pub(super) async fn during<T>(
        &mut self,
        mut future: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, UpstreamError> {
        let undelivered = self.0.as_ref().map(|asking| Arc::clone(&asking.undelivered));
        let undelivered = async {
            match undelivered {
                Some(undelivered) => undelivered.wait().await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(undelivered);
        loop {
            tokio::select! {
                biased;
                done = &mut future => return Ok(done),
                why = &mut undelivered => return Err(why),
                () = self.run() => {}
            }
        }
    }

    /// Whether the server did not take the answer to a question of its own.
    pub(super) fn has_undelivered(&self) -> bool {
        self.0.as_ref().is_some_and(|asking| asking.undelivered.why.get().is_some())
    }

    /// Drives the open questions. Completes when a question was put to the request from outside of its response, and
    /// after that must be called again.
    async fn run(&mut self) {
        let Some(asking) = &mut self.0 else { return std::future::pending().await };
        let put = async {
            match &mut asking.put {
                Some(put) => put.received.recv().await,
                None => std::future::pending().await,
            }
        };
        let put = tokio::select! {
            biased;
            put = put => put,
            () = asking.open.run() => None,
        };
        if let Some(about) = put {
            asking.take(about);
        }
    }
}

impl Asking<'_> {
    fn take(&mut self, about: AboutQuestion) {
        match about {
            AboutQuestion::Asked(asked) => self.ask(asked),
            AboutQuestion::Withdrawn(id) => self.open.withdraw(&id),
        }
    }

    fn ask(&mut self, asked: ServerQuestion) {
        let (server, undelivered) = (self.server, Arc::clone(&self.undelivered));
        let send = async move |answer| server.reply(answer).await.unwrap_or_else(|why| undelivered.set(why));
        if let Err(answer) = self.open.ask(asked, send) {
            server.reply_later(answer);
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let put = self.put.as_mut().map(Askable::left).unwrap_or_default();
        for answer in self.open.left().into_iter().chain(put) {
            self.server.reply_later(answer);
        }
    }
}
