//! One POST and its answer: whole JSON, or a stream once there is something to send before the answer.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use tokio::runtime::Handle;

use super::mcp::Gate;
use super::outbox::Outbox;
use super::reply::{Answer, KEEP_ALIVE, event, event_stream};
use crate::domain::upstream::Era;
use crate::engine::{Engine, Ports};

/// How long a stream is silent before a comment is sent, and a call before it becomes a stream.
pub(super) const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);

/// The handling of one message while it runs.
pub(super) struct Running {
    future: Option<Pin<Box<dyn Future<Output = Answer> + Send>>>,
    outlives: bool,
}

impl Running {
    /// Runs `future`. One that outlives its client runs on when this is dropped: a legacy client's disconnect does not
    /// cancel. Otherwise dropping cancels.
    pub(super) fn new(future: impl Future<Output = Answer> + Send + 'static, outlives: bool) -> Self {
        Self { future: Some(Box::pin(future)), outlives }
    }
}

impl Future for Running {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let Some(future) = &mut self.future else { return Poll::Pending };
        let answer = ready!(future.as_mut().poll(cx));
        self.future = None;
        Poll::Ready(answer)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(future) = self.future.take().filter(|_| self.outlives) else { return };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(future);
        }
    }
}

/// Counts an open stream in the metrics.
pub(super) struct OpenStream<P: Ports> {
    engine: Arc<Engine<P>>,
    era: Era,
}

impl<P: Ports> OpenStream<P> {
    /// Counts one in until it is dropped.
    pub(super) fn new(engine: &Arc<Engine<P>>, era: Era) -> Self {
        engine.metrics().stream(era.as_str(), 1);
        Self { engine: Arc::clone(engine), era }
    }
}

impl<P: Ports> Drop for OpenStream<P> {
    fn drop(&mut self) {
        self.engine.metrics().stream(self.era.as_str(), -1);
    }
}

/// Answers with JSON, unless the client takes streams and there is something to send first, or the answer lets itself
/// be waited for: an error found at once then still has its HTTP status.
pub(super) async fn respond<P: Ports>(
    gate: &Gate<P>,
    mut running: Running,
    outbox: Arc<Outbox>,
    takes_events: bool,
    era: Era,
) -> Response {
    if !takes_events {
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
    let open = OpenStream::new(&gate.engine, era);
    let call = CallStream { first, running, outbox, answer, ended: false, _open: open };
    let events = stream::unfold(call, |mut call| async move {
        let event = call.next().await?;
        Some((Ok::<_, Infallible>(event), call))
    });
    event_stream(Body::from_stream(events))
}

/// A call's progress and, at the end, its answer.
struct CallStream<P: Ports> {
    first: Option<String>,
    running: Running,
    outbox: Arc<Outbox>,
    answer: Option<Answer>,
    ended: bool,
    _open: OpenStream<P>,
}

impl<P: Ports> CallStream<P> {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(message) = self.first.take().or_else(|| self.outbox.pop()) {
                return Some(event(&message));
            }
            if let Some(answer) = self.answer.take() {
                self.ended = true;
                return Some(answer.to_event());
            }
            if self.ended {
                return None;
            }
            tokio::select! {
                biased;
                answer = &mut self.running => self.answer = Some(answer),
                () = self.outbox.filled() => {}
                () = tokio::time::sleep(KEEP_ALIVE_EVERY) => return Some(KEEP_ALIVE),
            }
        }
    }
}
