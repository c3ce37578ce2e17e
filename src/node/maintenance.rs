//! Maintains idle workers: replaces workers that have reached a limit (worn workers) before a call needs them, and ends
//! workers that are no longer needed.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use super::metrics::{RecycleCause, SpawnCause};
use super::pool::{PoolState, WorkerPool};
use super::pools::Pools;
use super::private::PrivateFolder;
use super::seat::Seat;
use super::starter::Starter;
use super::worker::Disposition;
use crate::domain::plugin::Failure;
use crate::domain::reason::Reason;

/// How often what killed gateways left is looked for.
const SWEEP: Duration = Duration::from_secs(600);

/// Maintains all pools periodically, until the starter is closed, or the starter or the pools are dropped.
pub(super) async fn maintain(starter: Weak<Starter>, pools: Weak<RwLock<Pools>>) {
    let mut swept = Instant::now();
    while let Some((closed, every)) = starter.upgrade().map(|s| (s.closed.clone(), s.lifetimes.maintained_every)) {
        tokio::select! {
            () = closed.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        let (Some(starter), Some(pools)) = (starter.upgrade(), pools.upgrade()) else { return };
        starter.measure();
        if swept.elapsed() >= SWEEP {
            swept = Instant::now();
            // A gateway that was killed may never start again.
            tokio::task::spawn_blocking(PrivateFolder::remove_stale);
        }
        pools.read().unwrap_or_else(PoisonError::into_inner).each(WorkerPool::maintain);
    }
}

impl WorkerPool {
    /// Replaces workers that are worn or soon will be. Ends workers that have been unused for too long, except the last
    /// one of the pool.
    fn maintain(self: &Arc<Self>) {
        let mut state = self.lock();
        let worn: Vec<_> = state.idle.iter().filter_map(|seat| Some((seat.worker.id, seat.worn()?))).collect();
        for (id, cause) in worn {
            if let Some(at) = state.idle.iter().position(|seat| seat.worker.id == id) {
                let seat = state.idle.remove(at);
                self.discard(&mut state, seat, cause);
            }
        }
        let idle = std::mem::take(&mut state.idle);
        idle.iter().for_each(|seat| self.succeed(&mut state, seat));
        state.idle = idle;
        while state.target > self.seats
            && let Some(at) = self.unneeded(&state)
        {
            let spare = state.idle.remove(at);
            state.target -= self.seats;
            self.end(&mut state, spare, Disposition::Recycle(RecycleCause::Idle));
        }
        self.fill(&mut state, SpawnCause::Replace);
    }

    /// Returns the index of an idle seat whose worker has had no call on any seat for `max_idle`.
    fn unneeded(&self, state: &PoolState) -> Option<usize> {
        let is_waited_at = |seat: &Seat| seat.worker.absences.away.load(Ordering::Relaxed) > 0;
        let unused = |seat: &Seat| if is_waited_at(seat) { Duration::ZERO } else { seat.rested.elapsed() };
        let idle = state.idle.iter().map(|seat| (seat.worker.id, unused(seat)));
        rested(idle, self.seats, self.starter.lifetimes.max_idle)
    }

    /// If a worker is close to its limit of calls or time, starts its successor, so that no call has to wait for the
    /// successor.
    pub(super) fn succeed(self: &Arc<Self>, state: &mut PoolState, seat: &Seat) {
        if state.target > 0
            && state.not_before.is_none()
            && let Some(cause) = seat.worker.nearly_worn()
            && seat.worker.succeeded.set(cause).is_ok()
        {
            self.begin_start(state, SpawnCause::Replace);
        }
    }

    /// Ends the worn worker of an idle seat. If the worker was worn before its first call, in a way that would repeat
    /// itself, this counts as a failed start, which delays the next one.
    pub(super) fn discard(self: &Arc<Self>, state: &mut PoolState, seat: Seat, cause: RecycleCause) {
        let stillborn = seat.stillborn(cause).map(|message| seat.worker.log_mask.masked(message).into_owned());
        self.end(state, seat, Disposition::Recycle(cause));
        if let Some(message) = stillborn {
            self.starter.metrics.failed(&self.plugin().key.to_string(), cause.as_str());
            state.is_own_fault = true;
            self.failed(state, Failure::new(Reason::NotLoaded, message));
        }
    }
}

/// Returns the index of the first of the `idle` seats whose worker has all of its `seats` in the list, each unused for
/// at least `max_idle`. Each item is the id of the seat's worker, and how long the seat has been unused.
fn rested(idle: impl Iterator<Item = (u64, Duration)> + Clone, seats: usize, max_idle: Duration) -> Option<usize> {
    idle.clone().position(|(candidate, _)| {
        let same = idle.clone().filter(|(worker, _)| *worker == candidate);
        same.filter(|(_, unused)| *unused >= max_idle).count() == seats
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_goes_when_none_of_its_seats_was_used_for_so_long() {
        let first = |seats: usize, idle: &[(u64, u64)]| {
            let idle = idle.iter().map(|(worker, unused)| (*worker, Duration::from_secs(*unused)));
            rested(idle, seats, Duration::from_secs(60))
        };
        assert_eq!(first(1, &[(1, 59), (2, 60), (3, 61)]), Some(1));
        assert_eq!(first(1, &[(1, 59)]), None);
        assert_eq!(first(2, &[(1, 60), (2, 60), (1, 0), (2, 60)]), Some(1));
        assert_eq!(first(2, &[(1, 60), (2, 60)]), None, "a seat of each is in a call");
    }
}
