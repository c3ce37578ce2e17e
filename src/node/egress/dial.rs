//! Connects to a host that a plugin names, if the plugin may reach it. The name is resolved only once, and the gateway
//! connects to the same addresses that it has checked. A plugin therefore gains nothing from a name that resolves
//! differently later. A forward proxy resolves names itself, so that only the name is checked.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use url::Host;

use super::reachability::lets_reach;
use crate::domain::causes::causes;
use crate::domain::egress::{EgressRule, is_private_name};
use crate::transport::outbound::{OutboundSocket, Proxies, ProxyError, tunnel};

/// How long the lookup and all attempts to connect may take together.
const DEADLINE: Duration = Duration::from_secs(10);
/// How long an attempt to connect to one address may take. After that, the next address is tried.
const ATTEMPT: Duration = Duration::from_secs(3);
/// The maximum number of addresses of one name that are tried.
const MAX_ADDRESSES: usize = 8;

/// Why a connection was not made, or was lost.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// No egress rule lists the host and port.
    #[error("the plugin's egress does not list it")]
    NotListed,
    /// The host resolves only to addresses that are not public and that no egress rule for the host allows.
    #[error("it resolves to an address that is not public and that the plugin's egress does not list as such")]
    NotPublic,
    /// The name of the host cannot be resolved, or resolves to no address.
    #[error("its name cannot be resolved")]
    Unresolved,
    /// No connection to the host could be made.
    #[error("it cannot be reached: {0}")]
    Unreachable(io::ErrorKind),
    /// The forward proxy did not connect to the host.
    #[error("{0}")]
    Proxy(String),
    /// The worker has reached its limit of open connections.
    #[error("the worker has {0} connections, as many as it may have")]
    TooMany(usize),
    /// The worker has exceeded its limit of bytes sent and received since its latest call began.
    #[error("more than {0} bytes were sent and received since the worker's latest call began")]
    TooLarge(u64),
    /// The connection was made, but broke.
    #[error("the connection was lost: {0}")]
    Lost(io::ErrorKind),
}

impl DialError {
    /// The value of the metric label `outcome`.
    pub fn as_label(&self) -> &'static str {
        match self {
            Self::NotListed => "not_listed",
            Self::NotPublic => "not_public",
            Self::Unresolved => "unresolved",
            Self::Unreachable(_) => "unreachable",
            Self::Proxy(_) => "proxy",
            Self::TooMany(_) => "too_many",
            Self::TooLarge(_) => "too_large",
            Self::Lost(_) => "lost",
        }
    }

    /// The `code` of the error that the plugin gets from Node.js.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotListed | Self::NotPublic => "EACCES",
            Self::Unresolved => "ENOTFOUND",
            Self::Unreachable(io::ErrorKind::ConnectionRefused) => "ECONNREFUSED",
            Self::Unreachable(io::ErrorKind::TimedOut) => "ETIMEDOUT",
            Self::Unreachable(_) | Self::Proxy(_) => "EHOSTUNREACH",
            Self::TooMany(_) => "EMFILE",
            Self::TooLarge(_) => "EMSGSIZE",
            Self::Lost(_) => "ECONNRESET",
        }
    }

    /// Whether the plugin's egress rules do not allow the connection.
    pub fn is_denial(&self) -> bool {
        matches!(self, Self::NotListed | Self::NotPublic)
    }
}

/// Connects to `host`, if one of `rules` allows it. `lookups` limits how many names are resolved at the same time.
///
/// # Errors
/// The reason why there is no connection.
pub async fn dial(
    rules: &[EgressRule],
    lookups: &Arc<Semaphore>,
    host: &str,
    port: u16,
) -> Result<OutboundSocket, DialError> {
    let rules: Vec<_> = rules.iter().filter(|rule| rule.matches(host, port)).collect();
    if rules.is_empty() {
        return Err(DialError::NotListed);
    }
    let dialling = async {
        let through_proxy = |error: ProxyError| DialError::Proxy(causes(&error));
        if let Some(proxy) = Proxies::of_environment().tunnelling(host).map_err(through_proxy)? {
            let target = format!("{}:{port}", for_proxy(&rules, host)?);
            return tunnel(&proxy, &target, None).await.map_err(through_proxy);
        }
        let found = resolve(lookups, host, port).await.ok_or(DialError::Unresolved)?;
        connect(permitted(&rules, found.into_iter())?).await.map(OutboundSocket::direct)
    };
    timeout(DEADLINE, dialling).await.unwrap_or(Err(DialError::Unreachable(io::ErrorKind::TimedOut)))
}

/// Returns the host as it is named to a proxy, if one of the rules allows it as far as its text says. The address of a name
/// is not known here, so a name of a private network needs a rule for such names.
fn for_proxy(rules: &[&EgressRule], host: &str) -> Result<String, DialError> {
    // Resolvers accept other notations of addresses too, such as 127.1 (URL Standard, host parsing).
    let parsed = match host.parse() {
        Ok(address) => Host::Ipv6(address),
        Err(_) => Host::parse(host).map_err(|_| DialError::Unresolved)?,
    };
    let is_permitted = match &parsed {
        Host::Domain(name) if !name.eq_ignore_ascii_case(host) => return Err(DialError::Unresolved),
        Host::Domain(name) => {
            let is_private = is_private_name(name.trim_end_matches('.'));
            !is_private || rules.iter().any(|rule| rule.is_of_private_network())
        }
        Host::Ipv4(address) => rules.iter().any(|rule| lets_reach(rule, IpAddr::V4(*address))),
        Host::Ipv6(address) => rules.iter().any(|rule| lets_reach(rule, IpAddr::V6(*address))),
    };
    is_permitted.then(|| parsed.to_string()).ok_or(DialError::NotPublic)
}

/// Resolves a name. A lookup cannot be cancelled, so it keeps its permit until it ends, even if its result is no longer
/// needed.
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

/// Returns those of the `found` addresses that one of the rules allows, at most [`MAX_ADDRESSES`].
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
                // If this fails, the connection is only slower.
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

    #[test]
    fn a_proxy_is_named_no_host_that_its_text_shows_to_be_private() {
        let named = |entry: &str, host: &str| {
            let rule = EgressRule::parse(entry).unwrap();
            assert!(rule.matches(host, 443), "{entry} {host}");
            for_proxy(&[&rule], host).map_err(|error| error.as_label())
        };
        for (entry, host, expected) in [
            ("*:443", "Api.example.com", Ok("api.example.com")),
            ("*:443", "1.1.1.1", Ok("1.1.1.1")),
            ("*:443", "2606:4700::1111", Ok("[2606:4700::1111]")),
            ("10.0.0.7:443", "10.0.0.7", Ok("10.0.0.7")),
            ("*.models.svc:443", "llm.models.svc", Ok("llm.models.svc")),
            ("*:443", "10.0.0.7", Err("not_public")),
            ("*:443", "169.254.169.254", Err("not_public")),
            ("*:443", "0x7f.1", Err("not_public")),
            ("*:443", "2130706433", Err("not_public")),
            ("*:443", "fd00::1", Err("not_public")),
            ("*:443", "::ffff:10.0.0.7", Err("not_public")),
            ("*:443", "llm.models.svc.", Err("not_public")),
            ("*:443", "metadata.google.internal", Err("not_public")),
            ("*:443", "llm", Err("not_public")),
            ("*:443", "a.com:443 HTTP/1.1\r\nX: b", Err("unresolved")),
            ("*:443", "user@a.com", Err("unresolved")),
            ("*:443", "%61.com", Err("unresolved")),
            ("*:443", "b\u{fc}.com", Err("unresolved")),
        ] {
            assert_eq!(named(entry, host).as_deref(), expected.as_deref(), "{entry} {host}");
        }
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
        // Notations of a loopback address that a resolver may accept.
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
