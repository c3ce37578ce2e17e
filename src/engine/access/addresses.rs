//! Counters for each client address. Clients without credentials can be distinguished only by their address.

use std::net::IpAddr;
use std::sync::Arc;

use dashmap::DashMap;

use crate::domain::network::network;

/// The maximum number of addresses with their own counter. Once that many are in use, all further addresses share one
/// counter.
const MAX_ADDRESSES: usize = 4096;

/// Keeps one `T`, such as a call counter, for each client address.
#[derive(Default)]
pub struct Addresses<T> {
    known: DashMap<IpAddr, Arc<T>>,
    others: Arc<T>,
}

impl<T: Default> Addresses<T> {
    /// Returns the counter of an address. The same counter is returned at least until the `Arc` and all its clones are
    /// dropped.
    pub fn of(&self, address: IpAddr) -> Arc<T> {
        let address = network(address);
        if let Some(known) = self.known.get(&address) {
            return Arc::clone(&known);
        }
        if self.known.len() >= MAX_ADDRESSES {
            self.sweep();
        }
        if self.known.len() >= MAX_ADDRESSES {
            return Arc::clone(&self.others);
        }
        Arc::clone(&self.known.entry(address).or_default())
    }

    /// Returns the addresses with a counter of their own, in their order.
    pub(crate) fn known(&self) -> Vec<(IpAddr, Arc<T>)> {
        let mut known: Vec<_> = self.known.iter().map(|entry| (*entry.key(), Arc::clone(&entry))).collect();
        known.sort_by_key(|(address, _)| *address);
        known
    }

    /// Removes the addresses whose counter is no longer in use.
    pub(crate) fn sweep(&self) {
        self.known.retain(|_, count| Arc::strong_count(count) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_counted_apart_and_forgotten_when_nobody_calls() {
        let addresses = Addresses::<u8>::default();
        let of = |address: &str| addresses.of(address.parse().unwrap());
        let first = of("10.0.0.1");
        assert!(Arc::ptr_eq(&first, &of("::ffff:10.0.0.1")));
        assert!(!Arc::ptr_eq(&first, &of("10.0.0.2")));
        assert!(Arc::ptr_eq(&of("2001:db8::1"), &of("2001:db8::ffff:1")), "who has a network has all of its addresses");
        addresses.sweep();
        assert_eq!(addresses.known.len(), 1);
        let held: Vec<_> = (0..MAX_ADDRESSES).map(|n| of(&format!("10.1.{}.{}", n / 256, n % 256))).collect();
        assert!(addresses.known.len() <= MAX_ADDRESSES && Arc::ptr_eq(&of("10.9.9.9"), &addresses.others));
        drop(held);
        assert!(!Arc::ptr_eq(&of("10.9.9.9"), &addresses.others));
    }
}
