//! Records a call, with one trace for each entry of each chain that selected it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::Calls;
use crate::config::redaction::Redaction;
use crate::domain::identity::User;
use crate::domain::method::Method;
use crate::domain::pipeline::{RUN, SOURCES};
use crate::domain::plugin::Mode;
use crate::domain::raw::RawObject;
use crate::domain::reason::Reason;
use crate::domain::record::{CallOutcome, CallRecord, EntryOutcome, EntryTrace, RunSources, millis};
use crate::engine::chains::entry_traces::{EntryTraces, count_skipped};
use crate::engine::chains::outcome::CallEnd;
use crate::engine::chains::question_traces::QuestionTraces;
use crate::engine::chains::spans;
use crate::engine::plan::link::Linked;
use crate::engine::request::{CallRequest, Endpoint, Reply};

/// The log target of the line about a call. Operators name it in `HAWSEPIPE_LOG`, so it does not follow the module's path.
const CALL_LOG: &str = "hawsepipe::call";

/// The rows of one call that were queued, whether or not they are stored yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AuditState {
    /// None, and none is needed if the call is dropped.
    #[default]
    None,
    /// The row of its beginning.
    Begun,
    /// The row of its end.
    Ended,
}

/// Records a call while it runs. If the recorder is dropped before the end of the call, the call is recorded as
/// cancelled.
pub(crate) struct CallRecorder {
    calls: Arc<Calls>,
    gateway: String,
    record: CallRecord,
    pub(crate) traces: EntryTraces,
    /// The traces of chains over questions of the server, until [`Self::gather`] adds them to `traces`.
    pub(crate) questions: Arc<QuestionTraces>,
    ended: bool,
    /// Whether the record was handed over to a task that waits for the entries in the background.
    handed_over: bool,
    started: Duration,
    /// When the call was sent to its upstream; `None` while the call is not waiting for the upstream's answer.
    asked: Option<Duration>,
    /// Whether an upstream lists the item.
    known: bool,
    /// The rows of the call in the audit trail.
    pub(super) audit: AuditState,
    /// Whether the upstream answered.
    pub(super) was_answered: bool,
    /// How content is redacted; `None` if it is not recorded.
    redaction: Option<Arc<Redaction>>,
    /// Cancelled to end the call.
    cancelled: CancellationToken,
}

impl CallRecorder {
    pub(crate) fn begin(calls: &Arc<Calls>, linked: &Linked, request: &CallRequest<'_>) -> Self {
        calls.metrics.call_started();
        let record = CallRecord {
            request_id: request.id.map_or_else(|| uuid::Uuid::now_v7().to_string(), ToOwned::to_owned),
            started_at: calls.clock.unix_millis(),
            within: request.within.map(|within| within.request_id.to_owned()),
            method: request.method(),
            upstream: asked_upstream(linked, request.endpoint).to_owned(),
            tool: request.kind.shown(request.name),
            era: request.caller.era.as_str(),
            principal: request.caller.identity.subject.clone(),
            user: request.caller.identity.user(),
            session: request.caller.session_name(),
            ..blank()
        };
        let started = calls.clock.monotonic();
        let traces = EntryTraces::default();
        let cancelled = calls.gate.in_flight.requests.begin(&record.request_id, &request.caller.tracker);
        Self {
            calls: Arc::clone(calls),
            gateway: linked.plan.gateway.key.to_string(),
            record,
            traces,
            questions: Arc::default(),
            ended: false,
            handed_over: false,
            started,
            asked: None,
            known: false,
            audit: AuditState::None,
            was_answered: false,
            redaction: linked.redaction.clone(),
            cancelled,
        }
    }

    /// Returns a token that is cancelled to end the call.
    pub(crate) fn cancelled(&self) -> CancellationToken {
        self.cancelled.clone()
    }

    /// Adds the traces of chains over questions to those of the call.
    pub(crate) fn gather(&mut self) {
        self.traces.append(self.questions.take());
    }

    pub(crate) fn record(&mut self) -> &mut CallRecord {
        &mut self.record
    }

    pub(super) fn recorded(&self) -> &CallRecord {
        &self.record
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
        self.asked = Some(self.calls.clock.monotonic());
    }

    /// Records the arguments that are about to be sent.
    pub(crate) fn sends(&mut self, arguments: impl FnOnce() -> String) {
        self.record.arguments = self.redaction.as_ref().map(|redaction| redaction.payload(&arguments()));
    }

    /// Records the server's answer as the client gets it. Of the gateway's own words nothing is recorded: they can quote what
    /// a Guard has denied or never saw.
    pub(crate) fn gives(&mut self, end: &CallEnd) {
        let is_answer = matches!(end.outcome, CallOutcome::Ok | CallOutcome::ToolError | CallOutcome::RpcError);
        if let (Some(redaction), Reply::Result(answer) | Reply::UpstreamError(answer)) = (&self.redaction, &end.reply)
            && is_answer
            && self.was_answered
        {
            self.record.answer = Some(redaction.payload(answer.get()));
            self.record.sources = self.sources(answer, redaction);
        }
    }

    /// Returns the sources that the answer of a run has. A server cannot have them: its answers are not of a pipeline.
    fn sources(&self, answer: &RawValue, redaction: &Redaction) -> Option<RunSources> {
        let meta = RawObject::parse(RawObject::parse(answer.get()).ok()?.get("_meta")?.get()).ok()?;
        let sources: Vec<&RawValue> = serde_json::from_str(meta.get(SOURCES)?.get()).ok()?;
        let run = RawObject::parse(meta.get(RUN)?.get()).ok()?.get_str("id")?;
        let snapshot = self.calls.in_force.snapshot();
        let upstream = snapshot.plan().upstreams.iter().find(|upstream| upstream.key.name == self.record.upstream)?;
        upstream.pipeline()?;
        Some(RunSources { run, sources: sources.iter().map(|source| redaction.payload(source.get())).collect() })
    }

    /// Records that the call is being sent to its upstream again.
    pub(crate) fn asked_again(&mut self) {
        self.record.retries += 1;
    }

    /// Records that the upstream has answered, or that the call has ended.
    pub(crate) fn answered(&mut self) {
        if let Some(asked) = self.asked.take() {
            self.record.upstream_ms = Some(millis(self.calls.clock.monotonic().saturating_sub(asked)));
        }
    }

    pub(crate) fn end(&mut self, outcome: CallOutcome, reason: Option<String>) {
        self.gather();
        let took = self.calls.clock.monotonic().saturating_sub(self.started);
        let plugin_ms = millis(self.traces.on_path);
        self.answered();
        let record = self.record();
        record.outcome = outcome;
        record.reason = reason;
        record.duration_ms = millis(took);
        record.plugin_ms = plugin_ms;
        self.ended = true;
        self.calls.gate.in_flight.requests.end(&self.record);
        spans::ended(&self.record.request_id, outcome);
        self.calls.metrics.call_ended(&self.gateway, &self.record, self.known);
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
            calls: Arc::clone(&self.calls),
            gateway: std::mem::take(&mut self.gateway),
            record: std::mem::replace(&mut self.record, blank()),
            traces: std::mem::take(&mut self.traces),
            questions: Arc::default(),
            ended: true,
            handed_over: true,
            started: self.started,
            asked: None,
            known: self.known,
            audit: self.audit,
            was_answered: self.was_answered,
            redaction: None,
            cancelled: self.cancelled.clone(),
        };
        runtime.spawn(async move { rest.traces.settle().await });
        true
    }
}

impl Drop for CallRecorder {
    fn drop(&mut self) {
        if !self.ended {
            self.end(CallOutcome::Cancelled, None);
            let calls = Arc::clone(&self.calls);
            calls.audit_dropped(self);
        }
        if self.hand_over() {
            return;
        }
        self.traces.give_up();
        let mut record = std::mem::replace(&mut self.record, blank());
        record.entries = std::mem::take(&mut self.traces.entries);
        count_skipped(&self.calls.metrics, &record.entries);
        tracing::info!(
            target: CALL_LOG,
            request_id = record.request_id,
            upstream = record.upstream,
            method = %record.method,
            tool = record.tool,
            principal = record.principal,
            issuer = (!record.user.issuer.is_empty()).then_some(&*record.user.issuer),
            outcome = record.outcome.as_label(),
            // The words of a plugin that denied the call can quote its content: they are not logged.
            reason = record.reason.as_deref().and_then(Reason::named).map(Reason::as_str),
            rule = record.rule,
            ms = (record.duration_ms * 100.0).round() / 100.0,
            ran = what_ran(&record.entries),
            "call"
        );
        self.calls.records.call(record);
    }
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

/// The upstream at whose endpoint a call came in, before the call is routed; empty if that is the endpoint of all.
fn asked_upstream<'a>(linked: &Linked, endpoint: Endpoint<'a>) -> &'a str {
    let Endpoint::One(name) = endpoint else { return "" };
    let is_there = linked.upstreams.iter().any(|upstream| upstream.target.plan.key.name == name);
    if is_there { name } else { "" }
}

/// An empty record. Its outcome is `Cancelled`, which is correct for a call that is dropped before it ends.
pub(super) fn blank() -> CallRecord {
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
        user: User::default(),
        session: String::new(),
        outcome: CallOutcome::Cancelled,
        reason: None,
        rule: None,
        entries: Vec::new(),
        arguments: None,
        answer: None,
        sources: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::plugin::Phase;
    use crate::domain::record::Skip;

    fn entry(plugin: &str, outcome: EntryOutcome, mode: Mode) -> EntryTrace {
        EntryTrace {
            chain: "c".into(),
            plugin: plugin.into(),
            revision: String::new(),
            method: Method::CallTool,
            phase: Phase::Request,
            outcome,
            error: None,
            error_text: None,
            hides_error: false,
            when: None,
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
