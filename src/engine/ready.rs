//! Whether what guards a call can run, asked before anything is sent.

use super::content::Content;
use super::link::{LinkedChain, LinkedEntry};
use super::replies::Culprit;
use super::routed::Routed;
use super::snapshot::Selected;
use super::traces::Traces;
use super::{Engine, Ports};
use crate::domain::plan::Refusal;
use crate::domain::plugin::{Failure, Mode, Phase};
use crate::domain::ports::RunPlugin;
use crate::domain::reason::Reason;
use crate::domain::record::EntryOutcome;

/// Why a call is refused before it is sent.
pub(super) struct Refusing {
    pub(super) culprit: Culprit,
    pub(super) text: String,
}

impl Refusing {
    /// The gateway or upstream itself refuses.
    pub(super) fn gateway(refusal: &Refusal) -> Self {
        let culprit = Culprit { chain: None, plugin: None, reason: refusal.reason.to_string() };
        Self { culprit, text: format!("This call is refused: {}.", refusal.message) }
    }
}

impl<P: Ports> Engine<P> {
    /// The first thing that guards this call and cannot run here. A response that would have to be withheld is no
    /// reason to run the tool, so both phases are asked before anything is sent.
    pub(super) fn cannot_guard(&self, call: &Routed<'_>, traces: &mut Traces) -> Option<Refusing> {
        let mut first = 0;
        for selected in call.tool.request.iter().chain(&call.tool.response) {
            let chain = &selected.chain;
            if let Some(refusal) = &chain.plan.refusing {
                let reason = refusal.reason.to_string();
                let culprit = Culprit { chain: Some(chain.name.clone()), plugin: None, reason };
                return Some(Refusing { culprit, text: format!("This call is refused: {}.", refusal.message) });
            }
            if let Some((place, entry, failure)) = self.first_unable(selected, call) {
                traces.set(first + place, EntryOutcome::Failed(failure.reason));
                let (phase, reason) = (chain.plan.phase.wire(), failure.reason.as_str());
                self.metrics.entry(&entry.name, &chain.name, phase, Mode::Enforce.as_label(), "failed", reason);
                let culprit = Culprit {
                    chain: Some(chain.name.clone()),
                    plugin: Some(entry.name.clone()),
                    reason: reason.to_owned(),
                };
                let text = format!("This call is refused: plugin {} guards it and cannot run ({reason}).", entry.name);
                return Some(Refusing { culprit, text });
            }
            first += chain.entries.len();
        }
        None
    }

    fn first_unable<'a>(&self, selected: &'a Selected, call: &Routed<'_>) -> Option<(usize, &'a LinkedEntry, Failure)> {
        let content = || Content::Arguments(call.arguments().to_owned());
        let when = call.when(call.arguments());
        selected.chain.entries.iter().zip(&selected.admitted).enumerate().find_map(|(place, (entry, admitted))| {
            if !(*admitted && entry.must_run()) {
                return None;
            }
            let failure = self.unable(entry)?;
            // What a response would hold is not known yet, so there `when` cannot excuse it.
            let excused = selected.chain.plan.phase == Phase::Request && !when.holds(entry, &content());
            (!excused).then_some((place, &**entry, failure))
        })
    }

    /// Why a chain refuses what it selects, as far as this process knows now. What the filter of a plugin leaves out,
    /// and a call that a `when` excuses, are not refused all the same.
    pub(super) fn refusing(&self, chain: &LinkedChain) -> Option<Reason> {
        let unable = || chain.entries.iter().filter(|entry| entry.must_run()).find_map(|entry| self.unable(entry));
        chain.plan.refusing.as_ref().map(|refusal| refusal.reason).or_else(|| unable().map(|failure| failure.reason))
    }

    /// Why an entry cannot run here, as far as this process knows now.
    pub(super) fn unable(&self, entry: &LinkedEntry) -> Option<Failure> {
        match &entry.plugin {
            Err(failure) => Some(failure.clone()),
            Ok(plugin) => self.plugins.availability(plugin).err(),
        }
    }
}
