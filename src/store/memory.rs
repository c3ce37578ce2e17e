//! Recent executions and calls in memory (document 000: the last 1,000 executions of each plugin).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use serde_json::value::{RawValue, to_raw_value};

use crate::domain::history::{HistoryQuery, HistoryRecord, Position, RecordKind};
use crate::domain::ports::RecentFailures;
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

pub(super) struct Ring<T>(Mutex<VecDeque<Arc<T>>>);

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Ring<T> {
    /// Locks the rows. A poisoned lock is used too, because a row is complete before it is added.
    pub(super) fn rows(&self) -> MutexGuard<'_, VecDeque<Arc<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a row. Returns how many rows were dropped to make room.
    fn push(&self, row: Arc<T>, bound: usize) -> u64 {
        let mut rows = self.rows();
        let mut left = 0;
        while rows.len() >= bound.max(1) {
            rows.pop_front();
            left += 1;
        }
        rows.push_back(row);
        left
    }

    /// Returns all rows, newest first.
    fn newest(&self) -> Vec<Arc<T>> {
        self.rows().iter().rev().cloned().collect()
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
    pub(super) fn ring(&self, plugin_id: &str) -> Arc<Ring<PluginExecution>> {
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

impl MemoryRecords {
    pub fn set_per_plugin(&self, rows: usize) {
        self.per_plugin.store(rows, Ordering::Relaxed);
    }

    pub fn execution(&self, row: Arc<PluginExecution>) {
        let (bound, ring) = (self.per_plugin.load(Ordering::Relaxed), self.ring(&row.plugin_id));
        self.dropped_executions.fetch_add(ring.push(row, bound), Ordering::Relaxed);
    }

    /// See [`Records::failures`](crate::domain::ports::Records::failures).
    pub fn failures(&self, plugin_id: &str, since: u64) -> Option<RecentFailures> {
        let ring = self.executions.read().unwrap_or_else(PoisonError::into_inner).get(plugin_id).cloned()?;
        let rows = ring.rows();
        let recent = || rows.iter().filter(|row| row.started_at >= since);
        let failed = || recent().filter_map(|row| Some((row.started_at, row.reason?)));
        let (last_at, last_reason) = failed().max_by_key(|(started_at, _)| *started_at)?;
        Some(RecentFailures { failed: failed().count(), executions: recent().count(), last_reason, last_at })
    }

    pub fn call(&self, row: Arc<CallRecord>) {
        self.dropped_calls.fetch_add(self.calls.push(row, CALLS), Ordering::Relaxed);
    }

    /// Returns the records of one page, and one more if there is another page.
    pub fn list(&self, kind: RecordKind, query: &HistoryQuery) -> Vec<(Position, Box<RawValue>)> {
        match kind {
            RecordKind::Calls => select(self.calls.newest(), query),
            RecordKind::Executions => select(self.rings().iter().flat_map(|ring| ring.newest()).collect(), query),
        }
    }

    /// Returns how many executions and calls were dropped to make room for newer ones.
    pub fn dropped(&self) -> [u64; 2] {
        [&self.dropped_executions, &self.dropped_calls].map(|count| count.load(Ordering::Relaxed))
    }
}

/// Returns the newest rows that a query selects, as JSON: those of the page, and one more.
fn select<R: HistoryRecord>(rows: Vec<Arc<R>>, query: &HistoryQuery) -> Vec<(Position, Box<RawValue>)> {
    let rows = rows.into_iter().map(|row| (row.position(), row));
    let mut rows: Vec<_> = rows.filter(|(position, row)| query.admits(position, &row.columns())).collect();
    rows.sort_by(|(a, _), (b, _)| b.cmp(a));
    rows.truncate(query.limit + 1);
    rows.into_iter().filter_map(|(position, row)| Some((position, to_raw_value(&*row).ok()?))).collect()
}
