//! Connections to everything outside of the gateway: directly, or through the forward proxy that the environment names, and
//! with TLS where the URL says so.

mod address_guard;
mod connector;
mod proxies;
mod proxy_error;
mod resolver;
mod socket;
mod tls;
mod tls_advice;
mod tunnel;

pub use self::address_guard::{AddressGuard, is_metadata};
pub use self::connector::{Connector, HttpVersion, OutboundSettings, authorization, connector};
pub use self::proxies::{Proxies, Proxy};
pub use self::proxy_error::ProxyError;
pub use self::socket::OutboundSocket;
pub use self::tls::TlsSettings;
pub use self::tls_advice::{TlsNames, tls_advice};
pub use self::tunnel::tunnel;
