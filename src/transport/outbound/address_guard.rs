//! The addresses that a server at a URL may not have: those where clouds and clusters give out credentials.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::LazyLock;

/// Addresses of metadata services that are not link-local: of Alibaba Cloud, Azure, Oracle Cloud, AWS and Google Cloud.
const METADATA: [IpAddr; 5] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];
/// Names of metadata services. A proxy resolves names itself.
const METADATA_NAMES: [&str; 4] =
    ["metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal"];
/// Names of the API server, with or without the domain of the cluster.
const API_SERVER_NAMES: [&str; 3] = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"];

/// The host and the port at which the pods of a cluster reach its API server.
static API_SERVER: LazyLock<Option<(String, u16)>> = LazyLock::new(|| {
    let variable = |name: &str| std::env::var(format!("KUBERNETES_SERVICE_{name}")).ok();
    Some((variable("HOST")?, variable("PORT")?.parse().ok()?))
});

/// Refuses link-local addresses, and those of the metadata services of clouds and of the API server.
#[derive(Clone, Debug, Default)]
pub struct AddressGuard {
    /// The addresses that are allowed nevertheless.
    pub allowed: Vec<IpAddr>,
}

impl AddressGuard {
    /// Checks the host of a URL as it is written: an address, or, if a proxy resolves it, a name.
    ///
    /// # Errors
    /// If the host is denied. The message says why, and what to do.
    pub(super) fn check_host(&self, host: &str, port: u16, is_proxied: bool) -> Result<(), String> {
        let host = host.trim_start_matches('[').trim_end_matches([']', '.']).to_ascii_lowercase();
        if let Ok(address) = host.parse() {
            return self.check(SocketAddr::new(address, port));
        }
        if !is_proxied {
            return Ok(());
        }
        let is_api_server = host.strip_prefix(API_SERVER_NAMES[2]).is_some_and(|domain| domain.starts_with('.'));
        let what = match &*host {
            host if METADATA_NAMES.contains(&host) => "the metadata service of a cloud",
            host if is_api_server || API_SERVER_NAMES.contains(&host) || is_at_api_server(host, port) => {
                "the API server of the cluster"
            }
            host if is_number(host) => "an address in an unusual notation",
            _ => return Ok(()),
        };
        Err(format!("{host} is {what}, which upstreams may not be: correct the URL"))
    }

    /// Checks an address before it is dialled.
    ///
    /// # Errors
    /// If the address is denied. The message says why, and what to do.
    pub(super) fn check(&self, address: SocketAddr) -> Result<(), String> {
        let ip = plain(address.ip());
        if self.allowed.iter().any(|allowed| plain(*allowed) == ip) {
            return Ok(());
        }
        let is_link_local = match ip {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        };
        let what = match ip {
            _ if is_link_local => "a link-local address",
            ip if METADATA.contains(&ip) => "the metadata service of a cloud",
            ip if is_at_api_server(&ip.to_string(), address.port()) => "the API server of the cluster",
            _ => return Ok(()),
        };
        Err(format!(
            "{ip} is {what}, which upstreams may not be: correct the URL, or list the address in \
             spec.upstreams.allowedAddresses of the MCPGateway"
        ))
    }
}

fn is_at_api_server(host: &str, port: u16) -> bool {
    API_SERVER.as_ref().is_some_and(|(known, known_port)| *known_port == port && known.eq_ignore_ascii_case(host))
}

/// Whether a host is an address to resolvers although it is not written as one, such as `0xa9fea9fe` or `169.254.43518`.
fn is_number(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_hexadecimal = |digits: &str| digits.bytes().all(|it| it.is_ascii_hexdigit());
    last.parse::<u32>().is_ok() || last.strip_prefix("0x").is_some_and(is_hexadecimal)
}

/// Returns the address of IPv4 that an address of IPv6 stands for (mapped, or behind a NAT64 translator), or the address.
fn plain(address: IpAddr) -> IpAddr {
    let address = address.to_canonical();
    let IpAddr::V6(v6) = address else { return address };
    match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [[a, b], [c, d]] = [high, low].map(u16::to_be_bytes);
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_where_credentials_are_given_out_are_denied_unless_they_are_allowed() {
        let guard = AddressGuard::default();
        for denied in [
            "169.254.169.254",
            "[::ffff:169.254.169.254]",
            "[64:ff9b::a9fe:a9fe]",
            "[fe80::1]",
            "100.100.100.200",
            "168.63.129.16",
            "[fd00:ec2::254]",
            "2852039166",
            "0xa9fea9fe",
            "169.254.43518",
            "Metadata.Google.Internal.",
            "kubernetes.default",
            "kubernetes.default.svc.cluster.local",
        ] {
            assert!(guard.check_host(denied, 80, true).is_err(), "{denied}");
        }
        for fine in ["127.0.0.1", "10.0.0.1", "[::1]", "api.example.com", "kubernetes.example.com", "x0", "7up.io"] {
            assert!(guard.check_host(fine, 80, true).is_ok(), "{fine}");
        }
        let guard = AddressGuard { allowed: vec!["169.254.1.1".parse().unwrap()] };
        let is_fine = |host| guard.check_host(host, 80, false).is_ok();
        assert!(is_fine("[::ffff:169.254.1.1]") && !is_fine("169.254.1.2"));
        assert!(is_fine("metadata"), "its address is checked");
    }
}
