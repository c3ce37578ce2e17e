//! The addresses that a server at a URL may not have: those where clouds and clusters give out credentials.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::LazyLock;

/// Addresses of metadata services that are not link-local: of Alibaba Cloud, Azure, Oracle Cloud, AWS (of instances, and of
/// pods in EKS), Google Cloud and Scaleway.
const METADATA: [IpAddr; 7] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42)),
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
        let ip = address.ip().to_canonical();
        let is_allowed = |ip: IpAddr| self.allowed.iter().any(|allowed| allowed.to_canonical() == ip);
        if is_allowed(ip) {
            return Ok(());
        }
        for form in embedded(ip).map(IpAddr::V4).chain([ip]).filter(|form| !is_allowed(*form)) {
            let what = match form {
                IpAddr::V4(ip) if ip.is_link_local() => "a link-local address",
                IpAddr::V6(ip) if ip.is_unicast_link_local() => "a link-local address",
                form if is_metadata(form) => "the metadata service of a cloud",
                form if is_at_api_server(&form.to_string(), address.port()) => "the API server of the cluster",
                _ => continue,
            };
            let means = if form == ip { String::new() } else { format!(" means {form}, which") };
            return Err(format!(
                "{ip}{means} is {what}, which the URL of a server may not lead to: correct the URL, or list the address in \
                 spec.upstreams.allowedAddresses of the MCPGateway"
            ));
        }
        Ok(())
    }
}

/// Whether an address is that of a metadata service that is not link-local, in any form.
pub fn is_metadata(address: IpAddr) -> bool {
    let address = address.to_canonical();
    METADATA.contains(&address) || embedded(address).any(|form| METADATA.contains(&IpAddr::V4(form)))
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

/// Returns the addresses of IPv4 that a translator or a tunnel can send packets for an address of IPv6 to.
fn embedded(address: IpAddr) -> impl Iterator<Item = Ipv4Addr> {
    let octets = match address {
        IpAddr::V4(_) => [0; 16],
        IpAddr::V6(v6) => v6.octets(),
    };
    // The first octets of the address, and where it has those of an address of IPv4.
    let places: &[[usize; 4]] = match octets {
        // IPv4-compatible (RFC 4291, 2.5.5.1). `::` and `::1` are others.
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ..] => &[],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ..] => &[LAST],
        // IPv4-translated (RFC 2765, 2.1).
        [0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, ..] => &[LAST],
        // The well-known prefix of NAT64 (RFC 6052, 2.1).
        [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, ..] => &[LAST],
        // Prefixes of local NAT64 translators, of each length that they can have (RFC 8215; RFC 6052, 2.2).
        [0, 0x64, 0xff, 0x9b, 0, 1, ..] => &[[6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12], LAST],
        // 6to4 (RFC 3056, 2).
        [0x20, 0x02, ..] => &[[2, 3, 4, 5]],
        _ => &[],
    };
    places.iter().map(move |place| Ipv4Addr::from(place.map(|at| octets.get(at).copied().unwrap_or_default())))
}

/// The octets of IPv4 at the end of an address of IPv6.
const LAST: [usize; 4] = [12, 13, 14, 15];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::too_many_lines, reason = "a list of addresses")]
    fn addresses_where_credentials_are_given_out_are_denied_unless_they_are_allowed() {
        let guard = AddressGuard::default();
        for denied in [
            "169.254.169.254",
            "[::ffff:169.254.169.254]",
            "[64:ff9b::a9fe:a9fe]",
            "[64:ff9b::168.63.129.16]",
            "[64:ff9b:1::a9fe:a9fe]",
            "[64:ff9b:1:ffff:ffff:ffff:6464:64c8]",
            "[64:ff9b:1:a9fe:a9:fe00::]",
            "[64:ff9b:1:12a9:fe:a9fe::]",
            "[64:ff9b:1:1234:a9:fea9:fe00:0]",
            "[2002:a9fe:a9fe::1]",
            "[2002:6464:64c8::]",
            "[::a9fe:a9fe]",
            "[::ffff:0:169.254.169.254]",
            "[fd00:ec2::23]",
            "[fd00:42::42]",
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
        for fine in
            ["64:ff9b::a00:1", "64:ff9b:1::a00:1", "2002:a00:1::1", "::a00:1", "::", "2003:a9fe:a9fe::", "fd00:ec2::1"]
        {
            assert!(guard.check_host(fine, 80, true).is_ok(), "{fine}");
        }
        for fine in ["127.0.0.1", "10.0.0.1", "[::1]", "api.example.com", "kubernetes.example.com", "x0", "7up.io"] {
            assert!(guard.check_host(fine, 80, true).is_ok(), "{fine}");
        }
        let guard = AddressGuard { allowed: vec!["169.254.1.1".parse().unwrap()] };
        let is_fine = |host| guard.check_host(host, 80, false).is_ok();
        for (host, is_allowed) in [
            ("[::ffff:169.254.1.1]", true),
            ("[64:ff9b::169.254.1.1]", true),
            ("[64:ff9b::169.254.1.2]", false),
            ("169.254.1.2", false),
        ] {
            assert_eq!(is_fine(host), is_allowed, "{host}");
        }
        assert!(is_fine("metadata"), "its address is checked");
    }
}
