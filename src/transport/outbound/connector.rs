//! The connector of an HTTP client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Uri};
use hyper_rustls::{DefaultServerNameResolver, FixedServerNameResolver, HttpsConnector, ResolveServerName};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tower::{BoxError, Service, ServiceExt};

use super::address_guard::AddressGuard;
use super::proxies::Proxies;
use super::resolver::GuardedResolver;
use super::socket::OutboundSocket;
use super::tls::{TlsSettings, client_config};
use super::tunnel::{connect, tcp_with, tunnel};

/// A connector for `http` and `https` URLs.
pub type Connector = HttpsConnector<ProxyConnector>;

/// The version of HTTP that connections carry. Proxies forward only HTTP/1.1, and relay the bytes of HTTP/2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2.
    Http2,
}

/// How connections are made.
#[derive(Clone, Debug, Default)]
pub struct OutboundSettings<'a> {
    /// The version of HTTP.
    pub version: HttpVersion,
    /// The certificates; `None` if no URL is `https`. A machine without root certificates then needs none.
    pub tls: Option<TlsSettings<'a>>,
    /// The maximum time for a connection, without TLS; `None` means the system's.
    pub connect_timeout: Option<Duration>,
    /// Checks the host, and each address that its name has; `None` if whoever chose the URL may name any.
    pub guard: Option<AddressGuard>,
}

/// Returns a connector. It does not connect yet.
///
/// # Errors
/// If the certificates or the name of the server cannot be used. The message names the setting.
pub fn connector(settings: OutboundSettings<'_>) -> Result<Connector, String> {
    let mut config = client_config(settings.tls)?;
    if settings.version == HttpVersion::Http2 {
        config.alpn_protocols = vec![b"h2".to_vec()];
    }
    let resolver: Arc<dyn ResolveServerName + Send + Sync> = match settings.tls.and_then(|tls| tls.server_name) {
        None => Arc::new(DefaultServerNameResolver::default()),
        Some(name) => {
            let name = ServerName::try_from(name.to_owned());
            let name = name.map_err(|_| "serverName is not the name of a host: correct it".to_owned())?;
            Arc::new(FixedServerNameResolver::new(name))
        }
    };
    let OutboundSettings { connect_timeout: limit, version, guard, .. } = settings;
    let connector = ProxyConnector { limit, version, guard };
    Ok(HttpsConnector::new(connector, config, false, resolver))
}

/// Returns the value of `Proxy-Authorization` for requests to `uri`, if a proxy forwards them. The requests themselves carry
/// it then.
pub fn authorization(uri: &Uri) -> Option<HeaderValue> {
    let host = uri.host().filter(|_| uri.scheme_str() == Some("http"))?;
    Proxies::of_environment().forwarding(host).ok()??.authorization
}

/// Connects to the host of a URL, directly or through the proxy for it.
#[derive(Clone, Debug)]
pub struct ProxyConnector {
    limit: Option<Duration>,
    version: HttpVersion,
    guard: Option<AddressGuard>,
}

impl ProxyConnector {
    async fn connect(self, uri: Uri) -> Result<TokioIo<OutboundSocket>, BoxError> {
        let (proxies, host) = (Proxies::of_environment(), uri.host().unwrap_or_default());
        let is_plain = uri.scheme_str() == Some("http");
        let port = uri.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
        let forwards = is_plain && self.version == HttpVersion::Http1;
        let proxy = if forwards { proxies.forwarding(host)? } else { proxies.tunnelling(host)? };
        self.guard.as_ref().map_or(Ok(()), |guard| guard.check_host(host, port, proxy.is_some()))?;
        let socket = match proxy {
            None => {
                let resolver = GuardedResolver { guard: self.guard, port };
                OutboundSocket::direct(tcp_with(resolver, self.limit).oneshot(uri).await?.into_inner())
            }
            Some(proxy) if forwards => OutboundSocket::forwarded(connect(&proxy, self.limit).await?.into_inner()),
            Some(proxy) => tunnel(&proxy, &format!("{host}:{port}"), self.limit).await?,
        };
        Ok(TokioIo::new(socket))
    }
}

impl Service<Uri> for ProxyConnector {
    type Response = TokioIo<OutboundSocket>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}
