//! The metrics of the worker processes of plugins.

use prometheus::IntGaugeVec;

use crate::domain::ports::{PluginLoad, WorkerInfo};
use crate::telemetry::catalog::Catalog;

pub(super) struct WorkerMetrics {
    permits: IntGaugeVec,
    permits_in_use: IntGaugeVec,
    queue_length: IntGaugeVec,
    workers: IntGaugeVec,
    worker_memory: IntGaugeVec,
}

impl WorkerMetrics {
    pub(super) fn new(m: &Catalog) -> prometheus::Result<Self> {
        Ok(Self {
            permits: m.gauge("hawsepipe_plugin_permits", "Executions that may run at once", &[])?,
            permits_in_use: m.gauge("hawsepipe_plugin_permits_in_use", "Executions that run", &[])?,
            queue_length: m.gauge("hawsepipe_plugin_queue_length", "Executions that wait for a worker", &[])?,
            workers: m.gauge("hawsepipe_workers", "Worker processes by state", &["plugin", "state"])?,
            worker_memory: m.gauge(
                "hawsepipe_worker_memory_bytes",
                "Memory of its workers' processes, without what they share; what they start is not in it",
                &["plugin"],
            )?,
        })
    }

    /// Sets the gauges of workers, and of the executions that run or wait.
    pub(super) fn set(&self, load: PluginLoad, workers: &[WorkerInfo]) {
        self.permits.with_label_values::<&str>(&[]).set(i64::from(load.permits));
        self.permits_in_use.with_label_values::<&str>(&[]).set(i64::from(load.permits_in_use));
        self.queue_length.with_label_values::<&str>(&[]).set(i64::from(load.queued));
        self.workers.reset();
        self.worker_memory.reset();
        for worker in workers {
            if let Some(state) = worker.state.as_label() {
                self.workers.with_label_values(&[worker.plugin.as_str(), state]).inc();
            }
            if let Some(bytes) = worker.memory_bytes {
                let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
                self.worker_memory.with_label_values(&[worker.plugin.as_str()]).add(bytes);
            }
        }
    }
}
