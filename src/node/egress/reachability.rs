//! Decides which addresses are allowed for a host in a plugin's egress rules.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::domain::egress::EgressRule;
use crate::transport::outbound::is_metadata;

/// Whether `rule` allows `address` for a host that the rule matches. A rule with an address allows only that address,
/// even if it is not public. A rule with a name that only a private network resolves allows private and public
/// addresses. Any other rule allows public addresses. Only a rule with its address allows a metadata service.
pub(super) fn lets_reach(rule: &EgressRule, address: IpAddr) -> bool {
    let address = address.to_canonical();
    match rule.host().parse::<IpAddr>() {
        Ok(named) => named.to_canonical() == address,
        Err(_) if is_metadata(address) => false,
        Err(_) => is_public(address) || (rule.is_of_private_network() && is_private(address)),
    }
}

/// Whether the address belongs to a private network (RFC 1918, RFC 6598, RFC 4193). Loopback and link-local addresses
/// do not.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_private() || is_shared(v4),
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

/// Whether the address is one of the internet, according to IANA's registries of special-purpose addresses.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || is_shared(address)
        || matches!((a, b, c), (0, ..) | (192, 0, 0) | (192, 88, 99) | (198, 18 | 19, _) | (224.., ..));
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // An IPv4 address behind a NAT64 translator.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [[a, b], [c, d]] = [high, low].map(u16::to_be_bytes);
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        // Protocol assignments (Teredo among them), documentation, 6to4.
        [0x2001, 0..0x200, ..] | [0x2001, 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..0x1000, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

/// Whether the address is reserved for carrier-grade NAT (RFC 6598). Clusters use such addresses internally too.
fn is_shared(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    a == 100 && b & 0xc0 == 64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(entry: &str, address: &str) -> bool {
        lets_reach(&EgressRule::parse(entry).unwrap(), address.parse().unwrap())
    }

    const PUBLIC: [&str; 6] =
        ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::101:101", "::ffff:8.8.8.8"];
    const PRIVATE: [&str; 6] = ["10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd00::1", "::ffff:10.0.0.1"];
    const NEVER: [&str; 26] = [
        "100.100.100.200",
        "168.63.129.16",
        "64:ff9b::168.63.129.16",
        "64:ff9b:1::8.8.8.8",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "192.0.0.8",
        "198.18.0.1",
        "203.0.113.9",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "ff02::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "64:ff9b::7f00:1",
        "::ffff:127.0.0.1",
        "::7f00:1",
    ];

    #[test]
    fn a_name_is_at_a_public_address() {
        for entry in ["api.example.com:443", "*.example.com:443", "*:443"] {
            assert!(PUBLIC.iter().all(|address| may(entry, address)), "{entry}");
            assert!(!PRIVATE.iter().chain(&NEVER).any(|address| may(entry, address)), "{entry}");
        }
    }

    #[test]
    fn a_name_of_a_private_network_may_be_there_and_nowhere_nearer() {
        for entry in ["llm.models.svc.cluster.local:80", "llm:80", "localhost:80"] {
            assert!(PUBLIC.iter().chain(&PRIVATE).all(|address| may(entry, address)), "{entry}");
            assert!(!NEVER.iter().any(|address| may(entry, address)), "{entry}");
        }
    }

    #[test]
    fn an_address_that_is_written_down_is_that_one() {
        for address in ["127.0.0.1", "10.0.0.5", "169.254.169.254", "1.1.1.1"] {
            assert!(may(&format!("{address}:80"), address));
            assert!(may(&format!("{address}:80"), &format!("::ffff:{address}")));
            assert!(!may(&format!("{address}:80"), "127.0.0.2"));
        }
    }
}
