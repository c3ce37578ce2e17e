//! What all processes of the server share.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::domain::budget::ByteBudget;
use crate::domain::secret::Mask;
use crate::transport::{ServerLauncher, find};

/// How often it may be logged that a process writes to its stdout what is no message.
const STRAY_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Context {
    pub(super) command: String,
    pub(super) args: Vec<String>,
    pub(super) launcher: ServerLauncher,
    /// The maximum size of a message in bytes, in both directions.
    pub(super) max_message: usize,
    /// The memory of all messages.
    pub(super) budget: Arc<ByteBudget>,
    /// All tasks that end with the processes.
    pub(super) tasks: TaskTracker,
    /// What has calls in flight.
    pub(super) in_flight: TaskTracker,
    /// Cancelled when all processes must end.
    pub(super) ending: CancellationToken,
    /// Cancelled when processes get no more time to end by themselves.
    pub(super) hurry: CancellationToken,
    /// The number of processes that were started.
    pub(super) started: AtomicU64,
    /// The processes that the bridge started and did not reap yet.
    pub(super) own: Mutex<HashSet<u32>>,
    /// Hides the values of the server's environment in what it writes.
    pub(super) mask: Mask,
    /// When it was last logged that a process writes to its stdout what is no message.
    pub(super) stray_logged: Mutex<Option<Instant>>,
}

impl Context {
    /// Finds the server's program.
    ///
    /// # Errors
    /// If there is none, or it may not be executed.
    pub(super) fn find(&self) -> io::Result<PathBuf> {
        find(&self.command, Path::new("."), std::env::var_os("PATH").as_deref())
    }

    /// Whether it may be logged now that a process writes to its stdout what is no message. A server that does so does it
    /// in each process, and a process may serve only one session.
    pub(super) fn may_log_stray(&self) -> bool {
        let mut logged = self.stray_logged.lock().unwrap_or_else(PoisonError::into_inner);
        let may = logged.is_none_or(|at| at.elapsed() >= STRAY_EVERY);
        if may {
            *logged = Some(Instant::now());
        }
        may
    }

    /// Forgets a process that was reaped.
    pub(super) fn reaped(&self, pid: u32) {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
    }
}
