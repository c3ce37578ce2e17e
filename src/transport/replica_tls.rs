//! TLS to another replica, which is known by an address only. Any certificate is taken: during a renewal, replicas have
//! different ones. What the caller sends first must prove the other end with the channel.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs::default_provider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, Error, PeerIncompatible, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::listener_tls::channel;
use super::peer::Channel;

/// Connects to replicas whose listeners serve HTTPS.
#[derive(Clone)]
pub struct ReplicaTls(TlsConnector);

impl ReplicaTls {
    /// Creates it.
    ///
    /// # Errors
    /// If the library cannot be set up.
    pub fn new() -> Result<Self, Error> {
        let provider = default_provider();
        let any = AnyCertificate(provider.signature_verification_algorithms);
        let config = ClientConfig::builder_with_provider(Arc::new(provider)).with_protocol_versions(&[&TLS13])?;
        let config = config.dangerous().with_custom_certificate_verifier(Arc::new(any)).with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Begins TLS on a connection. Returns it with its channel.
    ///
    /// # Errors
    /// If the server at the other end does not speak TLS 1.3.
    pub async fn begin(
        &self,
        to: IpAddr,
        socket: TcpStream,
    ) -> io::Result<(MaybeHttpsStream<TokioIo<TcpStream>>, Channel)> {
        let socket = TokioIo::new(TokioIo::new(socket));
        let stream = self.0.connect(ServerName::IpAddress(to.into()), socket).await?;
        let channel = channel(stream.get_ref().1).ok_or_else(|| io::Error::other("TLS has no channel binding"))?;
        Ok((stream.into(), channel))
    }
}

/// Takes every certificate, and checks that the other end has its key.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
