//! The log format on a terminal: short times, and a prefix on lines that come from MCP servers and plugins.

use std::fmt::{self, Debug};

use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::domain::quoted::harmless_lines;

/// The log target of lines that MCP servers print. Their events have the field `upstream`.
pub const SERVER: &str = "hawsepipe::server";
/// The log target of lines that plugins print or log. Their events have the field `plugin`.
pub const PLUGIN: &str = "hawsepipe::plugin";

/// What further lines of an event begin with: they stand under the first one, after its time.
const INDENT: &str = "\n             ";

/// Formats log events for a terminal.
pub(super) struct Terminal;

impl<S, N> FormatEvent<S, N> for Terminal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let metadata = event.metadata();
        let colours = to.has_ansi_escapes();
        let (dim, plain) = if colours { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        write!(to, "{dim}{}{plain} ", Timestamp::now().strftime("%H:%M:%S%.3f"))?;
        let mut words = Words { colours, ..Words::default() };
        event.record(&mut words);
        if [SERVER, PLUGIN].contains(&metadata.target()) {
            return writeln!(to, "{dim}{} |{plain} {}", words.from, words.message);
        }
        let colour = match *metadata.level() {
            Level::ERROR => "\x1b[31m",
            Level::WARN => "\x1b[33m",
            Level::INFO => "\x1b[32m",
            _ => "\x1b[34m",
        };
        let colour = if colours { colour } else { "" };
        writeln!(to, "{colour}{:<5}{plain} {}{}", metadata.level().as_str(), words.message, words.fields)
    }
}

/// What an event says, without anything that a terminal obeys but the colours of the fields' names: servers, plugins and
/// clients wrote parts of it. Further lines are indented, so that none looks like an event.
#[derive(Default)]
struct Words {
    colours: bool,
    /// Who wrote the line that the event stands for.
    from: String,
    message: String,
    /// All other fields, each after a space.
    fields: String,
}

impl Words {
    fn take(&mut self, field: &Field, value: &str, quoted: &dyn Debug) {
        let (slanted, dim, plain) = if self.colours { ("\x1b[3m", "\x1b[2m", "\x1b[0m") } else { ("", "", "") };
        match field.name().trim_start_matches("r#") {
            "message" => self.message = indented(value),
            // Where a line of a library that uses the crate `log` was written.
            name if name.starts_with("log.") => {}
            name => {
                if ["upstream", "plugin"].contains(&name) {
                    self.from = indented(value);
                }
                let value = indented(&format!("{quoted:?}"));
                self.fields += &format!(" {slanted}{name}{plain}{dim}={plain}{value}");
            }
        }
    }
}

impl Visit for Words {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value, &value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.take(field, &format!("{value:?}"), value);
    }
}

/// Returns text that can stand on a terminal, with further lines under the first one.
fn indented(text: &str) -> String {
    harmless_lines(text.trim_end()).replace('\n', INDENT)
}

#[cfg(test)]
mod tests {
    use super::super::captured_log::CapturedLog;
    use super::*;

    #[test]
    fn what_servers_print_is_told_apart_and_times_are_short() {
        let kept = CapturedLog::default();
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

    #[test]
    fn nobody_forges_a_line_or_a_colour() {
        for colours in [false, true] {
            let kept = CapturedLog::default();
            let lines =
                tracing_subscriber::fmt().with_writer(kept.clone()).with_ansi(colours).event_format(Terminal).finish();
            let forged = "x\r\nERROR forged\x1b[31m\u{9b}2J\u{202e}\n";
            tracing::subscriber::with_default(lines, || {
                tracing::info!(target: PLUGIN, plugin = "default/shout", "{}", forged);
                tracing::warn!(target: "hawsepipe", why = %forged, quoted = forged, "own:\n{forged}");
            });
            let text = kept.text();
            let lines: Vec<_> = text.lines().collect();
            assert_eq!(lines.len(), 6, "{text}");
            for (n, line) in lines.iter().enumerate() {
                let is_further = line.starts_with(INDENT.trim_start_matches('\n'));
                assert_eq!(is_further, ![0, 2].contains(&n), "{n}: {text}");
            }
            let own = text.matches('\x1b').count();
            assert!(own == 0 || colours, "{text}");
            assert!(!text.contains(['\u{9b}', '\u{202e}', '\r']) && !text.contains("\x1b[31m"), "{text}");
            assert!(lines[5].contains("quoted") && lines[5].contains(r"\nERROR forged\u{1b}[31m"), "{text}");
        }
    }
}
