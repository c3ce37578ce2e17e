//! Connections through a proxy that relays bytes (RFC 9110, 9.3.6, CONNECT).

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::upgrade::{self, Upgraded};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::GaiResolver;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower::ServiceExt;

use super::proxies::Proxy;
use super::proxy_error::ProxyError;
use super::socket::OutboundSocket;

/// The idle time before TCP sends keepalive probes, the interval between probes, and their number. Event streams can be idle
/// for long, and middleboxes drop idle connections without notice.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;

/// Connects through `proxy` to `target`, which is a host and a port, within `limit`.
///
/// # Errors
/// The reason why there is no connection.
pub async fn tunnel(proxy: &Proxy, target: &str, limit: Option<Duration>) -> Result<OutboundSocket, ProxyError> {
    let name = proxy.name();
    let connecting = async {
        let socket = connect(proxy, limit).await?;
        ask(socket, proxy, target).await
    };
    let limit = limit.unwrap_or(Duration::MAX);
    let late = |_| ProxyError::Late(name.clone(), target.to_owned(), io::ErrorKind::TimedOut.into());
    timeout(limit, connecting).await.map_err(late)?.map(OutboundSocket::tunnel)
}

/// Connects to the proxy itself.
pub(super) async fn connect(proxy: &Proxy, limit: Option<Duration>) -> Result<TokioIo<TcpStream>, ProxyError> {
    let connected = tcp_with(GaiResolver::new(), limit).oneshot(proxy.uri.clone()).await;
    connected.map_err(|error| ProxyError::Unreachable(proxy.name(), error.into()))
}

/// Returns a connector of TCP for any URL.
pub(super) fn tcp_with<R>(resolver: R, limit: Option<Duration>) -> HttpConnector<R> {
    let mut tcp = HttpConnector::new_with_resolver(resolver);
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    tcp.set_connect_timeout(limit);
    tcp
}

/// Asks the proxy for a connection to the target.
async fn ask(socket: TokioIo<TcpStream>, proxy: &Proxy, target: &str) -> Result<Upgraded, ProxyError> {
    let broken = |error| ProxyError::Broken(proxy.name(), error);
    let (mut sender, connection) = http1::handshake(socket).await.map_err(broken)?;
    tokio::spawn(connection.with_upgrades());
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.method_mut() = Method::CONNECT;
    let invalid = || ProxyError::Refused(proxy.name(), target.to_owned(), StatusCode::BAD_REQUEST);
    *request.uri_mut() = target.parse::<Uri>().map_err(|_| invalid())?;
    let headers = request.headers_mut();
    headers.insert(HOST, target.parse().map_err(|_| invalid())?);
    headers.extend(proxy.authorization.clone().map(|value| (PROXY_AUTHORIZATION, value)));
    let response = sender.send_request(request).await.map_err(broken)?;
    if !response.status().is_success() {
        return Err(ProxyError::Refused(proxy.name(), target.to_owned(), response.status()));
    }
    upgrade::on(response).await.map_err(broken)
}
