//! Starts workers, about as many at the same time as there are cores, and keeps the list of those that run.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::sync::{OnceCell, Semaphore, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::discovery::{NodeError, NodeRuntime};
use super::egress::Egress;
use super::installed_code::{CodeFolder, InstalledCode};
use super::launcher::Launcher;
use super::loading::START_DEADLINE;
pub use super::loading::StartError;
use super::log_mask::LogMask;
use super::metrics::{KillCause, SpawnCause, WorkerMetrics};
use super::output_drain::{OutputDrain, drain};
use super::process::{ChildProcess, Group, OwnMemory, Tasks};
use super::seat::{GRACE, Seat};
use super::spawn::{SpawnSpec, Spawned, spawn};
use super::stats::WorkerStats;
use super::worker::{Absences, Worker, executions_of};
use super::wrapper::{Interpreters, Program};
use crate::domain::plan::PluginPlan;
use crate::domain::ports::{LinkedPlugin, WorkerInfo, WorkerState};
use crate::domain::sandbox::{SandboxLack, SandboxMode, SandboxState};

/// How long a process's output is still read after the process has ended.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// How long workers serve, as far as their plugins do not set it. The limits on calls and age of each worker are up to
/// a tenth lower, so that the workers of a pool are not all replaced at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// The maximum number of calls. `None` means 1,000 for a Once script that is run again in one process, and 100,000
    /// for Module and Lines.
    pub max_executions: Option<u64>,
    /// The maximum time since the start of the worker.
    pub max_age: Duration,
    /// How long a worker may be unused before it is ended, unless it is the only one of its pool.
    pub max_idle: Duration,
    /// How often idle workers are maintained.
    pub maintained_every: Duration,
}

impl Default for Lifetimes {
    /// The number of calls depends on the protocol. The age is one hour, as in document 000. A worker may be unused for
    /// one minute, and idle workers are maintained every second.
    fn default() -> Self {
        Self {
            max_executions: None,
            max_age: Duration::from_secs(3600),
            max_idle: Duration::from_secs(60),
            maintained_every: Duration::from_secs(1),
        }
    }
}

/// Starts the workers of all pools.
#[derive(Debug)]
pub struct Starter {
    /// All background tasks that concern workers.
    pub tasks: Tasks,
    /// Metrics about workers.
    pub metrics: WorkerMetrics,
    launcher: Launcher,
    /// How long workers serve by default.
    pub lifetimes: Lifetimes,
    folder: Arc<CodeFolder>,
    node: Mutex<Result<NodeRuntime, NodeError>>,
    interpreters: Interpreters,
    sandbox: Mutex<SandboxState>,
    /// The properties of the sandbox that the kernel does not enforce. Determined once, because they do not change.
    lacks: OnceCell<Vec<SandboxLack>>,
    slots: Semaphore,
    living: Mutex<BTreeMap<u64, Living>>,
    next: AtomicU64,
    /// Counts starts of workers that have ended, successfully or not.
    pub(super) loads: watch::Sender<u64>,
    /// Cancelled when no more workers may be started.
    pub closed: CancellationToken,
}

#[derive(Debug)]
struct Living {
    stats: Arc<WorkerStats>,
    group: Arc<Group>,
}

impl Starter {
    /// Creates a starter without a Node.js; see [`Starter::set_node`].
    ///
    /// # Errors
    /// If the private folder cannot be created.
    pub fn new(launcher: Launcher, lifetimes: Lifetimes, metrics: WorkerMetrics) -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            tasks: Tasks::here(),
            metrics,
            launcher,
            lifetimes,
            folder: Arc::new(CodeFolder::create()?),
            node: Mutex::new(Err(NodeError::NotAsked)),
            interpreters: Interpreters::default(),
            sandbox: Mutex::new(SandboxState { required: true, lacks: Vec::new() }),
            lacks: OnceCell::new(),
            slots: Semaphore::new(cores),
            living: Mutex::default(),
            next: AtomicU64::new(1),
            loads: watch::Sender::new(0),
            closed: CancellationToken::new(),
        })
    }

    /// Sets the Node.js that workers run on from now on.
    pub fn set_node(&self, node: Result<NodeRuntime, NodeError>) {
        *lock(&self.node) = node;
    }

    /// The Node.js that workers run on, or the reason why there is none.
    pub fn node(&self) -> Result<NodeRuntime, NodeError> {
        lock(&self.node).clone()
    }

    /// Finds out which parts of the sandbox the kernel enforces, and sets according to `mode` whether workers may start
    /// without the other parts. Returns both. If the check itself fails, this is only logged, because a worker that
    /// lacks a required part does not start anyway.
    pub async fn set_sandbox(&self, mode: Option<SandboxMode>) -> SandboxState {
        let default = if cfg!(target_os = "linux") { SandboxMode::Required } else { SandboxMode::BestEffort };
        let required = mode.unwrap_or(default) == SandboxMode::Required;
        let lacks = match self.lacks.get_or_try_init(|| self.launcher.probe()).await {
            Ok(lacks) => lacks.clone(),
            Err(error) => {
                tracing::warn!("what the kernel enforces of the sandbox cannot be found out: {error}");
                Vec::new()
            }
        };
        let state = SandboxState { required, lacks };
        *lock(&self.sandbox) = state.clone();
        state
    }

    /// The mode of the sandbox, and the properties that the kernel does not enforce.
    pub fn sandbox(&self) -> SandboxState {
        lock(&self.sandbox).clone()
    }

    /// Writes the plugin's code to disk, for its workers.
    ///
    /// # Errors
    /// See [`CodeFolder::write`].
    pub async fn write(&self, plugin: &Arc<LinkedPlugin>) -> Result<InstalledCode, StartError> {
        let (folder, plugin) = (Arc::clone(&self.folder), Arc::clone(plugin));
        let written = tokio::task::spawn_blocking(move || folder.write(&plugin.plan, &plugin.code)).await;
        Ok(written.map_err(io::Error::other)??)
    }

    /// Starts a worker and waits until it has loaded its plugin. The worker has `seats` seats if its protocol allows
    /// it, otherwise one. `proven` tells whether the plugin has ever served a call successfully. `on_exit` is called
    /// with the worker's id when its process has ended.
    ///
    /// # Errors
    /// The reason why the worker could not be started. Its process is then killed.
    pub async fn start(
        self: &Arc<Self>,
        plugin: &Arc<LinkedPlugin>,
        code: &InstalledCode,
        cause: SpawnCause,
        (seats, proven): (usize, bool),
        on_exit: impl FnOnce(u64) + Send + 'static,
    ) -> Result<Vec<Seat>, StartError> {
        let slot = self.slots.acquire().await.map_err(|_| StartError::Closed)?;
        let (node, began) = (self.node()?, Instant::now());
        let program = match &plugin.plan.wrapper {
            Some(wrapper) => {
                let program = self.interpreters.program(&self.launcher, wrapper, code).await;
                Some(program.map_err(StartError::Interpreter)?)
            }
            None => {
                node.check_runs(&plugin.plan.file_name)?;
                None
            }
        };
        let name = plugin.plan.key.to_string();
        let mut seat = self.spawn(plugin, code, (&node, program.as_ref()), on_exit)?;
        self.metrics.spawned(&name, cause);
        if self.closed.is_cancelled() {
            return Err(StartError::Closed);
        }
        match seat.loaded_by_deadline(slot, proven).await {
            Some(Ok(())) => {
                self.metrics.ready(&name, began.elapsed());
                seat.worker.stats.set_state(WorkerState::Available);
                Ok(seat.split(seats))
            }
            Some(Err(error)) => Err(error.masked(&seat.worker.log_mask)),
            None => {
                self.metrics.killed(&name, KillCause::Start);
                Err(StartError::Late(START_DEADLINE))
            }
        }
    }

    /// Measures the memory of all workers whose last measurement may be outdated.
    pub fn measure(&self) {
        let cards: Vec<_> = lock(&self.living).values().map(|living| Arc::clone(&living.stats)).collect();
        for stats in cards {
            stats.measure();
        }
    }

    /// Describes all running workers.
    pub fn workers(&self) -> Vec<WorkerInfo> {
        let workers: Vec<_> = lock(&self.living).values().map(|living| living.stats.info()).collect();
        workers
            .into_iter()
            .map(|worker| WorkerInfo { memory_bytes: OwnMemory::of(worker.pid).map(|own| own.resident), ..worker })
            .collect()
    }

    /// Prevents workers from being started, lets those of retired plugins that are not middleware shut down, and kills all
    /// that are left.
    pub async fn close(&self) {
        self.closed.cancel();
        self.slots.close();
        // This wakes every task that waits for a start to end, because no more workers are started.
        self.loads.send_modify(|ended| *ended += 1);
        let is_awaited = lock(&self.living).values().any(|living| living.stats.is_typed());
        if is_awaited {
            let _ = timeout(GRACE, self.tasks.finish()).await;
        }
        for living in lock(&self.living).values() {
            self.metrics.killed(&living.stats.info().plugin, KillCause::Shutdown);
            living.group.kill();
        }
    }

    /// Removes all plugin code from disk. Call this at the end, when no worker is alive.
    pub fn remove_code(&self) {
        self.folder.remove();
    }

    fn spawn(
        self: &Arc<Self>,
        plugin: &Arc<LinkedPlugin>,
        code: &InstalledCode,
        (node, program): (&NodeRuntime, Option<&Program>),
        on_exit: impl FnOnce(u64) + Send + 'static,
    ) -> Result<Seat, StartError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let sandbox_required = lock(&self.sandbox).required;
        let Spawned { child, transport, printed, egress } =
            spawn(SpawnSpec { launcher: &self.launcher, node, program, plugin, code, sandbox_required })?;
        let stats = Arc::new(WorkerStats::new(child.id().unwrap_or_default(), Arc::clone(plugin)));
        let starter = Arc::downgrade(self);
        let process = ChildProcess::adopt(child, &self.tasks, move || {
            forget(&starter, id);
            on_exit(id);
        });
        lock(&self.living).insert(id, Living { stats: Arc::clone(&stats), group: process.group() });
        if process.status().is_some() {
            forget(&Arc::downgrade(self), id);
        }
        let log_mask = LogMask::of(plugin).running(code);
        let drained = self.listen(plugin, log_mask.clone(), &process, printed)?;
        let serve = |socket| Egress::serve(socket, plugin, &self.metrics, &self.tasks, process.over());
        let egress = egress.map(serve).transpose()?;
        let (max_executions, age) = self.life(&plugin.plan, id);
        let now = Instant::now();
        let worker = Worker {
            id,
            process,
            drained,
            log_mask,
            egress,
            stats,
            max_executions,
            born: now,
            ages: now + (age - age / 20),
            expires: now + age,
            max_noise: plugin.plan.limits.max_stderr,
            max_data: node.data.saturating_add(plugin.plan.limits.memory / 4 * 3),
            succeeded: OnceLock::new(),
            leased: AtomicUsize::new(0),
            absences: Absences::default(),
            suspects: AtomicUsize::new(0),
            leaving: OnceLock::new(),
        };
        Ok(Seat::only(worker, transport))
    }

    /// Returns after how many calls and after how much time the worker with this id is replaced.
    fn life(&self, plugin: &PluginPlan, id: u64) -> (u64, Duration) {
        let Lifetimes { max_executions, max_age, .. } = self.lifetimes;
        let max_age = plugin.max_lifetime_seconds.map_or(max_age, |seconds| Duration::from_secs(seconds.into()));
        let max_executions = executions_of(plugin, max_executions, |most| jittered(most, id));
        (max_executions, Duration::from_millis(jittered(millis(max_age), id)))
    }

    fn listen(
        &self,
        plugin: &LinkedPlugin,
        log_mask: LogMask,
        process: &ChildProcess,
        printed: io::PipeReader,
    ) -> io::Result<Arc<OutputDrain>> {
        let drained = Arc::new(OutputDrain::default());
        let printed = pipe::Receiver::from_owned_fd(printed.into())?;
        let draining = drain(printed, Arc::clone(&drained), log_mask, process.pid(), plugin.plan.limits.max_stderr);
        let (over, read) = (process.over(), Arc::clone(&drained));
        self.tasks.spawn(async move {
            // A process that has left the group can keep the pipe open forever.
            tokio::select! {
                () = draining => {}
                () = async { over.await; tokio::time::sleep(LAST_WORDS).await } => {}
            }
            read.end();
        });
        Ok(drained)
    }
}

fn forget(starter: &Weak<Starter>, id: u64) {
    if let Some(starter) = starter.upgrade()
        && let Some(living) = lock(&starter.living).remove(&id)
    {
        living.stats.set_state(WorkerState::Terminated);
    }
}

/// Returns `most` reduced by up to a tenth. Consecutive ids have different results.
fn jittered(most: u64, id: u64) -> u64 {
    most - (most / 10) * (id.wrapping_mul(7) % 11) / 10
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::fixture::{plugin, starter};
    use super::*;

    #[tokio::test]
    async fn the_memory_of_every_living_worker_is_looked_at() {
        let starter = starter();
        let child = tokio::process::Command::new("true").process_group(0).spawn().unwrap();
        let process = ChildProcess::adopt(child, &starter.tasks, || ());
        let stats = Arc::new(WorkerStats::new(std::process::id(), plugin()));
        stats.set_state(WorkerState::Available);
        lock(&starter.living).insert(1, Living { stats: Arc::clone(&stats), group: process.group() });
        starter.measure();
        assert!(stats.data() > 0);
    }
}
