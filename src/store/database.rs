//! A history database, and the task that writes to it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::audit::{AuditCounts, AuditQueue};
use super::connections::Connections;
use super::error::StoreError;
use super::limits::{HistoryLimits, SharedLimits};
use super::queue::{RowQueue, Totals};
use super::target::StoreTarget;
use super::writer::Writer;

/// How long a store that is closed has to write the rows in its queue.
const FLUSH: Duration = Duration::from_secs(5);

/// An open database.
pub(super) struct Database {
    pub(super) connections: Arc<Connections>,
    pub(super) queue: RowQueue,
    pub(super) audit: AuditQueue,
    limits: Arc<SharedLimits>,
    stop: CancellationToken,
    writing: Mutex<Option<JoinHandle<()>>>,
}

impl Database {
    /// Opens a database and starts to write to it. If it cannot be reached, the task retries. Its queue is counted in
    /// `totals`. The audit trail is the chain of this name.
    pub(super) fn open(
        target: StoreTarget,
        limits: &HistoryLimits,
        totals: Arc<Totals>,
        (chain, audited): (&str, &Arc<AuditCounts>),
    ) -> Result<Self, StoreError> {
        let connections = Arc::new(Connections::new(target, limits.max_bytes)?);
        let (queue, rows) = RowQueue::new(totals);
        let (stop, shared) = (CancellationToken::new(), Arc::new(SharedLimits::default()));
        let audit = AuditQueue::start(Arc::clone(&connections), chain, Arc::clone(audited));
        let database = Self { connections, queue, audit, limits: shared, stop, writing: Mutex::default() };
        database.set_limits(limits);
        let writer = Writer {
            connections: Arc::clone(&database.connections),
            rows,
            counts: Arc::clone(&database.queue.counts),
            limits: Arc::clone(&database.limits),
            stop: database.stop.clone(),
            logged: None,
        };
        *database.writing.lock().unwrap_or_else(PoisonError::into_inner) = Some(tokio::spawn(writer.run()));
        Ok(database)
    }

    pub(super) fn set_limits(&self, limits: &HistoryLimits) {
        self.limits.set(limits);
    }

    /// Writes the rows in the queue, and closes the connections. Rows that are not written in time are dropped.
    pub(super) async fn close(&self) {
        let _ = tokio::time::timeout(FLUSH, self.audit.flush()).await;
        self.stop.cancel();
        let writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut writing) = writing {
            if tokio::time::timeout(FLUSH, &mut writing).await.is_err() {
                writing.abort();
            }
            let rows = self.queue.counts.drop_rest();
            if rows > 0 {
                tracing::warn!(rows, "the last rows of the history were not written to {}", self.connections.target);
            }
        }
        let _ = tokio::time::timeout(FLUSH, self.connections.close()).await;
    }
}
