//! The operator's metrics. All label values come from closed lists, or from the operator's own settings.

use std::collections::BTreeSet;
use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, IntGauge, IntGaugeVec};

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
    watched: IntGaugeVec,
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
            watched: catalog.gauge(
                "hawsepipe_watched_namespaces",
                "1 for each namespace that the operator that leads watches, * for all namespaces",
                &["watched"],
            )?,
        })
    }

    /// Notes whether this operator leads. `watched` are the namespaces that it watches; all if the set is empty.
    pub(super) fn leader(&self, leads: bool, watched: &BTreeSet<String>) {
        self.leader.set(i64::from(leads));
        let all = watched.is_empty().then_some("*");
        for namespace in watched.iter().map(String::as_str).chain(all) {
            self.watched.with_label_values(&[namespace]).set(i64::from(leads));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_says_what_it_watches() {
        let catalog = Catalog::default();
        let metrics = ControllerMetrics::register(&catalog).unwrap();
        let shown = || {
            let text = catalog.render();
            let of_watched = text.lines().filter(|line| line.starts_with("hawsepipe_watched_namespaces{"));
            of_watched.map(str::to_owned).collect::<Vec<_>>()
        };
        metrics.leader(true, &["a", "b"].map(str::to_owned).into());
        let each = ["a", "b"].map(|name| format!("hawsepipe_watched_namespaces{{watched=\"{name}\"}} 1"));
        assert_eq!(shown(), each);
        metrics.leader(false, &["a", "b"].map(str::to_owned).into());
        assert!(shown().iter().all(|line| line.ends_with(" 0")), "{:?}", shown());
        metrics.leader(true, &BTreeSet::new());
        assert!(shown().contains(&"hawsepipe_watched_namespaces{watched=\"*\"} 1".to_owned()));
    }
}
