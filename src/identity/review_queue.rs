//! The order in which tokens are reviewed, so that one client does not keep others from a review.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The maximum number of reviews that wait.
const MAX_WAITING: usize = 1024;

/// Gives places to reviews. A free place goes to a renewal first, then to the address with the fewest reviews under way, and of
/// its reviews to the one that has waited longest.
pub(super) struct ReviewQueue(Mutex<Places>);

struct Places {
    free: usize,
    running: HashMap<IpAddr, usize>,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    address: IpAddr,
    renews: bool,
    place: oneshot::Sender<Place>,
}

/// A place for one review. It is free again on drop.
pub(super) struct Place {
    queue: Arc<ReviewQueue>,
    address: IpAddr,
}

impl ReviewQueue {
    pub(super) fn new(places: usize) -> Arc<Self> {
        let places = Places { free: places, running: HashMap::new(), waiting: VecDeque::new() };
        Arc::new(Self(Mutex::new(places)))
    }

    /// Waits for a place. `None` if too many wait, most of them from this address. `renews` means that the token was accepted
    /// before.
    pub(super) async fn place(self: &Arc<Self>, address: IpAddr, renews: bool) -> Option<Place> {
        let (sender, receiver) = oneshot::channel();
        self.places().push(Waiting { address, renews, place: sender })?;
        self.fill();
        receiver.await.ok()
    }

    /// Gives the free places to reviews that wait.
    fn fill(self: &Arc<Self>) {
        loop {
            let Some((waiting, place)) = self.places().next().map(|waiting| {
                let place = Place { queue: Arc::clone(self), address: waiting.address };
                (waiting, place)
            }) else {
                return;
            };
            // A place that nobody waits for any more is free again here.
            drop(waiting.place.send(place));
        }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    /// Adds a review. If too many wait, the newest of the address that has most gives way. Renewals do not.
    fn push(&mut self, new: Waiting) -> Option<()> {
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.retain(|waiting| !waiting.place.is_closed());
        }
        if self.waiting.len() >= MAX_WAITING {
            let mut counts = HashMap::new();
            let all = self.waiting.iter().chain([&new]).filter(|waiting| !waiting.renews);
            all.for_each(|waiting| *counts.entry(waiting.address).or_insert(0) += 1);
            let (most, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
            if most == new.address && !new.renews {
                return None;
            }
            let newest = self.waiting.iter().rposition(|waiting| waiting.address == most && !waiting.renews)?;
            self.waiting.remove(newest);
        }
        self.waiting.push_back(new);
        Some(())
    }

    /// Takes a free place for the review whose turn it is.
    fn next(&mut self) -> Option<Waiting> {
        if self.free == 0 {
            return None;
        }
        self.waiting.retain(|waiting| !waiting.place.is_closed());
        let running = |address: &IpAddr| self.running.get(address).copied().unwrap_or_default();
        let order = |waiting: &Waiting| (!waiting.renews, running(&waiting.address));
        let (at, _) = self.waiting.iter().enumerate().min_by_key(|(_, waiting)| order(waiting))?;
        let next = self.waiting.remove(at)?;
        self.free -= 1;
        *self.running.entry(next.address).or_default() += 1;
        Some(next)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        {
            let mut places = self.queue.places();
            places.free += 1;
            let running = places.running.remove(&self.address).unwrap_or_default();
            if running > 1 {
                places.running.insert(self.address, running - 1);
            }
        }
        self.queue.fill();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn waiting(last: u8, renews: bool) -> (Waiting, oneshot::Receiver<Place>) {
        let (place, receiver) = oneshot::channel();
        (Waiting { address: Ipv4Addr::new(10, 0, 0, last).into(), renews, place }, receiver)
    }

    #[test]
    fn a_place_goes_to_renewals_and_then_to_whoever_has_fewest() {
        let mut places = Places { free: 4, running: HashMap::new(), waiting: VecDeque::new() };
        let mut receivers = Vec::new();
        for (last, renews) in [(1, false), (1, false), (1, false), (2, false), (3, false), (1, true)] {
            let (new, receiver) = waiting(last, renews);
            places.push(new).unwrap();
            receivers.push(receiver);
        }
        // Nobody waits for this one any more.
        drop(receivers.remove(4));
        let order: Vec<_> = std::iter::from_fn(|| places.next()).map(|next| next.address.to_string()).collect();
        assert_eq!(order, ["10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.1"]);
        assert_eq!((places.free, places.waiting.len()), (0, 1));
    }

    #[test]
    fn where_too_many_wait_the_address_with_most_gives_way() {
        let mut places = Places { free: 0, running: HashMap::new(), waiting: VecDeque::new() };
        let mut receivers: Vec<_> = (0..MAX_WAITING)
            .map(|_| {
                let (new, receiver) = waiting(1, false);
                places.push(new).unwrap();
                receiver
            })
            .collect();
        let (same, _same) = waiting(1, false);
        assert!(places.push(same).is_none());
        let (other, _other) = waiting(2, false);
        assert!(places.push(other).is_some());
        let (renewal, _renewal) = waiting(1, true);
        assert!(places.push(renewal).is_some());
        assert_eq!(places.waiting.len(), MAX_WAITING);
        assert!(receivers.pop().unwrap().try_recv().is_err_and(|why| why == oneshot::error::TryRecvError::Closed));
    }
}
