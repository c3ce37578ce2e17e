//! Logs: one JSON line each, or readable ones on a terminal.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload::{self, Handle};

/// Changes the level while the process runs.
#[derive(Clone)]
pub struct LogLevel(Handle<EnvFilter, Registry>);

impl LogLevel {
    /// Sets the level that a manifest names; the variable `HAWSEPIPE_LOG` wins over it.
    pub fn set(&self, level: &str) {
        if std::env::var_os("HAWSEPIPE_LOG").is_none() {
            let _ = self.0.reload(filter(level));
        }
    }
}

/// Starts logging to standard error. `HAWSEPIPE_LOG` takes a level or directives such as `info,hawsepipe::node=debug`.
pub fn start() -> LogLevel {
    let directives = std::env::var("HAWSEPIPE_LOG").unwrap_or_else(|_| "info".into());
    let (filter, handle) = reload::Layer::new(filter(&directives));
    let terminal = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let layer = if terminal {
        lines.with_target(false).with_ansi(std::env::var_os("NO_COLOR").is_none()).boxed()
    } else {
        lines.json().flatten_event(true).with_current_span(true).with_span_list(false).boxed()
    };
    // A second start in one process (tests) keeps the first.
    let _ = tracing_subscriber::registry().with(filter).with(layer).try_init();
    LogLevel(handle)
}

fn filter(directives: &str) -> EnvFilter {
    EnvFilter::builder().with_default_directive(tracing::Level::INFO.into()).parse_lossy(directives)
}
