//! Looks after workers that no call uses: what is worn is replaced before a call comes, what nobody needs goes.

use std::sync::{Arc, PoisonError, RwLock, Weak};

use super::metrics::{RecycleCause, SpawnCause};
use super::pool::{Pool, State};
use super::starter::Starter;
use super::worker::{Fate, Worker};
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
        let worn: Vec<_> = state.idle.iter().filter_map(|worker| Some((worker.id, worker.worn()?))).collect();
        for (id, cause) in worn {
            if let Some(at) = state.idle.iter().position(|worker| worker.id == id) {
                let worker = state.idle.remove(at);
                self.discard(&mut state, worker, cause);
            }
        }
        let mut idle = std::mem::take(&mut state.idle);
        for worker in &mut idle {
            self.succeed(&mut state, worker);
        }
        state.idle = idle;
        let max_idle = self.starter.lifetimes.max_idle;
        while state.target > 1 && state.idle.first().is_some_and(|worker| worker.rested.elapsed() >= max_idle) {
            let spare = state.idle.remove(0);
            state.target -= 1;
            self.end(spare, Fate::Recycle(RecycleCause::Idle));
        }
        self.fill(&mut state, SpawnCause::Replace);
    }

    /// Starts the successor of a worker that has few calls or little time left, so that no call waits for it.
    pub(super) fn succeed(self: &Arc<Self>, state: &mut State, worker: &mut Worker) {
        if worker.succeeded.is_none() && state.target > 0 && state.not_before.is_none() {
            worker.succeeded = worker.nearly_worn();
            if worker.succeeded.is_some() {
                self.begin_start(state, SpawnCause::Replace);
            }
        }
    }

    /// Ends an idle worker that is worn. Where another one would be no better, the next start waits.
    pub(super) fn discard(self: &Arc<Self>, state: &mut State, worker: Worker, cause: RecycleCause) {
        let stillborn = worker.stillborn(cause).map(|message| worker.voice.masked(message).into_owned());
        self.end(worker, Fate::Recycle(cause));
        if let Some(message) = stillborn {
            self.starter.metrics.failed(&self.plugin().key.to_string(), cause.as_str());
            self.failed(state, Failure::new(Reason::NotLoaded, message));
        }
    }
}
