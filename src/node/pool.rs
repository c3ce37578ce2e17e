//! The warm workers of one plugin revision: who is idle, who waits, and when another one is started.
//!
//! A pool grows with demand from one worker to its size. Idle workers are taken last-in-first-out. A worker that is
//! done is replaced after its answer, off the call's path. Starts that fail are tried again after growing waits, so that
//! a plugin that dies on start never becomes a loop of spawns.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OnceCell, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::admission::Admission;
use super::code::Code;
use super::lease::Lease;
use super::metrics::{KillCause, RecycleCause, SpawnCause};
use super::starter::{StartError, Starter};
use super::worker::{Fate, Worker};
use crate::domain::plan::PluginPlan;
use crate::domain::plugin::Failure;
use crate::domain::ports::{LinkedPlugin, WorkerState};

/// The wait after the first failed start; each further one doubles it.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How long a worker whose call was given up may take to end it.
const WIND_DOWN: Duration = Duration::from_millis(250);

/// One plugin revision's workers.
#[derive(Debug)]
pub struct Pool {
    plugin: Arc<LinkedPlugin>,
    pub(super) starter: Arc<Starter>,
    admission: Arc<Admission>,
    code: OnceCell<Code>,
    state: Mutex<State>,
    /// Whether a first start has succeeded or failed.
    tried: watch::Sender<bool>,
}

/// Who is where.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The last one was used last.
    pub(super) idle: Vec<Worker>,
    leased: usize,
    starting: usize,
    /// Workers to keep; grows with demand.
    pub(super) target: usize,
    /// What `target` may grow to; 0 keeps none, and workers are started when they are asked for.
    size: usize,
    waiting: VecDeque<oneshot::Sender<Result<Lease, Failure>>>,
    /// Whether a call has gone well.
    proven: bool,
    /// Failed starts, and ends before the first call, since a worker was started that served a call well.
    failures: u32,
    /// When the last of them failed.
    failed_at: Option<Instant>,
    cause: Option<Failure>,
    /// No start before.
    pub(super) not_before: Option<Instant>,
}

impl Pool {
    /// A pool without workers.
    pub fn new(plugin: Arc<LinkedPlugin>, starter: Arc<Starter>, admission: Arc<Admission>) -> Arc<Self> {
        let size = usize::try_from(plugin.pool_size).unwrap_or_default();
        let state = Mutex::new(State { size, ..State::default() });
        Arc::new(Self { plugin, starter, admission, code: OnceCell::new(), state, tried: watch::Sender::new(false) })
    }

    /// A pool for calls of a revision that is no longer kept warm.
    pub fn unkept(plugin: Arc<LinkedPlugin>, starter: Arc<Starter>, admission: Arc<Admission>) -> Arc<Self> {
        let pool = Self::new(plugin, starter, admission);
        pool.lock().size = 0;
        pool
    }

    /// The plugin whose workers they are.
    pub fn plugin(&self) -> &PluginPlan {
        &self.plugin.plan
    }

    /// Is to keep as many workers as `before`, which it follows, has come to keep.
    pub fn follow(&self, before: &Self) {
        let target = before.lock().target;
        let mut state = self.lock();
        state.target = target.min(state.size);
    }

    /// Whether it keeps no workers.
    pub fn is_cold(&self) -> bool {
        self.lock().size == 0
    }

    /// Starts the first worker and waits until it is ready or has failed.
    pub async fn warm(self: &Arc<Self>) {
        let mut tried = self.tried.subscribe();
        {
            let mut state = self.lock();
            if state.size == 0 {
                return;
            }
            state.target = state.target.max(1);
            self.fill(&mut state, SpawnCause::Demand);
        }
        let _ = tried.wait_for(|tried| *tried).await;
    }

    /// Takes a worker, an idle one at once, else the first that becomes free or ready before `until`.
    ///
    /// # Errors
    /// `PoolExhausted` where there is none by then or too many wait; `NotLoaded` where none can be started.
    pub async fn lease(self: &Arc<Self>, until: Instant) -> Result<Lease, Failure> {
        let (waiting, _place) = {
            let mut state = self.lock();
            if let Some(worker) = self.take_idle(&mut state) {
                state.leased += 1;
                return Ok(Lease::new(worker, self));
            }
            if let Some(failure) = state.unavailable() {
                return Err(failure);
            }
            let place = self.admission.queue()?;
            let (give, waiting) = oneshot::channel();
            state.waiting.retain(|waiter| !waiter.is_closed());
            state.waiting.push_back(give);
            if state.starting < state.waiting.len() {
                state.target = (state.target + 1).min(state.size);
            }
            self.fill(&mut state, SpawnCause::Demand);
            (waiting, place)
        };
        match timeout_at(until, waiting).await {
            Ok(Ok(given)) => given,
            Ok(Err(_)) | Err(_) => Err(self.admission.late()),
        }
    }

    /// Takes a worker back after a call.
    pub fn give_back(self: &Arc<Self>, mut worker: Worker, fate: Fate, went_well: bool) {
        let mut state = self.lock();
        state.leased = state.leased.saturating_sub(1);
        state.proven |= went_well;
        // That one which was there before still serves says nothing about starts.
        if went_well && state.failed_at.is_none_or(|at| worker.born > at) {
            state.failures = 0;
            state.failed_at = None;
            state.cause = None;
            state.not_before = None;
        }
        match fate {
            Fate::Keep => {
                self.succeed(&mut state, &mut worker);
                self.offer(&mut state, worker);
            }
            fate => self.end(worker, fate),
        }
        self.fill(&mut state, SpawnCause::Replace);
    }

    /// Tells a worker that nobody waits for its call. One that ends the call soon serves on, any other is killed.
    pub fn wind_down(self: &Arc<Self>, mut worker: Worker) {
        let pool = Arc::clone(self);
        self.starter.tasks.spawn(async move {
            let fate = timeout(WIND_DOWN, worker.give_up()).await.unwrap_or(Fate::Kill(KillCause::Cancelled));
            pool.give_back(worker, fate, false);
        });
    }

    /// Keeps no workers any more: idle ones go now, others when their call has ended.
    pub fn retire(&self) {
        let mut state = self.lock();
        (state.size, state.target) = (0, 0);
        for worker in std::mem::take(&mut state.idle) {
            self.end(worker, Fate::Recycle(RecycleCause::Retired));
        }
    }

    /// Whether a worker can be started, as far as is known.
    ///
    /// # Errors
    /// `NotLoaded` with the cause of the last failed start.
    pub fn availability(&self) -> Result<(), Failure> {
        self.lock().unavailable().map_or(Ok(()), Err)
    }

    /// An idle worker that may serve. Those that may not are ended.
    fn take_idle(self: &Arc<Self>, state: &mut State) -> Option<Worker> {
        while let Some(worker) = state.idle.pop() {
            match worker.worn() {
                None => return Some(worker),
                Some(cause) => self.discard(state, worker, cause),
            }
        }
        None
    }

    /// Hands a worker to whoever waits longest, or keeps it.
    fn offer(self: &Arc<Self>, state: &mut State, mut worker: Worker) {
        if let Some(cause) = worker.worn().filter(|cause| worker.stillborn(*cause).is_some()) {
            return self.discard(state, worker, cause);
        }
        while let Some(waiter) = state.waiting.pop_front() {
            match waiter.send(Ok(Lease::new(worker, self))) {
                Ok(()) => {
                    state.leased += 1;
                    return;
                }
                Err(Ok(lease)) => match lease.into_worker() {
                    Some(unused) => worker = unused,
                    None => return,
                },
                Err(Err(_)) => return,
            }
        }
        if state.idle.len() >= state.target && worker.succeeded.is_none() {
            // The one that it was started for may go now.
            if let Some(at) = state.idle.iter().position(|idle| idle.succeeded.is_some()) {
                let spent = state.idle.remove(at);
                self.end_spare(spent);
            }
        }
        if state.idle.len() < state.target {
            worker.card.set_state(WorkerState::Available);
            worker.rested = Instant::now();
            state.idle.push(worker);
        } else {
            self.end_spare(worker);
        }
    }

    /// Ends a worker that is one too many.
    fn end_spare(&self, worker: Worker) {
        let cause = worker.succeeded.unwrap_or(RecycleCause::Retired);
        self.end(worker, Fate::Recycle(cause));
    }

    pub(super) fn end(&self, worker: Worker, fate: Fate) {
        let plugin = self.plugin.plan.key.to_string();
        match fate {
            Fate::Recycle(cause) => self.starter.metrics.recycled(&plugin, cause),
            Fate::Kill(cause) => self.starter.metrics.killed(&plugin, cause),
            Fate::Keep | Fate::Spent => {}
        }
        worker.end(fate, &self.starter.tasks);
    }

    /// Starts as many workers as are wanted and not yet there, unless starts fail.
    pub(super) fn fill(self: &Arc<Self>, state: &mut State, cause: SpawnCause) {
        if state.not_before.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let living = state.idle.len() + state.leased + state.starting;
        let demand = if state.size == 0 { state.waiting.len().saturating_sub(state.starting) } else { 0 };
        let lacking = state.target.saturating_sub(living).max(demand);
        // While it is not known whether starts work again, one at a time shows it.
        let most = if state.failures > 0 && state.size > 0 { 1_usize.saturating_sub(state.starting) } else { lacking };
        for _ in 0..lacking.min(most) {
            self.begin_start(state, cause);
        }
    }

    pub(super) fn begin_start(self: &Arc<Self>, state: &mut State, cause: SpawnCause) {
        state.starting += 1;
        let pool = Arc::clone(self);
        self.starter.tasks.spawn(async move { pool.start(cause).await });
    }

    async fn start(self: Arc<Self>, cause: SpawnCause) {
        let started = self.start_worker(cause).await;
        let mut state = self.lock();
        state.starting = state.starting.saturating_sub(1);
        match started {
            Ok(worker) => self.offer(&mut state, worker),
            Err(error) => {
                let plugin = self.plugin.plan.key.to_string();
                tracing::warn!(plugin, "Plugin '{plugin}' cannot be started: {error}");
                self.starter.metrics.failed(&plugin, error.as_label());
                self.failed(&mut state, error.into());
            }
        }
        drop(state);
        self.tried.send_replace(true);
    }

    async fn start_worker(self: &Arc<Self>, cause: SpawnCause) -> Result<Worker, StartError> {
        let code = self.code.get_or_try_init(|| self.starter.write(&self.plugin)).await?;
        let (pool, proven) = (Arc::downgrade(self), self.lock().proven);
        self.starter.start(&self.plugin, code, cause, proven, move |id| exited(&pool, id)).await
    }

    /// A start failed: the next one waits, and where there is no worker at all, so does nobody else.
    pub(super) fn failed(self: &Arc<Self>, state: &mut State, cause: Failure) {
        let wait = FIRST_WAIT.saturating_mul(1 << state.failures.min(16)).min(LONGEST_WAIT);
        let now = Instant::now();
        let at = now + wait;
        state.failed_at = Some(now);
        state.failures = state.failures.saturating_add(1);
        state.cause = Some(cause.clone());
        state.not_before = Some(at);
        if state.idle.len() + state.leased == 0 {
            for waiter in state.waiting.drain(..) {
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

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn unavailable(&self) -> Option<Failure> {
        let cause = self.cause.as_ref()?;
        let waits = self.size > 0 || self.not_before.is_some_and(|at| Instant::now() < at);
        (waits && self.idle.len() + self.leased == 0).then(|| cause.clone())
    }
}

/// A process ended. One that is in a call is its lease's affair.
fn exited(pool: &Weak<Pool>, id: u64) {
    let Some(pool) = pool.upgrade() else { return };
    let mut state = pool.lock();
    let Some(at) = state.idle.iter().position(|worker| worker.id == id) else { return };
    // A script that was done before it was asked has left its answer in the pipe.
    if state.idle.get(at).is_some_and(|worker| worker.worn() == Some(RecycleCause::Exited)) {
        let worker = state.idle.remove(at);
        pool.discard(&mut state, worker, RecycleCause::Exited);
        pool.fill(&mut state, SpawnCause::Replace);
    }
}
