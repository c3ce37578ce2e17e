//! One child process and its process group. Its exit is noticed immediately, and a kill ends the whole group.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::domain::plugin::Failure;
use crate::domain::reason::Reason;

/// Starts tasks that [`shutdown`](crate::domain::ports::RunPlugin::shutdown) waits for. They can be started from
/// threads outside the runtime too.
#[derive(Clone, Debug)]
pub struct Tasks {
    tracker: TaskTracker,
    runtime: Handle,
}

impl Tasks {
    /// Creates a value that starts tasks on the current Tokio runtime.
    pub fn here() -> Self {
        Self { tracker: TaskTracker::new(), runtime: Handle::current() }
    }

    /// Runs `task` in the background.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn_on(task, &self.runtime);
    }

    /// Waits until every task has ended.
    pub async fn finish(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// A running child process, the leader of its own process group. The group is killed when this value is dropped, and
/// the child is always reaped.
#[derive(Debug)]
pub struct ChildProcess {
    group: Arc<Group>,
    exit: watch::Receiver<Option<ExitStatus>>,
}

/// The id of a process group, forgotten when its leader is reaped, because the system can then give the id to another
/// process.
#[derive(Debug)]
pub struct Group {
    pid: u32,
    alive: Mutex<Option<Pid>>,
}

impl Group {
    /// Kills the whole group. Does nothing once its leader has been reaped.
    pub fn kill(&self) {
        let alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pid) = *alive {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl ChildProcess {
    /// Takes charge of `child`, which leads its own group. `on_exit` runs after the child has been reaped.
    pub fn adopt(mut child: tokio::process::Child, tasks: &Tasks, on_exit: impl FnOnce() + Send + 'static) -> Self {
        let pid = child.id().unwrap_or_default();
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let group = Arc::new(Group { pid, alive: Mutex::new(raw) });
        let (exited, exit) = watch::channel(None);
        let reaped = Arc::clone(&group);
        tasks.spawn(async move {
            let status = child.wait().await.ok();
            // This kills what the leader left behind in its group. The id was freed only a moment ago, and the system
            // does not reuse an id so soon, so no other process has it yet.
            reaped.kill();
            *reaped.alive.lock().unwrap_or_else(PoisonError::into_inner) = None;
            exited.send_replace(status);
            on_exit();
        });
        Self { group, exit }
    }

    /// The child's process group, for a caller that may have to kill it later.
    pub fn group(&self) -> Arc<Group> {
        Arc::clone(&self.group)
    }

    /// Kills the whole process group.
    pub fn kill(&self) {
        self.group.kill();
    }

    /// The child's process id.
    pub fn pid(&self) -> u32 {
        self.group.pid
    }

    /// Waits until the child has exited. Returns `None` if its status could not be read.
    pub async fn exited(&self) -> Option<ExitStatus> {
        let mut exit = self.exit.clone();
        exit.wait_for(Option::is_some).await.ok().and_then(|status| *status)
    }

    /// Returns a future that completes when the child has exited. The future can outlive this value.
    pub fn over(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut exit = self.exit.clone();
        async move {
            let _ = exit.wait_for(Option::is_some).await;
        }
    }

    /// The exit status, or `None` while the child runs.
    pub fn status(&self) -> Option<ExitStatus> {
        *self.exit.borrow()
    }

    /// Gives the child up to `grace` to exit, then kills its process group. Returns immediately.
    pub fn end_within(self, grace: Duration, tasks: &Tasks) {
        tasks.spawn(async move {
            let _ = tokio::time::timeout(grace, self.exited()).await;
        });
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Bytes of memory that belong to one process alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnMemory {
    /// Resident anonymous memory.
    pub resident: u64,
    /// Memory mapped for data, whether touched or not. The sandbox limits this.
    pub data: u64,
}

impl OwnMemory {
    /// Reads the values of a process, or returns `None` if the system does not report them (`/proc`). This is cheap:
    /// the kernel only reads counters.
    pub fn of(pid: u32) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
            Some(kibibytes * 1024)
        };
        Some(Self { resident: field("RssAnon:")?, data: field("VmData:")? })
    }
}

/// A sample of a process in which all threads sleep. If two samples are equal, the process was idle between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleSample {
    threads: usize,
    /// Context switches of all threads so far.
    switches: u64,
}

impl IdleSample {
    /// Whether the system shows the threads of processes (`/proc`).
    pub fn is_shown() -> bool {
        std::fs::exists("/proc/self/task").unwrap_or(false)
    }

    /// Takes a sample. Returns `None` if a thread is not asleep, if the process has ended, or if the system has no
    /// `/proc`.
    pub fn of(pid: u32) -> Option<Self> {
        let mut rest = Self { threads: 0, switches: 0 };
        for thread in std::fs::read_dir(format!("/proc/{pid}/task")).ok()? {
            let status = std::fs::read_to_string(thread.ok()?.path().join("status")).ok()?;
            let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start);
            field("State:")?.starts_with('S').then_some(())?;
            let switches = |name| field(name)?.parse::<u64>().ok();
            rest.threads += 1;
            rest.switches += switches("voluntary_ctxt_switches:")? + switches("nonvoluntary_ctxt_switches:")?;
        }
        Some(rest)
    }
}

/// The failure of a call whose process exited with this code.
pub fn exited(code: i32) -> Failure {
    Failure::new(Reason::ExitCode, format!("exited with code {code}"))
}

/// The failure of a call whose process ended with `status` instead of an answer.
pub fn ended(status: ExitStatus) -> Failure {
    match (status.code(), status.signal()) {
        (Some(code), _) => exited(code),
        (None, Some(signal)) => Failure::new(Reason::Crashed, format!("was ended by signal {signal}")),
        (None, None) => Failure::new(Reason::Crashed, "ended without a status"),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use tokio::process::Command;

    use super::*;

    #[tokio::test]
    async fn its_status_is_known_once_it_has_ended_and_not_before() {
        let mut command = Command::new("sh");
        command.args(["-c", "read line; exit 3"]).stdin(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let process = ChildProcess::adopt(child, &Tasks::here(), || ());
        assert_eq!(process.status(), None);
        drop(stdin);
        let status = process.exited().await;
        assert_eq!((status.and_then(|status| status.code()), process.status()), (Some(3), status));
    }
}
