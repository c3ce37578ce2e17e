//! Which addresses count as one client.

use core::net::{IpAddr, Ipv6Addr};

/// Truncates an IPv6 address to its /64 network, because a client can usually choose any address in it. Returns an IPv4
/// address unchanged.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}
