//! Output of commands: columns for people, JSON and YAML for programs, colours only on a terminal.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, TableStyle};
use jiff::Timestamp;
use serde_json::Value;

use super::formats::ListFormat;
pub use crate::domain::quoted::{harmless, harmless_lines};

/// A column of a table. `read` returns the text of the cell for an item.
pub struct Column {
    heading: &'static str,
    wide: bool,
    read: fn(&Value) -> String,
}

/// Makes a column that is always shown.
pub fn column(heading: &'static str, read: fn(&Value) -> String) -> Column {
    Column { heading, wide: false, read }
}

/// Makes a column that only `-o wide` shows.
pub fn wide(heading: &'static str, read: fn(&Value) -> String) -> Column {
    Column { heading, wide: true, read }
}

/// Returns the text of a value for a cell: strings without quotes, lists joined by commas, null as an empty text.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// Formats Unix milliseconds as a time in UTC. The text is empty if `millis` is not a number.
pub fn time(millis: &Value) -> String {
    let moment = millis.as_i64().and_then(|millis| Timestamp::from_millisecond(millis).ok());
    moment.map(|moment| format!("{moment:.3}")).unwrap_or_default()
}

/// Formats a duration as a number of seconds, rounded to tenths.
pub fn seconds(duration: Duration) -> String {
    let tenths = (duration.as_secs_f64() * 10.0).round();
    format!("{} s", tenths / 10.0)
}

/// Prints a list: `items` as a table, or `whole` as JSON or YAML.
///
/// # Errors
/// If standard output cannot be written for another reason than a closed pipe.
pub fn print_list(format: ListFormat, whole: &Value, items: &[Value], columns: &[Column]) -> anyhow::Result<()> {
    match format {
        ListFormat::Json => print_line(&serde_json::to_string_pretty(whole)?),
        ListFormat::Yaml => print_line(serde_saphyr::to_string(whole)?.trim_end()),
        ListFormat::Table | ListFormat::Wide => print(&rows(format, items, columns, true)),
    }
}

/// Formats the rows of a table, with or without headings. Each line ends with a newline.
pub fn rows(format: ListFormat, items: &[Value], columns: &[Column], with_headings: bool) -> String {
    let shown: Vec<_> = columns.iter().filter(|c| format == ListFormat::Wide || !c.wide).collect();
    let rows: Vec<_> = items.iter().map(|item| shown.iter().map(|c| (c.read)(item)).collect()).collect();
    let headings: Vec<_> = shown.iter().map(|c| c.heading).collect();
    let text = table(if with_headings { &headings } else { &[] }, &rows);
    if text.is_empty() { text } else { text + "\n" }
}

/// Formats columns without borders, like kubectl. What a terminal would obey is taken out of the cells: servers and clients
/// chose the names and texts in many of them.
pub fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Disabled);
    if !headings.is_empty() {
        table.set_header(headings);
    }
    table.add_rows(rows.iter().map(|row| row.iter().map(|cell| harmless(cell)).collect::<Vec<_>>()));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Prints a line to standard output. A closed pipe (`| head`) is not an error.
///
/// # Errors
/// If standard output cannot be written for another reason, such as a full disk.
pub fn print_line(line: &str) -> anyhow::Result<()> {
    print(&format!("{line}\n"))
}

/// Prints text to standard output, without adding a newline. A closed pipe is not an error.
///
/// # Errors
/// If standard output cannot be written for another reason.
pub fn print(text: &str) -> anyhow::Result<()> {
    is_read(text).map(drop)
}

/// Prints text to standard output, and returns whether the output is still open. A command that prints endlessly must
/// stop once the output is closed.
///
/// # Errors
/// If standard output cannot be written for another reason than a closed pipe.
pub fn is_read(text: &str) -> anyhow::Result<bool> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(anyhow::Error::new(error).context("cannot write to standard output")),
    }
}

/// Prints a line to standard error. Errors are ignored.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Returns text that others wrote without what a terminal obeys, if standard output is a terminal.
pub fn shown(text: String) -> String {
    if std::io::stdout().is_terminal() { harmless_lines(&text) } else { text }
}

/// Colours `text` if standard output is a terminal and `NO_COLOR` is not set.
pub fn paint(colour: Colour, text: &str) -> String {
    let wanted = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if wanted { format!("\x1b[{}m{text}\x1b[0m", colour as u8) } else { text.to_owned() }
}

/// Colours, with their ANSI codes.
#[derive(Clone, Copy, Debug)]
pub enum Colour {
    /// For errors.
    Red = 31,
    /// For success.
    Green = 32,
    /// For warnings.
    Yellow = 33,
}

/// Returns what an entry says: its metadata, its error from `field`, and why its `when` could not be evaluated.
pub fn says(entry: &Value, field: &str) -> String {
    let error = text(&entry[field]).lines().next().unwrap_or_default().to_owned();
    let when = if entry["when"].is_null() { String::new() } else { format!("when: {}", text(&entry["when"])) };
    let parts = [text(&entry["metadata"]), error, when].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("; ")
}

/// Returns an entry's outcome from `field`. The outcome of an entry in shadow mode is shown as `shadow(...)`, because
/// it had no effect.
pub fn outcome_text(entry: &Value, field: &str) -> String {
    let word = text(&entry[field]);
    if entry["mode"] == "Shadow" { format!("shadow({word})") } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_replaced_in_cells() {
        assert_eq!(table(&["NAME"], &[vec!["a\u{1b}]0;b\u{7}\nc".to_owned()]]), "NAME\na\u{fffd}]0;b\u{fffd}\u{fffd}c");
    }

    #[test]
    fn a_length_of_time_is_rounded() {
        for (millis, told) in [(1_999, "2 s"), (2_000, "2 s"), (340, "0.3 s"), (60_000, "60 s")] {
            assert_eq!(seconds(Duration::from_millis(millis)), told);
        }
    }
}
