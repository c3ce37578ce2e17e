//! What is written down of a call: its record, with one line for each entry of each chain that selected it.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::spans;
use crate::domain::plugin::{Mode, Role};
use crate::domain::reason::Reason;
use crate::domain::record::{CallOutcome, CallRecord, EntryOutcome, EntryTrace, Skip};
use crate::domain::verdict::skip;
use crate::engine::Engine;
use crate::engine::plan::link::{LinkedChain, LinkedEntry};
use crate::engine::plan::snapshot::{LinkedTool, Selected};
use crate::engine::request::CallRequest;

/// A call while it runs. Dropped before it was ended, it is written down as cancelled.
pub(crate) struct CallRecorder {
    engine: Arc<Engine>,
    gateway: String,
    record: CallRecord,
    /// What its entries did.
    pub(crate) traces: EntryTraces,
    /// Whether it was ended, and counted.
    ended: bool,
    /// Whether it was handed to a task that waits for what runs beside the call.
    handed_over: bool,
    started: Duration,
    /// Since when its upstream has been asked; none while it is not.
    asked: Option<Duration>,
    /// Whether the tool is one that an upstream lists.
    known: bool,
}

impl CallRecorder {
    /// Begins to write down a call.
    pub(crate) fn begin(engine: &Arc<Engine>, gateway: String, request: &CallRequest<'_>) -> Self {
        engine.metrics.call_started();
        let record = CallRecord {
            request_id: uuid::Uuid::now_v7().to_string(),
            started_at: engine.clock.unix_millis(),
            within: request.within.map(|within| within.request_id.to_owned()),
            tool: request.name.chars().take(128).collect(),
            era: request.caller.era.as_str(),
            principal: request.caller.principal.clone(),
            ..blank()
        };
        let started = engine.clock.monotonic();
        let traces = EntryTraces::default();
        Self {
            engine: Arc::clone(engine),
            gateway,
            record,
            traces,
            ended: false,
            handed_over: false,
            started,
            asked: None,
            known: false,
        }
    }

    /// The record so far.
    pub(crate) fn record(&mut self) -> &mut CallRecord {
        &mut self.record
    }

    /// The call goes to this tool of this upstream.
    pub(crate) fn routed(&mut self, upstream: &str, tool: &str) {
        self.known = true;
        let record = self.record();
        upstream.clone_into(&mut record.upstream);
        tool.clone_into(&mut record.tool);
    }

    /// The call is sent to its upstream now.
    pub(crate) fn asked(&mut self) {
        self.asked = Some(self.engine.clock.monotonic());
    }

    /// The upstream is done with the call, or the call with it.
    pub(crate) fn answered(&mut self) {
        if let Some(asked) = self.asked.take() {
            self.record.upstream_ms = Some(millis(self.engine.clock.monotonic().saturating_sub(asked)));
        }
    }

    /// Ends the call.
    pub(crate) fn end(&mut self, outcome: CallOutcome, reason: Option<String>) {
        let took = self.engine.clock.monotonic().saturating_sub(self.started);
        let plugin_ms = millis(self.traces.on_path);
        self.answered();
        let record = self.record();
        record.outcome = outcome;
        record.reason = reason;
        record.duration_ms = millis(took);
        record.plugin_ms = plugin_ms;
        self.ended = true;
        spans::ended(&self.record.request_id, outcome);
        self.engine.metrics.call_ended(&self.gateway, &self.record, self.known);
    }
}

impl CallRecorder {
    /// Hands the record, where something runs beside the call still, to a task that waits for that; the call and its
    /// client do not. Once: at the end of the process such a task is dropped as well.
    fn hand_over(&mut self) -> bool {
        let runtime = Handle::try_current().ok().filter(|_| !self.handed_over && self.traces.unsettled());
        let Some(runtime) = runtime else { return false };
        let mut rest = Self {
            engine: Arc::clone(&self.engine),
            gateway: std::mem::take(&mut self.gateway),
            record: std::mem::replace(&mut self.record, blank()),
            traces: std::mem::take(&mut self.traces),
            ended: true,
            handed_over: true,
            started: self.started,
            asked: None,
            known: self.known,
        };
        runtime.spawn(async move { rest.traces.settle().await });
        true
    }
}

impl Drop for CallRecorder {
    fn drop(&mut self) {
        if !self.ended {
            self.end(CallOutcome::Cancelled, None);
        }
        if self.hand_over() {
            return;
        }
        self.traces.give_up();
        let mut record = std::mem::replace(&mut self.record, blank());
        record.entries = std::mem::take(&mut self.traces.entries);
        for entry in &record.entries {
            if let EntryOutcome::Skipped(skip) = entry.outcome {
                let (phase, mode) = (entry.phase.wire(), entry.mode.as_label());
                self.engine.metrics.entry(&entry.plugin, &entry.chain, phase, mode, "skipped", skip.as_str());
            }
        }
        tracing::info!(
            request_id = record.request_id,
            upstream = record.upstream,
            tool = record.tool,
            outcome = record.outcome.as_label(),
            reason = record.reason.as_deref().filter(|reason| is_word(reason)),
            ms = (record.duration_ms * 100.0).round() / 100.0,
            ran = what_ran(&record.entries),
            "call"
        );
        self.engine.records.call(record);
    }
}

/// Whether a reason is a word of ours: what a plugin says of a denial may quote the call.
fn is_word(reason: &str) -> bool {
    reason.len() <= 64 && reason.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The entries that did not just leave the call out, in a few words.
fn what_ran(entries: &[EntryTrace]) -> String {
    const MOST: usize = 20;
    let told = entries.iter().filter(|entry| !matches!(entry.outcome, EntryOutcome::Skipped(_)));
    let words = told.clone().take(MOST).map(|entry| match entry.mode {
        Mode::Enforce => format!("{} {}", entry.plugin, entry.outcome),
        Mode::Shadow => format!("{} shadow({})", entry.plugin, entry.outcome),
    });
    let mut words: Vec<_> = words.collect();
    let more = told.count().saturating_sub(MOST);
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    words.join(", ")
}

/// A duration in milliseconds.
pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Nothing yet: a call that ends now was cancelled.
fn blank() -> CallRecord {
    CallRecord {
        request_id: String::new(),
        within: None,
        started_at: 0,
        duration_ms: 0.0,
        upstream_ms: None,
        plugin_ms: 0.0,
        upstream: String::new(),
        tool: String::new(),
        era: "",
        principal: String::new(),
        outcome: CallOutcome::Cancelled,
        reason: None,
        entries: Vec::new(),
    }
}

/// What chains did so far on one call.
#[derive(Default)]
pub(crate) struct EntryTraces {
    pub(crate) entries: Vec<EntryTrace>,
    /// Entries off the path that still run, with their place in `entries`.
    pending: Vec<(usize, JoinHandle<EntryTrace>)>,
    /// What entries on the path took.
    pub(crate) on_path: Duration,
    /// The next entry's place in `entries`.
    next: usize,
}

impl EntryTraces {
    /// Writes down every entry of every chain that selects the tool as one that was not reached, so that the record is
    /// whole however the call ends.
    pub(crate) fn begin(&mut self, tool: &LinkedTool) {
        for Selected { chain, filter_admits } in tool.request.iter().chain(&tool.response) {
            for (entry, filter_admits) in chain.entries.iter().zip(filter_admits) {
                let why = skip(entry.enabled, *filter_admits, true, Role::Transform).unwrap_or(Skip::Stopped);
                self.entries.push(trace(chain, entry, EntryOutcome::Skipped(why)));
            }
        }
    }

    /// The place of the entry that comes now.
    pub(crate) fn advance(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// What came of the entry at `place`.
    pub(crate) fn set(&mut self, place: usize, outcome: EntryOutcome) {
        if let Some(entry) = self.entries.get_mut(place) {
            entry.outcome = outcome;
        }
    }

    /// The entry at `place` ran on the call's path.
    pub(crate) fn ran(&mut self, place: usize, trace: EntryTrace) {
        self.on_path += Duration::from_secs_f64(trace.duration_ms / 1e3);
        if let Some(entry) = self.entries.get_mut(place) {
            *entry = trace;
        }
    }

    /// The entry at `place` runs off the path. Its trace says `ran` until `task` tells better.
    pub(crate) fn runs_beside(&mut self, place: usize, task: JoinHandle<EntryTrace>) {
        self.pending.push((place, task));
        self.set(place, EntryOutcome::Ran);
    }

    /// Whether entries off the path still run.
    pub(crate) fn unsettled(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Waits no longer for entries off the path: nothing proves that they ran.
    fn give_up(&mut self) {
        for (place, _) in std::mem::take(&mut self.pending) {
            self.set(place, EntryOutcome::Failed(Reason::Crashed));
        }
    }

    /// Waits for entries off the path. Where that is given up, those that were not waited for are pending still.
    pub(crate) async fn settle(&mut self) {
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
pub(crate) fn trace(chain: &LinkedChain, entry: &LinkedEntry, outcome: EntryOutcome) -> EntryTrace {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::plugin::Phase;

    fn entry(plugin: &str, outcome: EntryOutcome, mode: Mode) -> EntryTrace {
        EntryTrace {
            chain: "c".into(),
            plugin: plugin.into(),
            revision: String::new(),
            phase: Phase::Request,
            outcome,
            mode,
            changed: false,
            stops: false,
            duration_ms: 0.0,
            metadata: None,
            metadata_omitted: None,
        }
    }

    #[test]
    fn the_log_line_of_a_call_names_what_ran_and_counts_what_it_has_no_room_for() {
        let some = [
            entry("a", EntryOutcome::Ran, Mode::Enforce),
            entry("b", EntryOutcome::Skipped(Skip::When), Mode::Enforce),
            entry("c", EntryOutcome::Denied, Mode::Shadow),
            entry("d", EntryOutcome::Failed(Reason::Timeout), Mode::Enforce),
        ];
        assert_eq!(what_ran(&some), "a ran, c shadow(denied), d failed(Timeout)");
        let many = vec![entry("a", EntryOutcome::Ran, Mode::Enforce); 22];
        assert_eq!(what_ran(&many), format!("{}and 2 more", "a ran, ".repeat(20)));
    }
}
