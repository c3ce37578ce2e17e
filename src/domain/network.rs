//! Which addresses count as one client.

use core::net::{IpAddr, Ipv6Addr};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

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

/// Returns who gives way where all places are taken, by the `counts` of the places that clients have: those with at least half
/// as many as the one that has most. If they have less than half of all places together, it is each client.
pub fn have_many<K: Eq + Hash, S: BuildHasher>(counts: &HashMap<K, usize, S>) -> impl Fn(&K) -> bool + '_ {
    let most = counts.values().max().copied().unwrap_or_default();
    let is_many = move |count: usize| 2 * count >= most;
    let all: usize = counts.values().sum();
    let of_many: usize = counts.values().filter(|count| is_many(**count)).sum();
    let each = 2 * of_many < all;
    move |client| each || counts.get(client).is_some_and(|count| is_many(*count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_many_is_measured_by_who_has_most_unless_most_places_are_of_others() {
        let many = |counts: &[(char, usize)]| {
            let counts: HashMap<_, _> = counts.iter().copied().collect();
            let has_many = have_many(&counts);
            "abcdef".chars().filter(has_many).collect::<String>()
        };
        assert_eq!(many(&[('a', 10), ('b', 5), ('c', 4)]), "ab");
        assert_eq!(many(&[('a', 1), ('b', 1)]), "ab");
        assert_eq!(many(&[('a', 10), ('b', 4), ('c', 4), ('d', 4)]), "abcdef", "many with few");
    }
}
