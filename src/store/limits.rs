//! How much of the history is kept.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long one statement, or one batch of rows, can take.
pub(super) const STATEMENT: Duration = Duration::from_secs(15);

/// How long values of a conversation are kept that no run uses.
pub(super) const IDLE_CONVERSATION: Duration = Duration::from_hours(24);

/// How much of the history is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Maximum number of executions of each plugin in memory.
    pub per_plugin: usize,
    /// How long a database keeps rows.
    pub retention: Duration,
    /// Maximum size of a SQLite file, in bytes. A change takes effect when the file is opened.
    pub max_bytes: u64,
}

/// The limits on what a database keeps. They can change while it is open.
#[derive(Debug, Default)]
pub(super) struct SharedLimits {
    retention_ms: AtomicU64,
    max_bytes: AtomicU64,
}

impl SharedLimits {
    pub(super) fn set(&self, limits: &HistoryLimits) {
        let retention = u64::try_from(limits.retention.as_millis()).unwrap_or(u64::MAX);
        self.retention_ms.store(retention, Ordering::Relaxed);
        self.max_bytes.store(limits.max_bytes, Ordering::Relaxed);
    }

    /// How long rows are kept, in milliseconds.
    pub(super) fn retention_ms(&self) -> u64 {
        self.retention_ms.load(Ordering::Relaxed)
    }

    /// The maximum size of a SQLite file, in bytes.
    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes.load(Ordering::Relaxed)
    }
}
