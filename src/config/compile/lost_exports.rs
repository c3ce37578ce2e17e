//! Detects code that exports less than the running form. If a chain runs a missing export, the edit counts as a mistake
//! and is not accepted.

use super::FieldFault;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::{ChainPlan, EntryPlan, PluginPlan};
use crate::domain::plugin::{Phase, Protocol};
use crate::domain::reason::Reason;

/// The exports of a Module that an edit removed.
#[derive(Debug)]
pub(super) struct Lost {
    /// Phases that the code no longer supports.
    phases: Vec<Phase>,
    /// Whether the code no longer exports any function for a phase, so that it would run as a script.
    is_script: bool,
}

impl Lost {
    /// Returns the exports that `before` has and `after` does not have, or `None` if nothing is lost. A loss that
    /// follows from a protocol or phases in the manifest is intended and does not count.
    pub(super) fn between(
        before: &PluginPlan,
        after: &PluginPlan,
        protocol_written: bool,
        phases_written: bool,
    ) -> Option<Self> {
        let is_script = after.protocol != Protocol::Module && !protocol_written;
        let lost = |phase: &&Phase| is_script || (!phases_written && !after.phases.contains(phase));
        let phases: Vec<_> = before.phases.iter().filter(lost).copied().collect();
        (before.protocol == Protocol::Module && !phases.is_empty()).then_some(Self { phases, is_script })
    }

    /// Returns a fault if one of `chains` runs a lost export. `field` is the manifest field to report.
    pub(super) fn fault(&self, plugin: &ObjectKey, chains: &[ChainPlan], field: &str) -> Option<FieldFault> {
        let can_run =
            |entry: &EntryPlan| entry.unavailable.as_ref().is_none_or(|refusal| refusal.reason == Reason::WrongPhase);
        let runs = |entry: &EntryPlan| entry.plugin == *plugin && entry.enabled && can_run(entry);
        let mut chains = chains.iter().filter(|chain| self.phases.contains(&chain.phase));
        let chain = chains.find(|chain| chain.entries.iter().any(runs))?;
        let export = match chain.phase {
            Phase::Request => "onRequest",
            Phase::Response => "onResponse",
        };
        let script = if self.is_script { "; or write protocol: Once" } else { "" };
        let message = format!(
            "its code no longer exports {export} or default, and PluginChain {} runs it in phase {:?}: export one of \
             them, or take it out of the chain first{script}",
            chain.key, chain.phase
        );
        Some((Reason::UnsupportedExports, field.to_owned(), message))
    }
}
