//! Records a call, with one trace for each entry of each chain that selected it.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::spans;
use crate::domain::method::Method;
use crate::domain::plugin::{Mode, Role};
use crate::domain::reason::Reason;
use crate::domain::record::{CallOutcome, CallRecord, EntryOutcome, EntryTrace, Skip};
use crate::domain::verdict::skip;
use crate::engine::Engine;
use crate::engine::plan::link::{LinkedChain, LinkedEntry};
use crate::engine::plan::snapshot::{LinkedItem, Selected};
use crate::engine::request::CallRequest;

/// Records a call while it runs. If the recorder is dropped before the end of the call, the call is recorded as
/// cancelled.
pub(crate) struct CallRecorder {
    engine: Arc<Engine>,
    gateway: String,
    record: CallRecord,
    pub(crate) traces: EntryTraces,
    ended: bool,
    /// Whether the record was handed over to a task that waits for the entries in the background.
    handed_over: bool,
    started: Duration,
    /// When the call was sent to its upstream; `None` while the call is not waiting for the upstream's answer.
    asked: Option<Duration>,
    /// Whether an upstream lists the item.
    known: bool,
}

impl CallRecorder {
    pub(crate) fn begin(engine: &Arc<Engine>, gateway: String, request: &CallRequest<'_>) -> Self {
        engine.metrics.call_started();
        let record = CallRecord {
            request_id: uuid::Uuid::now_v7().to_string(),
            started_at: engine.clock.unix_millis(),
            within: request.within.map(|within| within.request_id.to_owned()),
            method: request.kind.used_by(),
            tool: request.kind.shown(request.name),
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

    pub(crate) fn record(&mut self) -> &mut CallRecord {
        &mut self.record
    }

    /// Sets the upstream and the item that the call was routed to.
    pub(crate) fn routed(&mut self, upstream: &str, tool: &str) {
        self.known = true;
        let record = self.record();
        upstream.clone_into(&mut record.upstream);
        tool.clone_into(&mut record.tool);
    }

    /// Records that the call is being sent to its upstream.
    pub(crate) fn asked(&mut self) {
        self.asked = Some(self.engine.clock.monotonic());
    }

    /// Records that the call is being sent to its upstream again.
    pub(crate) fn asked_again(&mut self) {
        self.record.retries += 1;
    }

    /// Records that the upstream has answered, or that the call has ended.
    pub(crate) fn answered(&mut self) {
        if let Some(asked) = self.asked.take() {
            self.record.upstream_ms = Some(millis(self.engine.clock.monotonic().saturating_sub(asked)));
        }
    }

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
    /// If entries are still running in the background, moves the record to a task that waits for them, so that neither
    /// the call nor its client waits. This happens only once: if that task is dropped, as at the end of the process,
    /// the record is completed without those entries.
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
            method = %record.method,
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

/// Whether a reason looks like one of the gateway's own identifiers. A plugin's reason for a denial can quote the
/// call's content, so such a reason is not logged.
fn is_word(reason: &str) -> bool {
    reason.len() <= 64 && reason.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Lists the entries that were not skipped, for the log.
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

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// An empty record. Its outcome is `Cancelled`, which is correct for a call that is dropped before it ends.
fn blank() -> CallRecord {
    CallRecord {
        request_id: String::new(),
        within: None,
        started_at: 0,
        duration_ms: 0.0,
        upstream_ms: None,
        retries: 0,
        plugin_ms: 0.0,
        upstream: String::new(),
        method: Method::CallTool,
        tool: String::new(),
        era: "",
        principal: String::new(),
        outcome: CallOutcome::Cancelled,
        reason: None,
        entries: Vec::new(),
    }
}

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
    /// Adds a trace with the outcome `Skipped` for every entry of every chain that selects the tool, so that the record
    /// is complete however the call ends.
    pub(crate) fn begin(&mut self, tool: &LinkedItem) {
        for Selected { chain, filter_admits } in tool.request.iter().chain(&tool.response) {
            for (entry, filter_admits) in chain.entries.iter().zip(filter_admits) {
                let why = skip(entry.enabled, *filter_admits, true, Role::Transform).unwrap_or(Skip::Stopped);
                self.entries.push(trace(chain, entry, EntryOutcome::Skipped(why)));
            }
        }
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
    fn give_up(&mut self) {
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
