//! Metrics of runs of pipelines. The value of the label `pipeline` is the name of the pipeline, as in the label `upstream`
//! of the metrics of its calls.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec};

use super::tool_labels::ToolLabels;
use crate::domain::reason::Reason;
use crate::telemetry::catalog::Catalog;

/// Upper bounds of the buckets.
const SECONDS: &[f64] =
    &[1e-3, 5e-3, 2.5e-2, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0];

/// Metrics of runs of pipelines.
pub struct PipelineMetrics {
    runs: HistogramVec,
    steps: HistogramVec,
    tool_calls: IntCounterVec,
    stored: IntGaugeVec,
    /// The steps that have a value of their own: customizers name steps.
    labels: ToolLabels,
}

impl PipelineMetrics {
    pub(super) fn new(m: &Catalog) -> prometheus::Result<Self> {
        Ok(Self {
            runs: m.histogram(
                "hawsepipe_pipeline_run_duration_seconds",
                "Runs of pipelines, by how they ended",
                &["pipeline", "outcome", "reason"],
                SECONDS,
            )?,
            steps: m.histogram(
                "hawsepipe_pipeline_step_duration_seconds",
                "Steps of runs of pipelines, with the calls of tools and models that they waited for",
                &["pipeline", "step", "status"],
                SECONDS,
            )?,
            tool_calls: m.counter(
                "hawsepipe_pipeline_tool_calls_total",
                "Calls of tools by steps of pipelines",
                &["pipeline"],
            )?,
            stored: m.gauge(
                "hawsepipe_plugin_store_bytes",
                "Bytes of the values that a plugin stores in the namespace of the pipeline that stored last",
                &["plugin"],
            )?,
            labels: ToolLabels::default(),
        })
    }

    /// Measures a run that has ended with this outcome, and the reason if it failed.
    pub fn run_ended(&self, pipeline: &str, outcome: &str, reason: Option<Reason>, took: Duration) {
        let reason = reason.map_or("", Reason::as_str);
        self.runs.with_label_values(&[pipeline, outcome, reason]).observe(took.as_secs_f64());
    }

    /// Measures a step that has ended.
    pub fn step_ended(&self, pipeline: &str, step: &str, is_ok: bool, took: Duration) {
        let status = if is_ok { "success" } else { "failed" };
        let step = self.labels.label(pipeline, step);
        self.steps.with_label_values(&[pipeline, step, status]).observe(took.as_secs_f64());
    }

    /// Counts a call of a tool that a step may make.
    pub fn tool_called(&self, pipeline: &str) {
        self.tool_calls.with_label_values(&[pipeline]).inc();
    }

    /// Sets the size of the values that a plugin stores.
    pub fn stored(&self, plugin: &str, bytes: u64) {
        self.stored.with_label_values(&[plugin]).set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Forgets the steps of pipelines that are not in the plan.
    pub(super) fn retain(&self, is_planned: impl Fn(&str) -> bool) {
        self.labels.retain(is_planned);
    }
}
