//! The counters of entries of chains, and their labels.

use prometheus::IntCounterVec;

use crate::domain::method::Method;
use crate::domain::plugin::{Mode, Phase};
use crate::telemetry::catalog::Catalog;

/// The outcome of an entry of a chain on one content.
#[derive(Clone, Copy, Debug)]
pub struct EntryLabels<'a> {
    /// The plugin, as `namespace/name`.
    pub plugin: &'a str,
    /// The chain, as `namespace/name`.
    pub chain: &'a str,
    /// The method of the content.
    pub method: Method,
    /// The phase of the chain.
    pub phase: Phase,
    /// The mode of the entry.
    pub mode: Mode,
    /// The status, such as `success`.
    pub status: &'a str,
    /// Why it has that status; empty if it succeeded or denied.
    pub reason: &'a str,
}

/// The counters of entries.
pub(super) struct EntryCounters {
    executions: IntCounterVec,
    unevaluated: IntCounterVec,
}

impl EntryCounters {
    /// Registers the counters.
    pub(super) fn new(catalog: &Catalog) -> prometheus::Result<Self> {
        Ok(Self {
            executions: catalog.counter(
                "hawsepipe_plugin_executions_total",
                "Entries of chains on calls, questions and definitions, by what they did",
                &["plugin", "chain", "method", "phase", "mode", "status", "reason"],
            )?,
            unevaluated: catalog.counter(
                "hawsepipe_plugin_conditions_failed_total",
                "Conditions (`when`) of entries that could not be evaluated, so that the entries ran",
                &["plugin", "chain", "method", "phase"],
            )?,
        })
    }

    /// Counts an outcome.
    pub(super) fn count(&self, labels: &EntryLabels<'_>) {
        let EntryLabels { plugin, chain, method, phase, mode, status, reason } = labels;
        let (method, phase, mode) = (method.as_str(), phase.wire(), mode.as_label());
        self.executions.with_label_values(&[*plugin, *chain, method, phase, mode, *status, *reason]).inc();
    }

    /// Counts a condition that could not be evaluated.
    pub(super) fn count_unevaluated(&self, plugin: &str, chain: &str, method: Method, phase: Phase) {
        self.unevaluated.with_label_values(&[plugin, chain, method.as_str(), phase.wire()]).inc();
    }
}
