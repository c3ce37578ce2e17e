//! Sends a request to another replica of the gateway, and tells what may have become of it where it has no answer.

use std::error::Error as _;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::client::legacy::connect::Connect;
use hyper_util::client::legacy::{Client, Error};

use super::replica_connector::NotConnected;
use crate::domain::causes::causes;
use crate::domain::reason::Reason;

/// Why a forwarded request has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotForwarded {
    #[error("too many requests are being forwarded to other replicas: try again")]
    TooMany,
    #[error("it is at another replica of this gateway, to which this one cannot forward it now: try again")]
    Unable,
    #[error("it is at another replica of this gateway, which cannot be reached: the replica has probably ended")]
    Unreachable,
    #[error(
        "it is at another replica of this gateway, but the server at that address does not prove to be one: the replica has \
         probably ended, or it has another key or time"
    )]
    NoReplica,
    #[error("it is at another replica of this gateway, which is about to end")]
    Ending,
    #[error("it is at another replica of this gateway, which takes no connection in time")]
    Busy,
    #[error("it is at another replica of this gateway, which closed the connection before the request was sent")]
    NotSent,
    #[error("it is at another replica of this gateway, which did not answer within {0:?}")]
    Late(Duration),
    #[error("it is at another replica of this gateway, whose answer did not arrive")]
    Broken,
    #[error("it is at another replica of this gateway, which refuses it")]
    Refused,
}

impl NotForwarded {
    /// Whether the replica may have taken the request.
    pub(super) fn may_be_done(&self) -> bool {
        matches!(self, Self::Late(_) | Self::Broken)
    }

    /// Whether there seems to be no replica at the address any more.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Unreachable | Self::NoReplica | Self::Ending)
    }

    /// Why the request was not taken, for the client.
    pub(super) fn reason(&self) -> Reason {
        if matches!(self, Self::TooMany) { Reason::ForwardedRequests } else { Reason::NotForwarded }
    }

    /// Whether whoever asks the replica next probably has no answer either.
    pub(super) fn is_silent(&self) -> bool {
        self.is_gone() || matches!(self, Self::Busy | Self::Late(_))
    }

    fn of(error: &Error, is_sent: bool) -> Self {
        if !error.is_connect() {
            return if is_sent { Self::Broken } else { Self::NotSent };
        }
        match error.source().and_then(|source| source.downcast_ref()) {
            Some(NotConnected::Unproved) => Self::NoReplica,
            Some(NotConnected::Ending) => Self::Ending,
            Some(NotConnected::Late) => Self::Busy,
            _ => Self::Unreachable,
        }
    }
}

/// The body of a request, which notes that the request is being sent. Before a connection has taken it, nobody asks for its
/// frames, nor whether it is empty.
pub(super) struct SentBody {
    body: Full<Bytes>,
    is_sent: Arc<AtomicBool>,
}

impl Body for SentBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.is_sent.store(true, Ordering::Relaxed);
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        let is_empty = self.body.is_end_stream();
        if is_empty {
            // The head is the whole request.
            self.is_sent.store(true, Ordering::Relaxed);
        }
        is_empty
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Sends a request to the replica `to`. The head of the response must arrive within `limit`.
pub(super) async fn send<C>(
    client: &Client<C, SentBody>,
    to: SocketAddr,
    request: Request<Bytes>,
    limit: Duration,
) -> Result<Response<Incoming>, NotForwarded>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let is_sent = Arc::new(AtomicBool::new(false));
    let request = request.map(|body| SentBody { body: Full::new(body), is_sent: Arc::clone(&is_sent) });
    let answered = tokio::time::timeout(limit, client.request(request)).await;
    let is_sent = is_sent.load(Ordering::Relaxed);
    answered.map_err(|_| if is_sent { NotForwarded::Late(limit) } else { NotForwarded::Busy })?.map_err(|error| {
        tracing::debug!(replica = %to, "a request could not be forwarded: {}", causes(&error));
        NotForwarded::of(&error, is_sent)
    })
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::io;
    use std::net::Ipv4Addr;

    use hyper::Uri;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tower::service_fn;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    /// Sends a request over the connection that `connect` makes.
    async fn sent<F>(
        connect: impl Fn() -> F + Clone + Send + Sync + 'static,
        body: &'static str,
        limit: Duration,
    ) -> NotForwarded
    where
        F: Future<Output = Result<TcpStream, NotConnected>> + Send + 'static,
    {
        let connector = service_fn(move |_: Uri| {
            let connected = connect();
            Box::pin(async move { connected.await.map(TokioIo::new) })
        });
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let request = Request::post("http://10.0.0.1/").body(Bytes::from_static(body.as_bytes())).unwrap();
        send(&client, ([10, 0, 0, 1], 80).into(), request, limit).await.unwrap_err()
    }

    /// A connection to a server that does this with it.
    async fn to_server<F: Future<Output = ()> + Send + 'static>(
        serve: impl FnOnce(TcpStream) -> F,
    ) -> Result<TcpStream, NotConnected> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let stream = TcpStream::connect(listener.local_addr()?).await?;
        tokio::spawn(serve(listener.accept().await?.0));
        Ok(stream)
    }

    #[tokio::test]
    async fn what_was_surely_not_sent_is_told_from_what_may_be_done() {
        // A replica that is slow to take a connection is not gone, and has got nothing.
        let slow = sent(std::future::pending, "body", Duration::from_millis(50)).await;
        assert!(matches!(slow, NotForwarded::Busy) && !slow.is_gone() && !slow.may_be_done(), "{slow:?}");
        let late = sent(async || Err(NotConnected::Late), "body", SOON).await;
        assert!(matches!(late, NotForwarded::Busy) && !late.is_gone() && !late.may_be_done(), "{late:?}");
        let ending = sent(async || Err(NotConnected::Ending), "body", SOON).await;
        assert!(ending.is_gone() && !ending.may_be_done(), "{ending:?}");
        let refused = async || Err(NotConnected::Io(io::ErrorKind::ConnectionRefused.into()));
        let refused = sent(refused, "body", SOON).await;
        assert!(matches!(refused, NotForwarded::Unreachable) && refused.is_gone(), "{refused:?}");
        let closed = async || {
            let stream = to_server(async |stream| drop(stream)).await?;
            // It has closed the connection before a request is sent over it.
            stream.peek(&mut [0]).await?;
            Ok(stream)
        };
        let closed = sent(closed, "body", SOON).await;
        assert!(!closed.may_be_done() && !closed.is_gone(), "{closed:?}");
        let unable = NotForwarded::Unable;
        assert!(!unable.is_gone() && !unable.is_silent() && !unable.may_be_done(), "the replica has no part in it");
    }

    #[tokio::test]
    async fn a_request_that_was_sent_may_be_done() {
        let reads_and_closes = async || {
            let read = async |mut stream: TcpStream| drop(stream.read(&mut [0; 1024]).await);
            to_server(read).await
        };
        let says_nothing = async || {
            let wait = async |mut stream: TcpStream| {
                let _ = stream.read(&mut [0; 1024]).await;
                std::future::pending().await
            };
            to_server(wait).await
        };
        let says_nonsense = async || {
            let answer = async |mut stream: TcpStream| {
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = stream.write_all(b"nonsense\r\n\r\n").await;
            };
            to_server(answer).await
        };
        for body in ["body", ""] {
            let broken = sent(reads_and_closes, body, SOON).await;
            assert!(matches!(broken, NotForwarded::Broken) && broken.may_be_done(), "{broken:?}");
            let late = sent(says_nothing, body, Duration::from_millis(300)).await;
            assert!(matches!(late, NotForwarded::Late(_)) && late.may_be_done(), "{late:?}");
            let broken = sent(says_nonsense, body, SOON).await;
            assert!(matches!(broken, NotForwarded::Broken) && broken.may_be_done(), "{broken:?}");
        }
    }
}
