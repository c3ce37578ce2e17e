//! Whether the operator's loops go round. A request has a deadline, and so has what is run; what comes round in spite of
//! that no more is told, so that the process is started anew.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a loop may work without one step done.
const STUCK: Duration = Duration::from_secs(60);

/// What each loop does: since when it works at its present step; none while it waits for something to do.
#[derive(Clone, Debug, Default)]
pub struct Liveness(Arc<Mutex<BTreeMap<&'static str, Option<Instant>>>>);

impl Liveness {
    /// Whether every loop goes round.
    ///
    /// # Errors
    /// The first loop that does not, and for how long.
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

    /// That of the loop `name`.
    pub(super) fn pulse(&self, name: &'static str) -> Pulse {
        Pulse { name, liveness: self.clone() }
    }

    fn loops(&self) -> MutexGuard<'_, BTreeMap<&'static str, Option<Instant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pulse of one loop.
#[derive(Clone, Debug)]
pub(super) struct Pulse {
    name: &'static str,
    liveness: Liveness,
}

impl Pulse {
    /// A round begins, or a step of it is done: the next one has its own time.
    pub(super) fn beats(&self) {
        self.liveness.loops().insert(self.name, Some(Instant::now()));
    }

    /// The round is over.
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
