//! The other end of a connection, and what comes before HTTP on it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::http::Extensions;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// The two ends of a request's connection, stored in the request's extensions.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The address that the connection came from.
    pub remote: SocketAddr,
    /// The local address at which the connection arrived.
    pub local: SocketAddr,
}

impl Peer {
    /// Whether the connection came from this machine, and arrived at a loopback address. A connection that came from
    /// loopback but arrived at another address comes from a local proxy, which may act for any client.
    pub fn is_here(&self) -> bool {
        [self.remote, self.local].iter().all(|address| address.ip().to_canonical().is_loopback())
    }
}

/// Returns the address that a request came from, by its extensions.
pub fn peer_address(extensions: &Extensions) -> IpAddr {
    extensions.get().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer: &Peer| peer.remote.ip())
}

/// What only the two ends of a TLS connection know (RFC 9266, `tls-exporter`), stored in the extensions of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel(pub [u8; 32]);

/// What comes before HTTP on a connection.
pub trait Handshake: Clone + Send + Sync + 'static {
    /// The stream that carries HTTP.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Returns the stream, and its channel if it is TLS.
    ///
    /// # Errors
    /// If the client does not do its part.
    fn shake(&self, socket: TcpStream) -> impl Future<Output = io::Result<(Self::Stream, Option<Channel>)>> + Send;
}

/// Returns the stream that carries HTTP, and its channel; `None` if the handshake fails, or if the connection `ends` before it
/// has succeeded.
pub(super) async fn begin<H: Handshake>(
    handshake: &H,
    socket: TcpStream,
    ends: impl Future<Output = ()>,
) -> Option<(H::Stream, Option<Channel>)> {
    let shaken = tokio::select! {
        shaken = handshake.shake(socket) => shaken,
        () = ends => Err(io::ErrorKind::TimedOut.into()),
    };
    shaken.inspect_err(|error| tracing::debug!(%error, "a connection was closed during its handshake")).ok()
}

/// HTTP without TLS.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Handshake for Plain {
    type Stream = TcpStream;

    async fn shake(&self, socket: TcpStream) -> io::Result<(TcpStream, Option<Channel>)> {
        Ok((socket, None))
    }
}
