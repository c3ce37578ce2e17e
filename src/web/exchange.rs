//! Answers one POST: with a JSON body, or with an event stream if something has to be sent before the answer or the
//! answer takes long.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use super::gate::Gate;
use super::outbox::Outbox;
use super::response::RpcResponse;
use crate::domain::version::Era;
use crate::engine::Engine;
use crate::transport::sse::{KEEP_ALIVE, KEEP_ALIVE_EVERY, event, event_stream};

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

/// Answers with JSON. If the client accepts events, the answer becomes a stream when there is something to send before
/// it, or when it takes a long time. An error that is found before the stream begins keeps its HTTP status.
pub(super) async fn respond(
    gate: &Gate,
    mut running: RunningMessage,
    outbox: Arc<Outbox>,
    accepts_events: bool,
    era: Era,
) -> Response {
    if !accepts_events {
        return running.await.into_response();
    }
    let mut answer = None;
    tokio::select! {
        biased;
        done = &mut running => answer = Some(done),
        () = outbox.filled() => {}
        () = tokio::time::sleep(KEEP_ALIVE_EVERY) => {}
    }
    let first = outbox.pop();
    if let (Some(answer), None) = (answer.take_if(|_| first.is_none()), &first) {
        return answer.into_response();
    }
    // From here on the call runs in its own task: a client that reads slowly or not at all must not delay the call,
    // which holds resources.
    let running = answer.is_none().then(|| AbortOnDropHandle::new(tokio::spawn(running)));
    let call = CallStream { first, running, outbox, answer, _open: OpenStream::new(&gate.engine, era) };
    let events = stream::unfold(call, |mut call| async move {
        let event = call.next().await?;
        Some((Ok::<_, Infallible>(event), call))
    });
    event_stream(Body::from_stream(events))
}

/// The notifications of a call and, at the end, its answer.
struct CallStream {
    first: Option<String>,
    /// `None` once the answer has arrived.
    running: Option<AbortOnDropHandle<RpcResponse>>,
    outbox: Arc<Outbox>,
    answer: Option<RpcResponse>,
    _open: OpenStream,
}

impl CallStream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(message) = self.first.take().or_else(|| self.outbox.pop()) {
                return Some(event(&message));
            }
            if let Some(answer) = self.answer.take() {
                return Some(answer.into_event());
            }
            let running = self.running.as_mut()?;
            tokio::select! {
                biased;
                answer = running => {
                    self.running = None;
                    self.answer = answer.ok();
                }
                () = self.outbox.filled() => {}
                () = tokio::time::sleep(KEEP_ALIVE_EVERY) => return Some(KEEP_ALIVE),
            }
        }
    }
}
