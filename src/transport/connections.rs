//! Accepts, limits and closes connections. A service answers the requests that arrive on them.

use std::borrow::Borrow;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, HttpBody};
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::open_connections::{LOOK_AGAIN, OpenConnection, OpenConnections, StreamBody};
use super::peer::{Handshake, Peer, Plain, begin};

/// The maximum number of connections of a listener that has no setting for it.
pub const MAX_CONNECTIONS: usize = 8192;
/// How long a connection may be open before the headers of its first request have arrived.
const FIRST_HEADERS: Duration = Duration::from_secs(30);
/// How long a client may take to send the headers of a request, and how long a connection may be idle between requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(120);
/// The size of the read buffer in bytes, which also limits the size of the headers.
const READ_BUFFER: usize = 64 * 1024;
/// How long a client may go without accepting any of the bytes sent to it. Until they are accepted, the answer takes up
/// memory in the budget that all clients share.
const STALLED: Duration = Duration::from_secs(30);
/// TCP keep-alive: how long a connection is silent before the first probe, the time between probes, and how many probes
/// may go unanswered.
const KEEP_ALIVE: (Duration, Duration, u32) = (Duration::from_secs(60), Duration::from_secs(10), 3);
/// How long to wait after a connection could not be accepted, for example because the process is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The shortest time between two lines in the log about the maximum.
const TOLD_AGAIN: Duration = Duration::from_secs(60);

/// Stands for a local address that the system does not tell.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// What answers requests. Each connection has a clone of it.
pub trait HttpService:
    Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Clone + Send + Sync + 'static
{
}

impl<S> HttpService for S where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// The bounds of the connections of a listener.
pub trait ConnectionBounds: Send {
    /// Returns the maximum number of connections, which can change.
    fn most(&self) -> usize;

    /// Counts a second in which there are as many connections as may be.
    fn is_full(&self) {}
}

impl<F: Fn() -> usize + Send> ConnectionBounds for F {
    fn most(&self) -> usize {
        self()
    }
}

/// Tells about a listener that has as many connections as it may: at most once a second by a count, at most once a minute in
/// the log.
#[derive(Default)]
struct FullTold {
    counted: Option<Instant>,
    logged: Option<Instant>,
}

impl FullTold {
    fn tell(&mut self, bounds: &impl ConnectionBounds, listener: &TcpListener, open: usize) {
        let is_due = |last: Option<Instant>, pause: Duration| last.is_none_or(|last| last.elapsed() >= pause);
        if is_due(self.counted, LOOK_AGAIN) {
            self.counted = Some(Instant::now());
            bounds.is_full();
        }
        if is_due(self.logged, TOLD_AGAIN) {
            self.logged = Some(Instant::now());
            let address = listener.local_addr().unwrap_or(NOWHERE);
            tracing::warn!(
                %address,
                open,
                "as many connections are open as may be (limits.maxConnections of MCP endpoints): further ones wait"
            );
        }
    }
}

/// Serves `service` on `listener` until `shutdown` is cancelled. After that, accepts no further connections, lets
/// answers in progress finish, and returns when the last connection is closed. A connection without a request still has
/// a second to send its first one, and one that got an answer a moment ago has as long for its next one. Dropping the future
/// closes all connections immediately. Connections beyond `bounds` wait to be accepted, for which idle ones give way.
pub async fn serve(
    listener: TcpListener,
    service: impl HttpService,
    bounds: impl ConnectionBounds,
    shutdown: CancellationToken,
) {
    serve_over(Plain, listener, service, bounds, shutdown).await;
}

/// Like [`serve`], over connections that begin with a handshake. `listener` can be shared: it accepts no connection after
/// `shutdown`.
pub async fn serve_over(
    handshake: impl Handshake,
    listener: impl Borrow<TcpListener> + Send,
    service: impl HttpService,
    bounds: impl ConnectionBounds,
    shutdown: CancellationToken,
) {
    serve_within(FIRST_HEADERS, handshake, listener, service, bounds, shutdown).await;
}

/// Like [`serve_over`]. The headers of the first request of a connection must arrive within `first_headers`.
async fn serve_within(
    first_headers: Duration,
    handshake: impl Handshake,
    listener: impl Borrow<TcpListener> + Send,
    service: impl HttpService,
    bounds: impl ConnectionBounds,
    shutdown: CancellationToken,
) {
    let (mut connections, mut open, mut told) = (JoinSet::new(), OpenConnections::default(), FullTold::default());
    loop {
        let most = bounds.most();
        let is_full = open.len() >= most;
        if is_full {
            told.tell(&bounds, listener.borrow(), open.len());
        }
        let look_again = if is_full { open.make_room(most, Instant::now()) } else { LOOK_AGAIN };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(ended) = connections.join_next_with_id() => {
                open.remove(ended.map_or_else(|panicked| panicked.id(), |(task, ())| task));
            }
            () = tokio::time::sleep(look_again), if is_full => {}
            accepted = listener.borrow().accept(), if !is_full => match accepted {
                Ok((stream, remote)) => {
                    // If the system does not report the local address, the connection counts as not on loopback.
                    let local = stream.local_addr().unwrap_or(NOWHERE);
                    let peer = Peer { remote, local };
                    let (service, shutdown) = (service.clone(), shutdown.clone());
                    let connection = OpenConnection::new(remote.ip());
                    let (handshake, opened) = (handshake.clone(), Arc::clone(&connection));
                    let served = async move {
                        serve_connection(&handshake, stream, peer, service, first_headers, shutdown, opened).await;
                    };
                    open.add(connections.spawn(served).id(), connection);
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Makes the kernel close the connection of a client that is gone, and, on Linux, of a client that accepts none of the
/// bytes sent to it for `stalled` (RFC 9293, 3.8.3; RFC 1122, 4.2.3.6). A window of zero bytes counts as accepting
/// none.
fn end_where_dead(stream: &TcpStream, stalled: Duration) -> io::Result<()> {
    let (idle, interval, count) = KEEP_ALIVE;
    sockopt::set_socket_keepalive(stream, true)?;
    #[cfg(target_os = "linux")]
    {
        sockopt::set_tcp_keepidle(stream, idle)?;
        sockopt::set_tcp_keepintvl(stream, interval)?;
        sockopt::set_tcp_keepcnt(stream, count)?;
        sockopt::set_tcp_user_timeout(stream, u32::try_from(stalled.as_millis()).unwrap_or(u32::MAX))?;
    }
    Ok(())
}

/// Returns the answer that is given on a connection. Where it is a stream, the connection is idle after its last byte. One of a
/// known size is at hand as a whole, and the connection counts as idle from here on: it may be told to give way while the
/// client still reads, which cuts nothing off, but frees its place only when all is written.
async fn answered_on(
    answered: impl Future<Output = Result<Response, Infallible>>,
    connection: Arc<OpenConnection>,
) -> Result<Response, Infallible> {
    let answer = answered.await?;
    if answer.body().size_hint().exact().is_none() {
        return Ok(answer.map(|body| Body::new(StreamBody { body, connection })));
    }
    connection.activity.end();
    Ok(answer)
}

fn prepare(stream: &TcpStream) {
    // Answers are written in one piece, so waiting for more data before sending a packet would only delay them.
    let _ = stream.set_nodelay(true);
    if let Err(error) = end_where_dead(stream, STALLED) {
        tracing::debug!(%error, "a connection has no deadline for its client to read");
    }
}

fn http() -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(READ_BUFFER);
    http
}

async fn serve_connection(
    handshake: &impl Handshake,
    stream: TcpStream,
    peer: Peer,
    service: impl HttpService,
    first_headers: Duration,
    shutdown: CancellationToken,
    open: Arc<OpenConnection>,
) {
    let activity = &open.activity;
    let mut silence = pin!(activity.silence(first_headers));
    let mut must_end = pin!(async {
        tokio::select! {
            () = open.gives_way.cancelled() => {}
            () = shutdown.cancelled() => activity.next_request().await,
        }
    });
    prepare(&stream);
    let ends = async {
        tokio::select! { () = silence.as_mut() => {}, () = must_end.as_mut() => {} }
    };
    let Some((stream, channel)) = begin(handshake, stream, ends).await else { return };
    let of_peer = service_fn(|mut request: Request<_>| {
        request.extensions_mut().insert(peer);
        channel.map(|channel| request.extensions_mut().insert(channel));
        open.activity.begin();
        answered_on(service.call(request), Arc::clone(&open))
    });
    let mut connection = pin!(http().serve_connection(TokioIo::new(stream), of_peer));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = silence => {
            tracing::debug!("a connection was closed on which no request came");
            return;
        }
        () = must_end => {
            if !activity.had_request() {
                tracing::debug!("a connection was closed whose first request was not complete");
                return;
            }
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use axum::Router;
    use hyper_util::service::TowerToHyperService;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn says_ok() -> impl HttpService {
        TowerToHyperService::new(Router::new().fallback(|| async { "ok" }))
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_let_go() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        end_where_dead(&stream, Duration::from_millis(300)).unwrap();
        let (answer, most) = (vec![0; 64 << 20], Duration::from_secs(60));
        let written = tokio::time::timeout(most, stream.write_all(&answer)).await.expect("it waits on");
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_request_that_follows_an_answer_is_answered_although_the_listener_closes() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (router, shutdown) = (says_ok(), CancellationToken::new());
        let served = tokio::spawn(serve(listener, router, || 1, shutdown.clone()));
        let mut client = TcpStream::connect(address).await.unwrap();
        for _ in 0..2 {
            client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"ok") {
                assert_ne!(client.read_buf(&mut answer).await.unwrap(), 0, "the connection was closed");
            }
            shutdown.cancel();
            // The server takes note of that before the next request comes.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        served.await.unwrap();
    }

    #[tokio::test]
    async fn a_connection_beyond_the_maximum_waits_for_the_end_of_another() {
        const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = says_ok();
        let served = tokio::spawn(serve(listener, router, || 1, CancellationToken::new()));
        let mut byte = [0];
        let mut first = TcpStream::connect(address).await.unwrap();
        first.write_all(REQUEST).await.unwrap();
        first.read_exact(&mut byte).await.unwrap();
        let mut second = TcpStream::connect(address).await.unwrap();
        second.write_all(REQUEST).await.unwrap();
        let waits = tokio::time::timeout(Duration::from_millis(100), second.read_exact(&mut byte)).await;
        assert!(waits.is_err(), "{waits:?}");
        drop(first);
        second.read_exact(&mut byte).await.unwrap();
        served.abort();
    }

    #[derive(Default)]
    struct One(std::sync::Arc<std::sync::atomic::AtomicUsize>);

    impl ConnectionBounds for One {
        fn most(&self) -> usize {
            1
        }

        fn is_full(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn ends(stream: &mut TcpStream) -> bool {
        let end = tokio::time::timeout(HEADER_TIMEOUT / 4, stream.read(&mut [0])).await;
        matches!(end, Ok(Ok(0) | Err(_)))
    }

    #[tokio::test]
    async fn a_connection_without_a_request_ends_soon_and_a_full_listener_is_counted() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (address, bounds) = (listener.local_addr().unwrap(), One::default());
        let full = std::sync::Arc::clone(&bounds.0);
        let router = says_ok();
        let first_headers = Duration::from_millis(100);
        let served =
            tokio::spawn(serve_within(first_headers, Plain, listener, router, bounds, CancellationToken::new()));
        let mut silent = TcpStream::connect(address).await.unwrap();
        assert!(ends(&mut silent).await);
        assert!(full.load(Ordering::Relaxed) > 0);
        let mut slow = TcpStream::connect(address).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        assert!(ends(&mut slow).await);
        served.abort();
    }

    #[tokio::test]
    async fn a_connection_that_had_a_request_may_be_idle_for_longer() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = says_ok();
        let first_headers = Duration::from_millis(200);
        let served = tokio::spawn(serve_within(first_headers, Plain, listener, router, || 9, CancellationToken::new()));
        let mut used = TcpStream::connect(address).await.unwrap();
        for _ in 0..2 {
            used.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"ok") {
                let mut part = [0; 256];
                let read = used.read(&mut part).await.unwrap();
                assert!(read > 0, "it ended");
                answer.extend_from_slice(&part[..read]);
            }
            tokio::time::sleep(2 * first_headers).await;
        }
        served.abort();
    }
}
