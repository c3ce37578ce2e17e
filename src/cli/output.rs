//! Printing: columns for people, JSON and YAML for programs, colour only on a terminal.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, TableStyle};
use jiff::Timestamp;
use serde_json::Value;

use super::formats::ListFormat;

/// A column: its heading, whether it is only in wide tables, how to read it from an item.
pub struct Column {
    heading: &'static str,
    wide: bool,
    read: fn(&Value) -> String,
}

/// A column of every table.
pub fn column(heading: &'static str, read: fn(&Value) -> String) -> Column {
    Column { heading, wide: false, read }
}

/// A column of wide tables.
pub fn wide(heading: &'static str, read: fn(&Value) -> String) -> Column {
    Column { heading, wide: true, read }
}

/// The text of a value: strings bare, what is absent as nothing.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// A moment, given in Unix milliseconds, in UTC; what is absent as nothing.
pub fn time(millis: &Value) -> String {
    let moment = millis.as_i64().and_then(|millis| Timestamp::from_millisecond(millis).ok());
    moment.map(|moment| format!("{moment:.3}")).unwrap_or_default()
}

/// A length of time for people: tenths of a second.
pub fn seconds(duration: Duration) -> String {
    let tenths = (duration.as_secs_f64() * 10.0).round();
    format!("{} s", tenths / 10.0)
}

/// Prints `items` as the format asks. `whole` is what JSON and YAML print.
///
/// # Errors
/// Where standard output is closed.
pub fn print_list(format: ListFormat, whole: &Value, items: &[Value], columns: &[Column]) -> anyhow::Result<()> {
    match format {
        ListFormat::Json => print_line(&serde_json::to_string_pretty(whole)?),
        ListFormat::Yaml => print_line(serde_saphyr::to_string(whole)?.trim_end()),
        ListFormat::Table | ListFormat::Wide => print(&rows(format, items, columns, true)),
    }
}

/// The rows of a table, with the headings or without, each line ended.
pub fn rows(format: ListFormat, items: &[Value], columns: &[Column], with_headings: bool) -> String {
    let shown: Vec<_> = columns.iter().filter(|c| format == ListFormat::Wide || !c.wide).collect();
    let rows = items.iter().map(|item| shown.iter().map(|c| (c.read)(item)).collect()).collect();
    let headings: Vec<_> = shown.iter().map(|c| c.heading).collect();
    let text = table(if with_headings { &headings } else { &[] }, rows);
    if text.is_empty() { text } else { text + "\n" }
}

/// Columns without lines, as kubectl prints them.
pub fn table(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Disabled);
    if !headings.is_empty() {
        table.set_header(headings);
    }
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Prints a line to standard output. A closed pipe (`| head`) is not an error.
///
/// # Errors
/// Where it cannot be written for another reason, such as a full disk.
pub fn print_line(line: &str) -> anyhow::Result<()> {
    print(&format!("{line}\n"))
}

/// Prints text to standard output as it is, in the same way.
///
/// # Errors
/// Where it cannot be written, and not because its reader closed it.
pub fn print(text: &str) -> anyhow::Result<()> {
    is_read(text).map(drop)
}

/// Prints text, and says whether somebody still reads: what prints for ever ends where nobody does.
///
/// # Errors
/// Where it cannot be written, and not because its reader closed it.
pub fn is_read(text: &str) -> anyhow::Result<bool> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(anyhow::Error::new(error).context("cannot write to standard output")),
    }
}

/// Prints a line to standard error. Where that is closed there is nobody to tell.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// `text` in a colour, where standard output is a terminal that wants colours.
pub fn paint(colour: Colour, text: &str) -> String {
    let wanted = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if wanted { format!("\x1b[{}m{text}\x1b[0m", colour as u8) } else { text.to_owned() }
}

/// What stands out.
#[derive(Clone, Copy, Debug)]
pub enum Colour {
    /// Errors.
    Red = 31,
    /// What is well.
    Green = 32,
    /// Warnings.
    Yellow = 33,
}
/// What an entry did, as `field` has it; of a shadow, what it would have done: it changed and stopped nothing.
pub fn outcome_text(entry: &Value, field: &str) -> String {
    let word = text(&entry[field]);
    if entry["mode"] == "Shadow" { format!("shadow({word})") } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_rounded() {
        for (millis, told) in [(1_999, "2 s"), (2_000, "2 s"), (340, "0.3 s"), (60_000, "60 s")] {
            assert_eq!(seconds(Duration::from_millis(millis)), told);
        }
    }
}
