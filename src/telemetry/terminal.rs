//! The log format on a terminal: short times, and a prefix on lines that come from MCP servers and plugins.

use std::fmt::{self, Debug};

use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The log target of lines that MCP servers print. Their events have the field `upstream`.
pub const SERVER: &str = "hawsepipe::server";
/// The log target of lines that plugins print or log. Their events have the field `plugin`.
pub const PLUGIN: &str = "hawsepipe::plugin";

/// Formats log events for a terminal.
pub(super) struct Terminal;

impl<S, N> FormatEvent<S, N> for Terminal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let (dim, plain) = if to.has_ansi_escapes() { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        write!(to, "{dim}{}{plain} ", Timestamp::now().strftime("%H:%M:%S%.3f"))?;
        if [SERVER, PLUGIN].contains(&metadata.target()) {
            let mut words = ForeignLine::default();
            event.record(&mut words);
            return writeln!(to, "{dim}{} |{plain} {}", words.from, words.text);
        }
        let colour = match *metadata.level() {
            Level::ERROR => "\x1b[31m",
            Level::WARN => "\x1b[33m",
            Level::INFO => "\x1b[32m",
            _ => "\x1b[34m",
        };
        let (colour, plain) = if to.has_ansi_escapes() { (colour, plain) } else { ("", "") };
        write!(to, "{colour}{:<5}{plain} ", metadata.level().as_str())?;
        context.format_fields(to.by_ref(), event)?;
        to.write_char('\n')
    }
}

/// The fields of an event that stands for a line of an MCP server or a plugin: who wrote it, and the line.
#[derive(Default)]
struct ForeignLine {
    from: String,
    text: String,
}

impl Visit for ForeignLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        if ["upstream", "plugin"].contains(&field.name()) {
            value.clone_into(&mut self.from);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.text = format!("{value:?}"),
            "upstream" | "plugin" => self.from = format!("{value:?}"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kept::Kept;
    use super::*;

    #[test]
    fn what_servers_print_is_told_apart_and_times_are_short() {
        let kept = Kept::default();
        let lines =
            tracing_subscriber::fmt().with_writer(kept.clone()).with_ansi(false).event_format(Terminal).finish();
        tracing::subscriber::with_default(lines, || {
            tracing::info!(target: SERVER, upstream = %"default/files", "{}", "Listening");
            tracing::info!(target: PLUGIN, plugin = "default/shout", call = 1_u64, "{}", "heard");
            tracing::warn!(reason = "Timeout", "too slow");
        });
        let text = kept.text();
        let lines: Vec<_> = text.lines().map(|line| line.split_once(' ').unwrap()).collect();
        assert!(lines.iter().all(|(time, _)| time.len() == "12:34:56.789".len()), "{text}");
        let said: Vec<_> = lines.iter().map(|(_, said)| *said).collect();
        assert_eq!(
            said,
            ["default/files | Listening", "default/shout | heard", "WARN  too slow reason=\"Timeout\""],
            "{text}"
        );
    }
}
