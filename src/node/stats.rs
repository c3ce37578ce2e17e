//! Statistics of a worker that other parts of the gateway read (document 000, PluginProcess).

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use super::process::OwnMemory;
use crate::domain::descriptor::Descriptor;
use crate::domain::ports::{LinkedPlugin, WorkerInfo, WorkerState};

/// The statistics of one worker.
#[derive(Debug)]
pub struct WorkerStats {
    pid: u32,
    pub(super) plugin: Arc<LinkedPlugin>,
    spawned_at: u64,
    last_used_at: AtomicU64,
    executions: AtomicU64,
    /// The number of running calls.
    running: AtomicU32,
    state: AtomicU8,
    /// Bytes that the process had mapped for data when it was last measured.
    data: AtomicU64,
    /// The number of calls served at that time; `u64::MAX` before the first measurement.
    measured_at: AtomicU64,
    /// The descriptor that `getDescriptor` returned; unset until the plugin is loaded.
    pub(super) described: OnceLock<Descriptor>,
}

const STATES: [WorkerState; 5] = [
    WorkerState::Spawned,
    WorkerState::Available,
    WorkerState::Executing,
    WorkerState::Unhealthy,
    WorkerState::Terminated,
];

impl WorkerStats {
    /// Creates the statistics of a process that was just spawned.
    pub fn new(pid: u32, plugin: Arc<LinkedPlugin>) -> Self {
        Self {
            pid,
            plugin,
            spawned_at: unix_millis(),
            last_used_at: AtomicU64::new(0),
            executions: AtomicU64::new(0),
            running: AtomicU32::new(0),
            state: AtomicU8::new(WorkerState::Spawned as u8),
            data: AtomicU64::new(0),
            measured_at: AtomicU64::new(u64::MAX),
            described: OnceLock::new(),
        }
    }

    /// Whether the worker's plugin is a Module of a type other than middleware, which makes requests and is shut down.
    pub fn is_typed(&self) -> bool {
        !self.plugin.plan.kind.is_middleware() && self.plugin.plan.wrapper.is_none()
    }

    /// Calls served, including running ones.
    pub fn executions(&self) -> u64 {
        self.executions.load(Ordering::Relaxed)
    }

    /// The worker's state. An available worker counts as executing while calls run.
    pub fn state(&self) -> WorkerState {
        let index = usize::from(self.state.load(Ordering::Relaxed));
        match STATES.get(index).copied().unwrap_or(WorkerState::Terminated) {
            WorkerState::Available if self.running.load(Ordering::Relaxed) > 0 => WorkerState::Executing,
            state => state,
        }
    }

    /// Sets the state. While calls run, [`WorkerStats::state`] returns `Executing` instead of `Available`.
    pub fn set_state(&self, state: WorkerState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// Measures the process's memory, if a call may have changed it since the last measurement.
    pub fn measure(&self) {
        let (state, executions) = (self.state(), self.executions());
        if state == WorkerState::Spawned || self.measured_at.load(Ordering::Relaxed) == executions {
            return;
        }
        if let Some(memory) = OwnMemory::of(self.pid) {
            self.data.store(memory.data, Ordering::Relaxed);
        }
        if state == WorkerState::Available {
            self.measured_at.store(executions, Ordering::Relaxed);
        }
    }

    /// Bytes that the process had mapped for data when it was last measured.
    pub fn data(&self) -> u64 {
        self.data.load(Ordering::Relaxed)
    }

    /// Counts a call that begins.
    pub fn used(&self) {
        self.executions.fetch_add(1, Ordering::Relaxed);
        self.last_used_at.store(unix_millis(), Ordering::Relaxed);
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call that has ended.
    pub fn released(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    /// The worker's entry in the list of workers, without the memory of its process.
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

fn unix_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::plugin;
    use super::*;

    #[test]
    fn a_worker_is_executing_while_any_of_its_calls_runs() {
        let stats = WorkerStats::new(1, plugin());
        assert_eq!(stats.state(), WorkerState::Spawned);
        stats.set_state(WorkerState::Available);
        assert_eq!(stats.state(), WorkerState::Available);
        stats.used();
        stats.used();
        assert_eq!(stats.state(), WorkerState::Executing);
        stats.released();
        assert_eq!(stats.state(), WorkerState::Executing);
        stats.set_state(WorkerState::Unhealthy);
        assert_eq!(stats.state(), WorkerState::Unhealthy);
        stats.set_state(WorkerState::Available);
        stats.released();
        assert_eq!((stats.state(), stats.executions()), (WorkerState::Available, 2));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_is_looked_at_from_when_the_plugin_is_loaded() {
        let stats = WorkerStats::new(std::process::id(), plugin());
        stats.measure();
        assert_eq!(stats.data(), 0);
        stats.set_state(WorkerState::Available);
        stats.measure();
        assert!(stats.data() > 0);
    }
}
