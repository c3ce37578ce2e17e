//! Connects to another replica of the gateway. A connection carries a forwarded request only after the process at its other
//! end has proved, on this connection, that it has the key of the replicas: an address can belong to another server by now.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header};
use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::Service;

use super::forward_token::{AnswerScope, FORWARD_PATH, FORWARDED, Token, TokenScope};
use crate::engine::Engine;
use crate::transport::{Channel, ReplicaTls};

/// How long a replica may take until the connection is made and it has proved itself.
const CONNECT: Duration = Duration::from_secs(2);

type Socket = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Why there is no connection to a replica.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotConnected {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Http(#[from] hyper::Error),
    #[error("it took longer than {CONNECT:?}")]
    Late,
    #[error("the server at this address does not prove that it is a replica of this gateway")]
    Unproved,
    #[error("the replica is about to end")]
    Ending,
    #[error("the system provides no random numbers")]
    NoRandom,
}

/// Makes connections to replicas.
#[derive(Clone)]
pub(super) struct ReplicaConnector {
    pub(super) engine: Arc<Engine>,
    /// `None` if TLS cannot be set up.
    pub(super) tls: Option<ReplicaTls>,
}

impl Service<Uri> for ReplicaConnector {
    type Response = Socket;
    type Error = NotConnected;
    type Future = Pin<Box<dyn Future<Output = Result<Socket, NotConnected>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NotConnected>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, replica: Uri) -> Self::Future {
        let Self { engine, tls } = self.clone();
        Box::pin(async move {
            let connected = tokio::time::timeout(CONNECT, connect(&engine, tls.as_ref(), &replica)).await;
            connected.unwrap_or(Err(NotConnected::Late))
        })
    }
}

async fn connect(engine: &Engine, tls: Option<&ReplicaTls>, replica: &Uri) -> Result<Socket, NotConnected> {
    let address = replica.authority().and_then(|authority| authority.as_str().parse().ok());
    let address: SocketAddr = address.ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))?;
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    if replica.scheme_str() != Some("https") {
        return proved(engine, address, TokioIo::new(stream).into(), None).await;
    }
    let tls = tls.ok_or_else(|| io::Error::other("TLS cannot be set up"))?;
    let (stream, channel) = tls.begin(address.ip(), stream).await?;
    proved(engine, address, stream, Some(channel)).await
}

/// Asks the server at the other end to answer a token, and returns the connection if it is a replica. `channel` is that of a
/// TLS connection.
async fn proved(
    engine: &Engine,
    to: SocketAddr,
    socket: Socket,
    channel: Option<Channel>,
) -> Result<Socket, NotConnected> {
    let (snapshot, seals, headers) = (engine.in_force.snapshot(), engine.gate.sessions().seals(), HeaderMap::new());
    let gateway = &snapshot.plan().gateway.key;
    let token = Token::new(None, engine.now()).seal(seals, TokenScope { gateway, to, headers: &headers });
    let token = token.ok_or(NotConnected::NoRandom)?;
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.uri_mut() = Uri::from_static(FORWARD_PATH);
    for (name, value) in [(header::HOST, to.to_string()), (FORWARDED, token.clone())] {
        request.headers_mut().insert(name, HeaderValue::try_from(value).map_err(|_| NotConnected::NoRandom)?);
    }
    let (mut sender, mut connection) = http1::handshake(socket).await?;
    let mut answered = pin!(sender.send_request(request));
    let answer = tokio::select! {
        biased;
        answer = answered.as_mut() => answer?,
        ended = poll_fn(|cx| connection.poll_without_shutdown(cx)) => {
            ended?;
            // A connection that closes has ended with its answer.
            answered.now_or_never().ok_or(NotConnected::Unproved)?.map_err(|_| NotConnected::Unproved)?
        }
    };
    let status = StatusCode::NO_CONTENT;
    let is_replica = answer.status() == status
        && AnswerScope { gateway, token: &token, status, channel }.is_sealed(seals, answer.headers());
    if !is_replica {
        return Err(NotConnected::Unproved);
    }
    // It takes no request over this connection any more.
    if answer.headers().get(header::CONNECTION).is_some_and(|said| said == "close") {
        return Err(NotConnected::Ending);
    }
    let parts = connection.into_parts();
    // A replica says nothing before it is asked.
    if parts.read_buf.is_empty() { Ok(parts.io) } else { Err(NotConnected::Unproved) }
}
