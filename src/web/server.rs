//! Connections: accepted, bounded, closed. What they carry is the router's.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The most connections of one listener; more wait to be accepted.
const MAX_CONNECTIONS: usize = 8192;
/// How long a client may take to send its headers, and how long a connection may idle between requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(120);
/// The most bytes of headers, and what is read at once.
const READ_BUFFER: usize = 64 * 1024;
/// How long to wait after the system had no more descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The address of no socket.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The two ends of the connection that a request came by; in its extensions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// Where it came from.
    pub(super) remote: SocketAddr,
    /// Where it arrived.
    pub(super) local: SocketAddr,
}

impl Peer {
    /// Whether it came from this machine, and to a loopback address: what comes in by another one from loopback was
    /// passed on by a proxy beside us, for whomever.
    pub(super) fn is_here(&self) -> bool {
        [self.remote, self.local].iter().all(|address| address.ip().to_canonical().is_loopback())
    }
}

/// Serves `router` on `listener` until `shutdown`; then accepts nothing more, lets answers under way end, and returns
/// when the last connection is closed. Dropping the future closes all connections at once.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            let permit = Arc::clone(&permits).acquire_owned().await.ok();
            (permit, listener.accept().await)
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => {}
            (permit, accepted) = accepted => match accepted {
                Ok((stream, remote)) => {
                    // Where the system does not say where a connection arrived, it was not on loopback.
                    let local = stream.local_addr().unwrap_or(NOWHERE);
                    let peer = Peer { remote, local };
                    let served = serve_connection(stream, peer, router.clone(), shutdown.clone());
                    connections.spawn(async move {
                        let _permit = permit;
                        served.await;
                    });
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

async fn serve_connection(stream: TcpStream, peer: Peer, router: Router, shutdown: CancellationToken) {
    // Answers are small and whole: waiting to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(READ_BUFFER);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<_>| {
        request.extensions_mut().insert(peer);
        router.call(request)
    });
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}
