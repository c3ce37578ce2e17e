//! Metrics about workers. The values of their labels are the plugins of the plan, whose number is limited, and causes
//! from fixed lists.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};
use serde_json::value::RawValue;

use crate::domain::ids::ObjectKey;
use crate::domain::plugin::Failure;
use crate::domain::ports::{Answering, Host, PluginProgress};
use crate::domain::upstream::Answer;
use crate::telemetry::catalog::Catalog;

/// Why a worker was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnCause {
    /// A new pool needs its first worker, or demand grows.
    Demand,
    /// Replaces a worker that is worn or has ended.
    Replace,
    /// Tries again after failed starts.
    Retry,
}

/// Why a worker that could have kept serving was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecycleCause {
    /// It served as many calls as it may.
    Executions,
    /// It reached the end of its lifetime.
    Lifetime,
    /// It printed more besides its answers than it may.
    Stderr,
    /// It printed something while it had no call, so its next output cannot be recognized as an answer.
    Stray,
    /// It has mapped more memory for data than it may keep between calls.
    Memory,
    /// No call needed it for a while.
    Idle,
    /// Its plugin's revision no longer runs or no longer keeps warm workers, or its pool has no room for it.
    Retired,
    /// It exited on its own while it had no call.
    Exited,
    /// A call that was given up did not end. The worker's other calls may end normally.
    Stuck,
}

/// Why a worker was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillCause {
    /// A call got no answer by its deadline.
    Timeout,
    /// Nobody waits for the answer any more.
    Cancelled,
    /// It broke the protocol, or sent more than it may.
    Broken,
    /// It did not load its plugin in time.
    Start,
    /// The gateway is shutting down.
    Shutdown,
}

/// The direction of bytes on a plugin's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the plugin to the remote host.
    Out,
    /// From the remote host to the plugin.
    In,
}

impl Direction {
    /// The value of the metric label `direction`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::In => "in",
        }
    }
}

impl SpawnCause {
    /// The value of the metric label `cause`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Demand => "demand",
            Self::Replace => "replace",
            Self::Retry => "retry",
        }
    }
}

impl RecycleCause {
    /// The value of the metric label `cause`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Executions => "executions",
            Self::Lifetime => "lifetime",
            Self::Stderr => "stderr",
            Self::Stray => "stray",
            Self::Memory => "memory",
            Self::Idle => "idle",
            Self::Retired => "retired",
            Self::Exited => "exited",
            Self::Stuck => "stuck",
        }
    }
}

impl KillCause {
    /// The value of the metric label `cause`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Broken => "broken",
            Self::Start => "start",
            Self::Shutdown => "shutdown",
        }
    }
}

/// Metrics about workers and their plugins. Clones share their values.
#[derive(Clone, Debug)]
pub struct WorkerMetrics {
    spawns: IntCounterVec,
    recycles: IntCounterVec,
    kills: IntCounterVec,
    failures: IntCounterVec,
    starts: HistogramVec,
    callbacks: IntCounterVec,
    connections: IntCounterVec,
    carried: IntCounterVec,
}

impl WorkerMetrics {
    /// Creates metrics that are not registered yet.
    ///
    /// # Errors
    /// Never in practice, because names and labels are constants.
    pub fn new() -> prometheus::Result<Self> {
        let counter = |name, help| IntCounterVec::new(Opts::new(name, help), &["plugin", "cause"]);
        let starts =
            HistogramOpts::new("hawsepipe_worker_start_duration_seconds", "From a worker's spawn to its readiness.")
                .buckets(vec![0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]);
        let callbacks =
            Opts::new("hawsepipe_plugin_callbacks_total", "What plugins asked of the gateway in their calls.");
        Ok(Self {
            connections: IntCounterVec::new(
                Opts::new("hawsepipe_plugin_connections_total", "Connections that plugins asked for, by outcome."),
                &["plugin", "outcome"],
            )?,
            carried: IntCounterVec::new(
                Opts::new("hawsepipe_plugin_connection_bytes_total", "Bytes of plugins' connections."),
                &["plugin", "direction"],
            )?,
            callbacks: IntCounterVec::new(callbacks, &["plugin", "callback", "outcome"])?,
            spawns: counter("hawsepipe_worker_spawns_total", "Workers started, by cause.")?,
            recycles: counter("hawsepipe_worker_recycles_total", "Workers ended that could have served on, by cause.")?,
            kills: counter("hawsepipe_worker_kills_total", "Workers killed, by cause.")?,
            failures: counter(
                "hawsepipe_worker_start_failures_total",
                "Workers that could not be started or ended before they were asked, by cause.",
            )?,
            starts: HistogramVec::new(starts, &["plugin"])?,
        })
    }

    /// Registers the metrics in `catalog`.
    ///
    /// # Errors
    /// If the catalog already has a metric of the same name.
    pub fn register(&self, catalog: &Catalog) -> prometheus::Result<()> {
        catalog.keep_series(self.spawns.clone())?;
        catalog.keep_series(self.recycles.clone())?;
        catalog.keep_series(self.kills.clone())?;
        catalog.keep_series(self.failures.clone())?;
        catalog.keep_series(self.starts.clone())?;
        catalog.keep_series(self.callbacks.clone())?;
        catalog.keep_series(self.connections.clone())?;
        catalog.keep_series(self.carried.clone())
    }

    /// Counts a start of a worker of `plugin` (`namespace/name`).
    pub fn spawned(&self, plugin: &str, cause: SpawnCause) {
        self.spawns.with_label_values(&[plugin, cause.as_str()]).inc();
    }

    /// Counts a worker that was ended although it could have kept serving.
    pub fn recycled(&self, plugin: &str, cause: RecycleCause) {
        self.recycles.with_label_values(&[plugin, cause.as_str()]).inc();
    }

    /// Counts a worker that was killed.
    pub fn killed(&self, plugin: &str, cause: KillCause) {
        self.kills.with_label_values(&[plugin, cause.as_str()]).inc();
    }

    /// Counts a connection that `plugin` asked for, by its outcome.
    pub fn connection(&self, plugin: &str, outcome: &str) {
        self.connections.with_label_values(&[plugin, outcome]).inc();
    }

    /// Counts bytes that passed over a connection of `plugin`.
    pub fn carried(&self, plugin: &str, direction: Direction, bytes: u64) {
        self.carried.with_label_values(&[plugin, direction.as_str()]).inc_by(bytes);
    }

    /// Counts a worker that could not be started, or that became unusable before its first call. `cause` is from a
    /// fixed list.
    pub fn failed(&self, plugin: &str, cause: &'static str) {
        self.failures.with_label_values(&[plugin, cause]).inc();
    }

    /// Records how long a worker took to become ready.
    pub fn ready(&self, plugin: &str, took: Duration) {
        self.starts.with_label_values(&[plugin]).observe(took.as_secs_f64());
    }

    /// Returns how long starts of `plugin` took on average, or `None` before the first one.
    pub fn mean_start(&self, plugin: &str) -> Option<Duration> {
        let starts = self.starts.with_label_values(&[plugin]);
        let count = starts.get_sample_count();
        (count > 0).then(|| Duration::from_secs_f64(starts.get_sample_sum() / count as f64))
    }
}

/// A host that counts the requests of a plugin.
pub struct CountedHost<'a> {
    host: &'a dyn Host,
    plugin: &'a ObjectKey,
    callbacks: &'a IntCounterVec,
}

impl WorkerMetrics {
    /// Wraps `host` so that the requests of `plugin` are counted.
    pub fn counted<'a>(&'a self, host: &'a dyn Host, plugin: &'a ObjectKey) -> CountedHost<'a> {
        CountedHost { host, plugin, callbacks: &self.callbacks }
    }
}

impl CountedHost<'_> {
    fn count(&self, callback: &str, outcome: &str) {
        self.callbacks.with_label_values(&[&*self.plugin.to_string(), callback, outcome]).inc();
    }
}

/// The requests that plugins make besides calls of tools.
const CALLBACKS: [&str; 1] = ["sources"];

impl Host for CountedHost<'_> {
    fn progress(&self, progress: PluginProgress) {
        self.count("progress", "ok");
        self.host.progress(progress);
    }

    fn call_tool<'a>(&'a self, tool: &'a str, arguments: Option<&'a RawValue>) -> Answering<'a> {
        Box::pin(async move {
            let answer = self.host.call_tool(tool, arguments).await;
            self.count("call_tool", if matches!(answer, Answer::Result(_)) { "ok" } else { "error" });
            answer
        })
    }

    fn callback<'a>(&'a self, op: &'a str, arguments: Option<&'a RawValue>) -> Answering<'a> {
        Box::pin(async move {
            let answer = self.host.callback(op, arguments).await;
            // The name is the plugin's, and may be any.
            let callback = CALLBACKS.into_iter().find(|name| *name == op).unwrap_or("other");
            self.count(callback, if matches!(answer, Answer::Result(_)) { "ok" } else { "error" });
            answer
        })
    }

    fn refusal(&self, reason: &str, message: &str) -> Option<Failure> {
        self.host.refusal(reason, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_of_workers_is_counted_by_plugin_and_cause() {
        let (metrics, catalog) = (WorkerMetrics::new().unwrap(), Catalog::default());
        metrics.register(&catalog).unwrap();
        metrics.spawned("n/p", SpawnCause::Retry);
        metrics.recycled("n/p", RecycleCause::Idle);
        metrics.killed("n/p", KillCause::Timeout);
        metrics.failed("n/p", "exited");
        metrics.connection("n/p", "opened");
        metrics.carried("n/p", Direction::Out, 5);
        metrics.ready("n/p", Duration::from_secs(2));
        let text = catalog.render();
        for line in [
            r#"hawsepipe_worker_spawns_total{cause="retry",plugin="n/p"} 1"#,
            r#"hawsepipe_worker_recycles_total{cause="idle",plugin="n/p"} 1"#,
            r#"hawsepipe_worker_kills_total{cause="timeout",plugin="n/p"} 1"#,
            r#"hawsepipe_worker_start_failures_total{cause="exited",plugin="n/p"} 1"#,
            r#"hawsepipe_plugin_connections_total{outcome="opened",plugin="n/p"} 1"#,
            r#"hawsepipe_plugin_connection_bytes_total{direction="out",plugin="n/p"} 5"#,
            r#"hawsepipe_worker_start_duration_seconds_count{plugin="n/p"} 1"#,
        ] {
            assert!(text.lines().any(|told| told == line), "{line}\n{text}");
        }
        assert_eq!(metrics.mean_start("n/p"), Some(Duration::from_secs(2)));
        assert_eq!(metrics.mean_start("n/other"), None);
    }
}
