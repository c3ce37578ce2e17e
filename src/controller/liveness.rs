//! Detects loops of the operator that hang. Requests and child processes have deadlines; if a loop makes no progress in
//! spite of them, this is reported, so that the process is restarted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A loop that has worked on one step for this long is considered stuck.
const STUCK: Duration = Duration::from_secs(60);

/// The progress of the operator's loops, by name: since when a loop has been working on its current step, or `None`
/// while it waits for work. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct Liveness(Arc<Mutex<BTreeMap<&'static str, Option<Instant>>>>);

impl Liveness {
    /// Checks whether every loop makes progress.
    ///
    /// # Errors
    /// Returns a message that names a loop that has worked on one step for 60 s or longer, and for how long.
    pub fn check(&self) -> Result<(), String> {
        self.check_at(Instant::now())
    }

    pub(super) fn check_at(&self, now: Instant) -> Result<(), String> {
        let stuck = self.loops().iter().find_map(|(name, since)| {
            let lasts = now.saturating_duration_since((*since)?);
            (lasts >= STUCK).then(|| format!("the loop of {name} has made no step for {} s", lasts.as_secs()))
        });
        stuck.map_or(Ok(()), Err)
    }

    /// Returns the handle with which the loop `name` reports its progress.
    pub(super) fn pulse(&self, name: &'static str) -> Heartbeat {
        Heartbeat { name, liveness: self.clone() }
    }

    fn loops(&self) -> MutexGuard<'_, BTreeMap<&'static str, Option<Instant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reports the progress of one loop.
#[derive(Clone, Debug)]
pub(super) struct Heartbeat {
    name: &'static str,
    liveness: Liveness,
}

impl Heartbeat {
    /// Notes that a round begins, or that a step of it is done. The next step has its own time limit.
    pub(super) fn beats(&self) {
        self.liveness.loops().insert(self.name, Some(Instant::now()));
    }

    /// Notes that the round is over.
    pub(super) fn rests(&self) {
        self.liveness.loops().insert(self.name, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_makes_no_step_for_a_minute_is_named_and_one_that_rests_is_not() {
        let liveness = Liveness::default();
        let (plans, statuses) = (liveness.pulse("plans"), liveness.pulse("statuses"));
        let after = |seconds| liveness.check_at(Instant::now() + Duration::from_secs(seconds));
        assert_eq!(after(600), Ok(()), "nothing has begun");
        plans.beats();
        statuses.beats();
        statuses.rests();
        assert_eq!(after(55), Ok(()));
        assert_eq!(after(61), Err("the loop of plans has made no step for 61 s".to_owned()));
        plans.beats();
        assert_eq!(after(55), Ok(()));
        plans.rests();
        assert_eq!(after(600), Ok(()));
    }

    #[test]
    fn it_is_asked_by_the_time_of_now() {
        let liveness = Liveness::default();
        liveness.pulse("plans").beats();
        assert_eq!(liveness.check(), Ok(()));
        liveness.loops().insert("plans", Instant::now().checked_sub(STUCK));
        assert!(liveness.check().is_err());
    }
}
