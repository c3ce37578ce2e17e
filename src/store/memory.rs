//! Recent executions and calls in memory (document 000: the last 1,000 executions of each plugin).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::domain::ports::Records;
use crate::domain::record::{CallRecord, PluginExecution};

/// The maximum number of calls that are kept.
const CALLS: usize = 1000;
/// The maximum number of plugins that have a ring. If another plugin needs one, the plugin whose last execution is the
/// oldest loses its ring.
const PLUGINS: usize = 1000;

/// The newest executions of each plugin and the newest calls, in bounded rings. Each ring has its own lock, so that a
/// listing delays a call at most for the time that it takes to copy one ring.
pub struct MemoryRecords {
    per_plugin: AtomicUsize,
    executions: RwLock<HashMap<String, Arc<Ring<PluginExecution>>>>,
    calls: Ring<CallRecord>,
    dropped_executions: AtomicU64,
    dropped_calls: AtomicU64,
}

struct Ring<T>(Mutex<VecDeque<Arc<T>>>);

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Ring<T> {
    /// Locks the rows. A poisoned lock is used too, because a row is complete before it is added.
    fn rows(&self) -> MutexGuard<'_, VecDeque<Arc<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a row. Returns how many rows were dropped to make room.
    fn push(&self, row: T, bound: usize) -> u64 {
        let row = Arc::new(row);
        let mut rows = self.rows();
        let mut left = 0;
        while rows.len() >= bound.max(1) {
            rows.pop_front();
            left += 1;
        }
        rows.push_back(row);
        left
    }

    /// Returns at most `limit` rows, newest first.
    fn newest(&self, limit: usize) -> Vec<Arc<T>> {
        self.rows().iter().rev().take(limit).cloned().collect()
    }
}

impl MemoryRecords {
    /// Creates a store that keeps up to `per_plugin` executions of each plugin, but at least one, and the last 1,000
    /// calls.
    pub fn new(per_plugin: usize) -> Self {
        Self {
            per_plugin: AtomicUsize::new(per_plugin),
            executions: RwLock::default(),
            calls: Ring::default(),
            dropped_executions: AtomicU64::new(0),
            dropped_calls: AtomicU64::new(0),
        }
    }

    /// Returns the ring of a plugin, and creates it if there is none.
    fn ring(&self, plugin_id: &str) -> Arc<Ring<PluginExecution>> {
        let known = self.executions.read().unwrap_or_else(PoisonError::into_inner).get(plugin_id).cloned();
        if let Some(ring) = known {
            return ring;
        }
        let mut executions = self.executions.write().unwrap_or_else(PoisonError::into_inner);
        if executions.len() >= PLUGINS && !executions.contains_key(plugin_id) {
            let newest = |ring: &Ring<PluginExecution>| ring.rows().back().map_or(0, |row| row.started_at);
            let oldest = executions.iter().min_by_key(|(_, ring)| newest(ring)).map(|(id, _)| id.clone());
            let gone = oldest.and_then(|id| executions.remove(&id)).map_or(0, |ring| ring.rows().len());
            self.dropped_executions.fetch_add(gone as u64, Ordering::Relaxed);
        }
        Arc::clone(executions.entry(plugin_id.to_owned()).or_default())
    }

    fn rings(&self) -> Vec<Arc<Ring<PluginExecution>>> {
        self.executions.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

impl Records for MemoryRecords {
    fn set_per_plugin(&self, rows: usize) {
        self.per_plugin.store(rows, Ordering::Relaxed);
    }

    fn execution(&self, row: PluginExecution) {
        let (bound, ring) = (self.per_plugin.load(Ordering::Relaxed), self.ring(&row.plugin_id));
        self.dropped_executions.fetch_add(ring.push(row, bound), Ordering::Relaxed);
    }

    fn call(&self, row: CallRecord) {
        self.dropped_calls.fetch_add(self.calls.push(row, CALLS), Ordering::Relaxed);
    }

    fn recent_executions(&self, plugin: Option<&str>, limit: usize) -> Vec<Arc<PluginExecution>> {
        let wanted = |row: &Arc<PluginExecution>| {
            plugin.is_none_or(|name| row.plugin == name || row.plugin.rsplit('/').next() == Some(name))
        };
        let mut rows: Vec<_> = self.rings().iter().flat_map(|ring| ring.newest(limit)).filter(wanted).collect();
        // Ids are UUIDv7, so they sort by time, and differ within a millisecond.
        rows.sort_by(|a, b| b.id.cmp(&a.id));
        rows.truncate(limit);
        rows
    }

    fn recent_calls(&self, limit: usize) -> Vec<Arc<CallRecord>> {
        self.calls.newest(limit)
    }

    fn dropped(&self) -> Vec<(&'static str, u64)> {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        vec![("executions", count(&self.dropped_executions)), ("calls", count(&self.dropped_calls))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::plugin::{Mode, Phase};
    use crate::domain::record::{CallOutcome, ExecutionStatus};

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
            when: None,
            changed: false,
            method: crate::domain::method::Method::CallTool,
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

    fn call() -> CallRecord {
        CallRecord {
            method: crate::domain::method::Method::CallTool,
            request_id: "r".into(),
            within: None,
            started_at: 1,
            duration_ms: 1.0,
            upstream_ms: None,
            retries: 0,
            plugin_ms: 0.0,
            upstream: "u".into(),
            tool: "t".into(),
            era: "modern",
            principal: "anonymous".into(),
            outcome: CallOutcome::Ok,
            reason: None,
            entries: Vec::new(),
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
        assert_eq!(records.dropped(), [("executions", 3), ("calls", 0)]);
    }

    #[test]
    fn a_list_that_reads_one_plugin_s_rows_holds_up_no_other() {
        let records = MemoryRecords::new(2);
        records.execution(row("a", 1));
        let ring = records.ring("id-a");
        let read = ring.rows();
        // With one lock for all rings, this would wait forever.
        records.execution(row("b", 2));
        records.call(call());
        assert_eq!((read.len(), records.recent_calls(9).len(), records.ring("id-b").newest(9).len()), (1, 1, 1));
    }

    #[test]
    fn rows_of_plugins_beyond_the_bound_are_counted_as_dropped() {
        let records = MemoryRecords::new(2);
        (0..=PLUGINS as u64).for_each(|n| records.execution(row(&n.to_string(), n)));
        assert!(records.recent_executions(Some("0"), 1).is_empty());
        assert_eq!(records.dropped()[0], ("executions", 1));
    }
}
