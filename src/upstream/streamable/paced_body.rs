//! The body of a response, which is read at a bounded rate.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Either;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Sleep;
use tower_http::BoxError;
use tower_http::decompression::DecompressionBody;

/// How much is read before reading rests for the first time, in bytes. Few answers have more.
const FIRST: usize = 1 << 20;
/// How much is read between two rests.
const AT_ONCE: usize = 256 << 10;
/// How long reading rests.
const REST: Duration = Duration::from_millis(2);

/// The body of a response of a server, without its content coding.
pub(super) type ServerBody = Either<Incoming, DecompressionBody<Incoming>>;

/// A body of which at most 128 MiB are read in a second after the first MiB. A server that writes as fast as it is read would
/// otherwise keep the processors busy, its own and those of the gateway, while other calls wait.
pub struct PacedBody<B = ServerBody> {
    body: B,
    /// How many bytes are read until reading rests.
    left: usize,
    rest: Option<Pin<Box<Sleep>>>,
}

impl<B> PacedBody<B> {
    /// Reads `body` at a bounded rate.
    pub(super) fn new(body: B) -> Self {
        Self { body, left: FIRST, rest: None }
    }

    fn count(&mut self, bytes: usize) {
        if let Some(left @ 1..) = self.left.checked_sub(bytes) {
            self.left = left;
            return;
        }
        // What was read beyond counts towards the next rests: pieces can be larger than what is read between two.
        let over = bytes - self.left;
        let rests = u32::try_from(1 + over / AT_ONCE).unwrap_or(u32::MAX);
        self.left = AT_ONCE - over % AT_ONCE;
        self.rest = Some(Box::pin(tokio::time::sleep(REST.saturating_mul(rests))));
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for PacedBody<B> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if let Some(rest) = &mut self.rest {
            ready!(rest.as_mut().poll(context));
            self.rest = None;
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
            self.count(data.len());
        }
        Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test]
    async fn a_large_body_is_read_at_a_bounded_rate() {
        for piece in [64 << 10, 384 << 10, 3 << 20] {
            let pieces = std::iter::repeat_n(Bytes::from(vec![0; piece]), (9 << 20) / piece);
            let frames = futures_util::stream::iter(pieces.map(|data| Ok::<_, io::Error>(Frame::data(data))));
            let began = Instant::now();
            let read = PacedBody::new(StreamBody::new(frames)).collect().await.unwrap().to_bytes();
            assert_eq!(read.len(), 9 << 20);
            assert!(began.elapsed() >= Duration::from_secs(8) / 128, "8 MiB took {:?}", began.elapsed());
        }
    }
}
