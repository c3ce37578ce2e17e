//! The process that serves requests without a session, and with `--session=Shared` all sessions too. It is started when
//! it is needed, and again when it has ended, after pauses that grow while it does not live long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::context::Context;
use super::process::ServerProcess;
use super::stderr;
use super::usage::Usage;

/// The pause before the second start in a row; it doubles with each further one, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A process that lived this long is started again without a pause.
const LONG_LIFE: Duration = Duration::from_secs(60);
/// How long a request waits for the end of a pause.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Keeper {
    context: Arc<Context>,
    state: Mutex<KeeperState>,
    /// The number of processes that run: the current one, and one before it that is ending.
    running: Arc<AtomicUsize>,
    /// Whether the server refused `server/discover`: it is of the legacy era.
    pub(super) is_legacy: AtomicBool,
}

#[derive(Debug)]
struct KeeperState {
    current: Option<Arc<SharedProcess>>,
    started: Instant,
    pause: Duration,
}

/// The shared process, and what is known of it.
#[derive(Debug)]
pub(super) struct SharedProcess {
    pub(super) process: Arc<ServerProcess>,
    pub(super) usage: Usage,
    /// The result of the first `initialize`, with which the others are answered.
    pub(super) initialized: Mutex<Option<Box<RawValue>>>,
}

/// Why there is no process, and when there may be one.
#[derive(Debug, Clone)]
pub(super) struct NoProcess {
    pub(super) reason: String,
    pub(super) retry_after: Duration,
}

impl Keeper {
    pub(super) fn new(context: &Arc<Context>) -> Self {
        let state = KeeperState { current: None, started: Instant::now(), pause: Duration::ZERO };
        Self {
            context: Arc::clone(context),
            state: Mutex::new(state),
            running: Arc::default(),
            is_legacy: AtomicBool::new(false),
        }
    }

    /// Returns the running process, or starts one.
    ///
    /// # Errors
    /// If it cannot be started, or a pause must pass before.
    pub(super) async fn get(&self) -> Result<Arc<SharedProcess>, NoProcess> {
        let mut state = self.state.lock().await;
        if let Some(current) = state.current.as_ref().filter(|current| !current.process.is_over()) {
            return Ok(Arc::clone(current));
        }
        let rest = (state.started + state.pause).saturating_duration_since(Instant::now());
        if rest > PATIENCE {
            let reason = "the server has ended several times in a row: it is started again after a pause".to_owned();
            return Err(NoProcess { reason, retry_after: rest });
        }
        tokio::time::sleep(rest).await;
        state.current = None;
        state.pause = if state.started.elapsed() >= LONG_LIFE {
            Duration::ZERO
        } else {
            (state.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE)
        };
        state.started = Instant::now();
        match ServerProcess::start(&self.context, None) {
            Ok(process) => Ok(Arc::clone(state.current.insert(self.watched(process)))),
            Err(error) => {
                stderr::say(&error.to_string()).await;
                Err(NoProcess { reason: error.to_string(), retry_after: state.pause })
            }
        }
    }

    fn watched(&self, process: Arc<ServerProcess>) -> Arc<SharedProcess> {
        self.running.fetch_add(1, Ordering::AcqRel);
        let (running, watched) = (Arc::clone(&self.running), Arc::clone(&process));
        self.context.tasks.spawn(async move {
            watched.ended().await;
            running.fetch_sub(1, Ordering::AcqRel);
        });
        Arc::new(SharedProcess { process, usage: Usage::new(), initialized: Mutex::default() })
    }

    /// Whether the process runs.
    pub(super) fn runs(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }

    /// Ends the process if nobody used it for this time.
    pub(super) async fn end_idle(&self, time: Duration) {
        let state = self.state.lock().await;
        if let Some(current) = state.current.as_ref().filter(|current| current.usage.is_idle(time)) {
            current.process.stop();
        }
    }

    /// Keeps the process running until it must not be started any more.
    pub(super) async fn keep(&self) {
        loop {
            match self.get().await {
                Ok(current) => current.process.ended().await,
                Err(no_process) => tokio::time::sleep(no_process.retry_after).await,
            }
        }
    }
}
