//! A child process that leads its own process group, and its end: gently first, then by force, with all that it started.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;
use tokio_util::sync::CancellationToken;

use super::process_tree::Descendants;

/// How long a process may take to exit after its stdin was closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// How long to wait for the exit of a process that has closed its pipes.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How a process ended that was not told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It exited, or was killed by somebody else.
    Exited(ExitStatus),
    /// It was ended because it closed its stdin or stdout and lived on.
    Closed,
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) if status.signal() == Some(Signal::KILL.as_raw()) => {
                write!(f, "{status}, which the kernel sends if memory runs out")
            }
            Self::Exited(status) => status.fmt(f),
            Self::Closed => f.write_str("it had closed its stdin or stdout"),
        }
    }
}

/// A running process and its group.
#[derive(Debug)]
pub struct ProcessGroup {
    child: Child,
    pid: u32,
    group: Option<Pid>,
}

impl ProcessGroup {
    /// Takes charge of `child`, which must lead its own group. Returns `None` if it has already been reaped.
    pub fn new(child: Child) -> Option<Self> {
        let pid = child.id()?;
        Some(Self { child, pid, group: i32::try_from(pid).ok().and_then(Pid::from_raw) })
    }

    /// The id of the process and of its group.
    pub fn id(&self) -> u32 {
        self.pid
    }

    /// Waits until the process has exited, or `stop`, `hurry` or `closed` is cancelled. `closed` means that the process
    /// no longer reads or writes its pipes. Then ends the whole group and, if the process was still running, its other
    /// descendants. Cancels `stop`, at which the caller closes the process's stdin. `hurry` skips the pauses. Returns
    /// how the process ended, or `None` if it was told to end.
    pub async fn supervise(
        mut self,
        stop: &CancellationToken,
        hurry: &CancellationToken,
        closed: &CancellationToken,
    ) -> Option<ProcessEnd> {
        let exited = tokio::select! {
            biased;
            status = self.child.wait() => Some(status),
            () = stop.cancelled() => None,
            () = hurry.cancelled() => None,
            () = closed.cancelled() => tokio::time::timeout(LAST_WORDS, self.child.wait()).await.ok(),
        };
        let asked = stop.is_cancelled() || hurry.is_cancelled();
        // Once the process has exited, its descendants can no longer be found through it.
        let started = if exited.is_none() { Descendants::of(self.pid) } else { Descendants::default() };
        stop.cancel();
        let end = match exited {
            Some(status) => status.ok().map(ProcessEnd::Exited),
            None => self.end(hurry).await.ok().map(|_| ProcessEnd::Closed),
        };
        self.signal(Signal::KILL);
        started.kill();
        end.filter(|_| !asked)
    }

    /// Ends a process whose stdin is closed: waits for it to exit, then sends SIGTERM, then SIGKILL. If `hurry` is
    /// cancelled, sends SIGKILL immediately.
    async fn end(&mut self, hurry: &CancellationToken) -> io::Result<ExitStatus> {
        let group = self.group;
        let child = &mut self.child;
        let gently = async {
            if let Ok(status) = tokio::time::timeout(GRACE, child.wait()).await {
                return Some(status);
            }
            signal(group, Signal::TERM);
            tokio::time::timeout(GRACE, child.wait()).await.ok()
        };
        let status = tokio::select! {
            status = gently => status,
            () = hurry.cancelled() => None,
        };
        match status {
            Some(status) => status,
            None => {
                self.signal(Signal::KILL);
                self.child.wait().await
            }
        }
    }

    fn signal(&self, what: Signal) {
        signal(self.group, what);
    }
}

/// Signals the whole group. This fails only if the group no longer exists.
fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        let _ = kill_process_group(group, signal);
    }
}
