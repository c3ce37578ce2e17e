//! Answers one POST: with a JSON body, or with an event stream if something has to be sent before the answer or the
//! answer takes long. A stream of a session can be continued over another connection.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use super::listener_context::ListenerContext;
use super::response::RpcResponse;
use crate::domain::version::{Era, has_primed_streams};
use crate::engine::Engine;
use crate::engine::access::sealed_id::IdPurpose;
use crate::engine::access::session::Session;
use crate::engine::exchange::{Exchange, KEPT_AFTER_END, Next};
use crate::transport::sse::{KEEP_ALIVE, KEEP_ALIVE_EVERY, event, event_stream, event_with_id, priming_event, written};

/// After one to two times this, the client of a call is told an id to come back with, if its version has that.
pub(super) const PRIMED_AFTER: Duration = Duration::from_millis(100);
/// How long clients are told to wait before they come back, unless the server says so.
const RETRY: Duration = Duration::from_secs(1);
/// The longest wait that clients are told, whatever the server says.
const LONGEST_RETRY: Duration = Duration::from_secs(10);
/// The shortest one: a server that says 0 does not have its clients ask without a pause.
const SHORTEST_RETRY: Duration = Duration::from_millis(100);

/// The future that handles one message.
pub(super) struct RunningMessage {
    future: Option<Pin<Box<dyn Future<Output = RpcResponse> + Send>>>,
    outlives: bool,
}

impl RunningMessage {
    /// Wraps `future`. Dropping this value cancels the future, unless `outlives` is set: the future then continues in
    /// the background, because the disconnect of a legacy client does not cancel its call.
    pub(super) fn new(future: impl Future<Output = RpcResponse> + Send + 'static, outlives: bool) -> Self {
        Self { future: Some(Box::pin(future)), outlives }
    }
}

impl Future for RunningMessage {
    type Output = RpcResponse;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<RpcResponse> {
        let Some(future) = &mut self.future else { return Poll::Pending };
        let answer = ready!(future.as_mut().poll(cx));
        self.future = None;
        Poll::Ready(answer)
    }
}

impl Drop for RunningMessage {
    fn drop(&mut self) {
        let Some(future) = self.future.take().filter(|_| self.outlives) else { return };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(future);
        }
    }
}

/// Counts an open stream in the metrics until it is dropped.
pub(super) struct OpenStream {
    engine: Arc<Engine>,
    era: Era,
}

impl OpenStream {
    pub(super) fn new(engine: &Arc<Engine>, era: Era) -> Self {
        engine.metrics().stream(era.as_str(), 1);
        Self { engine: Arc::clone(engine), era }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.engine.metrics().stream(self.era.as_str(), -1);
    }
}

/// The session of a POST, which is known once its message was read.
pub(super) type SessionOfPost = OnceLock<Arc<Session>>;

/// Answers with JSON. If the client accepts events, the answer becomes a stream when there is something to send before
/// it, or when it takes a long time. An error that is found before the stream begins keeps its HTTP status.
pub(super) async fn respond(
    gate: &Arc<ListenerContext>,
    mut running: RunningMessage,
    exchange: Arc<Exchange>,
    session: &SessionOfPost,
    era: Era,
) -> Response {
    if !exchange.is_read() {
        return running.await.into_response();
    }
    let attached = Attached::new(Arc::clone(&exchange));
    let mut answer = None;
    tokio::select! {
        biased;
        done = &mut running => answer = Some(done),
        _ = attached.wait(0) => {}
        () = is_due(gate, session) => {}
    }
    if let Some(answer) = answer.take_if(|_| matches!(attached.next(0), Next::Pending | Next::Leave(_))) {
        return answer.into_response();
    }
    let kept = session.get().map(|session| ResumableExchange::new(gate, session, &exchange));
    let id = kept.as_ref().zip(session.get()).and_then(|(kept, session)| kept.id(session));
    let primes = session.get().is_some_and(|session| has_primed_streams(&session.version));
    let start = if primes { Start::Primes } else { Start::Plain };
    let finisher = ExchangeCloser { exchange, kept };
    // From here on the call runs in its own task: a client that reads slowly or not at all must not delay the call,
    // which holds resources.
    let task = tokio::spawn(async move {
        let answer = match answer {
            Some(answer) => answer,
            None => running.await,
        };
        finisher.exchange.finish(answer.into_event());
        drop(finisher);
    });
    let task = (era == Era::Modern).then(|| AbortOnDropHandle::new(task));
    let open = OpenStream::new(&gate.engine, era);
    let stream = CallStream { attached, after: 0, id, start, last: None, _task: task, _continued: None, _open: open };
    stream.into_response()
}

/// Waits until the answer becomes a stream, although there is nothing to send before it.
async fn is_due(gate: &ListenerContext, session: &SessionOfPost) {
    gate.ticks.wait().await;
    if !session.get().is_some_and(|session| has_primed_streams(&session.version)) {
        tokio::time::sleep(KEEP_ALIVE_EVERY - PRIMED_AFTER).await;
    }
}

/// A connection that is attached to an exchange until this value is dropped.
struct Attached {
    exchange: Arc<Exchange>,
    reader: u64,
}

impl Attached {
    fn new(exchange: Arc<Exchange>) -> Self {
        let reader = exchange.attach();
        Self { exchange, reader }
    }

    fn next(&self, after: u64) -> Next {
        self.exchange.next(self.reader, after)
    }

    async fn wait(&self, after: u64) -> Next {
        self.exchange.wait(self.reader, after).await
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.exchange.detach(self.reader);
    }
}

/// Ends an exchange when the future of its message has ended, even by a panic.
struct ExchangeCloser {
    exchange: Arc<Exchange>,
    kept: Option<ResumableExchange>,
}

impl Drop for ExchangeCloser {
    fn drop(&mut self) {
        self.exchange.abandon();
        self.kept.take();
    }
}

/// An exchange that the client of a session can come back to. Dropped when the exchange has ended.
struct ResumableExchange {
    gate: Arc<ListenerContext>,
    handle: u64,
}

impl ResumableExchange {
    fn new(gate: &Arc<ListenerContext>, session: &Session, exchange: &Arc<Exchange>) -> Self {
        let handle = gate.engine.gate.sessions().exchanges().add(&session.id, exchange);
        Self { gate: Arc::clone(gate), handle }
    }

    /// Returns what the ids of the events begin with.
    fn id(&self, session: &Session) -> Option<String> {
        let lives = self.gate.longest_call() + KEPT_AFTER_END;
        self.gate.seal_id(IdPurpose::Stream, &session.id, self.handle, lives, Vec::new())
    }
}

impl Drop for ResumableExchange {
    fn drop(&mut self) {
        let engine = &self.gate.engine;
        engine.gate.sessions().exchanges().ended(self.handle, engine.now());
    }
}

/// Counts a continued stream in its session until it is dropped.
pub(super) struct ResumedStream(pub(super) Arc<Session>);

impl Drop for ResumedStream {
    fn drop(&mut self) {
        self.0.continued.leave();
    }
}

/// What a stream does before it sends messages.
enum Start {
    /// It sends an event without data, whose id the client may come back with.
    Primes,
    Plain,
    /// Nothing more is sent.
    Over,
}

/// The messages of a call and, at the end, its answer, from the message after `after` on.
pub(super) struct CallStream {
    attached: Attached,
    after: u64,
    /// What the ids of events begin with; `None` if the stream cannot be continued.
    id: Option<String>,
    start: Start,
    /// The rest of the last event.
    last: Option<Bytes>,
    _task: Option<AbortOnDropHandle<()>>,
    _continued: Option<ResumedStream>,
    _open: OpenStream,
}

impl CallStream {
    /// The stream of an exchange whose client comes back for what comes after the message with the number `after`. `id` is
    /// what the ids of events begin with.
    pub(super) fn continued(
        engine: &Arc<Engine>,
        exchange: Arc<Exchange>,
        id: String,
        after: u64,
        continued: ResumedStream,
    ) -> Self {
        let (attached, open) = (Attached::new(exchange), OpenStream::new(engine, Era::Legacy));
        Self {
            attached,
            after,
            id: Some(id),
            start: Start::Plain,
            last: None,
            _task: None,
            _continued: Some(continued),
            _open: open,
        }
    }

    pub(super) fn into_response(self) -> Response {
        let events = stream::unfold(self, |mut call| async move {
            let event = call.next().await?;
            Some((Ok::<_, Infallible>(event), call))
        });
        event_stream(Body::from_stream(events))
    }

    async fn next(&mut self) -> Option<Bytes> {
        if let Some(last) = self.last.take() {
            return Some(last);
        }
        match std::mem::replace(&mut self.start, Start::Plain) {
            Start::Primes => {
                // Without an id, the client cannot come back: it gets the rest over this connection.
                if let Some(priming) = self.priming(RETRY) {
                    return Some(priming);
                }
            }
            Start::Over => return None,
            Start::Plain => {}
        }
        tokio::select! {
            biased;
            next = self.attached.wait(self.after) => match next {
                Next::Message(number, message) => Some(self.event(number, &message)),
                Next::Answer(number, answer) => Some(self.answer(number, answer)),
                Next::Leave(retry) => self.leave(retry),
                Next::Pending | Next::End => None,
            },
            () = tokio::time::sleep(KEEP_ALIVE_EVERY) => Some(KEEP_ALIVE),
        }
    }

    /// Returns an event without data, which tells the client the id to come back with and when.
    fn priming(&self, retry: Duration) -> Option<Bytes> {
        let id = self.id.as_ref()?;
        Some(priming_event(&format!("{id}.{}", self.after), retry))
    }

    /// Ends the stream before the answer. If the server says when to come back, its client is told first.
    fn leave(&mut self, retry: Option<Duration>) -> Option<Bytes> {
        self.start = Start::Over;
        retry.and_then(|retry| self.priming(retry.clamp(SHORTEST_RETRY, LONGEST_RETRY)))
    }

    fn event(&mut self, number: u64, message: &str) -> Bytes {
        self.after = number;
        match &self.id {
            Some(id) => event_with_id(&format!("{id}.{number}"), message),
            None => event(message),
        }
    }

    /// Returns the answer without its last newline, after which its id follows.
    fn answer(&mut self, number: u64, answer: Bytes) -> Bytes {
        self.after = number;
        let answer = written(answer, Some(Arc::clone(self.attached.exchange.reservation())));
        match &self.id {
            Some(id) => {
                self.last = Some(format!("id: {id}.{number}\n\n").into());
                answer.slice(..answer.len().saturating_sub(1))
            }
            None => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::budget::ByteBudget;
    use crate::web::tests::gateway::Gateway;

    #[tokio::test]
    async fn a_stream_that_nobody_can_come_back_to_has_the_answer_all_the_same() {
        let gateway = Gateway::idle();
        let exchange = Arc::new(Exchange::new(&Arc::new(ByteBudget::new(1 << 20)), &Arc::default(), true));
        exchange.finish(event("{}"));
        let (attached, open) = (Attached::new(exchange), OpenStream::new(&gateway.engine, Era::Legacy));
        let start = Start::Primes;
        let mut stream =
            CallStream { attached, after: 0, id: None, start, last: None, _task: None, _continued: None, _open: open };
        assert_eq!(stream.next().await, Some(event("{}")));
    }
}
