//! A process that several clients use: that of all requests without a session, and with `--session=Shared` that of all
//! sessions. It is started when it is needed, and again when it has ended, after pauses that grow while it does not live
//! long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::ask::AskedOnce;
use super::call_state::Closed;
use super::context::Context;
use super::process::ServerProcess;
use super::stderr;
use super::usage::{InUse, Usage};

/// The pause before the second start in a row; it doubles with each further one, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A process that lived this long is started again without a pause.
const LONG_LIFE: Duration = Duration::from_secs(60);
/// How long a request waits for the end of a pause.
const PATIENCE: Duration = Duration::from_secs(2);
/// For how long a server that refused `server/discover` is not asked again.
const REFUSED: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Keeper {
    context: Arc<Context>,
    state: Mutex<KeeperState>,
    /// The number of processes that run: the current one, and one before it that is ending.
    running: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct KeeperState {
    /// The process that was started last, even if it has ended.
    current: Option<Arc<SharedProcess>>,
    /// Why the last start failed.
    failure: Option<String>,
    started: Instant,
    /// How long after the last start another may follow.
    pause: Duration,
}

/// The shared process, and what is known of it.
#[derive(Debug)]
pub(super) struct SharedProcess {
    pub(super) process: Arc<ServerProcess>,
    pub(super) usage: Usage,
    /// What the process is asked once for all clients: `initialize`, or `server/discover`.
    pub(super) asked: AskedOnce,
    /// Whether it answered `server/discover`, and whether it did not.
    pub(super) is_modern: AtomicBool,
    is_legacy: AtomicBool,
}

/// Why there is no process, and when there may be one.
#[derive(Debug, Clone)]
pub(super) struct NoProcess {
    pub(super) why: Closed,
    pub(super) retry_after: Duration,
    /// Whether the last process did not answer `server/discover`.
    pub(super) is_legacy: bool,
}

impl KeeperState {
    /// Why there is no process before the pause is over.
    fn refusal(&self, rest: Duration) -> NoProcess {
        let ended = || self.current.as_ref()?.process.calls.why_closed();
        let why = self.failure.clone().map(Closed::because).or_else(ended);
        let mut why = why.unwrap_or_else(|| Closed::because("the server's process is ending"));
        why.reason.push_str("; it is started again after a pause");
        let is_legacy = self.current.as_ref().is_some_and(|last| last.is_legacy.load(Ordering::Acquire));
        NoProcess { why, retry_after: rest, is_legacy }
    }

    fn next_pause(&self) -> Duration {
        match self.started.elapsed() >= LONG_LIFE {
            true => Duration::ZERO,
            false => (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE),
        }
    }
}

impl Keeper {
    pub(super) fn new(context: &Arc<Context>) -> Self {
        let state = KeeperState { current: None, failure: None, started: Instant::now(), pause: Duration::ZERO };
        Self { context: Arc::clone(context), state: Mutex::new(state), running: Arc::default() }
    }

    /// Returns the running process, or starts one. It is in use from here on, so that it is not ended for idleness.
    ///
    /// # Errors
    /// If it cannot be started, or a pause must pass before.
    pub(super) async fn get(&self) -> Result<(Arc<SharedProcess>, InUse), NoProcess> {
        let mut state = self.state.lock().await;
        if let Some(current) = state.current.as_ref().filter(|current| !current.process.is_over()) {
            return Ok((Arc::clone(current), current.usage.begin()));
        }
        let rest = (state.started + state.pause).saturating_duration_since(Instant::now());
        let refusal = state.refusal(rest);
        if rest > PATIENCE || refusal.is_legacy && !rest.is_zero() {
            return Err(refusal);
        }
        tokio::time::sleep(rest).await;
        state.pause = state.next_pause();
        state.started = Instant::now();
        let started = ServerProcess::start(&self.context, None);
        state.failure = started.as_ref().err().map(ToString::to_string);
        state.current = started.ok().map(|process| self.watched(process));
        match state.current.clone() {
            Some(current) => {
                let in_use = current.usage.begin();
                Ok((current, in_use))
            }
            None => {
                let no_process = state.refusal(state.pause);
                let failure = state.failure.clone().unwrap_or_default();
                drop(state);
                stderr::say(&failure).await;
                Err(no_process)
            }
        }
    }

    /// Ends a process that does not answer `server/discover`. It is started again after a while at the earliest. If it
    /// has ended by itself, that is after its pause.
    pub(super) async fn refuse(&self, shared: &Arc<SharedProcess>) {
        let mut state = self.state.lock().await;
        let was_legacy = shared.is_legacy.swap(true, Ordering::AcqRel);
        let is_current = state.current.as_ref().is_some_and(|current| Arc::ptr_eq(current, shared));
        if !was_legacy && is_current && !shared.process.has_ended() {
            (state.started, state.pause) = (Instant::now(), REFUSED);
        }
        shared.process.stop();
    }

    fn watched(&self, process: Arc<ServerProcess>) -> Arc<SharedProcess> {
        self.running.fetch_add(1, Ordering::AcqRel);
        let (running, watched) = (Arc::clone(&self.running), Arc::clone(&process));
        self.context.tasks.spawn(async move {
            watched.ended().await;
            running.fetch_sub(1, Ordering::AcqRel);
        });
        Arc::new(SharedProcess {
            process,
            usage: Usage::new(),
            asked: AskedOnce::default(),
            is_modern: AtomicBool::new(false),
            is_legacy: AtomicBool::new(false),
        })
    }

    /// Whether the process runs.
    pub(super) fn runs(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }

    /// Ends the process if nobody used it for this time.
    pub(super) async fn end_idle(&self, time: Duration) {
        let mut state = self.state.lock().await;
        let is_idle = |current: &&mut Arc<SharedProcess>| !current.process.is_over() && current.usage.is_idle(time);
        if let Some(current) = state.current.take_if(|current| is_idle(&current)) {
            current.process.stop();
            // It did not end by itself, so the next one need not wait.
            state.pause = Duration::ZERO;
        }
    }

    /// Keeps the process running until it must not be started any more.
    pub(super) async fn keep(&self) {
        loop {
            match self.get().await {
                Ok((current, _)) => current.process.ended().await,
                Err(no_process) => tokio::time::sleep(no_process.retry_after).await,
            }
        }
    }
}
