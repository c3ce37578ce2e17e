//! What is written down of a call.

use std::sync::Arc;
use std::time::Duration;

use super::request::CallRequest;
use super::spans;
use super::traces::Traces;
use super::{Engine, Ports};
use crate::domain::plugin::Mode;
use crate::domain::ports::{Clock, Records};
use crate::domain::record::{CallOutcome, CallRecord, EntryOutcome, EntryTrace};

/// A call while it runs. Dropped before it was ended, it is written down as cancelled.
pub(super) struct Journal<P: Ports> {
    engine: Arc<Engine<P>>,
    gateway: String,
    record: CallRecord,
    /// What its entries did.
    pub(super) traces: Traces,
    /// Whether it was ended, and counted.
    ended: bool,
    started: Duration,
    /// Since when its upstream has been asked; none while it is not.
    asked: Option<Duration>,
    /// Whether the tool is one that an upstream lists.
    known: bool,
}

impl<P: Ports> Journal<P> {
    /// Begins the journal of a call.
    pub(super) fn begin(engine: &Arc<Engine<P>>, gateway: String, request: &CallRequest<'_>) -> Self {
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
        let traces = Traces::default();
        Self { engine: Arc::clone(engine), gateway, record, traces, ended: false, started, asked: None, known: false }
    }

    /// The record so far.
    pub(super) fn record(&mut self) -> &mut CallRecord {
        &mut self.record
    }

    /// The call goes to this tool of this upstream.
    pub(super) fn routed(&mut self, upstream: &str, tool: &str) {
        self.known = true;
        let record = self.record();
        upstream.clone_into(&mut record.upstream);
        tool.clone_into(&mut record.tool);
    }

    /// The call is sent to its upstream now.
    pub(super) fn asked(&mut self) {
        self.asked = Some(self.engine.clock.monotonic());
    }

    /// The upstream is done with the call, or the call with it.
    pub(super) fn answered(&mut self) {
        if let Some(asked) = self.asked.take() {
            self.record.upstream_ms = Some(millis(self.engine.clock.monotonic().saturating_sub(asked)));
        }
    }

    /// Ends the call.
    pub(super) fn end(&mut self, outcome: CallOutcome, reason: Option<String>) {
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

impl<P: Ports> Drop for Journal<P> {
    fn drop(&mut self) {
        if !self.ended {
            self.end(CallOutcome::Cancelled, None);
        }
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
pub(super) fn millis(duration: Duration) -> f64 {
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
