//! Connects to a host that a plugin names, if the plugin may reach it. A name is resolved once, and what was judged is
//! what is dialled: a name that changes its mind in between gains nothing.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::reachability::lets_reach;
use crate::domain::egress::EgressRule;

/// The deadline of the lookup and all attempts together.
const DEADLINE: Duration = Duration::from_secs(10);
/// The deadline of one address, so that the next one is tried.
const ATTEMPT: Duration = Duration::from_secs(3);
/// Addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

/// Why there is no connection, or no more.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// No entry names the host and the port.
    #[error("the plugin's egress does not list it")]
    NotListed,
    /// It resolves to an address that is not public, and that no entry names.
    #[error("it resolves to an address that is not public and that the plugin's egress does not list as such")]
    NotPublic,
    /// The name is not known.
    #[error("its name cannot be resolved")]
    Unresolved,
    /// It did not let itself be connected to.
    #[error("it cannot be reached: {0}")]
    Unreachable(io::ErrorKind),
    /// As many connections as a worker may have are open.
    #[error("the worker has {0} connections, as many as it may have")]
    TooMany(usize),
    /// More bytes than a call may send and receive.
    #[error("the call has sent and received more than {0} bytes")]
    TooLarge(u64),
    /// It was connected, and broke.
    #[error("the connection was lost: {0}")]
    Lost(io::ErrorKind),
}

impl DialError {
    /// The metric label.
    pub fn as_label(&self) -> &'static str {
        match self {
            Self::NotListed => "not_listed",
            Self::NotPublic => "not_public",
            Self::Unresolved => "unresolved",
            Self::Unreachable(_) => "unreachable",
            Self::TooMany(_) => "too_many",
            Self::TooLarge(_) => "too_large",
            Self::Lost(_) => "lost",
        }
    }

    /// The code of Node's error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotListed | Self::NotPublic => "EACCES",
            Self::Unresolved => "ENOTFOUND",
            Self::Unreachable(io::ErrorKind::ConnectionRefused) => "ECONNREFUSED",
            Self::Unreachable(io::ErrorKind::TimedOut) => "ETIMEDOUT",
            Self::Unreachable(_) => "EHOSTUNREACH",
            Self::TooMany(_) => "EMFILE",
            Self::TooLarge(_) => "EMSGSIZE",
            Self::Lost(_) => "ECONNRESET",
        }
    }

    /// Whether the plugin did what it may not.
    pub fn is_denial(&self) -> bool {
        matches!(self, Self::NotListed | Self::NotPublic)
    }
}

/// Connects to `host`, if one of `rules` lets it. `lookups` bounds how many names are resolved at once.
///
/// # Errors
/// Why not.
pub async fn dial(
    rules: &[EgressRule],
    lookups: &Arc<Semaphore>,
    host: &str,
    port: u16,
) -> Result<TcpStream, DialError> {
    let rules: Vec<_> = rules.iter().filter(|rule| rule.matches(host, port)).collect();
    if rules.is_empty() {
        return Err(DialError::NotListed);
    }
    let dialling = async {
        let found = resolve(lookups, host, port).await.ok_or(DialError::Unresolved)?;
        connect(permitted(&rules, found.into_iter())?).await
    };
    timeout(DEADLINE, dialling).await.unwrap_or(Err(DialError::Unreachable(io::ErrorKind::TimedOut)))
}

/// The addresses of a name. A lookup that nobody waits for any more still counts until it ends.
async fn resolve(lookups: &Arc<Semaphore>, host: &str, port: u16) -> Option<Vec<SocketAddr>> {
    if let Ok(address) = host.parse() {
        return Some(vec![SocketAddr::new(address, port)]);
    }
    let (right, host) = (Arc::clone(lookups).acquire_owned().await.ok()?, host.to_owned());
    let looking = tokio::task::spawn_blocking(move || {
        let _right = right;
        (host, port).to_socket_addrs().map(Iterator::collect)
    });
    looking.await.ok()?.ok()
}

/// Those of the addresses that one of the rules lets a plugin reach.
fn permitted(rules: &[&EgressRule], found: impl Iterator<Item = SocketAddr>) -> Result<Vec<SocketAddr>, DialError> {
    let (mut permitted, mut any) = (Vec::new(), false);
    for address in found {
        any = true;
        if permitted.len() < MAX_ADDRESSES && rules.iter().any(|rule| lets_reach(rule, address.ip())) {
            permitted.push(address);
        }
    }
    match (permitted.is_empty(), any) {
        (false, _) => Ok(permitted),
        (true, true) => Err(DialError::NotPublic),
        (true, false) => Err(DialError::Unresolved),
    }
}

async fn connect(addresses: Vec<SocketAddr>) -> Result<TcpStream, DialError> {
    let mut last = io::ErrorKind::TimedOut;
    for address in addresses {
        match timeout(ATTEMPT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // A refusal to set it only costs speed.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => last = error.kind(),
            Err(_) => last = io::ErrorKind::TimedOut,
        }
    }
    Err(DialError::Unreachable(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_addresses_only_those_are_dialled_that_may_be() {
        let rule = EgressRule::parse("api.example.com:443").unwrap();
        let found = |addresses: &[&str]| {
            let found = addresses.iter().map(|address| SocketAddr::new(address.parse().unwrap(), 443));
            permitted(&[&rule], found.collect::<Vec<_>>().into_iter())
        };
        assert_eq!(found(&["127.0.0.1", "1.1.1.1"]).unwrap(), ["1.1.1.1:443".parse().unwrap()]);
        assert!(matches!(found(&["127.0.0.1", "10.0.0.1"]), Err(DialError::NotPublic)));
        assert!(matches!(found(&[]), Err(DialError::Unresolved)));
        assert_eq!(found(&["1.1.1.1"; 100]).unwrap().len(), MAX_ADDRESSES);
    }

    #[tokio::test]
    async fn names_of_this_machine_are_refused_and_its_address_where_it_is_listed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let rules = |entry: String| [EgressRule::parse(&entry).unwrap()];
        let one = Arc::new(Semaphore::new(1));
        let dial = async |rules: &[EgressRule], host: &str, port: u16| dial(rules, &one, host, port).await;
        let localhost = dial(&rules(format!("localhost:{port}")), "localhost", port).await;
        assert!(matches!(localhost, Err(DialError::NotPublic)), "{localhost:?}");
        // What a resolver takes for an address.
        for host in ["2130706433", "0x7f.1", "127.1", "::ffff:127.0.0.1"] {
            let written = dial(&rules(format!("*:{port}")), host, port).await;
            assert!(matches!(written, Err(DialError::NotPublic | DialError::Unresolved)), "{host}: {written:?}");
        }
        let address = rules(format!("127.0.0.1:{port}"));
        assert!(dial(&address, "127.0.0.1", port).await.is_ok());
        assert!(matches!(dial(&address, "localhost", port).await, Err(DialError::NotListed)));
        assert!(matches!(dial(&address, "127.0.0.1", port ^ 1).await, Err(DialError::NotListed)));
        drop(listener);
        let gone = dial(&address, "127.0.0.1", port).await;
        assert!(matches!(gone, Err(DialError::Unreachable(io::ErrorKind::ConnectionRefused))), "{gone:?}");
    }
}
