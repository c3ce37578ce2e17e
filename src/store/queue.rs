//! The rows that wait to be written to a database.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::insert::Cell;
use super::statements::row;
use crate::domain::history::{HistoryRecord, RecordKind};
use crate::domain::record::{CallRecord, PluginExecution};

/// The maximum number of rows in the queue.
const MAX_ROWS: usize = 10_000;
/// The maximum size of the rows in the queue, in bytes.
const MAX_BYTES: usize = 32 << 20;

/// A record that is shared with the memory.
pub(super) enum QueuedRow {
    Call(Arc<CallRecord>),
    Execution(Arc<PluginExecution>),
}

impl QueuedRow {
    fn size(&self) -> usize {
        match self {
            Self::Call(record) => record.size(),
            Self::Execution(record) => record.size(),
        }
    }

    pub(super) fn call(&self) -> Option<&CallRecord> {
        match self {
            Self::Call(record) => Some(record),
            Self::Execution(_) => None,
        }
    }

    pub(super) fn kind(&self) -> RecordKind {
        match self {
            Self::Call(_) => RecordKind::Calls,
            Self::Execution(_) => RecordKind::Executions,
        }
    }

    /// Returns the row of the table, or `None` if the record cannot be written as JSON.
    pub(super) fn to_table_row(&self) -> Option<Vec<Cell>> {
        match self {
            Self::Call(record) => row(&**record),
            Self::Execution(record) => row(&**record),
        }
    }
}

/// The counters of all queues of a process.
#[derive(Default)]
pub(super) struct Totals {
    /// Rows that were written.
    pub(super) written: AtomicU64,
    /// Rows that were dropped.
    pub(super) dropped: AtomicU64,
}

/// The counters of a queue.
#[derive(Default)]
pub(super) struct Counts {
    rows: AtomicUsize,
    bytes: AtomicUsize,
    totals: Arc<Totals>,
    /// Why the rows cannot be written now.
    failure: Mutex<Option<String>>,
}

impl Counts {
    /// Creates the counters of a queue. They are added to `totals`.
    fn new(totals: Arc<Totals>) -> Arc<Self> {
        Arc::new(Self { totals, ..Self::default() })
    }

    /// Counts rows as written.
    pub(super) fn written(&self, rows: &[QueuedRow]) {
        self.totals.written.fetch_add(rows.len() as u64, Ordering::Relaxed);
        self.rows.fetch_sub(rows.len(), Ordering::Relaxed);
        self.bytes.fetch_sub(rows.iter().map(QueuedRow::size).sum(), Ordering::Relaxed);
    }

    /// Counts the rows that still wait as dropped. Returns how many they are.
    pub(super) fn drop_rest(&self) -> usize {
        let rows = self.rows.swap(0, Ordering::Relaxed);
        self.totals.dropped.fetch_add(rows as u64, Ordering::Relaxed);
        rows
    }

    pub(super) fn waiting(&self) -> usize {
        self.rows.load(Ordering::Relaxed)
    }

    /// Sets why rows cannot be written; `None` if they can.
    pub(super) fn set_failure(&self, why: Option<String>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.totals.dropped.load(Ordering::Relaxed)
    }
}

/// The end of the queue to which calls add rows.
pub(super) struct RowQueue {
    sender: mpsc::Sender<QueuedRow>,
    pub(super) counts: Arc<Counts>,
}

impl RowQueue {
    /// Creates a queue, and the end from which rows are taken.
    pub(super) fn new(totals: Arc<Totals>) -> (Self, mpsc::Receiver<QueuedRow>) {
        let (sender, receiver) = mpsc::channel(MAX_ROWS);
        (Self { sender, counts: Counts::new(totals) }, receiver)
    }

    /// Adds a row, or drops and counts it if the queue is full.
    pub(super) fn push(&self, row: QueuedRow) {
        let (counts, size) = (&self.counts, row.size());
        counts.rows.fetch_add(1, Ordering::Relaxed);
        let held = counts.bytes.fetch_add(size, Ordering::Relaxed) + size;
        if held > MAX_BYTES || self.sender.try_send(row).is_err() {
            counts.rows.fetch_sub(1, Ordering::Relaxed);
            counts.bytes.fetch_sub(size, Ordering::Relaxed);
            counts.totals.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}
