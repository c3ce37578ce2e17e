//! Runs chains on a call's content.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinHandle;

use super::admission::Counted;
use super::content::Content;
use super::link::{LinkedChain, LinkedEntry};
use super::record::{millis, mode_label, trace};
use super::replies::{Culprit, Ended};
use super::snapshot::{Selected, ToolLink};
use super::when::When;
use super::{Engine, Ports};
use crate::domain::chain::{Verdict, skip};
use crate::domain::plugin::{Failure, Input, Metadata, Output, Ran, Role};
use crate::domain::ports::{Clock, Records, RunPlugin};
use crate::domain::reason::Reason;
use crate::domain::record::{EntryOutcome, EntryTrace, ExecutionStatus, MAX_TRACE_METADATA, PluginExecution, Skip};

/// Executions off the path of their call that may run at once.
const MAX_BACKGROUND: u32 = 1000;

/// What every entry of one call is told alike.
pub(super) struct Facts {
    pub(super) request_id: String,
    /// RFC 3339.
    pub(super) timestamp: String,
    /// `{upstream}/{tool}`.
    pub(super) tool_name: String,
    pub(super) upstream: String,
    pub(super) tool: String,
    pub(super) principal: String,
    pub(super) user_query: Option<String>,
    /// From the call's `_meta`; an entry's own comes first.
    pub(super) max_tokens: Option<u32>,
}

/// How chains ended a call.
pub(super) struct Ending {
    pub(super) how: Ended,
    pub(super) culprit: Culprit,
    /// For the client.
    pub(super) text: String,
}

/// What chains did so far on one call.
#[derive(Default)]
pub(super) struct Traces {
    pub(super) entries: Vec<EntryTrace>,
    /// Entries off the path that still run, with their place in `entries`.
    pub(super) pending: Vec<(usize, JoinHandle<EntryTrace>)>,
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
                let outcome = EntryOutcome::Skipped(why);
                self.entries.push(trace(&chain.name, &entry.name, chain.plan.phase, entry.plan.mode, outcome));
            }
        }
    }

    /// The place of the entry that comes now.
    fn advance(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    /// What came of the entry at `place`.
    pub(super) fn set(&mut self, place: usize, outcome: EntryOutcome) {
        if let Some(entry) = self.entries.get_mut(place) {
            entry.outcome = outcome;
        }
    }

    /// Waits for entries off the path.
    pub(super) async fn settle(&mut self) {
        for (place, task) in self.pending.drain(..) {
            if let (Ok(done), Some(entry)) = (task.await, self.entries.get_mut(place)) {
                *entry = done;
            }
        }
    }
}

/// One execution, judged.
struct Judged {
    verdict: Verdict,
    /// The content after it, where it differs.
    changed: Option<Content>,
    trace: EntryTrace,
}

/// RFC 3339 in UTC with milliseconds.
pub(super) fn timestamp(unix_millis: u64) -> String {
    let time = Timestamp::from_millisecond(i64::try_from(unix_millis).unwrap_or(i64::MAX)).unwrap_or_default();
    format!("{time:.3}")
}

impl<P: Ports> Engine<P> {
    /// Runs the selected chains of one phase, one after another, each entry on what the one before it gave. None where
    /// nothing changed the content.
    ///
    /// # Errors
    /// How a denial or a failure ended the call.
    pub(super) async fn run_chains(
        self: &Arc<Self>,
        facts: &Arc<Facts>,
        selected: &[Selected],
        when: &When<'_>,
        content: &Content,
        traces: &mut Traces,
    ) -> Result<Option<Content>, Ending> {
        let mut changed = None;
        for Selected { chain, admitted } in selected {
            let mut stopped = false;
            for (entry, admitted) in chain.entries.iter().zip(admitted) {
                let place = traces.advance();
                let content = changed.as_ref().unwrap_or(content);
                if let Some(why) = skipped(entry, *admitted, stopped, when, content) {
                    traces.set(place, EntryOutcome::Skipped(why));
                    continue;
                }
                if !entry.rules.on_path() {
                    self.run_beside(facts, chain, entry, content, traces, place);
                    continue;
                }
                let judged = self.execute(facts, chain, entry, content).await;
                traces.on_path += Duration::from_secs_f64(judged.trace.duration_ms / 1e3);
                if let Some(entry) = traces.entries.get_mut(place) {
                    *entry = judged.trace;
                }
                match judged.verdict {
                    Verdict::Go { stop, .. } => {
                        stopped |= stop;
                        changed = judged.changed.or(changed);
                    }
                    Verdict::Pass(_) => {}
                    Verdict::Deny { text, error } => return Err(ending(Ended::Denied, chain, entry, error, text)),
                    Verdict::Fail(failure) => {
                        let text = failed_text(&entry.name, &failure);
                        return Err(ending(Ended::Failed, chain, entry, failure.reason.to_string(), text));
                    }
                }
            }
        }
        Ok(changed)
    }

    /// Starts an entry off the call's path. Its trace says `ran` until it is known better.
    fn run_beside(
        self: &Arc<Self>,
        facts: &Arc<Facts>,
        chain: &Arc<LinkedChain>,
        entry: &Arc<LinkedEntry>,
        content: &Content,
        traces: &mut Traces,
        place: usize,
    ) {
        let Ok(counted) = Counted::enter(&self.state.background, Some(MAX_BACKGROUND), None) else {
            let (reason, phase, mode) = (Reason::PoolExhausted, chain.plan.phase.wire(), mode_label(entry.plan.mode));
            self.metrics.entry(&entry.name, &chain.name, phase, mode, "pool_exhausted", reason.as_str());
            return traces.set(place, EntryOutcome::Failed(reason));
        };
        let (engine, facts) = (Arc::clone(self), Arc::clone(facts));
        let (chain, entry, content) = (Arc::clone(chain), Arc::clone(entry), content.clone());
        let task = tokio::spawn(async move {
            let _counted = counted;
            engine.execute(&facts, &chain, &entry, &content).await.trace
        });
        traces.pending.push((place, task));
        traces.set(place, EntryOutcome::Ran);
    }

    /// Runs one entry and writes it down.
    async fn execute(&self, facts: &Facts, chain: &LinkedChain, entry: &LinkedEntry, content: &Content) -> Judged {
        let seen = content.see(entry.plan.view);
        let started_at = self.clock.unix_millis();
        let ran = match &entry.plugin {
            Err(failure) => not_run(failure.clone()),
            Ok(plugin) => {
                let input = Input {
                    tool_name: &facts.tool_name,
                    raw_content: Some(&seen.text),
                    max_tokens: entry.plan.max_tokens.or(facts.max_tokens),
                    metadata: Metadata {
                        request_id: &facts.request_id,
                        timestamp: &facts.timestamp,
                        server_name: &facts.upstream,
                        phase: chain.plan.phase.wire(),
                        user_query: facts.user_query.as_deref(),
                        content_type: seen.kind,
                        config: entry.config.as_deref(),
                        chain: &chain.name,
                        attempt: 1,
                    },
                };
                self.plugins.run(plugin, &input, entry.timeout).await
            }
        };
        let (output_size, metadata) = match &ran.output {
            Ok(output) => (Some(output.text.len() as u64), output.metadata.clone()),
            Err(_) => (None, None),
        };
        let (answer, changed) = check(ran.output, content, &seen);
        let verdict = entry.rules.judge(answer);
        let row = PluginExecution {
            input_size_bytes: seen.text.len() as u64,
            output_size_bytes: output_size.filter(|_| matches!(verdict, Verdict::Go { .. })),
            changed: changed.is_some(),
            queue_ms: millis(ran.queued),
            run_ms: millis(ran.ran),
            duration_ms: millis(ran.queued + ran.ran),
            worker_pid: ran.worker_pid,
            ..row(facts, chain, entry, &verdict, started_at)
        };
        let trace = EntryTrace {
            // What an observer answers is thrown away; of a shadow it is told what it would have changed.
            changed: row.changed && entry.rules.role != Role::Observe,
            duration_ms: row.duration_ms,
            metadata: metadata.filter(|m| m.get().len() <= MAX_TRACE_METADATA),
            ..trace(&chain.name, &entry.name, chain.plan.phase, entry.plan.mode, outcome(&verdict))
        };
        self.write_down(row);
        Judged { verdict, changed, trace }
    }

    fn write_down(&self, row: PluginExecution) {
        if let Some(message) = &row.error_message {
            tracing::warn!(
                request_id = row.request_id,
                plugin = row.plugin,
                chain = row.chain_id,
                reason = row.reason.map(Reason::as_str),
                "Plugin '{}' {message}",
                row.plugin
            );
        }
        self.metrics.execution(&row);
        self.records.execution(row);
    }
}

fn skipped(entry: &LinkedEntry, admitted: bool, stopped: bool, when: &When<'_>, content: &Content) -> Option<Skip> {
    let skip = skip(entry.enabled, admitted, stopped, entry.rules.role);
    skip.or_else(|| (!when.holds(entry, content)).then_some(Skip::When))
}

/// Judges the content of an answer; a plugin that reports an error is not asked for valid content.
fn check(
    output: Result<Output, Failure>,
    content: &Content,
    seen: &super::content::Seen<'_>,
) -> (Result<Output, Failure>, Option<Content>) {
    let output = match output {
        Ok(output) if output.error.is_none() => output,
        other => return (other, None),
    };
    match content.replaced(seen, &output.text) {
        Ok(changed) => (Ok(output), changed),
        Err(failure) => (Err(failure), None),
    }
}

fn not_run(failure: Failure) -> Ran {
    Ran { output: Err(failure), queued: Duration::ZERO, ran: Duration::ZERO, worker_pid: None }
}

fn outcome(verdict: &Verdict) -> EntryOutcome {
    match verdict {
        Verdict::Go { .. } => EntryOutcome::Ran,
        Verdict::Deny { .. } => EntryOutcome::Denied,
        Verdict::Pass(failure) | Verdict::Fail(failure) => EntryOutcome::Failed(failure.reason),
    }
}

fn ending(how: Ended, chain: &LinkedChain, entry: &LinkedEntry, reason: String, text: String) -> Ending {
    let culprit = Culprit { chain: Some(chain.name.clone()), plugin: Some(entry.name.clone()), reason };
    Ending { how, culprit, text }
}

fn failed_text(plugin: &str, failure: &Failure) -> String {
    format!("The call failed: plugin {plugin} could not do its work ({}).", failure.reason)
}

fn row(facts: &Facts, chain: &LinkedChain, entry: &LinkedEntry, verdict: &Verdict, started_at: u64) -> PluginExecution {
    let (status, reason, error_message) = match verdict {
        Verdict::Go { .. } => (ExecutionStatus::Success, None, None),
        Verdict::Deny { error, .. } => (ExecutionStatus::Denied, None, Some(format!("denied the call: {error}"))),
        Verdict::Pass(failure) | Verdict::Fail(failure) => {
            let status = match failure.reason {
                Reason::Timeout => ExecutionStatus::Timeout,
                Reason::PoolExhausted => ExecutionStatus::PoolExhausted,
                _ => ExecutionStatus::Failed,
            };
            (status, Some(failure.reason), Some(failure.message.clone()))
        }
    };
    let plugin = entry.plugin.as_ref().ok();
    PluginExecution {
        id: uuid::Uuid::now_v7().to_string(),
        request_id: facts.request_id.clone(),
        plugin_id: plugin.map_or_else(|| entry.name.clone(), |p| p.plan.id.clone()),
        plugin: entry.name.clone(),
        chain_id: chain.name.clone(),
        started_at,
        duration_ms: 0.0,
        queue_ms: 0.0,
        run_ms: 0.0,
        status,
        reason,
        input_size_bytes: 0,
        output_size_bytes: None,
        error_message,
        changed: false,
        phase: chain.plan.phase,
        mode: entry.plan.mode,
        plugin_revision: plugin.map_or_else(String::new, |p| p.plan.digest.clone()),
        chain_revision: chain.plan.revision.clone(),
        upstream: facts.upstream.clone(),
        tool: facts.tool.clone(),
        principal: facts.principal.clone(),
        worker_pid: None,
    }
}
