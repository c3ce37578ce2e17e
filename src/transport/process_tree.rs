//! Finds what a server has started in `/proc`. Some processes, such as browsers, move to a process group of their own.
//! On systems without `/proc`, none are found.

use std::collections::HashMap;

use rustix::process::{Pid, Signal, kill_process};

/// A process. Its start time distinguishes it from a later process with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessIdentity {
    pid: i32,
    parent: i32,
    started: u64,
    is_zombie: bool,
}

impl ProcessIdentity {
    fn of(pid: i32) -> Option<Self> {
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
        let is_marked = |process: &ProcessIdentity| {
            let environment = std::fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
        };
        Self(all().into_iter().filter(|process| !process.is_zombie).filter(is_marked).collect())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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
