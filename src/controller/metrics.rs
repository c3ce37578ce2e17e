//! The operator's metrics. All label values come from closed lists.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, IntGauge};

use crate::telemetry::catalog::Catalog;

/// Upper bounds of the buckets, in seconds. A round takes milliseconds, but the first one with thousands of objects
/// takes seconds.
const BUCKETS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// The operator's Prometheus metrics.
#[derive(Clone)]
pub struct ControllerMetrics {
    reconciles: IntCounterVec,
    durations: HistogramVec,
    errors: IntCounterVec,
    leader: IntGauge,
}

impl ControllerMetrics {
    /// Registers the metrics in `catalog`.
    ///
    /// # Errors
    /// If the metrics are already registered.
    pub fn register(catalog: &Catalog) -> prometheus::Result<Self> {
        let leader = IntGauge::new("hawsepipe_leader", "1 in the operator that leads")?;
        catalog.keep(leader.clone())?;
        Ok(Self {
            reconciles: catalog.counter(
                "hawsepipe_reconciles_total",
                "Plans compiled and statuses written, by kind",
                &["kind", "result"],
            )?,
            durations: catalog.histogram(
                "hawsepipe_reconcile_duration_seconds",
                "From a change to written snapshots",
                &["kind"],
                &BUCKETS,
            )?,
            errors: catalog.counter(
                "hawsepipe_reconcile_errors_total",
                "What could not be read or written, by kind",
                &["kind", "result"],
            )?,
            leader,
        })
    }

    pub(super) fn leader(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    pub(super) fn reconciled(&self, kind: &str, took: Duration) {
        self.reconciles.with_label_values(&[kind, "planned"]).inc();
        self.durations.with_label_values(&[kind]).observe(took.as_secs_f64());
    }

    pub(super) fn reconciled_status(&self, kind: &str) {
        self.reconciles.with_label_values(&[kind, "status"]).inc();
    }

    pub(super) fn failed(&self, kind: &str, result: &str) {
        self.errors.with_label_values(&[kind, result]).inc();
    }
}
