//! What one replica knows of the others that use a session, and what these are told of it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The maximum number of other replicas that are known to use one session.
const MAX_REPLICAS: usize = 32;

/// The other replicas that use a session.
#[derive(Default)]
pub struct OtherReplicas {
    /// Without the one that began the session. Last is the one that said so last.
    known: Mutex<Vec<SocketAddr>>,
    /// When the replica that began the session is to be told that this one uses it, in Unix milliseconds.
    tell_home_at: AtomicU64,
}

impl OtherReplicas {
    /// Whether the replica that began the session is to be told at `now`, in Unix milliseconds, that this one uses it. If so,
    /// nobody else is to tell it for `pause`.
    pub fn is_home_to_be_told(&self, now: u64, pause: Duration) -> bool {
        let due = self.tell_home_at.load(Ordering::Relaxed);
        let next = after(now, pause);
        due <= now && self.tell_home_at.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Records that the replica that began the session was told at `now`, in Unix milliseconds, and is to be told again after
    /// `pause`.
    pub fn home_is_told(&self, now: u64, pause: Duration) {
        self.tell_home_at.store(after(now, pause), Ordering::Relaxed);
    }

    /// Notes that a replica uses the session. If that was not known, returns the others that are known. If too many are, the
    /// one that has not said so for longest is forgotten.
    pub fn add(&self, replica: SocketAddr) -> Option<Vec<SocketAddr>> {
        let mut known = self.lock();
        let before = known.len();
        known.retain(|other| *other != replica);
        let is_new = known.len() == before;
        if known.len() >= MAX_REPLICAS {
            known.remove(0);
        }
        let others = is_new.then(|| known.clone());
        known.push(replica);
        others
    }

    /// Forgets a replica that cannot be reached any more. If it lives, it says again that it uses the session.
    pub fn remove(&self, replica: SocketAddr) {
        self.lock().retain(|other| *other != replica);
    }

    /// Returns the replicas that are known.
    pub fn known(&self) -> Vec<SocketAddr> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<SocketAddr>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the time `pause` after `now`, in Unix milliseconds.
fn after(now: u64, pause: Duration) -> u64 {
    now.saturating_add(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(n: usize) -> SocketAddr {
        format!("10.0.0.{n}:8080").parse().unwrap()
    }

    #[test]
    fn the_newest_are_known_and_those_that_are_gone_make_room() {
        let others = OtherReplicas::default();
        assert_eq!(others.add(replica(0)), Some(vec![]));
        assert_eq!(others.add(replica(1)), Some(vec![replica(0)]));
        assert_eq!(others.add(replica(0)), None, "it is known");
        assert_eq!(others.known(), [replica(1), replica(0)]);
        others.remove(replica(1));
        assert_eq!(others.known(), [replica(0)]);
        assert_eq!(others.add(replica(1)), Some(vec![replica(0)]), "it is back");
        for n in 2..=MAX_REPLICAS {
            others.add(replica(n)).unwrap();
        }
        let known = others.known();
        assert_eq!((known.len(), known[0], known[MAX_REPLICAS - 1]), (MAX_REPLICAS, replica(1), replica(MAX_REPLICAS)));
    }

    #[test]
    fn the_home_is_told_by_one_at_a_time_and_again_soon_if_that_failed() {
        let (others, soon, later) = (OtherReplicas::default(), Duration::from_millis(10), Duration::from_millis(60));
        assert!(others.is_home_to_be_told(100, soon));
        assert!(!others.is_home_to_be_told(100, soon), "somebody else tells it");
        assert!(others.is_home_to_be_told(110, soon), "it was not told");
        others.home_is_told(111, later);
        assert!(!others.is_home_to_be_told(170, soon) && others.is_home_to_be_told(171, soon));
    }
}
