//! The output formats of commands.

use clap::ValueEnum;

/// The output format of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// A table
    Table,
    /// A table with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// The output format of a list of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecordFormat {
    /// A table
    Table,
    /// A table with more columns
    Wide,
    /// JSON
    Json,
    /// JSON, one line for each record
    Jsonl,
    /// YAML
    Yaml,
}

/// The output format of a single result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ResultFormat {
    /// Readable text
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// The output format of what another program or a manifest takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DataFormat {
    /// JSON
    Json,
    /// YAML
    Yaml,
}
