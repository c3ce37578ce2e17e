//! The state from which gauges are computed when metrics are read.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::domain::ports::{PluginLoad, WorkerInfo};

/// The state of the gateway when metrics are read.
#[derive(Debug, Default)]
pub struct ScrapeInput<'a> {
    /// How many executions run and wait, and how many can run.
    pub load: PluginLoad,
    /// All workers.
    pub workers: Vec<WorkerInfo>,
    /// The chains that refuse every call they select, each with the reason.
    pub refusing: Vec<(&'a str, &'static str)>,
    /// The chains with a weakened Guard, each with the reason.
    pub failing_open: Vec<(&'a str, &'static str)>,
    /// The names in the plan. Series of any other name are removed.
    pub names: PlannedNames<'a>,
    /// For each purpose that memory is held for: its name, the bytes held, and how often there was no room.
    pub held: Vec<(&'static str, u64, u64)>,
    /// For each store of the history: its name, and how many rows it dropped to make room.
    pub dropped: Vec<(&'static str, u64)>,
}

/// The names in a plan, in the form that labels have.
#[derive(Debug, Default)]
pub struct PlannedNames<'a> {
    /// Plugins, as `namespace/name`.
    pub plugins: HashSet<Cow<'a, str>>,
    /// Chains, as `namespace/name`.
    pub chains: HashSet<&'a str>,
    /// Upstreams, by name.
    pub upstreams: HashSet<&'a str>,
}

impl PlannedNames<'_> {
    /// Whether a series with this label is about an object that no plan names.
    pub(super) fn is_gone(&self, label: &str, value: &str) -> bool {
        match label {
            "plugin" => !self.plugins.contains(value),
            "chain" => !self.chains.contains(value),
            // The label is empty for calls that found no upstream.
            "upstream" => !value.is_empty() && !self.upstreams.contains(value),
            _ => false,
        }
    }
}
