//! Finds what a server has started in `/proc`. Some processes, such as browsers, move to a process group of their own.
//! On systems without `/proc`, none are found.

use std::collections::HashMap;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::sync::Mutex;

/// The pause after each search, in which the killed processes end.
const PAUSE: Duration = Duration::from_millis(10);
/// How often processes are killed. Processes may start others meanwhile.
const SWEEPS: usize = 20;

/// Held during a search for processes to kill. To read all of `/proc` takes long if there are many processes, and many
/// servers may end at once.
static SEARCH: Mutex<()> = Mutex::const_new(());

/// A process. Its start time distinguishes it from a later process with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessIdentity {
    pid: i32,
    parent: i32,
    pub(super) started: u64,
    is_zombie: bool,
}

impl ProcessIdentity {
    pub(super) fn of(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name of the process is in parentheses and can itself contain parentheses, so the other fields are found
        // after the last one.
        let (_, after) = stat.rsplit_once(')')?;
        let field = |number: usize| after.split_ascii_whitespace().nth(number);
        let (parent, started) = (field(1)?.parse().ok()?, field(19)?.parse().ok()?);
        Some(Self { pid, parent, started, is_zombie: field(0)? == "Z" })
    }
}

fn all() -> Vec<ProcessIdentity> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(ProcessIdentity::of).collect()
}

/// Whether the process that had this id and start time may still run. A process whose entry in `/proc` is hidden counts
/// as running.
pub(super) fn may_run(pid: i32, started: u64) -> bool {
    match ProcessIdentity::of(pid) {
        Some(now) => now.started == started && !now.is_zombie,
        None => Pid::from_raw(pid).is_none_or(|pid| test_kill_process(pid) != Err(Errno::SRCH)),
    }
}

/// Finds the children of the process `parent` that have exited and were not reaped.
pub fn zombies_of(parent: u32) -> Vec<u32> {
    let zombies = all().into_iter().filter(|process| process.is_zombie && u32::try_from(process.parent) == Ok(parent));
    zombies.filter_map(|process| u32::try_from(process.pid).ok()).collect()
}

/// What a process has started, as of one moment.
#[derive(Debug, Default)]
pub struct Descendants(Vec<ProcessIdentity>);

impl Descendants {
    /// Finds all current descendants, other than those that have exited, of the process `root`.
    pub fn of(root: u32) -> Self {
        let mut children: HashMap<i32, Vec<ProcessIdentity>> = HashMap::new();
        all().into_iter().for_each(|process| children.entry(process.parent).or_default().push(process));
        let mut found = Vec::new();
        let mut parents = vec![i32::try_from(root).unwrap_or_default()];
        while let Some(parent) = parents.pop() {
            let of_parent = children.remove(&parent).unwrap_or_default();
            parents.extend(of_parent.iter().map(|process| process.pid));
            found.extend(of_parent.into_iter().filter(|process| !process.is_zombie));
        }
        Self(found)
    }

    /// Finds all processes, other than those that have exited, that were started with this variable, `NAME=value`, in
    /// their environment. It is inherited, so they are found even if their parents have exited.
    pub fn marked(variable: &str) -> Self {
        Self::started_with(|entry| entry == variable.as_bytes())
    }

    /// Finds all processes, other than those that have exited, whose environment at their start had an entry,
    /// `NAME=value`, for which `is_mark` is true.
    pub(super) fn started_with(is_mark: impl Fn(&[u8]) -> bool) -> Self {
        let is_marked = |process: &ProcessIdentity| {
            let environment = std::fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(&is_mark)
        };
        Self(all().into_iter().filter(|process| !process.is_zombie).filter(is_marked).collect())
    }

    /// Leaves out this process and the processes that it descends from.
    pub(super) fn without_own_ancestors(mut self) -> Self {
        let mut own = i32::try_from(std::process::id()).ok();
        while let Some(pid) = own.filter(|pid| *pid > 0) {
            self.0.retain(|process| process.pid != pid);
            own = ProcessIdentity::of(pid).map(|process| process.parent);
        }
        self
    }

    /// Kills what `find` finds, repeatedly until it finds nothing. Returns the number of processes that it found first.
    pub async fn kill_all(find: impl Fn() -> Self + Clone + Send + 'static) -> usize {
        let mut first = 0;
        for sweep in 0..SWEEPS {
            let find = find.clone();
            let one = SEARCH.lock().await;
            let killed = tokio::task::spawn_blocking(move || {
                let left = find();
                left.kill();
                left.0.len()
            });
            let killed = killed.await.unwrap_or_default();
            first = if sweep == 0 { killed } else { first };
            if killed == 0 {
                break;
            }
            drop(one);
            tokio::time::sleep(PAUSE).await;
        }
        first
    }

    /// Kills those of the processes that are still running, even if they have another parent by now.
    pub fn kill(&self) {
        for old in &self.0 {
            let lives = ProcessIdentity::of(old.pid).is_some_and(|now| now.started == old.started);
            if let Some(pid) = Pid::from_raw(old.pid).filter(|_| lives) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}
