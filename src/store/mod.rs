//! The history of calls and executions: the newest rows in memory, and all rows in a database if there is one. Implements
//! `domain::ports::{Records, History}`.
//!
//! A database never delays a call. Rows wait in a bounded queue, and are dropped and counted if it is full.

mod audit;
mod audit_reader;
mod audit_row;
mod connections;
mod database;
mod erase_values;
mod error;
mod file;
mod insert;
mod keep_values;
mod limits;
mod memory;
mod memory_values;
mod migrations;
mod pooler;
mod queue;
mod registry;
mod retention;
mod sources;
mod statements;
mod target;
mod values;
mod writer;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use futures_util::future::BoxFuture;

use self::audit::AuditCounts;
pub use self::audit_reader::AuditReader;
pub use self::audit_row::StoredAuditRow;
pub use self::connections::migrate;
use self::database::Database;
pub use self::error::StoreError;
pub use self::limits::HistoryLimits;
use self::memory::MemoryRecords;
use self::memory_values::MemoryValues;
use self::queue::{QueuedRow, Totals};
pub use self::registry::{Registry, RegistryObject};
pub use self::target::StoreTarget;
use crate::domain::audit::{AuditError, AuditRow, AuditTotals};
use crate::domain::history::{HistoryPage, HistoryQuery, RecordKind};
use crate::domain::ports::{Audit, History, RecentFailures, Records};
use crate::domain::record::{CallRecord, PluginExecution};

/// The history of a gateway, and the values of its plugins.
pub struct Store {
    memory: MemoryRecords,
    database: ArcSwapOption<Database>,
    /// What became of the rows in the queues of databases.
    totals: Arc<Totals>,
    /// The name of the chain that this process writes to the audit trail.
    chain: String,
    audit: Arc<AuditCounts>,
    /// Why the database that the plan names is not used.
    not_open: ArcSwapOption<String>,
    /// The values of plugins, without a database.
    values: MemoryValues,
}

impl Store {
    /// Creates a store that keeps rows in memory only, up to `per_plugin` executions of each plugin.
    pub fn new(per_plugin: usize) -> Self {
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "gateway".to_owned());
        Self {
            memory: MemoryRecords::new(per_plugin),
            database: ArcSwapOption::empty(),
            totals: Arc::default(),
            chain: format!("{host}/{}", uuid::Uuid::now_v7()),
            audit: Arc::default(),
            not_open: ArcSwapOption::empty(),
            values: MemoryValues::default(),
        }
    }

    /// Sets why the database that the plan names is not used; `None` if it is, or if the plan names none.
    pub fn set_not_open(&self, why: Option<String>) {
        self.not_open.store(why.map(Arc::new));
    }

    /// Connects to a store and migrates its tables, as the first use does.
    ///
    /// # Errors
    /// If that fails.
    pub async fn check(target: &StoreTarget) -> Result<(), StoreError> {
        migrate(target, None).await.map(drop)
    }

    /// Applies the limits, and uses the database `target` from now on, or none. The previous one is closed in the
    /// background.
    ///
    /// # Errors
    /// If `target` cannot be used, whatever its state.
    pub fn follow(&self, limits: &HistoryLimits, target: Option<StoreTarget>) -> Result<(), StoreError> {
        self.memory.set_per_plugin(limits.per_plugin);
        let current = self.database.load_full();
        if let Some(database) =
            current.as_ref().filter(|database| Some(&database.connections.target) == target.as_ref())
        {
            database.set_limits(limits);
            return Ok(());
        }
        let open = |target| {
            let database = Database::open(target, limits, Arc::clone(&self.totals), (&self.chain, &self.audit));
            database.map(Arc::new)
        };
        let opened = target.map(open);
        let (opened, failed) = match opened.transpose() {
            Ok(opened) => (opened, Ok(())),
            Err(why) => (None, Err(why)),
        };
        if let Some(database) = &opened {
            tracing::info!(store = %database.connections.target, "history");
        }
        if let Some(previous) = self.database.swap(opened) {
            tokio::spawn(async move { previous.close().await });
        }
        failed
    }

    /// Whether the database `target` is in use and was reached.
    pub fn has_reached(&self, target: &StoreTarget) -> bool {
        let current = self.database.load();
        current.as_ref().is_some_and(|it| it.connections.target == *target && it.connections.is_prepared())
    }

    /// Writes the rows in the queue, and closes the database.
    pub async fn close(&self) {
        if let Some(database) = self.database.load_full() {
            database.close().await;
        }
    }

    fn write(&self, row: impl FnOnce() -> QueuedRow) {
        if let Some(database) = &*self.database.load() {
            database.queue.push(row());
        }
    }
}

impl Records for Store {
    fn execution(&self, row: PluginExecution) {
        let row = Arc::new(PluginExecution { error_text: None, ..row });
        self.write(|| QueuedRow::Execution(Arc::clone(&row)));
        self.memory.execution(row);
    }

    fn call(&self, mut row: CallRecord) {
        row.entries.iter_mut().for_each(|entry| entry.error_text = None);
        let row = Arc::new(row);
        self.write(|| QueuedRow::Call(Arc::clone(&row)));
        self.memory.call(row);
    }

    fn dropped(&self) -> Vec<(&'static str, u64)> {
        let [executions, calls] = self.memory.dropped();
        vec![
            ("executions", executions),
            ("calls", calls),
            ("database", self.totals.dropped.load(Ordering::Relaxed)),
            ("audit", self.audit.dropped()),
        ]
    }

    fn failures(&self, plugin_id: &str, since: u64) -> Option<RecentFailures> {
        self.memory.failures(plugin_id, since)
    }

    fn written(&self) -> u64 {
        self.totals.written.load(Ordering::Relaxed)
    }

    fn failure(&self) -> Option<String> {
        let not_open = self.not_open.load_full().map(|why| why.to_string());
        not_open.or_else(|| self.database.load().as_ref().and_then(|database| database.queue.counts.failure()))
    }

    fn queued(&self) -> usize {
        self.database.load().as_ref().map_or(0, |database| database.queue.counts.waiting())
    }
}

impl Audit for Store {
    fn is_open(&self) -> bool {
        self.database.load().is_some()
    }

    fn is_ready(&self) -> bool {
        self.database.load().as_ref().is_some_and(|database| database.connections.is_prepared())
    }

    fn record(&self, row: AuditRow) {
        if let Some(database) = &*self.database.load() {
            database.audit.record(row);
        }
    }

    fn store(&self, row: AuditRow) -> BoxFuture<'static, Result<(), AuditError>> {
        match &*self.database.load() {
            Some(database) => Box::pin(database.audit.store(row)),
            None => Box::pin(std::future::ready(Err(AuditError::NoStore))),
        }
    }

    fn failure(&self) -> Option<String> {
        self.database.load().as_ref().and_then(|_| self.audit.failure())
    }

    fn totals(&self) -> AuditTotals {
        self.audit.totals()
    }
}

#[async_trait]
impl History for Store {
    /// The page has the rows in memory too: the newest of them can still be in the queue, and the database can be down.
    async fn list(&self, kind: RecordKind, query: &HistoryQuery) -> HistoryPage {
        let mut found = self.memory.list(kind, query);
        let mut incomplete = None;
        if let Some(database) = self.database.load_full() {
            match database.connections.list(kind, query).await {
                Ok(rows) => found.extend(rows),
                Err(why) => incomplete = Some(format!("{why}. The list has only what is in memory")),
            }
        }
        HistoryPage { incomplete, ..HistoryPage::merge(found, query.limit) }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod values_tests;
