//! How commands print what they found.

use clap::ValueEnum;

/// How lists are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// Columns
    Table,
    /// More columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ResultFormat {
    /// The text blocks
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
}
