//! Reads response bodies up to a limit, either as a whole or as server-sent events.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt};
use http_body::Body;
use http_body_util::BodyExt;
use sse_stream::SseByteStream;

use super::client::chain;
use super::paced_body::PacedBody;
use crate::domain::budget::Reservation;
use crate::domain::ids::ObjectKey;
use crate::domain::upstream::UpstreamError;
use crate::transport::rate_limit::RateLimit;
use crate::upstream::context::UpstreamContext;
use crate::upstream::wire::ENVELOPE;

/// Why a body ended early. This is the only error type of the streams in this module.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
struct BrokenBody(UpstreamError);

/// Reads the whole body. `reservation` accounts for its memory. A body that arrives in one piece is not copied. If the
/// body is larger than `limit` plus [`ENVELOPE`] bytes, or exceeds the budget, reading stops and the connection is
/// closed.
pub(super) async fn whole(mut body: PacedBody, limit: u64, reservation: &Reservation) -> Result<Bytes, UpstreamError> {
    let most = limit.saturating_add(ENVELOPE);
    if body.size_hint().lower() > most {
        return Err(UpstreamError::TooLarge(limit));
    }
    let Some(first) = next_data(&mut body).await? else { return Ok(Bytes::new()) };
    reservation.resize(first.len() as u64).map_err(|_| UpstreamError::NoRoom)?;
    if body.is_end_stream() && first.len() as u64 <= most {
        return Ok(first);
    }
    let expected = body.size_hint().upper().unwrap_or(most).min(most);
    let mut bytes: Vec<u8> = first.into();
    while bytes.len() as u64 <= most {
        let Some(data) = next_data(&mut body).await? else { return Ok(bytes.into()) };
        let needed = bytes.len() + data.len();
        if needed > bytes.capacity() {
            let doubled = usize::try_from(expected).unwrap_or(usize::MAX).min(2 * bytes.capacity());
            let capacity = needed.max(doubled);
            reservation.resize(capacity as u64).map_err(|_| UpstreamError::NoRoom)?;
            bytes.reserve_exact(capacity - bytes.len());
        }
        bytes.extend_from_slice(&data);
    }
    Err(UpstreamError::TooLarge(limit))
}

async fn next_data(body: &mut PacedBody) -> Result<Option<Bytes>, UpstreamError> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| UpstreamError::Lost(chain(&e)))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// A body that is read piece by piece.
pub trait Chunks: Body<Data = Bytes, Error: Error> + Unpin {}

impl<B: Body<Data = Bytes, Error: Error> + Unpin> Chunks for B {}

/// The messages of an event stream. The size of each message is limited, and the rate at which those of all streams of an
/// upstream are read, up to the one after which nothing more is asked for; the size of the stream is not.
pub struct Messages<B: Chunks = PacedBody> {
    events: SseByteStream<CountedBody<B>>,
    since_last: Arc<SinceLast>,
    rate: RateLimit,
    /// What the last event counts towards the rate.
    unpaid: u64,
    /// The id of the last event that has one; `None` if none has.
    last_id: Option<String>,
    /// How long the server wants clients to wait before they come back, in milliseconds.
    retry_ms: Option<u64>,
}

/// What an event counts towards the rate in addition to its bytes: 4,096 a second may come.
const EACH: u64 = 1024;
/// The maximum number of bytes of the id of an event that is kept.
const LONGEST_ID: usize = 1024;

/// The number of bytes received since the last event, and the reservation of their memory.
struct SinceLast {
    bytes: AtomicU64,
    reservation: Reservation,
}

impl<B: Chunks> Messages<B> {
    /// Creates a reader for events of at most `limit` plus [`ENVELOPE`] bytes each. `reservation` accounts for their
    /// memory, and `rate` limits the rate at which they are read.
    pub fn new(body: B, limit: u64, reservation: Reservation, rate: RateLimit) -> Self {
        let since_last = Arc::new(SinceLast { bytes: AtomicU64::new(0), reservation });
        let counted = CountedBody { body, since_last: Arc::clone(&since_last), limit };
        let events = SseByteStream::new(counted);
        Self { events, since_last, rate, unpaid: 0, last_id: None, retry_ms: None }
    }

    /// The id of the last event that has one, and how long the server wants clients to wait before they come back.
    pub(super) fn place(&self) -> Option<(&str, Option<Duration>)> {
        Some((self.last_id.as_deref()?, self.retry_ms.map(Duration::from_millis)))
    }

    /// Takes over the place in the stream that `cut` came to, and what its last event counts towards the rate.
    pub(super) fn come_from(&mut self, cut: &Self) {
        self.last_id.clone_from(&cut.last_id);
        self.retry_ms = cut.retry_ms;
        self.unpaid = cut.unpaid;
    }

    /// What limits the rate at which the stream is read.
    pub(super) fn rate(&self) -> &RateLimit {
        &self.rate
    }

    /// Returns the data of the next event that is a message, or `None` at the end.
    ///
    /// # Errors
    /// If the stream is cut or not valid, or an event too large.
    pub async fn next(&mut self) -> Result<Option<String>, UpstreamError> {
        loop {
            // The previous message has been handled, so it no longer counts. Shrinking a reservation never fails.
            let _ = self.since_last.reservation.resize(self.since_last.bytes.load(Ordering::Relaxed));
            self.rate.spend(std::mem::take(&mut self.unpaid)).await;
            // Many events may have arrived at once, and other tasks must not wait for all of them.
            tokio::task::coop::consume_budget().await;
            let Some(event) = self.events.next().await else { return Ok(None) };
            let event = event.map_err(|error| match error {
                sse_stream::Error::Body(error) => match error.downcast::<BrokenBody>() {
                    Ok(broken) => broken.0,
                    Err(error) => UpstreamError::Lost(chain(&*error)),
                },
                _ => UpstreamError::Protocol("its event stream is not valid".into()),
            })?;
            self.unpaid = self.since_last.bytes.swap(0, Ordering::Relaxed) + EACH;
            let is_message = event.event.as_deref().is_none_or(|name| name == "message");
            self.retry_ms = event.retry.or(self.retry_ms);
            if let Some(id) = event.id.filter(|id| !id.is_empty() && id.len() <= LONGEST_ID) {
                self.last_id = Some(id);
            }
            // An event without data only tells its id.
            if let Some(data) = event.data.filter(|data| is_message && !data.is_empty()) {
                return Ok(Some(data));
            }
        }
    }
}

impl Messages {
    /// Reads the rest of the stream after its last message, so that the connection can be used again. If the stream
    /// does not end immediately, a background task waits for its end for up to `patience`.
    pub(super) fn finish(mut self, shared: &UpstreamContext, upstream: &ObjectKey, patience: Duration) {
        self.unpaid = 0;
        if self.next().now_or_never().is_none() {
            // If too many such tasks are running, the connection is closed instead.
            let _ = shared.spawn_small(upstream, async move {
                let _ = tokio::time::timeout(patience, self.next()).await;
            });
        }
    }
}

/// A body that fails if too many bytes arrive without an event, or the memory budget has no room for them.
struct CountedBody<B: Chunks> {
    body: B,
    since_last: Arc<SinceLast>,
    limit: u64,
}

impl<B: Chunks> Stream for CountedBody<B> {
    type Item = Result<Bytes, BrokenBody>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let frame = match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(e))) => return Poll::Ready(Some(Err(BrokenBody(UpstreamError::Lost(chain(&e)))))),
                Poll::Ready(Some(Ok(frame))) => frame,
            };
            let Ok(data) = frame.into_data() else { continue };
            let seen = self.since_last.bytes.fetch_add(data.len() as u64, Ordering::Relaxed) + data.len() as u64;
            if seen > self.limit.saturating_add(ENVELOPE) {
                return Poll::Ready(Some(Err(BrokenBody(UpstreamError::TooLarge(self.limit)))));
            }
            if self.since_last.reservation.resize(seen).is_err() {
                return Poll::Ready(Some(Err(BrokenBody(UpstreamError::NoRoom))));
            }
            return Poll::Ready(Some(Ok(data)));
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tokio::task::unconstrained;

    use super::*;
    use crate::domain::budget::{ByteBudget, Category};

    fn messages(event: &str, count: usize, rate: &RateLimit) -> Messages<impl Chunks + use<>> {
        let events = Bytes::from(event.repeat(64));
        let frames = futures_util::stream::repeat(events)
            .take(count / 64)
            .map(|data| Ok::<_, std::io::Error>(Frame::data(data)));
        let reservation = Arc::new(ByteBudget::default()).reservation(Category::Answer);
        Messages::new(StreamBody::new(frames), 1 << 20, reservation, rate.clone())
    }

    #[tokio::test]
    async fn events_are_read_at_a_bounded_rate() {
        let rate = RateLimit::used_up();
        for (event, read) in [("data: x\n\n", 1), ("data:\n\n", 0)] {
            for _ in 0..2 {
                let mut messages = messages(event, 128, &rate);
                let at_once = (0..2).filter(|_| matches!(unconstrained(messages.next()).now_or_never(), Some(Ok(_))));
                assert_eq!(at_once.count(), read, "{event:?}");
            }
        }
        let mut cut = messages("data: x\n\n", 64, &rate);
        assert!(cut.next().await.unwrap().is_some());
        let mut rest = messages("data: x\n\n", 64, &rate);
        rest.come_from(&cut);
        assert!(rest.next().now_or_never().is_none(), "the last event of the part before counts");
    }

    #[tokio::test]
    async fn other_tasks_have_their_turn_between_events_that_arrive_at_once() {
        let mut messages = messages("data: x\n\n", 1_024, &RateLimit::default());
        let read_all = async { while messages.next().await.unwrap().is_some() {} };
        assert_eq!(read_all.now_or_never(), None);
    }
}
