//! The warm workers of one plugin revision: idle seats, and calls that wait for one.
//!
//! A pool [grows](super::scaling) with demand from one worker to its size. It counts seats, each of which serves one
//! call at a time. Idle seats are taken last in, first out. A worker that is close to its limits gets a successor in
//! advance, so that no call has to wait for a replacement.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OnceCell, oneshot};
use tokio::time::{Instant, timeout_at};

use super::execution_limits::ExecutionLimits;
use super::execution_queue::{QueuePlace, Ticket};
use super::installed_code::InstalledCode;
use super::metrics::{KillCause, RecycleCause, SpawnCause};
use super::seat::{Seat, log_end};
use super::seat_lease::{SeatLease, SeatOwner};
use super::seat_queue::SeatQueue;
use super::starter::Starter;
use super::worker::{Disposition, Place, Worker};
use crate::domain::descriptor::Descriptor;
use crate::domain::plan::PluginPlan;
use crate::domain::plugin::Failure;
use crate::domain::ports::{LinkedPlugin, Loading};

/// How long a worker may take to end a call that was given up.
const WIND_DOWN: Duration = Duration::from_millis(250);

/// One plugin revision's workers.
#[derive(Debug)]
pub struct WorkerPool {
    pub(super) plugin: Arc<LinkedPlugin>,
    pub(super) starter: Arc<Starter>,
    admission: Arc<ExecutionLimits>,
    pub(super) code: OnceCell<InstalledCode>,
    /// The number of seats of each worker.
    pub(super) seats: usize,
    state: Mutex<PoolState>,
}

/// The seats of a pool, and the calls that wait for one.
#[derive(Debug, Default)]
pub(super) struct PoolState {
    /// Idle seats. The most recently used one is last.
    pub(super) idle: Vec<Seat>,
    /// Leased seats, except those of workers that must end.
    pub(super) leased: usize,
    pub(super) starting: usize,
    /// The number of seats to keep. Grows with demand, by the seats of one worker at a time.
    pub(super) target: usize,
    /// The maximum of `target`. If it is 0, the pool keeps no workers and starts one for each call.
    pub(super) size: usize,
    pub(super) waiting: SeatQueue,
    /// The workers that are replaced and stay for calls that wait, oldest first.
    pub(super) outlasting: Vec<Weak<Worker>>,
    pub(super) loaded: bool,
    /// The descriptor that `getDescriptor` returned to the last worker that loaded the plugin.
    pub(super) described: Option<Descriptor>,
    /// Whether a call has ever succeeded.
    pub(super) proven: bool,
    /// Consecutive failures: failed starts, and workers that became unusable before their first call. Reset when a call
    /// succeeds on a worker that was started after the last failure.
    pub(super) failures: u32,
    /// When the last failure happened; `None` after a reset of `failures`.
    pub(super) failed_at: Option<Instant>,
    pub(super) cause: Option<Failure>,
    /// Whether `cause` is the plugin's own fault.
    pub(super) is_own_fault: bool,
    /// No worker is started before this time.
    pub(super) not_before: Option<Instant>,
}

impl WorkerPool {
    /// Creates a pool that has no workers yet.
    pub fn new(plugin: Arc<LinkedPlugin>, starter: Arc<Starter>, admission: Arc<ExecutionLimits>) -> Arc<Self> {
        let workers = usize::try_from(plugin.pool_size).unwrap_or_default();
        Self::of(workers, plugin, starter, admission)
    }

    /// Creates a pool that keeps no workers, for calls to a revision that is not kept warm.
    pub fn unkept(plugin: Arc<LinkedPlugin>, starter: Arc<Starter>, admission: Arc<ExecutionLimits>) -> Arc<Self> {
        Self::of(0, plugin, starter, admission)
    }

    fn of(
        workers: usize,
        plugin: Arc<LinkedPlugin>,
        starter: Arc<Starter>,
        admission: Arc<ExecutionLimits>,
    ) -> Arc<Self> {
        let concurrency = usize::try_from(plugin.plan.concurrency).unwrap_or(1);
        // A worker that is started for one call serves only that call.
        let seats = if workers == 0 { 1 } else { concurrency.max(1) };
        let state = Mutex::new(PoolState { size: workers.saturating_mul(seats), ..PoolState::default() });
        Arc::new(Self { plugin, starter, admission, code: OnceCell::new(), seats, state })
    }

    /// The plugin that the workers run.
    pub fn plugin(&self) -> &PluginPlan {
        &self.plugin.plan
    }

    /// Makes the pool keep as many workers as `before`, the pool of the plugin's previous revision, but not more than
    /// its size.
    pub fn follow(&self, before: &Self) {
        let workers = before.lock().target.div_ceil(before.seats);
        let mut state = self.lock();
        state.target = (workers * self.seats).min(state.size);
    }

    /// Whether the pool keeps no workers.
    pub fn is_cold(&self) -> bool {
        self.lock().size == 0
    }

    /// Starts a first worker, which loads the plugin. A pool that keeps no workers ends this worker as soon as it has
    /// loaded the plugin or failed to.
    pub fn begin(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.size == 0 {
            return self.begin_start(&mut state, SpawnCause::Demand);
        }
        state.target = state.target.max(self.seats);
        self.fill(&mut state, SpawnCause::Demand);
    }

    /// Returns how far the plugin is loaded. A plugin that was loaded once stays loaded, even if later starts fail.
    pub fn loading(&self) -> Loading {
        let state = self.lock();
        match &state.cause {
            _ if state.loaded => Loading::Loaded,
            Some(failure) => Loading::Failed { failure: failure.clone(), own: state.is_own_fault },
            None => Loading::Underway,
        }
    }

    /// Leases a seat: an idle one if there is one, otherwise one that becomes free or is started before `until`, when it is
    /// the turn of the client.
    ///
    /// # Errors
    /// `PoolExhausted` if no seat is free by `until`, too many calls wait, or the call gave way to another one; `NotLoaded`
    /// if the plugin is still loading at `until` or no worker can be started.
    pub(super) async fn lease(self: &Arc<Self>, until: Instant, place: &mut QueuePlace) -> Result<SeatLease, Failure> {
        let (ticket, waiting) = {
            let mut state = self.lock();
            if let Some(seat) = self.take_idle(&mut state) {
                state.lend(&seat);
                return Ok(SeatLease::new(seat, self.owner()));
            }
            if let Some(failure) = state.unavailable() {
                return Err(failure);
            }
            let (ticket, (give, waiting)) = (place.take()?, oneshot::channel());
            state.waiting.push(ticket, give);
            if state.starting < state.waiting.len() {
                state.target = (state.target + self.seats).min(state.size);
            }
            self.fill(&mut state, SpawnCause::Demand);
            (ticket, waiting)
        };
        let _in_line = InLine { pool: self, ticket };
        match place.wait(until, waiting).await? {
            Some(Ok(given)) => given,
            Some(Err(_)) | None if self.loading() == Loading::Underway => Err(self.admission.not_loaded()),
            Some(Err(_)) | None => Err(self.admission.late()),
        }
    }

    fn owner(self: &Arc<Self>) -> Arc<dyn SeatOwner> {
        Arc::<Self>::clone(self)
    }

    /// Stops keeping workers: idle ones end now, the others when their calls have ended.
    pub fn retire(self: &Arc<Self>) {
        let mut state = self.lock();
        (state.size, state.target) = (0, 0);
        while let Some(seat) = state.idle.pop() {
            self.end(&mut state, seat, Disposition::Recycle(RecycleCause::Retired));
        }
    }

    /// Checks whether a call can get a worker, according to what is known now.
    ///
    /// # Errors
    /// The cause of the last failed start, if there is no worker and a call would not start one now.
    pub fn availability(&self) -> Result<(), Failure> {
        self.lock().unavailable().map_or(Ok(()), Err)
    }

    /// Takes an idle seat that can serve a call. Ends the worn workers that it finds on the way.
    fn take_idle(self: &Arc<Self>, state: &mut PoolState) -> Option<Seat> {
        while let Some(at) = state.idle.iter().rposition(|seat| !seat.worker.is_suspect()) {
            let seat = state.idle.remove(at);
            match seat.worn() {
                None => return Some(seat),
                Some(cause) => self.discard(state, seat, cause),
            }
        }
        None
    }

    /// Gives idle seats to waiting calls. A seat can be idle although calls wait, because its worker was suspect when
    /// the seat was returned.
    fn serve(self: &Arc<Self>, state: &mut PoolState) {
        while !state.waiting.is_empty()
            && let Some(seat) = self.take_idle(state)
        {
            self.offer(state, seat);
        }
    }

    /// Hands a seat to the call whose turn it is. If no call waits, keeps the seat if there is room, and ends
    /// its worker otherwise.
    pub(super) fn offer(self: &Arc<Self>, state: &mut PoolState, mut seat: Seat) {
        if let Some(disposition) = seat.worker.leaving.get().copied() {
            return self.end(state, seat, disposition);
        }
        if Self::is_surplus(&seat) {
            return;
        }
        if let Some(cause) = seat.worn().filter(|cause| seat.stillborn(*cause).is_some()) {
            return self.discard(state, seat, cause);
        }
        while !seat.worker.is_suspect()
            && let Some(waiter) = state.waiting.next()
        {
            state.lend(&seat);
            match waiter.send(Ok(SeatLease::new(seat, self.owner()))) {
                Ok(()) => return,
                Err(Ok(lease)) => match lease.into_seat() {
                    Some(unused) => seat = unused,
                    None => return,
                },
                Err(Err(_)) => return,
            }
            state.returned(&seat);
        }
        let has_successor = |seat: &Seat| seat.worker.succeeded.get().is_some();
        if let Some(at) = gives_way(&state.idle, state.target, &seat, has_successor) {
            let spent = state.idle.remove(at);
            self.end_spare(state, spent);
        }
        if state.idle.len() < state.target {
            state.idle.push(seat);
        } else {
            self.end_spare(state, seat);
        }
    }

    /// Ends the worker of a surplus seat.
    fn end_spare(self: &Arc<Self>, state: &mut PoolState, seat: Seat) {
        let cause = seat.worker.succeeded.get().copied().unwrap_or(RecycleCause::Retired);
        self.end(state, seat, Disposition::Recycle(cause));
    }

    /// Ends the worker of `seat`: its other idle seats end now, and its leased ones after their calls. The pool no
    /// longer counts any of them.
    pub(super) fn end(self: &Arc<Self>, state: &mut PoolState, seat: Seat, disposition: Disposition) {
        if seat.worker.leaving.set(disposition).is_ok() {
            state.leased = state.leased.saturating_sub(seat.worker.leased.load(Ordering::Relaxed));
            let plugin = self.plugin.plan.key.to_string();
            match disposition {
                Disposition::Recycle(cause) => {
                    self.starter.metrics.recycled(&plugin, cause);
                    self.outlast(state, &seat.worker);
                }
                Disposition::Kill(cause) => self.starter.metrics.killed(&plugin, cause),
                Disposition::Keep | Disposition::Spent => {}
            }
        }
        while let Some(at) = state.idle.iter().position(|idle| idle.worker.id == seat.worker.id) {
            state.idle.remove(at).end(disposition, &self.starter.tasks);
        }
        seat.end(disposition, &self.starter.tasks);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that waits for a seat. However the wait ends, the pool then no longer counts it.
struct InLine<'p> {
    pool: &'p WorkerPool,
    ticket: Ticket,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.pool.lock().waiting.remove(self.ticket);
    }
}

impl SeatOwner for WorkerPool {
    fn give_back(self: Arc<Self>, mut seat: Seat, disposition: Disposition, went_well: bool) {
        let mut state = self.lock();
        seat.release();
        let was_left = Self::free_place(&mut state, &seat);
        state.proven |= went_well;
        // A worker that started before the last failure proves nothing about starts after it.
        if went_well && state.failed_at.is_none_or(|at| seat.worker.born > at) {
            state.failures = 0;
            state.failed_at = None;
            state.cause = None;
            state.not_before = None;
        }
        match disposition {
            // A lease can be dropped without a call, if the call did not get a permit in time. The worker may be worn
            // by then.
            Disposition::Keep if let Some(cause) = seat.worn() => self.discard(&mut state, seat, cause),
            Disposition::Keep if was_left && seat.worker.leaving.get().is_none() => drop(seat),
            Disposition::Keep => {
                self.succeed(&mut state, &seat);
                self.offer(&mut state, seat);
            }
            disposition => self.end(&mut state, seat, disposition),
        }
        self.serve(&mut state);
        self.fill(&mut state, SpawnCause::Replace);
    }

    fn leave_place(self: Arc<Self>, place: &Place) {
        self.leave(place);
    }

    fn take_place(self: Arc<Self>, place: &Place) {
        self.come_back(place);
    }

    /// Tells a worker that the call on `seat` was given up. The worker has a short time to end the call, and one with
    /// several seats has at least until the call's `deadline`. If the worker ends the call in time, it keeps serving.
    /// Otherwise it is killed for `cause`, or, if it still serves other calls, only gets no further ones.
    fn wind_down(self: Arc<Self>, mut seat: Seat, cause: KillCause, deadline: Instant) {
        if seat.is_shared() && cause == KillCause::Timeout {
            seat.suspect();
        }
        let tasks = self.starter.tasks.clone();
        tasks.spawn(async move {
            let soon = Instant::now() + WIND_DOWN;
            let until = if seat.is_shared() { soon.max(deadline) } else { soon };
            let disposition = match timeout_at(until, seat.give_up(cause)).await {
                Ok(disposition) => disposition,
                Err(_) if seat.serves_others() => Disposition::Recycle(RecycleCause::Stuck),
                Err(_) => Disposition::Kill(cause),
            };
            self.give_back(seat, disposition, false);
        });
    }
}

impl PoolState {
    /// Counts a seat as leased. The seat's worker must not be leaving.
    fn lend(&mut self, seat: &Seat) {
        seat.worker.leased.fetch_add(1, Ordering::Relaxed);
        self.leased += 1;
    }

    /// Counts a seat as no longer leased.
    pub(super) fn returned(&mut self, seat: &Seat) {
        seat.worker.leased.fetch_sub(1, Ordering::Relaxed);
        self.leased = self.leased.saturating_sub(usize::from(seat.worker.leaving.get().is_none()));
    }

    fn unavailable(&self) -> Option<Failure> {
        let cause = self.cause.as_ref()?;
        let waits = self.size > 0 || self.not_before.is_some_and(|at| Instant::now() < at);
        (waits && self.idle.len() + self.leased == 0).then(|| cause.clone())
    }
}

/// Returns the index of an idle seat to end so that `coming` can be kept as one of at most `target` idle seats: a seat
/// whose worker has a successor. Returns `None` if there is room, if `coming` has a successor itself, or if no idle
/// seat has one.
fn gives_way<T>(idle: &[T], target: usize, coming: &T, has_successor: impl Fn(&T) -> bool) -> Option<usize> {
    if idle.len() < target || has_successor(coming) {
        return None;
    }
    idle.iter().position(has_successor)
}

/// Handles the exit of the process of worker `id`, if one of its seats is idle. If a seat is leased, its lease handles
/// the exit.
pub(super) fn exited(pool: &Weak<WorkerPool>, id: u64) {
    let Some(pool) = pool.upgrade() else { return };
    let mut state = pool.lock();
    let Some(at) = state.idle.iter().position(|seat| seat.worker.id == id) else { return };
    // A Once script that has exited with code 0 before its call may have left its answer in the pipe, so it can still
    // serve the call.
    if state.idle.get(at).is_some_and(|seat| seat.worn() == Some(RecycleCause::Exited)) {
        let seat = state.idle.remove(at);
        pool.starter.tasks.spawn(log_end(Arc::clone(&seat.worker)));
        pool.discard(&mut state, seat, RecycleCause::Exited);
        pool.fill(&mut state, SpawnCause::Replace);
    }
}

#[cfg(test)]
mod tests;
