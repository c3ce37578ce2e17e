//! Recent executions and calls in memory (document 000: the last 1,000 executions of each plugin).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::ports::Records;
use crate::domain::record::{CallRecord, PluginExecution};

/// Calls that are kept.
const CALLS: usize = 1000;
/// Plugins that have a ring of their own; beyond it the one that was used longest ago goes.
const PLUGINS: usize = 1000;

/// Rings of the newest rows.
pub struct MemoryRecords {
    per_plugin: AtomicUsize,
    executions: Mutex<HashMap<String, VecDeque<Arc<PluginExecution>>>>,
    calls: Mutex<VecDeque<Arc<CallRecord>>>,
}

impl MemoryRecords {
    /// Keeps `per_plugin` executions of each plugin.
    pub fn new(per_plugin: usize) -> Self {
        Self { per_plugin: AtomicUsize::new(per_plugin), executions: Mutex::default(), calls: Mutex::default() }
    }

    /// Changes how many executions of each plugin are kept.
    pub fn set_per_plugin(&self, per_plugin: usize) {
        self.per_plugin.store(per_plugin, Ordering::Relaxed);
    }
}

/// A row is whole before it is put in, so a lock whose holder panicked still guards whole rows.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn push<T>(ring: &mut VecDeque<T>, row: T, bound: usize) {
    while ring.len() >= bound.max(1) {
        ring.pop_front();
    }
    ring.push_back(row);
}

impl Records for MemoryRecords {
    fn execution(&self, row: PluginExecution) {
        let bound = self.per_plugin.load(Ordering::Relaxed);
        let mut executions = lock(&self.executions);
        if executions.len() >= PLUGINS && !executions.contains_key(&row.plugin_id) {
            let newest = |ring: &VecDeque<Arc<PluginExecution>>| ring.back().map_or(0, |r| r.started_at);
            let oldest = executions.iter().min_by_key(|(_, ring)| newest(ring)).map(|(id, _)| id.clone());
            oldest.map(|id| executions.remove(&id));
        }
        push(executions.entry(row.plugin_id.clone()).or_default(), Arc::new(row), bound);
    }

    fn call(&self, row: CallRecord) {
        push(&mut lock(&self.calls), Arc::new(row), CALLS);
    }

    fn recent_executions(&self, plugin: Option<&str>, limit: usize) -> Vec<Arc<PluginExecution>> {
        let wanted = |row: &PluginExecution| {
            plugin.is_none_or(|name| row.plugin == name || row.plugin.rsplit('/').next() == Some(name))
        };
        let executions = lock(&self.executions);
        let mut rows: Vec<_> = executions.values().flatten().filter(|row| wanted(row)).cloned().collect();
        drop(executions);
        // Ids are UUIDv7: they sort by time, and tell apart what one millisecond holds.
        rows.sort_by(|a, b| b.id.cmp(&a.id));
        rows.truncate(limit);
        rows
    }

    fn recent_calls(&self, limit: usize) -> Vec<Arc<CallRecord>> {
        lock(&self.calls).iter().rev().take(limit).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::plugin::{Mode, Phase};
    use crate::domain::record::ExecutionStatus;

    fn row(plugin: &str, n: u64) -> PluginExecution {
        PluginExecution {
            id: format!("{n:04}"),
            request_id: "r".into(),
            plugin_id: format!("id-{plugin}"),
            plugin: format!("default/{plugin}"),
            chain_id: "default/c".into(),
            started_at: n,
            duration_ms: 1.0,
            queue_ms: 0.0,
            run_ms: 1.0,
            status: ExecutionStatus::Success,
            reason: None,
            input_size_bytes: 1,
            output_size_bytes: Some(1),
            error_message: None,
            changed: false,
            phase: Phase::Request,
            mode: Mode::Enforce,
            plugin_revision: String::new(),
            chain_revision: String::new(),
            upstream: "u".into(),
            tool: "t".into(),
            principal: "anonymous".into(),
            worker_pid: None,
        }
    }

    #[test]
    fn keeps_the_newest_of_each_plugin() {
        let records = MemoryRecords::new(2);
        (0..5).for_each(|n| records.execution(row("a", n)));
        records.execution(row("b", 1));
        let ids =
            |plugin| -> Vec<String> { records.recent_executions(plugin, 10).iter().map(|r| r.id.clone()).collect() };
        assert_eq!(ids(Some("a")), ["0004", "0003"]);
        assert_eq!(ids(Some("default/b")), ["0001"]);
        assert_eq!(ids(None), ["0004", "0003", "0001"]);
    }
}
