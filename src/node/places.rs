//! Places that calls leave while they wait for the gateway, so that questions without an answer do not keep others from a plugin.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::metrics::SpawnCause;
use super::pool::{PoolState, WorkerPool};
use super::seat::Seat;
use super::worker::{Place, Worker};

impl WorkerPool {
    /// Gives the place of a call that waits to another call. A worker that must end, or serves one call only, gets no other.
    pub(super) fn leave(self: &Arc<Self>, place: &Place) {
        let mut state = self.lock();
        let Some(worker) = place.worker().filter(|worker| state.size > 0 && worker.leaving.get().is_none()) else {
            return;
        };
        let Some(seat) = Seat::beside(&worker) else { return };
        if place.set_left(true) {
            return;
        }
        worker.absences.away.fetch_add(1, Ordering::Relaxed);
        state.returned(&seat);
        match seat.worn() {
            Some(cause) => self.discard(&mut state, seat, cause),
            None => self.offer(&mut state, seat),
        }
        self.fill(&mut state, SpawnCause::Replace);
    }

    /// Takes a place for a call that goes on: a free one of its worker, or else one that the worker does not have. The limit of
    /// executions at the same time bounds how many go on.
    pub(super) fn come_back(self: &Arc<Self>, place: &Place) {
        let mut state = self.lock();
        if !place.set_left(false) {
            return;
        }
        let Some(worker) = place.worker() else { return };
        worker.absences.away.fetch_sub(1, Ordering::Relaxed);
        worker.leased.fetch_add(1, Ordering::Relaxed);
        if worker.leaving.get().is_some() {
            return;
        }
        state.leased += 1;
        match state.idle.iter().position(|seat| seat.worker.id == worker.id) {
            Some(at) => drop(state.idle.remove(at)),
            None => _ = worker.absences.surplus.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Counts the place of a call that has ended as free. Returns whether the call had left it, so that another has it.
    pub(super) fn free_place(state: &mut PoolState, seat: &Seat) -> bool {
        let was_left = seat.place.set_left(false);
        if was_left {
            seat.worker.absences.away.fetch_sub(1, Ordering::Relaxed);
        } else {
            state.returned(seat);
        }
        was_left
    }

    /// Whether a seat is one more than its worker has. It then counts no longer as such, and must be dropped.
    pub(super) fn is_surplus(seat: &Seat) -> bool {
        let fewer = |surplus: usize| surplus.checked_sub(1);
        seat.worker.absences.surplus.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok()
    }

    /// Lets the calls that wait at a worker which is replaced go on. As many such workers stay as the pool has; then the oldest
    /// at which all calls wait is killed, and its calls fail.
    pub(super) fn outlast(&self, state: &mut PoolState, worker: &Arc<Worker>) {
        if worker.absences.away.load(Ordering::Relaxed) == 0 {
            return;
        }
        state.outlasting.retain(|worker| worker.strong_count() > 0);
        state.outlasting.push(Arc::downgrade(worker));
        if state.outlasting.len() <= self.plugin.pool_size.max(1) as usize {
            return;
        }
        let only_waits = |worker: &Weak<Worker>| {
            let is_waited_at = |worker: &Arc<Worker>| worker.leased.load(Ordering::Relaxed) == 0;
            worker.upgrade().filter(is_waited_at).filter(|worker| worker.absences.outlived.get().is_none())
        };
        if let Some(oldest) = state.outlasting.iter().find_map(only_waits) {
            oldest.absences.outlived.get_or_init(|| ());
            oldest.process.kill();
        }
    }
}
