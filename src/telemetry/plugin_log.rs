//! Collects the log lines of plugins, for commands that run a single plugin and show its output.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;

use super::log::filter_of_environment;
use super::terminal::PLUGIN as TARGET;

/// The maximum number of lines that are collected between two calls of [`PluginLog::take`]. Further lines are dropped.
const MAX_LINES: usize = 10_000;

/// One log line of a plugin.
#[derive(Clone, Debug, Serialize)]
pub struct LogLine {
    /// `error`, `warn`, `info` or `debug`; `stderr` for a line that the worker process printed.
    pub level: &'static str,
    /// The text of the line, without the level, the time and the name of the plugin.
    pub text: String,
}

/// The collected lines, in order. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct PluginLog(Arc<Mutex<Vec<LogLine>>>);

impl PluginLog {
    /// Starts to collect the lines of plugins. If `HAWSEPIPE_LOG` is set, all messages that it selects are also written
    /// to standard error; otherwise nothing is.
    ///
    /// # Errors
    /// If `HAWSEPIPE_LOG` is not valid.
    pub fn start() -> anyhow::Result<Self> {
        let lines = Self::default();
        let kept = lines.clone().with_filter(Targets::new().with_target(TARGET, Level::DEBUG));
        let logged = filter_of_environment()?
            .map(|filter| tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_filter(filter));
        // This fails if the function has already been called in this process. The first subscriber then stays in use.
        let _ = tracing_subscriber::registry().with(kept).with(logged).try_init();
        Ok(lines)
    }

    /// Returns the lines that were collected since the last call, and removes them from the collection.
    pub fn take(&self) -> Vec<LogLine> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S: Subscriber> Layer<S> for PluginLog {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut words = PluginEvent::default();
        event.record(&mut words);
        let level = match *event.metadata().level() {
            _ if words.is_printed => "stderr",
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            _ => "debug",
        };
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() < MAX_LINES {
            lines.push(LogLine { level, text: words.text });
        }
    }
}

/// The fields of a plugin's log event.
#[derive(Default)]
struct PluginEvent {
    text: String,
    /// True if the worker's process printed the line, false if the plugin logged it. An event for a printed line has
    /// the field `worker` instead of `call`.
    is_printed: bool,
}

impl Visit for PluginEvent {
    fn record_u64(&mut self, field: &Field, _: u64) {
        self.is_printed |= field.name() == "worker";
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.text = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plugins_are_heard() {
        let lines = PluginLog::default();
        let kept = lines.clone().with_filter(Targets::new().with_target(TARGET, Level::DEBUG));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(kept), || {
            tracing::info!(target: TARGET, plugin = "n/p", call = 1_u64, "{}", "said");
            tracing::debug!(target: TARGET, plugin = "n/p", worker = 7_u32, "{}", "printed");
            tracing::error!("something else");
        });
        let taken: Vec<_> = lines.take().into_iter().map(|line| (line.level, line.text)).collect();
        assert_eq!(taken, [("info", "said".to_owned()), ("stderr", "printed".to_owned())]);
        assert!(lines.take().is_empty());
    }
}
