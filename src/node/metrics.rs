//! What is counted about workers. Labels are plugins, which the plan bounds, and causes of closed lists.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};
use serde_json::value::RawValue;

use crate::domain::ids::ObjectKey;
use crate::domain::ports::{Answering, Host, PluginProgress};
use crate::domain::upstream::Answer;
use crate::telemetry::catalog::Catalog;

/// Why a worker was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnCause {
    /// A new pool, or a growing one.
    Demand,
    /// In the place of one that served its time or is spent.
    Replace,
    /// Again, after starts that failed.
    Retry,
}

/// Why a worker that could have served on was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecycleCause {
    /// It served as many calls as it may.
    Executions,
    /// It is as old as it may be.
    Lifetime,
    /// It printed more than it may.
    Stderr,
    /// It said something although nothing was asked, so that nobody can tell its answers apart.
    Stray,
    /// It had more memory than it may.
    Memory,
    /// Nobody needed it for a while.
    Idle,
    /// Its plugin's revision is no longer run, or keeps no warm workers.
    Retired,
    /// It ended by itself while nobody asked it anything.
    Exited,
    /// A call of it does not end although it was given up; its other calls may.
    Stuck,
}

/// Why a worker was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillCause {
    /// No answer by the deadline.
    Timeout,
    /// Whoever waited for the answer went away.
    Cancelled,
    /// It broke the protocol, or sent too much.
    Broken,
    /// It was not ready in time.
    Start,
    /// The gateway ends.
    Shutdown,
}

/// Which way bytes of a plugin's connection go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To the host.
    Out,
    /// To the plugin.
    In,
}

impl Direction {
    /// The label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::In => "in",
        }
    }
}

impl SpawnCause {
    /// The label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Demand => "demand",
            Self::Replace => "replace",
            Self::Retry => "retry",
        }
    }
}

impl RecycleCause {
    /// The label.
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
    /// The label.
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

/// Counters of workers' lives. Clones count together.
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
    /// Counters that are not registered anywhere yet.
    ///
    /// # Errors
    /// Never in practice: names and labels are constants.
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

    /// Makes them part of `catalog`.
    ///
    /// # Errors
    /// Where a metric of the same name is there already.
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

    /// A worker of `plugin` (`namespace/name`) was started.
    pub fn spawned(&self, plugin: &str, cause: SpawnCause) {
        self.spawns.with_label_values(&[plugin, cause.as_str()]).inc();
    }

    /// One was ended that could have served on.
    pub fn recycled(&self, plugin: &str, cause: RecycleCause) {
        self.recycles.with_label_values(&[plugin, cause.as_str()]).inc();
    }

    /// One was killed.
    pub fn killed(&self, plugin: &str, cause: KillCause) {
        self.kills.with_label_values(&[plugin, cause.as_str()]).inc();
    }

    /// A connection that `plugin` asked for was made, or not.
    pub fn connection(&self, plugin: &str, outcome: &str) {
        self.connections.with_label_values(&[plugin, outcome]).inc();
    }

    /// So many bytes went over a connection of `plugin`.
    pub fn carried(&self, plugin: &str, direction: Direction, bytes: u64) {
        self.carried.with_label_values(&[plugin, direction.as_str()]).inc_by(bytes);
    }

    /// One could not be started; `cause` is of a closed list.
    pub fn failed(&self, plugin: &str, cause: &'static str) {
        self.failures.with_label_values(&[plugin, cause]).inc();
    }

    /// One became ready after `took`.
    pub fn ready(&self, plugin: &str, took: Duration) {
        self.starts.with_label_values(&[plugin]).observe(took.as_secs_f64());
    }

    /// How long starts of `plugin` took on average; none before the first.
    pub fn mean_start(&self, plugin: &str) -> Option<Duration> {
        let starts = self.starts.with_label_values(&[plugin]);
        let count = starts.get_sample_count();
        (count > 0).then(|| Duration::from_secs_f64(starts.get_sample_sum() / count as f64))
    }
}

/// A host whose answers are counted.
pub struct CountedHost<'a> {
    host: &'a dyn Host,
    plugin: &'a ObjectKey,
    callbacks: &'a IntCounterVec,
}

impl WorkerMetrics {
    /// Counts what `plugin` asks of `host`.
    pub fn counted<'a>(&'a self, host: &'a dyn Host, plugin: &'a ObjectKey) -> CountedHost<'a> {
        CountedHost { host, plugin, callbacks: &self.callbacks }
    }
}

impl CountedHost<'_> {
    fn count(&self, callback: &str, outcome: &str) {
        self.callbacks.with_label_values(&[&*self.plugin.to_string(), callback, outcome]).inc();
    }
}

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
