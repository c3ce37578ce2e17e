//! Decides when a pool starts workers. Failed starts are retried after growing pauses, so that a plugin that always
//! fails to start does not cause a loop of spawns.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::metrics::SpawnCause;
use super::pool::{PoolState, WorkerPool, exited};
use super::seat::Seat;
use super::starter::StartError;
use crate::domain::descriptor::Descriptor;
use crate::domain::plugin::Failure;

/// The pause after the first failed start. Each further failure doubles it.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

impl WorkerPool {
    /// Starts the workers that are missing, unless starts are paused after a failure.
    pub(super) fn fill(self: &Arc<Self>, state: &mut PoolState, cause: SpawnCause) {
        if state.not_before.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let living = state.idle.len() + state.leased + state.starting;
        let demand = if state.size == 0 { state.waiting.len().saturating_sub(state.starting) } else { 0 };
        let lacking = (state.target.saturating_sub(living) / self.seats).max(demand.div_ceil(self.seats));
        // After a failure, a pool that keeps workers starts only one worker at a time, until a call succeeds.
        let most = if state.failures > 0 && state.size > 0 { usize::from(state.starting == 0) } else { lacking };
        for _ in 0..lacking.min(most) {
            self.begin_start(state, cause);
        }
    }

    pub(super) fn begin_start(self: &Arc<Self>, state: &mut PoolState, cause: SpawnCause) {
        state.starting += self.seats;
        let pool = Arc::clone(self);
        self.starter.tasks.spawn(async move { pool.start(cause).await });
    }

    /// Returns what the code of the plugin says of it; `None` until it is loaded.
    pub fn described(&self) -> Option<Descriptor> {
        self.lock().described.clone()
    }

    async fn start(self: Arc<Self>, cause: SpawnCause) {
        let started = self.start_worker(cause).await;
        let mut state = self.lock();
        state.starting = state.starting.saturating_sub(self.seats);
        match started {
            Ok(seats) => {
                state.loaded |= seats.iter().all(Seat::is_sound);
                let described = seats.first().and_then(|seat| seat.worker.stats.described.get().cloned());
                state.described = described.or(state.described.take());
                seats.into_iter().for_each(|seat| self.offer(&mut state, seat));
            }
            Err(error) => {
                self.starter.metrics.failed(&self.plugin.plan.key.to_string(), error.as_label());
                state.is_own_fault = error.is_the_plugins();
                self.log_failure(&state, &error);
                self.failed(&mut state, error.into());
            }
        }
        drop(state);
        self.starter.loads.send_modify(|ended| *ended += 1);
    }

    /// Logs why a start failed: as a warning, or at debug level if the previous start failed for the same reason.
    fn log_failure(&self, state: &PoolState, error: &StartError) {
        let (plugin, digest) = (self.plugin.plan.key.to_string(), &self.plugin.plan.digest);
        let known = state.cause.as_ref().is_some_and(|cause| cause.message == error.failure().message);
        if known {
            tracing::debug!(plugin, revision = digest, "Plugin '{plugin}' still cannot be started: {error}");
        } else {
            tracing::warn!(plugin, revision = digest, "Plugin '{plugin}' cannot be started: {error}");
        }
    }

    async fn start_worker(self: &Arc<Self>, cause: SpawnCause) -> Result<Vec<Seat>, StartError> {
        let code = self.code.get_or_try_init(|| self.starter.write(&self.plugin)).await?;
        let (pool, proven) = (Arc::downgrade(self), self.lock().proven);
        self.starter.start(&self.plugin, code, cause, (self.seats, proven), move |id| exited(&pool, id)).await
    }

    /// Records a failed start and delays the next one. If the pool has no idle and no leased seat, waiting calls fail
    /// immediately.
    pub(super) fn failed(self: &Arc<Self>, state: &mut PoolState, cause: Failure) {
        let wait = FIRST_WAIT.saturating_mul(1 << state.failures.min(16)).min(LONGEST_WAIT);
        let now = Instant::now();
        let at = now + wait;
        state.failed_at = Some(now);
        state.failures = state.failures.saturating_add(1);
        state.cause = Some(cause.clone());
        state.not_before = Some(at);
        if state.idle.len() + state.leased == 0 {
            for waiter in state.waiting.drain() {
                let _ = waiter.send(Err(cause.clone()));
            }
        }
        if state.size > 0 {
            self.retry_at(at);
        }
    }

    fn retry_at(self: &Arc<Self>, at: Instant) {
        let (pool, closed) = (Arc::downgrade(self), self.starter.closed.clone());
        self.starter.tasks.spawn(async move {
            tokio::select! {
                () = closed.cancelled() => return,
                () = sleep_until(at) => {}
            }
            if let Some(pool) = pool.upgrade() {
                pool.fill(&mut pool.lock(), SpawnCause::Retry);
            }
        });
    }
}
