//! What chains did on one call, entry by entry: the proof in its record.

use std::time::Duration;

use tokio::task::JoinHandle;

use super::link::{LinkedChain, LinkedEntry};
use super::snapshot::{Selected, ToolLink};
use crate::domain::chain::skip;
use crate::domain::plugin::Role;
use crate::domain::reason::Reason;
use crate::domain::record::{EntryOutcome, EntryTrace, Skip};

/// What chains did so far on one call.
#[derive(Default)]
pub(super) struct Traces {
    pub(super) entries: Vec<EntryTrace>,
    /// Entries off the path that still run, with their place in `entries`.
    pending: Vec<(usize, JoinHandle<EntryTrace>)>,
    /// What entries on the path took.
    pub(super) on_path: Duration,
    /// The next entry's place in `entries`.
    next: usize,
}

impl Traces {
    /// Writes down every entry of every chain that selects the tool as one that was not reached, so that the record is
    /// whole however the call ends.
    pub(super) fn begin(&mut self, tool: &ToolLink) {
        for Selected { chain, admitted } in tool.request.iter().chain(&tool.response) {
            for (entry, admitted) in chain.entries.iter().zip(admitted) {
                let why = skip(entry.enabled, *admitted, true, Role::Transform).unwrap_or(Skip::Stopped);
                self.entries.push(trace(chain, entry, EntryOutcome::Skipped(why)));
            }
        }
    }

    /// The place of the entry that comes now.
    pub(super) fn advance(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// What came of the entry at `place`.
    pub(super) fn set(&mut self, place: usize, outcome: EntryOutcome) {
        if let Some(entry) = self.entries.get_mut(place) {
            entry.outcome = outcome;
        }
    }

    /// The entry at `place` ran on the call's path.
    pub(super) fn ran(&mut self, place: usize, trace: EntryTrace) {
        self.on_path += Duration::from_secs_f64(trace.duration_ms / 1e3);
        if let Some(entry) = self.entries.get_mut(place) {
            *entry = trace;
        }
    }

    /// The entry at `place` runs off the path. Its trace says `ran` until `task` tells better.
    pub(super) fn runs_beside(&mut self, place: usize, task: JoinHandle<EntryTrace>) {
        self.pending.push((place, task));
        self.set(place, EntryOutcome::Ran);
    }

    /// Whether entries off the path still run.
    pub(super) fn unsettled(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Waits for entries off the path. Where that is given up, those that were not waited for are pending still.
    pub(super) async fn settle(&mut self) {
        while let Some((place, task)) = self.pending.last_mut() {
            let (place, done) = (*place, task.await);
            self.pending.pop();
            match (self.entries.get_mut(place), done) {
                (Some(entry), Ok(done)) => *entry = done,
                // It panicked: nothing proves that it ran.
                (Some(entry), Err(_)) => entry.outcome = EntryOutcome::Failed(Reason::Crashed),
                (None, _) => {}
            }
        }
    }
}

/// The trace of an entry that did not run, or not yet.
pub(super) fn trace(chain: &LinkedChain, entry: &LinkedEntry, outcome: EntryOutcome) -> EntryTrace {
    EntryTrace {
        chain: chain.name.clone(),
        plugin: entry.name.clone(),
        revision: entry
            .plugin
            .as_ref()
            .map_or_else(|_| String::new(), |plugin| plugin.plan.digest.chars().take(12).collect()),
        phase: chain.plan.phase,
        outcome,
        mode: entry.plan.mode,
        changed: false,
        stops: false,
        duration_ms: 0.0,
        metadata: None,
        metadata_omitted: None,
    }
}
