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

/// The API of a model for which tools are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModelFormat {
    /// The `tools` of OpenAI's API: functions with the names of the endpoint for all upstreams
    Openai,
}

/// The output format of what another program or a manifest takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DataFormat {
    /// JSON
    Json,
    /// YAML
    Yaml,
}
