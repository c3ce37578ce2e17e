//! The replicas that did not answer lately. Each request of a session may have to tell the replica that began it something:
//! of the sessions of one that is gone, only one at a time waits for it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The maximum number of replicas that are known not to answer.
const MAX_SILENT: usize = 256;

/// Replicas that did not answer, each with the time until which nobody asks it, in Unix milliseconds.
#[derive(Default)]
pub(super) struct SilentReplicas(Mutex<HashMap<SocketAddr, u64>>);

impl SilentReplicas {
    /// Whether a replica may be asked at `now`, in Unix milliseconds. If it did not answer before, nobody else is to ask it
    /// for `pause`.
    pub(super) fn may_be_asked(&self, replica: SocketAddr, now: u64, pause: Duration) -> bool {
        match self.lock().get_mut(&replica) {
            Some(until) if *until > now => false,
            Some(until) => {
                *until = after(now, pause);
                true
            }
            None => true,
        }
    }

    /// Notes at `now`, in Unix milliseconds, that a replica did not answer. Nobody is to ask it for `pause`.
    pub(super) fn add(&self, replica: SocketAddr, now: u64, pause: Duration) {
        let mut silent = self.lock();
        if silent.len() >= MAX_SILENT {
            silent.retain(|_, until| *until > now);
        }
        if silent.len() < MAX_SILENT || silent.contains_key(&replica) {
            silent.insert(replica, after(now, pause));
        }
    }

    /// Notes that a replica answers.
    pub(super) fn remove(&self, replica: SocketAddr) {
        self.lock().remove(&replica);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SocketAddr, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the time `pause` after `now`, in Unix milliseconds.
fn after(now: u64, pause: Duration) -> u64 {
    now.saturating_add(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(10);

    fn replica(n: usize) -> SocketAddr {
        format!("10.0.{}.{}:8080", n / 256, n % 256).parse().unwrap()
    }

    #[test]
    fn one_that_did_not_answer_is_asked_by_one_at_a_time_until_it_answers() {
        let silent = SilentReplicas::default();
        let ask = |now| silent.may_be_asked(replica(1), now, PAUSE);
        assert!(ask(100) && ask(100), "nothing is known of it");
        silent.add(replica(1), 100, PAUSE);
        assert!(!ask(109) && silent.may_be_asked(replica(2), 109, PAUSE));
        assert!(ask(110) && !ask(110), "somebody else asks it");
        assert!(ask(120), "who asked it before may be gone");
        silent.remove(replica(1));
        assert!(ask(121) && ask(121));
    }

    #[test]
    fn there_is_room_for_some_and_those_that_may_be_asked_again_make_room() {
        let silent = SilentReplicas::default();
        (0..MAX_SILENT).for_each(|n| silent.add(replica(n), 100, PAUSE));
        silent.add(replica(MAX_SILENT), 105, PAUSE);
        silent.add(replica(0), 105, PAUSE);
        assert!(silent.may_be_asked(replica(MAX_SILENT), 105, PAUSE), "there is no room");
        assert!(!silent.may_be_asked(replica(0), 114, PAUSE), "it has a place");
        silent.add(replica(MAX_SILENT), 110, PAUSE);
        assert!(!silent.may_be_asked(replica(MAX_SILENT), 110, PAUSE));
        assert_eq!(silent.lock().len(), 2);
    }
}
