//! One warm worker: a process, the protocol that it speaks, and what it has served. Knows no pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use super::egress::Egress;
use super::metrics::{KillCause, RecycleCause};
use super::noise::Noise;
use super::process::{Process, Tasks};
use super::protocol::channel::Channel;
use super::protocol::once::Pipes;
use super::protocol::{Call, Exchange};
use super::voice::Voice;
use crate::domain::plugin::{Failure, Protocol};
use crate::domain::ports::{LinkedPlugin, WorkerInfo, WorkerState};
use crate::domain::reason::Reason;

/// How long a process whose worker is done may take to end by itself.
const GRACE: Duration = Duration::from_secs(1);
/// How long to wait for the status of a process whose socket closed.
const STATUS_WAIT: Duration = Duration::from_millis(20);

/// The way to a worker.
#[derive(Debug)]
pub enum Talk {
    /// Frames, many calls.
    Module(Box<Channel>),
    /// Pipes, one call.
    Once(Pipes),
}

/// What becomes of a worker after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It serves on.
    Keep,
    /// It has served all that it can.
    Spent,
    /// It could serve on, but is to be replaced.
    Recycle(RecycleCause),
    /// It is ended at once.
    Kill(KillCause),
}

/// A worker that is loaded.
#[derive(Debug)]
pub struct Worker {
    /// Its number in this process, never used again.
    pub id: u64,
    /// Its process.
    pub process: Process,
    /// The way to it.
    pub talk: Talk,
    /// What it prints besides.
    pub noise: Arc<Noise>,
    /// What must not be seen in what it says.
    pub voice: Voice,
    /// Its connections, where its plugin may have any.
    pub egress: Option<Egress>,
    /// What others may know of it.
    pub card: Arc<Card>,
    /// Calls that it may serve.
    pub max_executions: u64,
    /// Whether the worker that takes its place was started already.
    pub succeeded: bool,
    /// Until when it may serve.
    pub expires: Instant,
    /// Bytes that it may print besides, a call.
    pub max_noise: u64,
}

impl Worker {
    /// Runs one call. Whoever drops this before its end must not use the worker again.
    pub async fn execute(&mut self, call: &Call<'_>) -> Exchange {
        self.card.used();
        self.noise.reset();
        if let Some(egress) = &self.egress {
            egress.begin_call();
        }
        let mut exchange = self.exchange(call).await;
        // What is told to people; the text is the client's.
        let said = match &mut exchange.output {
            Ok(output) => {
                output.metadata = output.metadata.take().and_then(|metadata| self.voice.masked_json(metadata));
                output.error.as_mut()
            }
            Err(failure) => Some(&mut failure.message),
        };
        if let Some(said) = said {
            *said = self.voice.masked(std::mem::take(said)).into_owned();
        }
        exchange
    }

    async fn exchange(&mut self, call: &Call<'_>) -> Exchange {
        match &mut self.talk {
            Talk::Once(pipes) => Exchange::last(pipes.exchange(&mut self.process, call.input, call.max_output).await),
            Talk::Module(channel) => {
                let mut exchange = channel.exchange(call).await;
                if let Err(failure) = &mut exchange.output
                    && failure.reason == Reason::Crashed
                    && let Ok(Some(status)) = tokio::time::timeout(STATUS_WAIT, self.process.exited()).await
                {
                    *failure = Failure::new(Reason::Crashed, format!("ended before it answered ({status})"));
                }
                exchange
            }
        }
    }

    /// Whether it can be told that its call is given up.
    pub fn can_be_told(&self) -> bool {
        matches!(self.talk, Talk::Module(_))
    }

    /// After a call that was dropped: tells it so and waits until it has ended the call. What becomes of it then.
    pub async fn give_up(&mut self) -> Fate {
        let max_output = usize::try_from(self.card.plugin.plan.limits.max_output).unwrap_or(usize::MAX);
        let ended = match &mut self.talk {
            Talk::Module(channel) => channel.give_up(max_output).await,
            Talk::Once(_) => false,
        };
        match ended {
            true => self.worn().map_or(Fate::Keep, Fate::Recycle),
            false => Fate::Kill(KillCause::Cancelled),
        }
    }

    /// What becomes of it after this exchange.
    pub fn fate_after(&self, exchange: &Exchange) -> Fate {
        if exchange.reusable {
            return self.worn().map_or(Fate::Keep, Fate::Recycle);
        }
        let over = self.process.status().is_some();
        let answered = exchange.output.is_ok() && matches!(self.talk, Talk::Once(_));
        if over || answered { Fate::Spent } else { Fate::Kill(KillCause::Broken) }
    }

    /// Whether it is in its last twentieth of calls.
    pub fn nearly_spent(&self) -> bool {
        self.card.executions() >= self.max_executions - self.max_executions / 20
    }

    /// Why it should not serve another call.
    pub fn worn(&self) -> Option<RecycleCause> {
        if self.process.status().is_some_and(|status| !(status.success() && matches!(self.talk, Talk::Once(_)))) {
            Some(RecycleCause::Exited)
        } else if self.card.executions() >= self.max_executions {
            Some(RecycleCause::Executions)
        } else if Instant::now() >= self.expires {
            Some(RecycleCause::Lifetime)
        } else if self.noise.bytes() > self.max_noise {
            Some(RecycleCause::Stderr)
        } else {
            None
        }
    }

    /// Ends it: a worker in good order may end by itself, any other is killed.
    pub fn end(self, fate: Fate, tasks: &Tasks) {
        self.card.set_state(WorkerState::Unhealthy);
        drop(self.talk);
        match fate {
            Fate::Kill(_) => drop(self.process),
            Fate::Keep | Fate::Spent | Fate::Recycle(_) => self.process.end_within(GRACE, tasks),
        }
    }
}

/// What is known of a worker to all (document 000, PluginProcess).
#[derive(Debug)]
pub struct Card {
    pid: u32,
    plugin: Arc<LinkedPlugin>,
    spawned_at: u64,
    last_used_at: AtomicU64,
    executions: AtomicU64,
    state: AtomicU8,
}

const STATES: [WorkerState; 5] = [
    WorkerState::Spawned,
    WorkerState::Available,
    WorkerState::Executing,
    WorkerState::Unhealthy,
    WorkerState::Terminated,
];

impl Card {
    /// Of a process that was just spawned.
    pub fn new(pid: u32, plugin: Arc<LinkedPlugin>) -> Self {
        Self {
            pid,
            plugin,
            spawned_at: unix_millis(),
            last_used_at: AtomicU64::new(0),
            executions: AtomicU64::new(0),
            state: AtomicU8::new(WorkerState::Spawned as u8),
        }
    }

    /// Calls served, the running one included.
    pub fn executions(&self) -> u64 {
        self.executions.load(Ordering::Relaxed)
    }

    /// Where it stands.
    pub fn state(&self) -> WorkerState {
        let index = usize::from(self.state.load(Ordering::Relaxed));
        STATES.get(index).copied().unwrap_or(WorkerState::Terminated)
    }

    /// It stands elsewhere now.
    pub fn set_state(&self, state: WorkerState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    fn used(&self) {
        self.executions.fetch_add(1, Ordering::Relaxed);
        self.last_used_at.store(unix_millis(), Ordering::Relaxed);
        self.set_state(WorkerState::Executing);
    }

    /// For the list of workers, without the memory of its process.
    pub fn info(&self) -> WorkerInfo {
        let state = self.state();
        WorkerInfo {
            pid: self.pid,
            plugin: self.plugin.plan.key.to_string(),
            plugin_id: self.plugin.plan.id.clone(),
            revision: self.plugin.plan.digest.clone(),
            spawned_at: self.spawned_at,
            last_used_at: Some(self.last_used_at.load(Ordering::Relaxed)).filter(|at| *at > 0),
            execution_count: self.executions(),
            is_healthy: !matches!(state, WorkerState::Unhealthy | WorkerState::Terminated),
            memory_bytes: None,
            state,
        }
    }
}

/// How many calls the worker of a protocol serves.
pub fn executions_of(protocol: Protocol, most: u64) -> u64 {
    match protocol {
        Protocol::Once => 1,
        Protocol::Module => most,
    }
}

fn unix_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
