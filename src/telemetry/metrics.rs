//! The gateway's metrics, with a method for each event. The names of metrics and labels are an interface: dashboards
//! and alerts depend on them.
//!
//! The number of label values is limited: upstreams, plugins and chains are those of the plan, tools are those that
//! upstreams list (`_other` beyond [`MAX_TOOLS`]), and every other label has a fixed set of values, or one value at a
//! time.

mod access;
mod entry_labels;
mod history;
mod models;
mod pipelines;
mod tool_labels;
mod workers;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec};

pub use self::access::AccessMetrics;
use self::entry_labels::EntryCounters;
pub use self::entry_labels::EntryLabels;
use self::history::HistoryMetrics;
pub use self::models::ModelMetrics;
pub use self::pipelines::PipelineMetrics;
pub use self::tool_labels::MAX_TOOLS;
use self::tool_labels::ToolLabels;
use self::workers::WorkerMetrics;
use super::catalog::Catalog;
use super::scrape_input::{PlannedNames, ScrapeInput};
use crate::domain::health::ConnectionState;
use crate::domain::method::Method;
use crate::domain::problem::{Level, Problem};
use crate::domain::reason::Reason;
use crate::domain::record::{CallRecord, PluginExecution};

/// Upper bounds of the buckets for plugins, and for the gateway's own share of calls, in seconds.
const PLUGIN_BUCKETS: &[f64] =
    &[5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Upper bounds of the buckets for calls, probes, and the application of plans, in seconds.
const CALL_BUCKETS: &[f64] =
    &[2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// The metrics of a gateway process, and the registry to which adapters add their own.
pub struct Metrics {
    catalog: Catalog,
    /// Locked during rendering, because rendering resets some gauges and then sets them again.
    rendering: Mutex<()>,
    tools: ToolLabels,
    calls: IntCounterVec,
    call_duration: HistogramVec,
    gateway_duration: HistogramVec,
    in_flight: IntGaugeVec,
    refused: IntCounterVec,
    /// The metrics of authentication and authorization.
    pub access: AccessMetrics,
    entries: EntryCounters,
    execution_duration: HistogramVec,
    queue_duration: HistogramVec,
    input_bytes: IntCounterVec,
    output_bytes: IntCounterVec,
    workers: WorkerMetrics,
    upstream_state: IntGaugeVec,
    ping_duration: HistogramVec,
    upstream_failures: IntCounterVec,
    upstream_retries: IntCounterVec,
    auto_disabled: IntGaugeVec,
    unapproved: IntGaugeVec,
    chain_refusing: IntGaugeVec,
    chain_fails_open: IntGaugeVec,
    sessions: IntGaugeVec,
    streams: IntGaugeVec,
    connections_full: IntCounterVec,
    plan_info: IntGaugeVec,
    plan_problems: IntGaugeVec,
    plan_apply: HistogramVec,
    history: HistoryMetrics,
    /// Calls of language models.
    pub models: ModelMetrics,
    /// Runs of pipelines.
    pub pipelines: PipelineMetrics,
    held: IntGaugeVec,
    held_refused: IntCounterVec,
}

impl Metrics {
    /// Creates all metrics in a new registry.
    ///
    /// # Errors
    /// If two metrics have the same name. A test makes sure that none do.
    #[expect(clippy::too_many_lines, reason = "one statement for each metric")]
    pub fn new() -> prometheus::Result<Self> {
        let m = Catalog::of_process()?;
        let build = m.gauge("hawsepipe_build_info", "1, with what was built", &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let connections_full = m.counter(
            "hawsepipe_connections_full_seconds_total",
            "Seconds in which an MCP endpoint had as many connections as limits.maxConnections allows, so that others waited",
            &[],
        )?;
        // It is there from the start, so that its first second is a change.
        connections_full.with_label_values::<&str>(&[]).reset();
        Ok(Self {
            rendering: Mutex::default(),
            tools: ToolLabels::default(),
            calls: m.counter(
                "hawsepipe_calls_total",
                "Calls by how they ended",
                &["gateway", "upstream", "tool", "method", "era", "outcome"],
            )?,
            call_duration: m.histogram(
                "hawsepipe_call_duration_seconds",
                "From a call's arrival to its answer",
                &["upstream", "method", "outcome"],
                CALL_BUCKETS,
            )?,
            gateway_duration: m.histogram(
                "hawsepipe_call_gateway_duration_seconds",
                "What the gateway itself took of a call, upstream and plugins subtracted",
                &["upstream"],
                PLUGIN_BUCKETS,
            )?,
            in_flight: m.gauge("hawsepipe_calls_in_flight", "Calls that are not answered yet", &[])?,
            refused: m.counter(
                "hawsepipe_calls_refused_total",
                "Calls that were not let in, and sessions, streams, subscriptions, questions and other requests that there was \
                 no place for",
                &["reason"],
            )?,
            access: AccessMetrics::new(&m)?,
            entries: EntryCounters::new(&m)?,
            execution_duration: m.histogram(
                "hawsepipe_plugin_execution_duration_seconds",
                "In a worker",
                &["plugin", "chain", "phase"],
                PLUGIN_BUCKETS,
            )?,
            queue_duration: m.histogram(
                "hawsepipe_plugin_queue_duration_seconds",
                "Until a worker was had",
                &["plugin", "chain", "phase"],
                PLUGIN_BUCKETS,
            )?,
            input_bytes: m.counter(
                "hawsepipe_plugin_input_bytes_total",
                "Content into plugins",
                &["plugin", "phase"],
            )?,
            output_bytes: m.counter(
                "hawsepipe_plugin_output_bytes_total",
                "Content out of plugins",
                &["plugin", "phase"],
            )?,
            workers: WorkerMetrics::new(&m)?,
            upstream_state: m.gauge("hawsepipe_upstream_state", "1 for the state it is in", &["upstream", "state"])?,
            ping_duration: m.histogram(
                "hawsepipe_upstream_ping_duration_seconds",
                "Probes that succeeded",
                &["upstream"],
                CALL_BUCKETS,
            )?,
            upstream_failures: m.counter(
                "hawsepipe_upstream_failures_total",
                "Probes and calls that failed",
                &["upstream"],
            )?,
            upstream_retries: m.counter(
                "hawsepipe_upstream_retries_total",
                "Calls that were sent to it again, by why the attempt before failed",
                &["upstream", "reason"],
            )?,
            auto_disabled: m.gauge(
                "hawsepipe_upstream_auto_disabled",
                "1 while it is out of routing",
                &["upstream"],
            )?,
            unapproved: m.gauge(
                "hawsepipe_upstream_tools_unapproved",
                "Tools whose definitions are not those that spec.pinning approves",
                &["upstream"],
            )?,
            chain_refusing: m.gauge(
                "hawsepipe_chain_refusing",
                "1 while it refuses what it selects",
                &["chain", "reason"],
            )?,
            chain_fails_open: m.gauge(
                "hawsepipe_chain_fails_open",
                "1 while a Guard of it is weakened",
                &["chain", "reason"],
            )?,
            sessions: m.gauge("hawsepipe_sessions", "Sessions", &["era"])?,
            streams: m.gauge("hawsepipe_streams", "Open event streams", &["era"])?,
            connections_full,
            plan_info: m.gauge("hawsepipe_plan_info", "1 for the plan that runs", &["revision"])?,
            plan_problems: m.gauge("hawsepipe_plan_problems", "Problems of the plan that runs", &["level"])?,
            plan_apply: m.histogram(
                "hawsepipe_plan_apply_duration_seconds",
                "From a plan's arrival to its being in force",
                &[],
                CALL_BUCKETS,
            )?,
            history: HistoryMetrics::new(&m)?,
            models: ModelMetrics::new(&m)?,
            pipelines: PipelineMetrics::new(&m)?,
            held: m.gauge(
                "hawsepipe_held_bytes",
                "Bytes that the gateway holds for clients and upstreams, of those that are counted",
                &["what"],
            )?,
            held_refused: m.counter(
                "hawsepipe_held_refused_total",
                "Messages, answers and lists that there was no room for",
                &["what"],
            )?,
            catalog: m,
        })
    }

    /// Returns the registry, so that adapters can add their own metrics.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Renders all metrics in the text format of Prometheus. `now` describes the current state of the gateway, from
    /// which gauges and some counters are set.
    pub fn render(&self, now: &ScrapeInput<'_>) -> String {
        // Without this lock, two concurrent renderings could count each worker twice.
        let _alone = self.rendering.lock().unwrap_or_else(PoisonError::into_inner);
        self.prune(&now.names);
        self.bytes_and_rows(now);
        self.workers.set(now.load, &now.workers);
        for (gauge, chains) in [(&self.chain_refusing, &now.refusing), (&self.chain_fails_open, &now.failing_open)] {
            gauge.reset();
            for (chain, reason) in chains {
                gauge.with_label_values(&[*chain, *reason]).set(1);
            }
        }
        self.unapproved.reset();
        for (upstream, count) in &now.unapproved {
            self.unapproved.with_label_values(&[*upstream]).set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
        self.catalog.render()
    }

    /// Counts a call as in flight. [`Metrics::call_ended`] must be called when the call has ended.
    pub fn call_started(&self) {
        self.in_flight.with_label_values::<&str>(&[]).inc();
    }

    /// Counts and measures a call that has ended. `known` tells whether the upstream lists `record.tool`; if it does
    /// not, or if it is a resource, the value of the label `tool` is `_other`.
    pub fn call_ended(&self, gateway: &str, record: &CallRecord, known: bool) {
        self.in_flight.with_label_values::<&str>(&[]).dec();
        // There can be any number of URIs.
        let has_label = known && record.method != Method::ReadResource;
        let tool = if has_label { self.tools.label(&record.upstream, &record.tool) } else { "_other" };
        let (method, outcome) = (record.method.as_str(), record.outcome.as_label());
        self.calls.with_label_values(&[gateway, &record.upstream, tool, method, record.era, outcome]).inc();
        self.call_duration
            .with_label_values(&[record.upstream.as_str(), method, outcome])
            .observe(record.duration_ms / 1e3);
        let own = (record.duration_ms - record.upstream_ms.unwrap_or_default() - record.plugin_ms).max(0.0);
        self.gateway_duration.with_label_values(&[record.upstream.as_str()]).observe(own / 1e3);
    }

    /// Counts a call that was refused before it was sent to an upstream, or something else that a client or a server wanted
    /// and there was no place for.
    pub fn refused(&self, reason: Reason) {
        self.refused.with_label_values(&[reason.as_str()]).inc();
    }

    /// Counts and measures an execution, whether it succeeded or failed.
    pub fn execution(&self, row: &PluginExecution) {
        if let Some(phase) = row.phase {
            self.entry(&EntryLabels {
                plugin: &row.plugin,
                chain: &row.chain_id,
                method: row.method,
                phase,
                mode: row.mode,
                status: row.status.as_label(),
                reason: row.reason.map_or("", |r| r.as_str()),
            });
            if row.when.is_some() {
                self.entries.count_unevaluated(&row.plugin, &row.chain_id, row.method, phase);
            }
        }
        let phase = row.phase.map_or("step", |phase| phase.wire());
        let labels = [row.plugin.as_str(), &row.chain_id, phase];
        self.execution_duration.with_label_values(&labels).observe(row.run_ms / 1e3);
        self.queue_duration.with_label_values(&labels).observe(row.queue_ms / 1e3);
        let labels = [row.plugin.as_str(), phase];
        self.input_bytes.with_label_values(&labels).inc_by(row.input_size_bytes);
        self.output_bytes.with_label_values(&labels).inc_by(row.output_size_bytes.unwrap_or(0));
    }

    /// Counts the outcome of a chain's entry. An entry that was not executed has an outcome too.
    pub fn entry(&self, labels: &EntryLabels<'_>) {
        self.entries.count(labels);
    }

    /// Sets the state of an upstream. `auto_disabled` tells whether the gateway has taken the upstream out of routing.
    pub fn upstream_state(&self, upstream: &str, state: ConnectionState, auto_disabled: bool) {
        for each in ConnectionState::ALL {
            self.upstream_state.with_label_values(&[upstream, each.as_str()]).set(i64::from(each == state));
        }
        self.auto_disabled.with_label_values(&[upstream]).set(i64::from(auto_disabled));
    }

    /// Measures a probe that succeeded.
    pub fn ping(&self, upstream: &str, took: Duration) {
        self.ping_duration.with_label_values(&[upstream]).observe(took.as_secs_f64());
    }

    /// Counts a probe or a call that failed.
    pub fn upstream_failed(&self, upstream: &str) {
        self.upstream_failures.with_label_values(&[upstream]).inc();
    }

    /// Counts a call that is sent to its upstream again.
    pub fn retried(&self, upstream: &str, reason: Reason) {
        self.upstream_retries.with_label_values(&[upstream, reason.as_str()]).inc();
    }

    /// Sets the number of legacy sessions.
    pub fn sessions(&self, count: usize) {
        self.sessions.with_label_values(&["legacy"]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Adds `change` to the number of open event streams of clients of this era: 1 when one opens, -1 when one closes.
    pub fn stream(&self, era: &str, change: i64) {
        self.streams.with_label_values(&[era]).add(change);
    }

    /// Counts a second in which an MCP endpoint has as many connections as it may.
    pub fn connections_full(&self) {
        self.connections_full.with_label_values::<&str>(&[]).inc();
    }

    /// Records the plan that has come into force, with its problems. `took` is the time since the plan arrived.
    pub fn plan(&self, revision: &str, problems: &[Problem], took: Duration) {
        self.plan_info.reset();
        self.plan_info.with_label_values(&[revision]).set(1);
        self.plan_apply.with_label_values::<&str>(&[]).observe(took.as_secs_f64());
        self.plan_problems(problems);
    }

    /// Records the problems of the plan that runs, among them those of plugins that could not be loaded.
    pub fn plan_problems(&self, problems: &[Problem]) {
        for (level, label) in [(Level::Error, "error"), (Level::Warning, "warning")] {
            let count = problems.iter().filter(|p| p.level == level).count();
            self.plan_problems.with_label_values(&[label]).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    /// Removes the series of objects that are not in the plan. This happens at each rendering, because a call that ends
    /// after its plan was replaced can create such a series again.
    fn prune(&self, names: &PlannedNames<'_>) {
        self.catalog.prune(&|label, value| names.is_gone(label, value));
        self.tools.retain(|upstream| names.upstreams.contains(upstream));
        self.pipelines.retain(|pipeline| names.upstreams.contains(pipeline));
    }

    fn bytes_and_rows(&self, now: &ScrapeInput<'_>) {
        let set = |counter: &IntCounterVec, label: &str, total: u64| {
            let counter = counter.with_label_values(&[label]);
            counter.inc_by(total.saturating_sub(counter.get()));
        };
        for (what, bytes, refused) in &now.held {
            self.held.with_label_values(&[*what]).set(i64::try_from(*bytes).unwrap_or(i64::MAX));
            set(&self.held_refused, what, *refused);
        }
        self.history.set(now);
    }
}

#[cfg(test)]
mod tests;
