//! Logging to standard error: one JSON object a line, or a readable format on a terminal.

use std::env::VarError;
use std::io::IsTerminal;

use anyhow::{Context, bail};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload::{self, Handle};

use super::json_line::JsonLine;
use super::log_buffer;
use super::terminal::Terminal;
use super::traces::Traces;

/// Directives that turn off the messages of libraries about failures that the gateway logs itself. Directives of the
/// user for the same targets take precedence.
const TOLD_ELSEWHERE: &str = "kube_client::client::builder=off,kube_runtime::watcher=off";

/// A handle to change the log level while the process runs.
#[derive(Clone)]
pub struct LogLevelHandle(Handle<EnvFilter, Registry>);

impl LogLevelHandle {
    /// Sets the level, such as `debug`, that a manifest names. Does nothing if the variable `HAWSEPIPE_LOG` is set.
    pub fn set(&self, level: &str) {
        if std::env::var_os("HAWSEPIPE_LOG").is_none() {
            // Parsing cannot fail, because the schema of manifests allows only valid levels.
            let _ = filter(level).map(|filter| self.0.reload(filter));
        }
    }
}

/// Starts logging to standard error, and hands spans to `traces`. `HAWSEPIPE_LOG` holds a level (default `info`) or
/// directives such as `info,hawsepipe::node=debug`.
///
/// # Errors
/// If `HAWSEPIPE_LOG` is not valid; the error names the variable.
pub(super) fn start(traces: &Traces) -> anyhow::Result<LogLevelHandle> {
    let (filter, handle) = reload::Layer::new(filter_of_environment()?.map_or_else(|| filter("info"), Ok)?);
    let lines = tracing_subscriber::fmt::layer();
    let lines = if std::io::stderr().is_terminal() {
        let lines = lines.with_writer(std::io::stderr).event_format(Terminal);
        lines.with_ansi(std::env::var_os("NO_COLOR").is_none()).boxed()
    } else {
        let buffer = log_buffer::standard_error().context("cannot start the thread of the log")?;
        lines.with_writer(buffer).fmt_fields(JsonFields::new()).event_format(JsonLine).boxed()
    };
    // This fails if a test has already called the function in this process. The first subscriber then stays in use.
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).with(traces.layer()).try_init();
    Ok(LogLevelHandle(handle))
}

/// Returns the filter that `HAWSEPIPE_LOG` describes, or `None` if the variable is not set.
pub(super) fn filter_of_environment() -> anyhow::Result<Option<EnvFilter>> {
    match std::env::var("HAWSEPIPE_LOG") {
        Ok(directives) => Ok(Some(filter(&directives).context("HAWSEPIPE_LOG")?)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => bail!("HAWSEPIPE_LOG: it is not text"),
    }
}

/// Parses a level, or directives separated by commas.
fn filter(directives: &str) -> anyhow::Result<EnvFilter> {
    let directives = if directives.trim().is_empty() { "info" } else { directives };
    for word in directives.split(',').map(str::trim) {
        let is_target = word.contains(['=', '[']) || word.contains("::") || word == "hawsepipe";
        // The library would treat any other word as a target, and then log nothing else.
        if !is_target && word.parse::<LevelFilter>().is_err() {
            bail!(
                "{word:?} is not a level: write error, warn, info, debug, trace or off, or directives such as \
                 info,hawsepipe::node=debug"
            );
        }
    }
    let all = format!("{TOLD_ELSEWHERE},{directives}");
    let parsed = EnvFilter::builder().with_default_directive(tracing::Level::INFO.into()).parse(all);
    parsed.with_context(|| format!("{directives:?} cannot be read"))
}

#[cfg(test)]
mod tests {
    use super::filter;

    #[test]
    fn a_word_that_is_not_a_level_is_refused() {
        for directives in
            ["", "info", "WARN", "0", "info,hawsepipe::node=debug", "hawsepipe=trace, warn", "hawsepipe::web"]
        {
            assert!(filter(directives).is_ok(), "{directives}");
        }
        for directives in ["nosuchlevel", "info,nosuchlevel", "hawsepipe=nosuchlevel", "information"] {
            let error = format!("{:#}", filter(directives).unwrap_err());
            assert!(error.contains("nosuchlevel") || error.contains("information"), "{directives}: {error}");
        }
    }
}
