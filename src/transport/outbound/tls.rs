//! TLS of outbound connections: the authorities to trust, and the certificate of the gateway.

use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt;
use rustls::{ClientConfig, RootCertStore};

use crate::transport::pem::{certificates, pair};

/// The certificates of a connection, as PEM.
#[derive(Clone, Copy, Debug, Default)]
pub struct TlsSettings<'a> {
    /// The authorities to trust; `None` means those of the machine, or of `SSL_CERT_FILE`.
    pub authorities: Option<&'a str>,
    /// The certificate that the gateway shows, with those of its issuers, and its key.
    pub client: Option<(&'a str, &'a str)>,
    /// The name that the server's certificate must have; `None` means the host of the URL.
    pub server_name: Option<&'a str>,
}

/// Returns the configuration. Without settings it trusts nobody.
///
/// # Errors
/// If the certificates cannot be used. The message has no key.
pub(super) fn client_config(settings: Option<TlsSettings<'_>>) -> Result<ClientConfig, String> {
    let of_client = |why: String| format!("clientCertificateSecretRef: {why}");
    let client = settings.and_then(|settings| settings.client).map(|(chain, key)| pair(chain, key).map_err(of_client));
    let client = client.transpose()?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    let builder = match settings.map(|settings| settings.authorities) {
        None => builder.with_root_certificates(RootCertStore::empty()),
        Some(Some(pem)) => builder.with_root_certificates(authorities(pem)?),
        Some(None) => builder
            .with_native_roots()
            .map_err(|error| format!("this machine's root certificates cannot be read: {error}"))?,
    };
    let Some((chain, key)) = client else { return Ok(builder.with_no_client_auth()) };
    let certified = builder.with_client_auth_cert(chain, key);
    certified.map_err(|error| format!("clientCertificateSecretRef: tls.crt and tls.key cannot be used: {error}"))
}

/// Returns the authorities of a bundle. Bundles of machines have some that cannot be used; one must be left.
fn authorities(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let certificates = certificates(pem).map_err(|why| format!("caRef: the value {why}"))?;
    match roots.add_parsable_certificates(certificates) {
        (0, _) => Err("caRef: no certificate of the value can be read as X.509".to_owned()),
        _ => Ok(roots),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_that_cannot_be_used_are_named_and_no_key_is_shown() {
        let (none, broken) = ("hunter2", "-----BEGIN CERTIFICATE-----\nhunter2!\n-----END CERTIFICATE-----\n");
        let no_x509 = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
        let ca = |pem| TlsSettings { authorities: Some(pem), ..TlsSettings::default() };
        let client = |pem, key| TlsSettings { client: Some((pem, key)), ..TlsSettings::default() };
        for (settings, words) in [
            (ca(none), "caRef: the value has no certificate"),
            (ca(broken), "caRef: the value has a certificate whose PEM form is broken"),
            (ca(no_x509), "caRef: no certificate"),
            (client(none, none), "clientCertificateSecretRef: tls.crt has no"),
            (client(no_x509, none), "clientCertificateSecretRef: tls.key has no private key"),
        ] {
            let why = client_config(Some(settings)).unwrap_err();
            assert!(why.starts_with(words) && !why.contains("hunter2"), "{why}");
        }
    }
}
