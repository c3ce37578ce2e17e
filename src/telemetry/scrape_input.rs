//! The state from which gauges and some counters are set when metrics are read.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::domain::audit::AuditTotals;
use crate::domain::ports::{PluginLoad, WorkerInfo};

/// The state of the gateway when metrics are read.
#[derive(Debug, Default)]
pub struct ScrapeInput<'a> {
    /// How many executions run and wait, and how many can run at the same time.
    pub load: PluginLoad,
    /// All workers.
    pub workers: Vec<WorkerInfo>,
    /// The chains that refuse every call that they select, each with the reason.
    pub refusing: Vec<(&'a str, &'static str)>,
    /// The chains that can let a call pass although a Guard fails or only runs as a shadow, each with the reason.
    pub failing_open: Vec<(&'a str, &'static str)>,
    /// For each upstream whose tools have to be approved: its name, and how many of the tools are not.
    pub unapproved: Vec<(&'a str, usize)>,
    /// The names of the objects in the plan. Series about other objects are removed.
    pub names: PlannedNames<'a>,
    /// For each purpose of reserved memory: the name of the purpose, the number of bytes reserved now, and how often a
    /// reservation failed because there was no room.
    pub held: Vec<(&'static str, u64, u64)>,
    /// For each store of the history: the name of the store, and how many rows it has dropped.
    pub dropped: Vec<(&'static str, u64)>,
    /// How many rows of the history were written to the database.
    pub written: u64,
    /// How many rows of the history wait to be written to the database.
    pub queued: usize,
    /// What was written of the audit trail.
    pub audit: AuditTotals,
}

/// The names of the objects in a plan, as they appear in labels.
#[derive(Debug, Default)]
pub struct PlannedNames<'a> {
    /// Plugins, as `namespace/name`.
    pub plugins: HashSet<Cow<'a, str>>,
    /// Chains, as `namespace/name`.
    pub chains: HashSet<&'a str>,
    /// Upstreams, by name. Pipelines are upstreams too.
    pub upstreams: HashSet<&'a str>,
}

impl PlannedNames<'_> {
    /// Whether the label names an object that is not in the plan.
    pub(super) fn is_gone(&self, label: &str, value: &str) -> bool {
        match label {
            "plugin" => !self.plugins.contains(value),
            "chain" => !self.chains.contains(value),
            // The label is empty for calls that found no upstream.
            "upstream" => !value.is_empty() && !self.upstreams.contains(value),
            "pipeline" => !self.upstreams.contains(value),
            _ => false,
        }
    }
}
