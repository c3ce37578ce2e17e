//! Writes rows to a database in the background.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::connections::Connections;
use super::error::StoreError;
use super::insert::Insert;
use super::limits::{IDLE_CONVERSATION, SharedLimits};
use super::queue::{Counts, QueuedRow};
use super::retention::ROWS as ROWS_REMOVED;
use super::sources;
use super::statements::table;
use super::target::Dialect;
use crate::domain::history::RecordKind;

/// The maximum number of rows in one transaction.
const BATCH: usize = 500;
/// How long rows are gathered before they are written: a transaction costs more than many rows of it.
const GATHER: Duration = Duration::from_millis(25);
/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a failure that lasts is logged.
const LOG: Duration = Duration::from_secs(60);
/// How often old rows are removed.
const CLEAN: Duration = Duration::from_secs(5);
/// The maximum number of statements that remove old rows at one time.
const REMOVALS: usize = 20;

/// Adds the rows that follow soon to a batch, which then has at most `most`. Does not wait if the batch is full.
pub(super) async fn gather<T>(rows: &mut mpsc::Receiver<T>, batch: &mut Vec<T>, most: usize) {
    if batch.len() >= most {
        return;
    }
    tokio::time::sleep(GATHER).await;
    while batch.len() < most
        && let Ok(row) = rows.try_recv()
    {
        batch.push(row);
    }
}

/// The task that writes the rows of a queue.
pub(super) struct Writer {
    pub(super) connections: Arc<Connections>,
    pub(super) rows: mpsc::Receiver<QueuedRow>,
    pub(super) counts: Arc<Counts>,
    pub(super) limits: Arc<SharedLimits>,
    /// Cancelled when the store is closed: the rows in the queue are then the last.
    pub(super) stop: CancellationToken,
    /// When a failure was logged.
    pub(super) logged: Option<Instant>,
}

impl Writer {
    /// Writes rows until the store is closed and the queue is empty, or a write after that fails.
    pub(super) async fn run(mut self) {
        while let Err(why) = self.connections.prepare().await {
            if !self.pause(&why).await {
                return;
            }
        }
        self.works();
        let mut ticks = tokio::time::interval(CLEAN);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let stop = self.stop.clone();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            tokio::select! {
                rows = self.rows.recv_many(&mut batch, BATCH) => {
                    if rows == 0 {
                        return;
                    }
                    gather(&mut self.rows, &mut batch, BATCH).await;
                    if !self.write(&batch).await {
                        return;
                    }
                    self.counts.written(&batch);
                    batch.clear();
                }
                () = stop.cancelled(), if !self.rows.is_closed() => self.rows.close(),
                _ = ticks.tick() => {
                    if let Err(why) = self.clean().await {
                        self.failed(&why);
                    }
                }
            }
        }
    }

    /// Writes a batch, as often as it takes. Returns `false` if the store is closed and the write failed.
    async fn write(&mut self, batch: &[QueuedRow]) -> bool {
        while let Err(why) = self.try_write(batch).await {
            if !self.pause(&why).await {
                return false;
            }
            // A file can be full.
            if self.connections.target.dialect() == Dialect::Sqlite {
                let _ = self.clean().await;
            }
        }
        self.works();
        true
    }

    async fn try_write(&self, batch: &[QueuedRow]) -> Result<(), StoreError> {
        let mut inserts = vec![sources::insert(batch.iter().filter_map(QueuedRow::call))];
        for kind in [RecordKind::Calls, RecordKind::Executions] {
            let rows = batch.iter().filter(|row| row.kind() == kind).filter_map(QueuedRow::to_table_row).collect();
            inserts.push(Insert { table: table(kind), rows });
        }
        inserts.retain(|insert| !insert.rows.is_empty());
        self.connections.insert(inserts, false).await
    }

    /// Removes rows that are too old, and the oldest ones of a file that is nearly full.
    async fn clean(&self) -> Result<(), StoreError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let retention = u128::from(self.limits.retention_ms());
        let oldest = i64::try_from(now.saturating_sub(retention)).unwrap_or_default();
        for _ in 0..REMOVALS {
            if self.connections.remove_before(oldest).await? < ROWS_REMOVED {
                break;
            }
        }
        let idle = now.saturating_sub(IDLE_CONVERSATION.as_millis());
        let [now, idle] = [now, idle].map(|time| i64::try_from(time).unwrap_or_default());
        self.connections.make_room(self.limits.max_bytes()).await?;
        if let Err(why) = self.connections.remove_values(now, idle).await {
            tracing::warn!(
                "values of plugins that have ended are not removed: {why}. They are hidden, and removed later"
            );
        }
        Ok(())
    }

    /// Logs a failure and waits before the next attempt. Returns `false` if the store is closed.
    async fn pause(&mut self, why: &StoreError) -> bool {
        self.failed(why);
        if self.stop.is_cancelled() {
            return false;
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = self.stop.cancelled() => {}
        }
        true
    }

    /// Logs a failure, at most once a minute.
    fn failed(&mut self, why: &StoreError) {
        self.counts.set_failure(Some(why.to_string()));
        if self.logged.is_none_or(|logged| logged.elapsed() >= LOG) {
            self.logged = Some(Instant::now());
            let (waiting, dropped) = (self.counts.waiting(), self.counts.dropped());
            tracing::warn!(
                waiting,
                dropped,
                "the history is not written: {why}. Calls continue; rows wait in a bounded queue"
            );
        }
    }

    fn works(&mut self) {
        self.counts.set_failure(None);
        if self.logged.take().is_some() {
            tracing::info!(dropped = self.counts.dropped(), "the history is written again");
        }
    }
}
