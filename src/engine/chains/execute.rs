//! Runs one entry of a chain: executes its plugin, judges the answer, and records the execution.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tracing::Instrument;

use super::Chains;
use super::chain::CallContext;
use super::content::{Content, ShownContent};
use super::entry_traces::trace;
use super::host::CallHost;
use super::plugin_run::{Ended, Fault, PluginRun};
use super::spans;
use crate::domain::plugin::{Failure, Output, Ran, Role};
use crate::domain::reason::Reason;
use crate::domain::record::{EntryOutcome, EntryTrace, MAX_TRACE_DEPTH, MAX_TRACE_METADATA, millis};
use crate::domain::tokens::deeper_than;
use crate::domain::verdict::Verdict;
use crate::engine::plan::link::{LinkedChain, LinkedEntry};

pub(crate) struct JudgedExecution {
    pub(crate) verdict: Verdict,
    pub(crate) changed: Option<Content>,
    pub(crate) trace: EntryTrace,
}

impl Chains {
    /// Runs one entry and records the execution. `unevaluated` says why the entry's `when` could not be evaluated.
    pub(crate) async fn execute(
        self: &Arc<Self>,
        context: CallContext<'_>,
        chain: &LinkedChain,
        (entry, unevaluated): (&LinkedEntry, Option<String>),
        content: &Content,
    ) -> JudgedExecution {
        let seen = content.shown(context.method, entry.plan.view, entry.rules.role);
        let (started_at, span) = (self.clock.unix_millis(), spans::plugin(chain, entry));
        let within = span.clone();
        let Ran { output, queued, ran, worker_pid } = self.ask(context, chain, entry, &seen).instrument(within).await;
        let (output_bytes, metadata) = match &output {
            Ok(output) => (Some(output.text.len()), output.metadata.clone()),
            Err(_) => (None, None),
        };
        let (metadata, omitted) = self.traceable(metadata, context, entry);
        let (answer, changed) = check(output, content, &seen, context);
        let verdict = entry.rules.judge(context.method, answer);
        let output_bytes = output_bytes.filter(|_| matches!(verdict, Verdict::Go { .. }));
        let Reported { error, error_text, quotes } = reported(&verdict);
        let trace = EntryTrace {
            // The answer of an observer is discarded. The trace of a shadow shows what the shadow would have changed.
            changed: changed.is_some() && entry.rules.role != Role::Observe,
            stops: matches!(verdict, Verdict::Go { stop: true, .. }) && entry.rules.role != Role::Observe,
            duration_ms: millis(queued + ran),
            metadata,
            metadata_omitted: omitted,
            when: unevaluated.clone(),
            hides_error: quotes && context.hides_errors,
            error,
            error_text,
            ..trace(context.method, chain, entry, outcome(&verdict))
        };
        span.record("hawsepipe.outcome", tracing::field::display(trace.outcome));
        let (input_bytes, is_changed, when) = (seen.text.len(), changed.is_some(), unevaluated);
        let ended = Ended { started_at, queued, ran, worker_pid, input_bytes, output_bytes, changed: is_changed, when };
        self.run_of(context, chain, entry).record(ended, fault(&verdict));
        JudgedExecution { verdict, changed, trace }
    }

    async fn ask(
        self: &Arc<Self>,
        context: CallContext<'_>,
        chain: &LinkedChain,
        entry: &LinkedEntry,
        seen: &ShownContent<'_>,
    ) -> Ran {
        match &entry.plugin {
            Ok(plugin) => {
                let host = CallHost::new(self, context, plugin, entry.plan.mode);
                self.run_of(context, chain, entry).run(plugin, (&seen.text, seen.kind), &host).await
            }
            Err(failure) => {
                let output = Err(failure.clone());
                Ran { output, queued: Duration::ZERO, ran: Duration::ZERO, worker_pid: None }
            }
        }
    }

    fn run_of<'a>(
        self: &'a Arc<Self>,
        context: CallContext<'a>,
        chain: &'a LinkedChain,
        entry: &'a LinkedEntry,
    ) -> PluginRun<'a> {
        PluginRun {
            chains: self,
            facts: context.facts,
            plugin: entry.plugin.as_ref().ok(),
            name: &entry.name,
            chain: (&chain.name, &chain.plan.revision),
            method: context.method,
            phase: Some(chain.plan.phase),
            mode: entry.plan.mode,
            config: entry.config.as_deref(),
            max_tokens: entry.plan.max_tokens,
            timeout: entry.timeout,
            typed: None,
        }
    }

    /// Returns a plugin's metadata if it fits into a trace. If it does not fit, logs and returns the reason instead.
    fn traceable(
        &self,
        metadata: Option<Box<RawValue>>,
        context: CallContext<'_>,
        entry: &LinkedEntry,
    ) -> (Option<Box<RawValue>>, Option<String>) {
        let Some(why) = metadata.as_ref().and_then(|metadata| not_traceable(metadata.get())) else {
            return (metadata, None);
        };
        let (request_id, plugin) = (&context.facts.request_id, &entry.name);
        tracing::warn!(request_id, plugin, "Plugin '{plugin}' gave metadata that is not kept: {why}");
        (None, Some(why))
    }
}

/// Validates the content of a plugin's answer. Returns the answer, or the failure if the content is not valid, and the
/// changed content if there is any. The content is not validated if the plugin reported an error.
fn check(
    output: Result<Output, Failure>,
    content: &Content,
    seen: &ShownContent<'_>,
    context: CallContext<'_>,
) -> (Result<Output, Failure>, Option<Content>) {
    let output = match output {
        Ok(output) if output.error.is_none() => output,
        other => return (other, None),
    };
    match content.replaced(context.method, seen, &output.text) {
        Ok(Some(changed)) if context.unique_keys && changed.doubled_key().is_some() => {
            let message =
                "returned content with a key twice in one object: of readers, some take the first, some the last";
            (Err(Failure::new(Reason::InvalidOutput, message)), None)
        }
        Ok(changed) => (Ok(output), changed),
        Err(failure) => (Err(failure), None),
    }
}

/// Returns why a plugin's metadata does not fit into a trace; `None` if it fits.
fn not_traceable(metadata: &str) -> Option<String> {
    match metadata.len() {
        bytes if bytes > MAX_TRACE_METADATA => {
            Some(format!("it has {bytes} bytes, and a trace has room for {MAX_TRACE_METADATA}"))
        }
        _ if deeper_than(MAX_TRACE_DEPTH, metadata.as_bytes()) => {
            Some(format!("it is more than {MAX_TRACE_DEPTH} levels deep"))
        }
        _ => None,
    }
}

fn outcome(verdict: &Verdict) -> EntryOutcome {
    match verdict {
        Verdict::Go { .. } => EntryOutcome::Ran,
        Verdict::Deny { .. } => EntryOutcome::Denied,
        Verdict::Pass(failure) | Verdict::Fail(failure) => EntryOutcome::Failed(failure.reason),
    }
}

/// What a trace says of a failure or of a denial.
#[derive(Default)]
struct Reported {
    error: Option<String>,
    error_text: Option<String>,
    /// Whether it has words of the plugin.
    quotes: bool,
}

fn reported(verdict: &Verdict) -> Reported {
    match verdict {
        Verdict::Go { .. } => Reported::default(),
        Verdict::Deny { error, .. } => Reported { error: Some(error.clone()), quotes: true, ..Reported::default() },
        Verdict::Pass(Failure { message, text, quotes, .. }) | Verdict::Fail(Failure { message, text, quotes, .. }) => {
            Reported { error: Some(message.clone()), error_text: text.clone(), quotes: *quotes }
        }
    }
}

fn fault(verdict: &Verdict) -> Option<Fault> {
    match verdict {
        Verdict::Go { .. } => None,
        Verdict::Deny { error, .. } => Some(Fault::Denied(error.clone())),
        Verdict::Pass(failure) | Verdict::Fail(failure) => Some(Fault::Failed(failure.clone())),
    }
}
