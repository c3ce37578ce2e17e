//! Reads the CPU time of process trees and the memory of processes from `/proc` (proc_pid_stat(5), proc_pid_status(5)).

use std::collections::HashMap;
use std::fs;

/// The unit of times in `/proc/PID/stat`, which Linux fixes at this value on all common architectures.
const TICKS_PER_SECOND: f64 = 100.0;

struct Stat {
    parent: u32,
    /// User and system time of the process and of the children that it has waited for.
    ticks: u64,
}

/// Returns the CPU seconds that a process and its descendants have used, including ended ones that were waited for.
/// `None` if the process or `/proc` does not exist.
pub fn tree_cpu_seconds(root: u32) -> Option<f64> {
    let processes: HashMap<u32, Stat> = fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?)))
        .collect();
    processes.get(&root)?;
    let of_tree = processes.iter().filter(|(pid, _)| descends(&processes, **pid, root));
    Some(of_tree.map(|(_, stat)| stat.ticks).sum::<u64>() as f64 / TICKS_PER_SECOND)
}

/// Returns the bytes of a process that are in memory. `None` if the process or `/proc` does not exist.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix(" kB")?;
    Some(kilobytes.parse::<u64>().ok()? * 1024)
}

fn descends(processes: &HashMap<u32, Stat>, pid: u32, root: u32) -> bool {
    let parents = std::iter::successors(Some(pid), |pid| processes.get(pid).map(|stat| stat.parent));
    parents.take(64).any(|pid| pid == root)
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name can contain spaces and brackets. Field 3, the state, comes after the last bracket.
    let fields: Vec<&str> = text.get(text.rfind(')')? + 2..)?.split(' ').collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Stat { parent: u32::try_from(field(4)?).ok()?, ticks: field(14)? + field(15)? + field(16)? + field(17)? })
}
