//! Writes the audit trail to a database, as a chain of rows for each process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::{AssertSqlSafe, Row};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::audit_row::StoredAuditRow;
use super::connections::Connections;
use super::error::StoreError;
use super::insert::{Insert, Table};
use super::statements::number;
use super::writer::gather;
use crate::domain::audit::{AuditError, AuditHead, AuditRow, AuditTotals};

/// The maximum number of rows that wait.
const MAX_ROWS: usize = 10_000;
/// The maximum number of rows in one transaction.
const BATCH: usize = 500;
/// How long a row that a call waits for may take.
const WAIT: Duration = Duration::from_secs(5);
/// How often the head of the chain is logged, if it has changed.
const HEADS: Duration = Duration::from_secs(60);
static TABLE: Table = Table {
    name: "audit",
    columns: &["chain", "sequence", "stored_at", "previous", "hash", "document"],
    is_keyed: false,
};

/// A row, and who waits for it. Without a row, all rows before it are waited for.
struct Waiting {
    row: Option<AuditRow>,
    stored: Option<oneshot::Sender<Result<(), AuditError>>>,
}

/// The counters of an audit trail.
#[derive(Debug, Default)]
pub(super) struct AuditCounts {
    head: AtomicU64,
    stored: AtomicU64,
    dropped: AtomicU64,
    /// Why the last rows were not stored; `None` if they were.
    failure: Mutex<Option<String>>,
}

impl AuditCounts {
    pub(super) fn totals(&self) -> AuditTotals {
        AuditTotals { head: self.head.load(Ordering::Relaxed), stored: self.stored.load(Ordering::Relaxed) }
    }

    /// How many rows were not stored, although no call waited for them.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The end of the audit trail to which calls add rows.
pub(super) struct AuditQueue {
    sender: mpsc::Sender<Waiting>,
    counts: Arc<AuditCounts>,
}

impl AuditQueue {
    /// Starts the task that writes the chain of this name. It ends once the queue is dropped and all rows are written.
    pub(super) fn start(connections: Arc<Connections>, chain: &str, counts: Arc<AuditCounts>) -> Self {
        let (sender, rows) = mpsc::channel(MAX_ROWS);
        let writer = AuditWriter {
            connections,
            rows,
            head: AuditHead::new(chain),
            // The process can have written to the same database before.
            is_certain: false,
            logged: 0,
            counts: Arc::clone(&counts),
        };
        tokio::spawn(writer.run());
        Self { sender, counts }
    }

    pub(super) fn record(&self, row: AuditRow) {
        if self.sender.try_send(Waiting { row: Some(row), stored: None }).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Queues a row now. The future waits until it is stored.
    pub(super) fn store(&self, row: AuditRow) -> impl Future<Output = Result<(), AuditError>> + use<> {
        self.wait(Some(row))
    }

    /// Waits until all rows are written, or were dropped.
    pub(super) async fn flush(&self) {
        let _ = self.wait(None).await;
    }

    fn wait(&self, row: Option<AuditRow>) -> impl Future<Output = Result<(), AuditError>> + use<> {
        let (stored, waiting) = oneshot::channel();
        let full = |_| AuditError::Store(format!("{MAX_ROWS} rows wait for the store"));
        let queued = self.sender.try_send(Waiting { row, stored: Some(stored) }).map_err(full);
        async move {
            queued?;
            match tokio::time::timeout(WAIT, waiting).await {
                Ok(Ok(done)) => done,
                Ok(Err(_)) => Err(AuditError::Store("the store is closed".to_owned())),
                Err(_) => Err(AuditError::Store(format!("the store has not answered within {} s", WAIT.as_secs()))),
            }
        }
    }
}

struct AuditWriter {
    connections: Arc<Connections>,
    rows: mpsc::Receiver<Waiting>,
    head: AuditHead,
    /// Whether `head` is what the database has. Of a failed transaction it is not known whether it was committed.
    is_certain: bool,
    /// The number of the last head that was logged.
    logged: u64,
    counts: Arc<AuditCounts>,
}

impl AuditWriter {
    async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut next_log = Instant::now() + HEADS;
        loop {
            tokio::select! {
                rows = self.rows.recv_many(&mut batch, BATCH) => {
                    if rows == 0 {
                        return self.log_head();
                    }
                    if batch.iter().all(|waiting| waiting.stored.is_none()) {
                        gather(&mut self.rows, &mut batch, BATCH).await;
                    }
                    self.write(&mut batch).await;
                }
                () = tokio::time::sleep_until(next_log) => {
                    self.log_head();
                    next_log = Instant::now() + HEADS;
                }
            }
        }
    }

    /// Writes a batch in one transaction, and answers those who wait for its rows. Rows are not written again: a call has
    /// ended meanwhile.
    async fn write(&mut self, batch: &mut Vec<Waiting>) {
        // A row has numbers and strings only, so it can always be written.
        let rows = batch.iter().filter_map(|waiting| waiting.row.as_ref());
        let rows: Vec<_> = rows.filter_map(|row| serde_json::to_string(row).ok()).collect();
        let flushes = rows.len() < batch.len();
        // A call goes on once its row is stored.
        let is_durable = batch.iter().any(|waiting| waiting.row.is_some() && waiting.stored.is_some());
        let written = if rows.is_empty() { Ok(self.head.clone()) } else { self.try_write(&rows, is_durable).await };
        if !rows.is_empty() {
            self.is_certain = written.is_ok();
        }
        match &written {
            Ok(head) => {
                self.head = head.clone();
                self.counts.head.store(head.sequence, Ordering::Relaxed);
                self.counts.stored.fetch_add(rows.len() as u64, Ordering::Relaxed);
                if !rows.is_empty() {
                    *self.counts.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
                }
            }
            Err(why) => {
                *self.counts.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_string());
                let is_unawaited = |waiting: &&Waiting| waiting.stored.as_ref().is_none_or(oneshot::Sender::is_closed);
                let unawaited = batch.iter().filter(is_unawaited).count();
                self.counts.dropped.fetch_add(unawaited as u64, Ordering::Relaxed);
                tracing::warn!(rows = rows.len(), "the audit trail is not written: {why}");
            }
        }
        if flushes {
            self.log_head();
        }
        let written = written.map(drop).map_err(|why| AuditError::Store(why.to_string()));
        for stored in batch.drain(..).filter_map(|waiting| waiting.stored) {
            // A call that was cancelled no longer waits.
            let _ = stored.send(written.clone());
        }
    }

    async fn try_write(&mut self, rows: &[String], is_durable: bool) -> Result<AuditHead, StoreError> {
        self.connections.prepare().await?;
        if !self.is_certain {
            self.head = self.connections.audit_head(&self.head.chain).await?;
        }
        let mut head = self.head.clone();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let row = |document: &String| {
            let next = head.with(now, document);
            let AuditHead { chain, hash: previous, .. } = std::mem::replace(&mut head, next);
            let (sequence, hash) = (number(head.sequence), head.hash.clone());
            vec![chain.into(), sequence.into(), now.into(), previous.into(), hash.into(), document.clone().into()]
        };
        let rows = rows.iter().map(row).collect();
        self.connections.insert(vec![Insert { table: &TABLE, rows }], is_durable).await?;
        Ok(head)
    }

    /// Logs the head, so that rows that are removed from the end of the chain can be noticed.
    fn log_head(&mut self) {
        if self.head.sequence > self.logged {
            self.logged = self.head.sequence;
            let AuditHead { chain, sequence, hash } = &self.head;
            tracing::info!(chain, sequence, hash, "audit head");
        }
    }
}

impl Connections {
    /// Reads the head of a chain.
    async fn audit_head(&self, chain: &str) -> Result<AuditHead, StoreError> {
        let sql = "SELECT sequence, hash FROM audit WHERE chain = $1 ORDER BY sequence DESC LIMIT 1";
        let last = self.within(sqlx::query(sql).bind(chain.to_owned()).fetch_optional(&self.pool)).await?;
        let Some(last) = last else { return Ok(AuditHead::new(chain)) };
        let read = || Ok((last.try_get::<i64, _>(0)?.unsigned_abs(), last.try_get(1)?));
        let (sequence, hash) = read().map_err(|why: sqlx::Error| self.error(&why))?;
        Ok(AuditHead { chain: chain.to_owned(), sequence, hash })
    }

    /// Reads rows of the audit trail in the order of their chains, at most `limit`, after the row `after` of a chain.
    pub(super) async fn audit_rows(&self, after: (&str, u64), limit: u64) -> Result<Vec<StoredAuditRow>, StoreError> {
        let sql = format!(
            "SELECT chain, sequence, previous, hash, document, stored_at FROM audit WHERE (chain, sequence) > ($1, $2) ORDER BY \
             chain, sequence LIMIT {limit}"
        );
        let select = sqlx::query(AssertSqlSafe(sql)).bind(after.0.to_owned()).bind(number(after.1));
        let rows = self.within(select.fetch_all(&self.pool)).await?;
        let read = |row: &sqlx::any::AnyRow| {
            Ok(StoredAuditRow {
                chain: row.try_get(0)?,
                sequence: row.try_get::<i64, _>(1)?.unsigned_abs(),
                previous: row.try_get(2)?,
                hash: row.try_get(3)?,
                document: row.try_get(4)?,
                stored_at: row.try_get(5)?,
            })
        };
        rows.iter().map(read).collect::<Result<_, _>>().map_err(|why: sqlx::Error| self.error(&why))
    }
}
