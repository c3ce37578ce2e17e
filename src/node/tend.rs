//! Looks after workers that no call uses: what is worn is replaced before a call comes, what nobody needs goes.

use std::sync::{Arc, PoisonError, RwLock, Weak};

use super::metrics::{RecycleCause, SpawnCause};
use super::pool::{Pool, State};
use super::seat::Seat;
use super::starter::Starter;
use super::worker::Fate;
use super::workers::Pools;
use crate::domain::plugin::Failure;
use crate::domain::reason::Reason;

/// Tends all pools again and again, until there is nobody left to do it for.
pub(super) async fn tend(starter: Weak<Starter>, pools: Weak<RwLock<Pools>>) {
    while let Some((closed, every)) = starter.upgrade().map(|s| (s.closed.clone(), s.lifetimes.tended_every)) {
        tokio::select! {
            () = closed.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        let (Some(starter), Some(pools)) = (starter.upgrade(), pools.upgrade()) else { return };
        starter.measure();
        pools.read().unwrap_or_else(PoisonError::into_inner).each(Pool::tend);
    }
}

impl Pool {
    /// One that is worn, or soon will be, is replaced. Those that nobody has used for so long go, the last one apart.
    fn tend(self: &Arc<Self>) {
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
            self.end(&mut state, spare, Fate::Recycle(RecycleCause::Idle));
        }
        self.fill(&mut state, SpawnCause::Replace);
    }

    /// A seat of a worker of which none was used for so long.
    fn unneeded(&self, state: &State) -> Option<usize> {
        let max_idle = self.starter.lifetimes.max_idle;
        state.idle.iter().position(|candidate| {
            let same = state.idle.iter().filter(|seat| seat.worker.id == candidate.worker.id);
            same.filter(|seat| seat.rested.elapsed() >= max_idle).count() == self.seats
        })
    }

    /// Starts the successor of a worker that has few calls or little time left, so that no call waits for it.
    pub(super) fn succeed(self: &Arc<Self>, state: &mut State, seat: &Seat) {
        if state.target > 0
            && state.not_before.is_none()
            && let Some(cause) = seat.worker.nearly_worn()
            && seat.worker.succeeded.set(cause).is_ok()
        {
            self.begin_start(state, SpawnCause::Replace);
        }
    }

    /// Ends the worker of an idle seat that is worn. Where another one would be no better, the next start waits.
    pub(super) fn discard(self: &Arc<Self>, state: &mut State, seat: Seat, cause: RecycleCause) {
        let stillborn = seat.stillborn(cause).map(|message| seat.worker.voice.masked(message).into_owned());
        self.end(state, seat, Fate::Recycle(cause));
        if let Some(message) = stillborn {
            self.starter.metrics.failed(&self.plugin().key.to_string(), cause.as_str());
            state.is_own_fault = true;
            self.failed(state, Failure::new(Reason::NotLoaded, message));
        }
    }
}
