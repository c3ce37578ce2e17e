//! What to do about errors of TLS.

use std::error::Error;
use std::io;

use rustls::{CertificateError, InvalidMessage};

/// The settings of a connection, as users write them.
#[derive(Clone, Copy, Debug)]
pub struct TlsNames {
    authorities: &'static str,
    host: &'static str,
}

impl TlsNames {
    /// The settings of an upstream.
    pub const UPSTREAM: Self = Self {
        authorities: "the object that external.tls.caRef names",
        host: "external.url or external.tls.serverName",
    };
    /// Those of an issuer, of a model and of a receiver of traces, which have no settings of TLS of their own.
    pub const SYSTEM: Self =
        Self { authorities: "the file that SSL_CERT_FILE in the gateway's environment names", host: "the URL" };
    /// Those of a database.
    pub const DATABASE: Self =
        Self { authorities: "the file that sslrootcert in the database's URL names", host: "the database's URL" };
}

/// Returns what to do about an error of TLS, as a sentence that follows the message; empty for any other error.
pub fn tls_advice(error: &(dyn Error + 'static), names: TlsNames) -> String {
    let TlsNames { authorities, host } = names;
    match tls_error(error) {
        Some(rustls::Error::InvalidCertificate(fault)) => match fault {
            CertificateError::UnknownIssuer => {
                format!(". The gateway does not trust the issuer of this certificate: put the issuer's certificate into {authorities}")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!(". Write a name of the certificate into {host}, or give the server a certificate for this name")
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                ". Renew the certificate of the server, or correct the clock of this machine".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                ". Correct the clock of this machine or of the one that made the certificate".to_owned()
            }
            // The library names this fault in its debug form alone.
            fault if format!("{fault:?}").contains("CaUsedAsEndEntity") => {
                ". The server shows the certificate of an authority: give it one that the authority issued (`CA:FALSE`)"
                    .to_owned()
            }
            _ => String::new(),
        },
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            ". The server answers without TLS at this port: name its port for TLS, or write http:// in the place of https://"
                .to_owned()
        }
        _ => String::new(),
    }
}

/// Returns the error of TLS that caused `error`, if one did. An IO error hides the error in it from `source`.
fn tls_error<'e>(mut error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    loop {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        error = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => inner,
            None => error.source()?,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::OtherError;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Connect(#[source] io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("the certificate is one of an authority")]
    struct CaUsedAsEndEntity;

    #[test]
    fn each_error_says_what_to_set() {
        let certificate = |fault| rustls::Error::InvalidCertificate(fault);
        let (upstream, system, database) = (TlsNames::UPSTREAM, TlsNames::SYSTEM, TlsNames::DATABASE);
        for (error, names, advice) in [
            (certificate(CertificateError::UnknownIssuer), upstream, "external.tls.caRef"),
            (certificate(CertificateError::UnknownIssuer), system, "SSL_CERT_FILE"),
            (certificate(CertificateError::UnknownIssuer), database, "sslrootcert"),
            (certificate(CertificateError::NotValidForName), upstream, "external.url or external.tls.serverName"),
            (certificate(CertificateError::NotValidForName), database, "into the database's URL"),
            (certificate(CertificateError::Expired), upstream, "Renew the certificate"),
            (certificate(CertificateError::NotValidYet), upstream, "clock"),
            (rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType), system, "without TLS at this port"),
            (certificate(CertificateError::Other(OtherError(Arc::new(CaUsedAsEndEntity)))), upstream, "CA:FALSE"),
            (certificate(CertificateError::Revoked), upstream, ""),
        ] {
            let nested = Connect(io::Error::other(io::Error::new(io::ErrorKind::InvalidData, error.clone())));
            let said = [tls_advice(&nested, names), tls_advice(&error, names)];
            assert!(said[0].contains(advice) && said[0].is_empty() == advice.is_empty(), "{error}: {said:?}");
            assert_eq!(said[0], said[1], "wherever the error is");
        }
        assert_eq!(tls_advice(&Connect(io::ErrorKind::ConnectionRefused.into()), upstream), "");
    }
}
