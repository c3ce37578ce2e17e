//! A deadline for each request to the API server, including its whole answer, so that a dead connection does not block
//! anything forever.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tower::{BoxError, Service};

/// How long a request that is not a watch can take, including its whole answer.
const REQUEST: Duration = Duration::from_secs(20);
/// The assumed `timeoutSeconds` of a watch that has none.
const WATCH: Duration = Duration::from_secs(300);
/// The time that a watch gets in addition to its `timeoutSeconds`.
const WATCH_MARGIN: Duration = Duration::from_secs(15);

/// A service that fails requests when they exceed their deadline.
#[derive(Clone, Debug)]
pub(super) struct Deadline<S> {
    service: S,
    /// The deadline of a request that is not a watch.
    request: Duration,
}

impl<S> Deadline<S> {
    pub(super) fn new(service: S) -> Self {
        Self { service, request: REQUEST }
    }
}

impl<S, R, B> Service<Request<R>> for Deadline<S>
where
    S: Service<Request<R>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<Timed<B>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        let time = time_of_watch(request.uri()).unwrap_or(self.request);
        let (until, answer) = (Instant::now() + time, self.service.call(request));
        Box::pin(async move {
            let answer = timeout_at(until, answer).await.map_err(|_| over(time))??;
            Ok(answer.map(|body| Timed { body, time, until: Box::pin(sleep_until(until)) }))
        })
    }
}

/// A response body that fails once the deadline has passed.
pub(super) struct Timed<B> {
    body: B,
    time: Duration,
    until: Pin<Box<Sleep>>,
}

impl<B> Body for Timed<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.until.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(over(self.time))));
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn over(time: Duration) -> BoxError {
    format!("the API server did not answer within {time:?}").into()
}

/// Returns how long a watch can take: its `timeoutSeconds`, or [`WATCH`] if it has none, plus a margin. `None` if the
/// request is not a watch.
fn time_of_watch(uri: &Uri) -> Option<Duration> {
    let parameters = || uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    parameters().find(|(name, value)| *name == "watch" && matches!(*value, "true" | "1"))?;
    let asked = parameters().find(|(name, _)| *name == "timeoutSeconds").and_then(|(_, value)| value.parse().ok());
    Some(asked.map_or(WATCH, Duration::from_secs) + WATCH_MARGIN)
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    #[test]
    fn a_watch_has_the_time_that_it_asks_for() {
        let time = |query: &str| time_of_watch(&format!("/api/v1/pods?{query}").parse().unwrap());
        assert_eq!(time("limit=500&labelSelector=watch%3Dtrue"), None);
        assert_eq!(time("&watch=true&timeoutSeconds=30&allowWatchBookmarks=true"), Some(Duration::from_secs(45)));
        assert_eq!(time("watch=1"), Some(Duration::from_secs(315)));
    }

    /// Sends a request to an API server that never answers, or that sends only the head of an answer.
    async fn ask(head: bool) -> Result<Bytes, String> {
        let silent = tower::service_fn(move |_: Request<()>| async move {
            if !head {
                std::future::pending::<()>().await;
            }
            let body = StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, BoxError>>());
            Ok::<_, BoxError>(Response::new(body))
        });
        let mut deadline = Deadline { service: silent, request: Duration::from_millis(20) };
        let answer = deadline.call(Request::get("/api/v1/pods").body(()).unwrap()).await;
        let answer = answer.map_err(|error| error.to_string())?;
        answer.into_body().collect().await.map(|body| body.to_bytes()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_request_that_is_never_answered_ends() {
        for head in [false, true] {
            assert_eq!(ask(head).await.unwrap_err(), "the API server did not answer within 20ms");
        }
    }
}
