//! The ports of the history and of the audit trail.

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde::Serialize;

use super::audit::{AuditError, AuditRow, AuditTotals};
use super::history::{HistoryPage, HistoryQuery, RecordKind};
use super::reason::Reason;
use super::record::{CallRecord, PluginExecution};

/// Stores the records of calls and executions. Both methods return at once: a store that writes elsewhere has a bounded
/// queue, and drops and counts the rows that do not fit into it.
pub trait Records: Send + Sync + 'static {
    /// Stores the record of one plugin execution.
    fn execution(&self, row: PluginExecution);

    /// Stores the record of one call.
    fn call(&self, row: CallRecord);

    /// Returns, for each store, how many rows it has dropped.
    fn dropped(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Returns the executions of a plugin that began at `since` or later, in Unix milliseconds, and failed; `None` if none did.
    /// Only rows in memory count.
    fn failures(&self, _plugin_id: &str, _since: u64) -> Option<RecentFailures> {
        None
    }

    /// Returns how many rows were written elsewhere.
    fn written(&self) -> u64 {
        0
    }

    /// Returns why rows cannot be written elsewhere now; `None` if they can, or if none are.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Returns the number of rows that wait to be written.
    fn queued(&self) -> usize {
        0
    }
}

/// The executions of a plugin in some minutes that failed. It has nothing of what a plugin says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "gateway", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RecentFailures {
    /// The number of executions that failed: the plugin gave no answer that can be used, or none in time, or no worker was free.
    pub failed: usize,
    /// The number of all executions in that time.
    pub executions: usize,
    /// Why the last one failed.
    pub last_reason: Reason,
    /// When the last one began, in Unix milliseconds.
    pub last_at: u64,
}

/// Reads the records of calls and executions.
#[async_trait]
pub trait History: Send + Sync + 'static {
    /// Returns a page of records of one kind. If a part of the history cannot be read, the page has the rest.
    async fn list(&self, kind: RecordKind, query: &HistoryQuery) -> HistoryPage;
}

/// A history without records, for gateways whose records go elsewhere.
pub struct NoHistory;

#[async_trait]
impl History for NoHistory {
    async fn list(&self, _: RecordKind, _: &HistoryQuery) -> HistoryPage {
        HistoryPage::default()
    }
}

/// Writes the audit trail.
pub trait Audit: Send + Sync + 'static {
    /// Whether there is a store for the rows.
    fn is_open(&self) -> bool;

    /// Whether there is a store, and it was reached once.
    fn is_ready(&self) -> bool;

    /// Adds a row in the background. Never blocks. A row that cannot be stored is counted.
    fn record(&self, row: AuditRow);

    /// Adds a row. It is in the queue when this returns; the future waits until it is stored. Dropping the future does not
    /// take the row back.
    ///
    /// # Errors
    /// The future returns why the row is not stored. It may be stored later all the same.
    fn store(&self, row: AuditRow) -> BoxFuture<'static, Result<(), AuditError>>;

    /// Returns why the last row was not stored; `None` if it was, or if there was none.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Returns what was written.
    fn totals(&self) -> AuditTotals;
}
