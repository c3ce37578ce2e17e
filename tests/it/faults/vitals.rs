//! What a gateway's process holds of the system, read from `/proc`.

use std::collections::BTreeSet;
use std::fs;

use crate::gateway::harness::Gateway;

/// What it holds at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vitals {
    pub descriptors: usize,
    /// Its children that live.
    pub children: usize,
    /// Its children that have ended and were not waited for.
    pub zombies: usize,
    /// Processes whose group was led by a worker that is gone.
    pub orphans: Vec<String>,
}

/// The fields of `/proc/PID/stat` that count here.
struct Process {
    name: String,
    state: String,
    parent: u32,
    group: u32,
}

impl Vitals {
    /// Those of `gateway`, of whose workers those of `gone` have ended.
    pub fn of(gateway: &Gateway, gone: &BTreeSet<u32>) -> Self {
        let all: Vec<_> = processes().collect();
        let (zombies, children): (Vec<_>, Vec<_>) =
            all.iter().filter(|process| process.parent == gateway.pid()).partition(|process| process.state == "Z");
        // Of a dead one that somebody else has to wait for, nothing is left but its number.
        // A group that has a leader has got the number of a worker that is gone.
        let is_led = |group: u32| self::process(&group.to_string()).is_some();
        let orphaned =
            |process: &&Process| gone.contains(&process.group) && process.state != "Z" && !is_led(process.group);
        Self {
            descriptors: fs::read_dir(format!("/proc/{}/fd", gateway.pid())).unwrap().count(),
            children: children.len(),
            zombies: zombies.len(),
            orphans: all.iter().filter(orphaned).map(|process| process.name.clone()).collect(),
        }
    }
}

/// The parent of a process that is there.
pub fn parent(pid: u32) -> Option<u32> {
    process(&pid.to_string()).map(|process| process.parent)
}

/// KiB of its memory that are no file's.
pub fn memory(gateway: &Gateway) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn processes() -> impl Iterator<Item = Process> {
    let numbers = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    numbers.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter_map(|pid| process(&pid))
}

fn process(pid: &str) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name may hold spaces and brackets.
    let (name, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.to_owned();
    Some(Process {
        name: name.to_owned(),
        state,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
    })
}
