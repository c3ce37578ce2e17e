//! The metrics of the history and of the audit trail.

use prometheus::{IntCounterVec, IntGaugeVec};

use crate::telemetry::catalog::Catalog;
use crate::telemetry::scrape_input::ScrapeInput;

pub(super) struct HistoryMetrics {
    rows: IntCounterVec,
    dropped: IntCounterVec,
    queued: IntGaugeVec,
    audit_rows: IntCounterVec,
    audit_head: IntGaugeVec,
}

impl HistoryMetrics {
    pub(super) fn new(m: &Catalog) -> prometheus::Result<Self> {
        Ok(Self {
            rows: m.counter("hawsepipe_history_rows_total", "Rows that the history wrote to the database", &["store"])?,
            dropped: m.counter(
                "hawsepipe_history_dropped_total",
                "Rows that the history dropped: from memory, to make room for newer ones; before the database, because the \
                 queue was full; of the audit trail, because they could not be stored",
                &["store"],
            )?,
            queued: m.gauge("hawsepipe_history_queue_length", "Rows that wait to be written to the database", &[])?,
            audit_rows: m.counter("hawsepipe_audit_rows_total", "Rows of the audit trail that were stored", &["store"])?,
            audit_head: m.gauge(
                "hawsepipe_audit_head_sequence",
                "Number of the last row that this process wrote to the audit trail",
                &[],
            )?,
        })
    }

    pub(super) fn set(&self, now: &ScrapeInput<'_>) {
        let set = |counter: &IntCounterVec, store: &str, total: u64| {
            let counter = counter.with_label_values(&[store]);
            counter.inc_by(total.saturating_sub(counter.get()));
        };
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        self.queued.with_label_values::<&str>(&[]).set(number(now.queued as u64));
        self.audit_head.with_label_values::<&str>(&[]).set(number(now.audit.head));
        set(&self.rows, "database", now.written);
        set(&self.audit_rows, "database", now.audit.stored);
        for (store, rows) in &now.dropped {
            set(&self.dropped, store, *rows);
        }
    }
}
