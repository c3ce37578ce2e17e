//! Certificates and private keys in PEM form.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Returns the certificates of a text.
pub(super) fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if found.is_empty() => Err("has no certificate in PEM form (-----BEGIN CERTIFICATE-----)".to_owned()),
        found => found.map_err(|_| "has a certificate whose PEM form is broken".to_owned()),
    }
}

/// Returns the certificates and the private key of the data of a Secret of type kubernetes.io/tls. The message names the
/// key of the Secret, and shows no value.
pub(super) fn pair(chain: &str, key: &str) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let chain = certificates(chain).map_err(|why| format!("tls.crt {why}"))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|_| "tls.key has no private key in PEM form that can be read".to_owned())?;
    Ok((chain, key))
}
