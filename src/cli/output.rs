//! Printing: columns for people, JSON and YAML for programs, colour only on a terminal.

use std::io::{IsTerminal, Write};

use comfy_table::{ContentArrangement, Table, TableStyle};
use jiff::Timestamp;
use serde_json::Value;

use super::args::Format;

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

/// Prints `items` as the format asks. `whole` is what JSON and YAML print.
///
/// # Errors
/// Where standard output is closed.
pub fn print_list(format: Format, whole: &Value, items: &[Value], columns: &[Column]) -> anyhow::Result<()> {
    match format {
        Format::Json => print_line(&serde_json::to_string_pretty(whole)?),
        Format::Yaml => print_line(serde_saphyr::to_string(whole)?.trim_end()),
        Format::Table | Format::Wide => {
            let shown: Vec<_> = columns.iter().filter(|c| format == Format::Wide || !c.wide).collect();
            let rows = items.iter().map(|item| shown.iter().map(|c| (c.read)(item)).collect()).collect();
            print_line(&table(&shown.iter().map(|c| c.heading).collect::<Vec<_>>(), rows))
        }
    }
}

/// Columns without lines, as kubectl prints them.
pub fn table(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_content_arrangement(ContentArrangement::Disabled).set_header(headings);
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Prints a line to standard output. A reader that closed it (`| head`) is no fault.
///
/// # Errors
/// Where it cannot be written for another reason.
pub fn print_line(line: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout().lock(), "{line}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
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
