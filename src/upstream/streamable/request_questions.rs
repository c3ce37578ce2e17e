//! The questions of a server during one request over HTTP: those in the response to the request, and those on the stream of
//! the session that are put to this request.

use std::sync::{Arc, OnceLock};

use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::connection::Connection;
use crate::domain::ports::ToClient;
use crate::domain::upstream::UpstreamError;
use crate::domain::version::Era;
use crate::upstream::questions::{AboutQuestion, Askable, OpenQuestions, ServerQuestion};
use crate::upstream::wire::{self, McpRequest};

/// The questions of one request.
pub(super) struct RequestQuestions<'a>(Option<Asking<'a>>);

struct Asking<'a> {
    connection: &'a Arc<Connection>,
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

impl<'a> RequestQuestions<'a> {
    /// The questions of a request whose client is never asked.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// The questions during `request`. Only legacy servers ask, and only during calls.
    pub(super) fn new(connection: &'a Arc<Connection>, request: &McpRequest<'_>, to: Option<&'a dyn ToClient>) -> Self {
        let (Some(client), McpRequest::Use(call), Era::Legacy) = (to, request, connection.era) else {
            return Self::none();
        };
        if call.client.capabilities.answers_nothing() {
            return Self::none();
        }
        let put = connection.askable.as_ref().map(|calls| calls.add(call.watch));
        Self(Some(Asking { connection, open: OpenQuestions::new(client), put, undelivered: Arc::default() }))
    }

    /// Takes a request of the server that is in the response.
    pub(super) fn ask(&mut self, connection: &Arc<Connection>, id: &RawValue, method: &str, params: Option<&RawValue>) {
        let Some(asking) = &mut self.0 else { return connection.notify_later(wire::reply(id, method)) };
        match ServerQuestion::read(id, method, params) {
            Ok(asked) => asking.ask(asked),
            Err(answer) => connection.notify_later(answer),
        }
    }

    /// Takes the withdrawal of a question that is in the response.
    pub(super) fn withdraw(&mut self, id: &RawValue) {
        if let Some(asking) = &mut self.0 {
            asking.open.withdraw(id);
        }
    }

    /// Awaits `future`, and drives the open questions meanwhile.
    ///
    /// # Errors
    /// If the server does not take the answer to a question of its own.
    pub(super) async fn during<T>(&mut self, future: impl Future<Output = T>) -> Result<T, UpstreamError> {
        let undelivered = self.0.as_ref().map(|asking| Arc::clone(&asking.undelivered));
        let undelivered = async {
            match undelivered {
                Some(undelivered) => undelivered.wait().await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(future, undelivered);
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
                Some(put) => put.questions.recv().await,
                None => std::future::pending().await,
            }
        };
        let asked = tokio::select! {
            biased;
            asked = put => asked,
            () = asking.open.run() => None,
        };
        match asked {
            Some(AboutQuestion::Asked(asked)) => asking.ask(asked),
            Some(AboutQuestion::Withdrawn(id)) => asking.open.withdraw(&id),
            None => {}
        }
    }
}

impl<'a> Asking<'a> {
    fn ask(&mut self, asked: ServerQuestion) {
        let (connection, undelivered) = (self.connection, Arc::clone(&self.undelivered));
        let send = async move |answer| connection.answer(answer).await.unwrap_or_else(|why| undelivered.set(why));
        if let Err(answer) = self.open.ask(asked, send) {
            connection.notify_later(answer);
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let put = self.put.as_mut().map(Askable::left).unwrap_or_default();
        for answer in self.open.left().into_iter().chain(put) {
            self.connection.notify_later(answer);
        }
    }
}
