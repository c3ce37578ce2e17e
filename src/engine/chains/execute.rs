//! Runs one entry of a chain: executes its plugin, judges the answer, and records the execution.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tracing::Instrument;

use super::chain::CallContext;
use super::content::{Content, ShownContent};
use super::entry_traces::trace;
use super::host::CallHost;
use super::spans;
use crate::domain::plugin::{Failure, Input, Metadata, Output, Ran, Role};
use crate::domain::reason::Reason;
use crate::domain::record::millis;
use crate::domain::record::{
    EntryOutcome, EntryTrace, ExecutionStatus, MAX_TRACE_DEPTH, MAX_TRACE_METADATA, PluginExecution,
};
use crate::domain::tokens::deeper_than;
use crate::domain::verdict::Verdict;
use crate::engine::Engine;
use crate::engine::plan::link::{LinkedChain, LinkedEntry};

pub(crate) struct JudgedExecution {
    pub(crate) verdict: Verdict,
    pub(crate) changed: Option<Content>,
    pub(crate) trace: EntryTrace,
}

impl Engine {
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
        let (output_size, metadata) = match &output {
            Ok(output) => (Some(output.text.len() as u64), output.metadata.clone()),
            Err(_) => (None, None),
        };
        let (metadata, omitted) = self.traceable(metadata, context, entry);
        let (answer, changed) = check(output, content, &seen, context);
        let verdict = entry.rules.judge(context.method, answer);
        let Reported { error, error_text, quotes } = reported(&verdict);
        let row = PluginExecution {
            input_size_bytes: seen.text.len() as u64,
            output_size_bytes: output_size.filter(|_| matches!(verdict, Verdict::Go { .. })),
            changed: changed.is_some(),
            queue_ms: millis(queued),
            run_ms: millis(ran),
            duration_ms: millis(queued + ran),
            worker_pid,
            when: unevaluated,
            ..row(context, chain, entry, &verdict, started_at)
        };
        let trace = EntryTrace {
            // The answer of an observer is discarded. The trace of a shadow shows what the shadow would have changed.
            changed: row.changed && entry.rules.role != Role::Observe,
            stops: matches!(verdict, Verdict::Go { stop: true, .. }) && entry.rules.role != Role::Observe,
            duration_ms: row.duration_ms,
            metadata,
            metadata_omitted: omitted,
            when: row.when.clone(),
            hides_error: quotes && context.hides_errors,
            error,
            error_text,
            ..trace(context.method, chain, entry, outcome(&verdict))
        };
        span.record("hawsepipe.outcome", tracing::field::display(trace.outcome));
        self.write_down(row);
        JudgedExecution { verdict, changed, trace }
    }

    async fn ask(
        self: &Arc<Self>,
        context: CallContext<'_>,
        chain: &LinkedChain,
        entry: &LinkedEntry,
        seen: &ShownContent<'_>,
    ) -> Ran {
        let facts = context.facts;
        let plugin = match &entry.plugin {
            Ok(plugin) => plugin,
            Err(failure) => return not_run(failure.clone()),
        };
        let metadata = Metadata {
            request_id: &facts.request_id,
            timestamp: &facts.timestamp,
            server_name: &facts.upstream,
            phase: chain.plan.phase.wire(),
            method: context.method.as_str(),
            user_query: facts.user_query.as_deref(),
            content_type: seen.kind,
            config: entry.config.as_deref(),
            chain: &chain.name,
            attempt: 1,
        };
        let input = Input {
            tool_name: &facts.tool_name,
            raw_content: Some(&seen.text),
            max_tokens: entry.plan.max_tokens.or(facts.max_tokens),
            metadata,
            typed: None,
        };
        let host = CallHost::new(self, context, plugin, entry.plan.mode);
        self.plugins.run(plugin, &input, entry.timeout, &host).await
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

    fn write_down(&self, row: PluginExecution) {
        // Why a plugin denied a call can quote the call's content.
        let message = match row.status {
            ExecutionStatus::Denied => Some("denied the call"),
            _ => row.error_message.as_deref(),
        };
        if let Some(message) = message {
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

/// Returns the status of an execution, the reason and the message of its failure or denial.
fn result(verdict: &Verdict) -> (ExecutionStatus, Option<Reason>, Option<String>) {
    match verdict {
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
    }
}

fn row(
    context: CallContext<'_>,
    chain: &LinkedChain,
    entry: &LinkedEntry,
    verdict: &Verdict,
    started_at: u64,
) -> PluginExecution {
    let (status, reason, error_message) = result(verdict);
    let (facts, plugin) = (context.facts, entry.plugin.as_ref().ok());
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
        error_text: reported(verdict).error_text,
        when: None,
        changed: false,
        method: context.method,
        phase: Some(chain.plan.phase),
        mode: entry.plan.mode,
        plugin_revision: plugin.map_or_else(String::new, |p| p.plan.digest.clone()),
        chain_revision: chain.plan.revision.clone(),
        upstream: facts.upstream.clone(),
        tool: facts.shown.clone(),
        principal: facts.caller.identity.subject.clone(),
        user: facts.caller.identity.user(),
        session: facts.caller.session_name(),
        worker_pid: None,
    }
}
