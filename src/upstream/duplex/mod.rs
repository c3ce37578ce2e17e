//! A connection on which all that a server sends comes in on one stream, with the answers in any order: the pipes of a
//! process (MCP, transports, stdio), or HTTP+SSE (MCP 2024-11-05).

mod events;
mod listen;
mod open_requests;
mod reader;

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::domain::ids::ObjectKey;
use crate::domain::ports::ToClient;
use crate::domain::upstream::{Answer, ClientKey, UpstreamError};
use crate::domain::version::Era;

pub(super) use self::events::EventLines;
pub(super) use self::listen::{ProcessListenStream, ProcessListener};
use self::open_requests::{OpenRequest, OpenRequests};
pub(super) use self::reader::DuplexReader;
use super::call_questions::{CallQuestions, Replies, Replying};
use super::context::UpstreamContext;
use super::notices::{Notices, Users};
use super::request_failure::RequestFailure;
use super::wire::{self, McpRequest};

/// How long to wait for the end of a server that does not read any more, and so for the reason.
const END: Duration = Duration::from_secs(1);

/// The direction to the server.
#[async_trait]
pub(super) trait Outgoing: Debug + Send + Sync {
    /// Sends one message. Fails if the server does not take it.
    async fn send(&self, message: Vec<u8>) -> Result<(), RequestFailure>;

    /// How long the server may take to take the client's answer to a question of its own; `None` if it may take as long as
    /// the question is open.
    fn takes_answers_within(&self) -> Option<Duration>;

    /// Whether the server may have a message before it counts as sent.
    fn arrives_early(&self) -> bool;

    /// Sends one message in the background, or drops it if too many are waiting.
    fn offer(&self, message: String);
}

/// The state that the two directions of a connection share.
#[derive(Clone, Debug)]
pub(super) struct Duplex {
    calls: Arc<OpenRequests>,
    pub(super) out: Arc<dyn Outgoing>,
    /// The upstream that the server is.
    pub(super) key: ObjectKey,
    /// The number of texts of the server that were not usable messages.
    strays: Arc<AtomicU64>,
    /// The clients that use the connection.
    pub(super) users: Arc<Users>,
    /// Cancelled to end the connection.
    pub(super) stop: CancellationToken,
    /// Cancelled when the server no longer reads or writes properly, or the connection is told to end.
    pub(super) ended: CancellationToken,
}

impl Duplex {
    /// Creates the state of a connection for the client `of`; `None` if it is for all.
    pub(super) fn new(key: ObjectKey, out: Arc<dyn Outgoing>, of: Option<&ClientKey>) -> Self {
        let stop = CancellationToken::new();
        let ended = stop.child_token();
        Self {
            calls: Arc::new(OpenRequests::new()),
            out,
            key,
            strays: Arc::default(),
            users: Arc::new(Users::of(of)),
            stop,
            ended,
        }
    }

    /// Takes what the server says outside of answers.
    fn notices<'a>(&'a self, shared: &'a UpstreamContext) -> Notices<'a> {
        Notices { upstream: &self.key, shared, users: &self.users, server: self }
    }

    /// Whether requests can still be sent.
    pub(super) fn is_open(&self) -> bool {
        self.calls.is_open() && !self.stop.is_cancelled() && !self.ended.is_cancelled()
    }

    /// Fails all requests, waiting and future ones, with `reason`. Further calls have no effect.
    pub(super) fn close(&self, reason: UpstreamError) {
        self.calls.close(reason);
    }

    /// Returns why the connection has ended, in the place of its loss that was noticed first.
    pub(super) async fn why_ended(&self, error: UpstreamError) -> UpstreamError {
        match error {
            UpstreamError::Lost(_) => tokio::time::timeout(END, self.calls.closed()).await.unwrap_or(error),
            other => other,
        }
    }

    /// Sends a request and waits for its answer, which may arrive before the request counts as sent.
    pub(super) async fn ask(
        &self,
        request: McpRequest<'_>,
        era: Era,
        to: Option<&dyn ToClient>,
    ) -> Result<Answer, RequestFailure> {
        let OpenRequest { id, mut answer, mut progress } = self.calls.open().map_err(RequestFailure::Stale)?;
        let strays = self.strays.load(Ordering::Relaxed);
        let mut pending = RequestGuard { duplex: self, id, cancels: false, strays };
        let mut asked = CallQuestions::new(self, self.users.askable.as_ref(), &request, era, to);
        let answering = async {
            let mut sending = pin!(self.out.send(request.render(era, id)));
            let mut is_sent = false;
            pending.cancels = self.out.arrives_early() && request.may_be_cancelled();
            loop {
                tokio::select! {
                    biased;
                    Some(params) = progress.recv() => if let Some(to) = to { to.progress(params) },
                    answered = &mut answer => {
                        pending.cancels = false;
                        break answered.unwrap_or_else(|_| Err(UpstreamError::Lost("it ended".into())))
                            .map_err(RequestFailure::Final);
                    }
                    sent = &mut sending, if !is_sent => {
                        pending.cancels = false;
                        sent?;
                        is_sent = true;
                        pending.cancels = request.may_be_cancelled();
                    }
                }
            }
        };
        asked.during(pin!(answering)).await.map_err(RequestFailure::Final)?
    }
}

impl Replies for Duplex {
    fn reply(&self, text: String) -> Replying<'_> {
        Box::pin(async move {
            let sending = self.out.send(text.into_bytes());
            let sent = match self.out.takes_answers_within() {
                Some(limit) => tokio::time::timeout(limit, sending)
                    .await
                    .map_err(|_| format!("it did not take it within {limit:?}")),
                None => Ok(sending.await),
            };
            let sent = sent.and_then(|sent| sent.map_err(|failure| UpstreamError::from(failure).to_string()));
            sent.map_err(|why| {
                UpstreamError::Lost(format!("the client's answer to its question could not be delivered: {why}"))
            })
        })
    }

    fn reply_later(&self, text: String) {
        self.out.offer(text);
    }
}

/// A request that waits for its answer. If this value is dropped before the answer arrives, the request is forgotten
/// and, if `cancels` is set, cancelled at the server.
struct RequestGuard<'a> {
    duplex: &'a Duplex,
    id: u64,
    cancels: bool,
    /// The number of stray texts that the server had sent when the request was sent.
    strays: u64,
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        if !self.duplex.calls.forget(self.id) {
            return;
        }
        if self.cancels {
            self.duplex.out.offer(wire::cancelled(self.id));
        }
        let lines = self.duplex.strays.load(Ordering::Relaxed).saturating_sub(self.strays);
        if lines > 0 {
            tracing::warn!(
                upstream = %self.duplex.key,
                lines,
                "a request was given up, and what the server wrote meanwhile answers nothing that it was asked"
            );
        }
    }
}
