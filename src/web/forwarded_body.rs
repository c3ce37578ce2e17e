//! The body of a replica's response, which this replica passes on.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use super::replicas::ForwardedRequest;
use crate::transport::sse::KEEP_ALIVE_EVERY;

/// How long a replica may send nothing. It sends something [every so often](KEEP_ALIVE_EVERY) as long as it lives.
const SILENCE: Duration = KEEP_ALIVE_EVERY.saturating_mul(3);

/// Passes a body on as it arrives. Fails if the replica is silent for too long, so that the client sees that its stream was
/// cut. The request counts as forwarded until this is dropped.
pub(super) struct ForwardedBody<B> {
    body: B,
    /// Begins when the replica is waited for, not while the client does not read.
    silence: Option<Pin<Box<Sleep>>>,
    longest_silence: Duration,
    _under_way: ForwardedRequest,
}

impl<B> ForwardedBody<B> {
    pub(super) fn new(body: B, under_way: ForwardedRequest) -> Self {
        Self { body, silence: None, longest_silence: SILENCE, _under_way: under_way }
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for ForwardedBody<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.silence = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let longest = self.longest_silence;
        let silence = self.silence.get_or_insert_with(|| Box::pin(tokio::time::sleep(longest)));
        ready!(silence.as_mut().poll(cx));
        Poll::Ready(Some(Err(format!("the replica was silent for {longest:?}").into())))
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
    use std::convert::Infallible;

    use futures_util::StreamExt;
    use futures_util::stream::{iter, pending};
    use http_body_util::{BodyExt, StreamBody};

    use super::*;
    use crate::web::replicas::{ForwardingQuota, Shares};

    #[tokio::test]
    async fn a_stream_whose_replica_falls_silent_is_cut_and_frees_its_place() {
        let (shares, client) = (Shares::default(), "10.0.0.1".parse().unwrap());
        let mut places: Vec<_> = std::iter::from_fn(|| shares.enter(ForwardingQuota::Calls, client, None)).collect();
        let sent = iter([Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"data: 1\n\n")))]).chain(pending());
        let longest_silence = Duration::from_millis(50);
        let body = ForwardedBody::new(StreamBody::new(sent), places.pop().unwrap());
        let mut body = ForwardedBody { longest_silence, ..body };
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "data: 1\n\n");
        let cut = body.frame().await.unwrap().unwrap_err();
        assert_eq!(cut.to_string(), "the replica was silent for 50ms");
        assert!(shares.enter(ForwardingQuota::Calls, client, None).is_none());
        drop(body);
        assert!(shares.enter(ForwardingQuota::Calls, client, None).is_some());
    }
}
