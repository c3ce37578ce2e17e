//! The traces of entries of chains: one for each entry of each chain that selected a content.

use std::time::Duration;

use tokio::task::JoinHandle;

use crate::domain::method::Method;
use crate::domain::plugin::Role;
use crate::domain::reason::Reason;
use crate::domain::record::{EntryOutcome, EntryTrace, Skip};
use crate::domain::verdict::skip;
use crate::engine::plan::link::{LinkedChain, LinkedEntry};
use crate::engine::plan::linked_item::Selected;
use crate::telemetry::metrics::{EntryLabels, Metrics};

/// The traces of the chain entries on one call.
#[derive(Default)]
pub(crate) struct EntryTraces {
    pub(crate) entries: Vec<EntryTrace>,
    /// The entries that are still running in the background, each with its index in `entries`.
    pending: Vec<(usize, JoinHandle<EntryTrace>)>,
    /// The total time of the executions that the call waited for.
    pub(crate) on_path: Duration,
    /// The index of the next entry in `entries`.
    next: usize,
}

impl EntryTraces {
    /// Adds a trace with the outcome `Skipped` for every entry of these chains, which select content of this method, so
    /// that the record is complete however the call ends.
    pub(crate) fn begin<'a>(&mut self, method: Method, chains: impl Iterator<Item = &'a Selected>) {
        for Selected { chain, filter_admits } in chains {
            for (entry, filter_admits) in chain.entries.iter().zip(filter_admits) {
                let why = skip(entry.enabled, *filter_admits, true, Role::Transform).unwrap_or(Skip::Stopped);
                self.entries.push(trace(method, chain, entry, EntryOutcome::Skipped(why)));
            }
        }
    }

    /// Adds the traces of other content to the end.
    pub(in crate::engine) fn append(&mut self, mut others: Self) {
        let first = self.entries.len();
        self.entries.append(&mut others.entries);
        self.pending.extend(others.pending.drain(..).map(|(place, task)| (first + place, task)));
        self.on_path += others.on_path;
    }

    /// Returns the index of the current entry, and advances to the next one.
    pub(crate) fn advance(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// Sets the outcome of the entry at index `place`.
    pub(crate) fn set(&mut self, place: usize, outcome: EntryOutcome) {
        if let Some(entry) = self.entries.get_mut(place) {
            entry.outcome = outcome;
        }
    }

    /// Records that the entry at index `place` cannot run, as `trace` says. Adds it if it is of a phase whose traces were not
    /// begun.
    pub(in crate::engine) fn unable(&mut self, place: usize, trace: EntryTrace) {
        match self.entries.get_mut(place) {
            Some(entry) => *entry = trace,
            None => self.entries.push(trace),
        }
    }

    /// Records that the entry at index `place` ran while the call waited for it.
    pub(crate) fn ran(&mut self, place: usize, trace: EntryTrace) {
        self.on_path += Duration::from_secs_f64(trace.duration_ms / 1e3);
        if let Some(entry) = self.entries.get_mut(place) {
            *entry = trace;
        }
    }

    /// Records that the entry at index `place` runs in the background. Its outcome is `ran` until `task` returns the
    /// real one.
    pub(crate) fn runs_beside(&mut self, place: usize, task: JoinHandle<EntryTrace>) {
        self.pending.push((place, task));
        self.set(place, EntryOutcome::Ran);
    }

    pub(crate) fn unsettled(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Stops waiting for entries in the background. They count as failed, because nothing proves that they ran.
    pub(in crate::engine) fn give_up(&mut self) {
        for (place, _) in std::mem::take(&mut self.pending) {
            self.set(place, EntryOutcome::Failed(Reason::Crashed));
        }
    }

    /// Waits for the entries in the background. If this future is dropped, the entries that have not ended stay
    /// pending.
    pub(crate) async fn settle(&mut self) {
        while let Some((place, task)) = self.pending.last_mut() {
            let (place, done) = (*place, task.await);
            self.pending.pop();
            match (self.entries.get_mut(place), done) {
                (Some(entry), Ok(done)) => *entry = done,
                // The task panicked: nothing proves that the entry ran.
                (Some(entry), Err(_)) => entry.outcome = EntryOutcome::Failed(Reason::Crashed),
                (None, _) => {}
            }
        }
    }
}

pub(crate) fn trace(method: Method, chain: &LinkedChain, entry: &LinkedEntry, outcome: EntryOutcome) -> EntryTrace {
    EntryTrace {
        chain: chain.name.clone(),
        plugin: entry.name.clone(),
        revision: entry
            .plugin
            .as_ref()
            .map_or_else(|_| String::new(), |plugin| plugin.plan.digest.chars().take(12).collect()),
        method,
        phase: chain.plan.phase,
        outcome,
        error: None,
        error_text: None,
        hides_error: false,
        when: None,
        mode: entry.plan.mode,
        changed: false,
        stops: false,
        duration_ms: 0.0,
        metadata: None,
        metadata_omitted: None,
    }
}

/// Counts the entries that were skipped.
pub(crate) fn count_skipped(metrics: &Metrics, entries: &[EntryTrace]) {
    for entry in entries {
        if let EntryOutcome::Skipped(skip) = entry.outcome {
            metrics.entry(&EntryLabels {
                plugin: &entry.plugin,
                chain: &entry.chain,
                method: entry.method,
                phase: entry.phase,
                mode: entry.mode,
                status: "skipped",
                reason: skip.as_str(),
            });
        }
    }
}

/// Returns the labels of an entry with this status on content of this method.
pub(crate) fn entry_labels<'a>(
    method: Method,
    chain: &'a LinkedChain,
    entry: &'a LinkedEntry,
    status: &'a str,
    reason: &'a str,
) -> EntryLabels<'a> {
    let (phase, mode) = (chain.plan.phase, entry.plan.mode);
    EntryLabels { plugin: &entry.name, chain: &chain.name, method, phase, mode, status, reason }
}
