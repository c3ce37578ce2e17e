//! What metrics are computed from when they are read.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::domain::ports::{PluginLoad, WorkerInfo};

/// The state that gauges show when metrics are read.
#[derive(Debug, Default)]
pub struct ScrapeInput<'a> {
    /// What plugins share.
    pub load: PluginLoad,
    /// Every worker.
    pub workers: Vec<WorkerInfo>,
    /// The chains that refuse what they select, each with the reason.
    pub refusing: Vec<(&'a str, &'static str)>,
    /// The chains that fail open, each with the reason.
    pub failing_open: Vec<(&'a str, &'static str)>,
    /// The names that the plan has: series of any other name are removed.
    pub names: PlannedNames<'a>,
    /// What bytes are held for, how many, and how often there was no room.
    pub held: Vec<(&'static str, u64, u64)>,
    /// Rows that left the history, by kind.
    pub dropped: Vec<(&'static str, u64)>,
}

/// What a plan names, as labels have it.
#[derive(Debug, Default)]
pub struct PlannedNames<'a> {
    /// `namespace/name`.
    pub plugins: HashSet<Cow<'a, str>>,
    /// `namespace/name`.
    pub chains: HashSet<&'a str>,
    /// Names.
    pub upstreams: HashSet<&'a str>,
}

impl PlannedNames<'_> {
    /// Whether a series with this label is of something that no plan names.
    pub(super) fn is_gone(&self, label: &str, value: &str) -> bool {
        match label {
            "plugin" => !self.plugins.contains(value),
            "chain" => !self.chains.contains(value),
            // Calls that found no upstream have none.
            "upstream" => !value.is_empty() && !self.upstreams.contains(value),
            _ => false,
        }
    }
}
