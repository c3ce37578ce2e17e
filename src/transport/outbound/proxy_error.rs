//! Why there is no connection through a proxy.

use std::io;

use http::StatusCode;
use tower::BoxError;

/// Why there is no connection through a proxy. No message has a user or a password.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// A variable of the environment does not name an HTTP proxy.
    #[error(
        "{0} is not the URL of an HTTP proxy, such as http://proxy.example.com:3128: correct or unset the variable. \
         Special characters of a user and a password are percent-encoded"
    )]
    Variable(&'static str),
    /// The proxy cannot be reached.
    #[error("the proxy {0} cannot be reached")]
    Unreachable(String, #[source] BoxError),
    /// The proxy took too long.
    #[error("the proxy {0} did not connect to {1} in time")]
    Late(String, String, #[source] io::Error),
    /// The proxy refused the connection.
    #[error("the proxy {0} answered HTTP {2} to CONNECT {1}")]
    Refused(String, String, StatusCode),
    /// The connection to the proxy broke, or the other side is no HTTP proxy.
    #[error("the proxy {0} gave no answer of HTTP")]
    Broken(String, #[source] hyper::Error),
}
