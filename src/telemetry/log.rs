//! Logs: one JSON line each, or readable ones on a terminal.

use std::env::VarError;
use std::fmt;
use std::io::IsTerminal;

use anyhow::{Context, bail};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::reload::{self, Handle};

use super::terminal::Terminal;
use super::traces::{self, Traces};

/// Targets whose failures the caller logs. Directives for the same targets win.
const TOLD_ELSEWHERE: &str = "kube_client::client::builder=off,kube_runtime::watcher=off";

/// Changes the level while the process runs.
#[derive(Clone)]
pub struct LogLevelHandle(Handle<EnvFilter, Registry>);

impl LogLevelHandle {
    /// Sets the level that a manifest names; the variable `HAWSEPIPE_LOG` wins over it.
    pub fn set(&self, level: &str) {
        if std::env::var_os("HAWSEPIPE_LOG").is_none() {
            // A level of a manifest is one of a closed list.
            let _ = filter(level).map(|filter| self.0.reload(filter));
        }
    }
}

/// A line of JSON, with the trace that it was written in.
struct WithTrace<F>(F);

impl<S, N, F> FormatEvent<S, N> for WithTrace<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let Some(trace) = traces::current_id() else { return self.0.format_event(context, to, event) };
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        match line.strip_prefix('{') {
            Some(rest) => write!(to, "{{\"trace_id\":\"{trace}\",{rest}"),
            None => to.write_str(&line),
        }
    }
}

/// Starts traces, where variables ask for them, and logging to standard error. `HAWSEPIPE_LOG` takes a level or directives such as `info,hawsepipe::node=debug`.
/// To be called in a tokio runtime.
///
/// # Errors
/// Where `HAWSEPIPE_LOG` is not what it may be; it names the variable.
pub fn start() -> anyhow::Result<(LogLevelHandle, Traces)> {
    let (filter, handle) = reload::Layer::new(filter_of_environment()?.map_or_else(|| filter("info"), Ok)?);
    let terminal = std::io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = if terminal {
        lines.with_ansi(std::env::var_os("NO_COLOR").is_none()).event_format(Terminal).boxed()
    } else {
        lines
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .map_event_format(WithTrace)
            .boxed()
    };
    let traces = Traces::start();
    let spans = traces.as_ref().ok().and_then(Traces::tracer).map(|tracer| {
        let layer = tracing_opentelemetry::layer().with_tracer(tracer).with_location(false).with_threads(false);
        layer.with_filter(filter_fn(|of| of.is_span() && of.target() == traces::TARGET))
    });
    // A second start in one process (tests) keeps the first.
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).with(spans).try_init();
    let traces = traces.unwrap_or_else(|why| {
        tracing::error!("no traces are sent: {why}");
        Traces::default()
    });
    Ok((LogLevelHandle(handle), traces))
}

/// What `HAWSEPIPE_LOG` asks for; none where it is not set.
pub(super) fn filter_of_environment() -> anyhow::Result<Option<EnvFilter>> {
    match std::env::var("HAWSEPIPE_LOG") {
        Ok(directives) => Ok(Some(filter(&directives).context("HAWSEPIPE_LOG")?)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => bail!("HAWSEPIPE_LOG: it is not text"),
    }
}

/// A level, or directives with commas between them.
fn filter(directives: &str) -> anyhow::Result<EnvFilter> {
    let directives = if directives.trim().is_empty() { "info" } else { directives };
    for word in directives.split(',').map(str::trim) {
        let is_target = word.contains(['=', '[']) || word.contains("::") || word == "hawsepipe";
        // The library takes any word for the name of a part, and logs of that alone.
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
