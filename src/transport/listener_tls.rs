//! TLS of a listener. Its certificate can be replaced while connections are open, which keep the one that they began with.

use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ConnectionCommon, Error, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::peer::{Channel, Handshake};
use super::pem::pair;

/// The protocol of HTTP that listeners speak (RFC 7301).
const HTTP: &[u8] = b"http/1.1";

/// The certificate and the settings of a listener's connections. Clones share the certificate.
#[derive(Clone)]
pub struct ListenerTls {
    acceptor: TlsAcceptor,
    certificate: Arc<Certificate>,
}

/// The certificate that new connections get.
#[derive(Debug)]
struct Certificate(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

impl ListenerTls {
    /// Creates the settings with a certificate and its key, as PEM.
    ///
    /// # Errors
    /// If they cannot be read, or do not belong together. The message names `tls.crt` or `tls.key`, and shows no value.
    pub fn new(chain: &str, key: &str) -> Result<Self, String> {
        let certificate = Arc::new(Certificate(ArcSwap::new(certified(chain, key)?)));
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&certificate) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![HTTP.to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), certificate })
    }

    /// Replaces the certificate for new connections. Returns whether it is another one than before.
    ///
    /// # Errors
    /// As [`Self::new`]. The certificate is then kept.
    pub fn replace(&self, chain: &str, key: &str) -> Result<bool, String> {
        let next = certified(chain, key)?;
        let is_other = self.certificate.0.load().cert != next.cert;
        self.certificate.0.store(next);
        Ok(is_other)
    }
}

/// Whether both are of one listener: what replaces the certificate of one does so for the other.
impl PartialEq for ListenerTls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.certificate, &other.certificate)
    }
}

fn certified(chain: &str, key: &str) -> Result<Arc<CertifiedKey>, String> {
    let (chain, key) = pair(chain, key)?;
    let certified = CertifiedKey::from_der(chain, key, &default_provider());
    certified.map(Arc::new).map_err(|error| match error {
        Error::InconsistentKeys(_) => "tls.key is not the key of the first certificate in tls.crt".to_owned(),
        error => format!("tls.crt and tls.key cannot be used: {error}"),
    })
}

impl Handshake for ListenerTls {
    type Stream = TlsStream<TcpStream>;

    async fn shake(&self, socket: TcpStream) -> io::Result<(Self::Stream, Option<Channel>)> {
        let stream = self.acceptor.accept(socket).await?;
        let channel = channel(stream.get_ref().1);
        Ok((stream, channel))
    }
}

/// Returns the channel of a connection (RFC 9266, 2).
pub(super) fn channel<D>(connection: &ConnectionCommon<D>) -> Option<Channel> {
    connection.export_keying_material([0; 32], b"EXPORTER-Channel-Binding", Some(b"")).ok().map(Channel)
}
