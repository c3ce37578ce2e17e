//! One execution of a plugin: by an entry of a chain, by a step of a pipeline, or for a tool that a plugin makes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::Chains;
use super::routed_call::CallFacts;
use crate::domain::method::Method;
use crate::domain::plugin::{ContentType, Failure, Input, Metadata, Mode, Phase, Ran, TypedCall};
use crate::domain::ports::{Host, LinkedPlugin};
use crate::domain::reason::Reason;
use crate::domain::record::{ExecutionStatus, PluginExecution, millis};

/// A plugin that is to be executed, and for what.
pub(in crate::engine) struct PluginRun<'a> {
    pub(in crate::engine) chains: &'a Chains,
    pub(in crate::engine) facts: &'a CallFacts,
    /// `None` if it cannot run.
    pub(in crate::engine) plugin: Option<&'a Arc<LinkedPlugin>>,
    /// The name of the plugin in records.
    pub(in crate::engine) name: &'a str,
    /// The name of the chain, or that which stands in its place, and its revision.
    pub(in crate::engine) chain: (&'a str, &'a str),
    pub(in crate::engine) method: Method,
    /// `None` for a function.
    pub(in crate::engine) phase: Option<Phase>,
    pub(in crate::engine) mode: Mode,
    pub(in crate::engine) config: Option<&'a RawValue>,
    /// The limit of tokens; `None` means that of the call.
    pub(in crate::engine) max_tokens: Option<u32>,
    pub(in crate::engine) timeout: Duration,
    /// The function that is called, of a plugin that is no middleware, and further members of its `ctx`.
    pub(in crate::engine) typed: Option<(&'static str, &'a RawValue)>,
}

/// How an execution ended.
pub(in crate::engine) struct Ended {
    pub(in crate::engine) started_at: u64,
    pub(in crate::engine) queued: Duration,
    pub(in crate::engine) ran: Duration,
    pub(in crate::engine) worker_pid: Option<u32>,
    pub(in crate::engine) input_bytes: usize,
    pub(in crate::engine) output_bytes: Option<usize>,
    pub(in crate::engine) changed: bool,
    /// Why the entry's `when` could not be evaluated.
    pub(in crate::engine) when: Option<String>,
}

/// Why the result of an execution does not count.
pub(in crate::engine) enum Fault {
    /// The plugin denied the call, with these words.
    Denied(String),
    Failed(Failure),
}

impl PluginRun<'_> {
    /// Executes the plugin on this content.
    pub(in crate::engine) async fn run(
        &self,
        plugin: &Arc<LinkedPlugin>,
        (content, content_type): (&str, ContentType),
        host: &dyn Host,
    ) -> Ran {
        let facts = self.facts;
        let phase = match (self.typed, self.phase) {
            (Some((function, _)), _) => function,
            (None, phase) => phase.map_or("", Phase::wire),
        };
        let input = Input {
            tool_name: &facts.tool_name,
            raw_content: Some(content),
            max_tokens: self.max_tokens.or(facts.max_tokens),
            metadata: Metadata {
                request_id: &facts.request_id,
                timestamp: &facts.timestamp,
                server_name: &facts.upstream,
                phase,
                method: self.method.as_str(),
                user_query: facts.user_query.as_deref(),
                content_type,
                config: self.config,
                chain: self.chain.0,
                attempt: 1,
            },
            typed: self.typed.map(|(method, context)| TypedCall { method, context }),
        };
        self.chains.plugins.run(plugin, &input, self.timeout, host).await
    }

    /// Records the execution.
    pub(in crate::engine) fn record(&self, ended: Ended, fault: Option<Fault>) {
        let (status, reason, error_message, error_text) = judged(fault);
        let (facts, plugin, (chain, chain_revision)) = (self.facts, self.plugin, self.chain);
        let row = PluginExecution {
            id: uuid::Uuid::now_v7().to_string(),
            request_id: facts.request_id.clone(),
            plugin_id: plugin.map_or_else(|| self.name.to_owned(), |plugin| plugin.plan.id.clone()),
            plugin: self.name.to_owned(),
            chain_id: chain.to_owned(),
            started_at: ended.started_at,
            duration_ms: millis(ended.queued + ended.ran),
            queue_ms: millis(ended.queued),
            run_ms: millis(ended.ran),
            status,
            reason,
            input_size_bytes: ended.input_bytes as u64,
            output_size_bytes: ended.output_bytes.map(|bytes| bytes as u64),
            error_message,
            error_text,
            when: ended.when,
            changed: ended.changed,
            method: self.method,
            phase: self.phase,
            mode: self.mode,
            plugin_revision: plugin.map_or_else(String::new, |plugin| plugin.plan.digest.clone()),
            chain_revision: chain_revision.to_owned(),
            upstream: facts.upstream.clone(),
            tool: facts.shown.clone(),
            principal: facts.caller.identity.subject.clone(),
            user: facts.caller.identity.user(),
            session: facts.caller.session_name(),
            worker_pid: ended.worker_pid,
        };
        self.log(&row);
        self.chains.metrics.execution(&row);
        self.chains.records.execution(row);
    }

    fn log(&self, row: &PluginExecution) {
        // Why a plugin denied a call can quote the call's content.
        let message = match row.status {
            ExecutionStatus::Denied => Some("denied the call"),
            _ => row.error_message.as_deref(),
        };
        let Some(message) = message else { return };
        tracing::warn!(
            request_id = row.request_id,
            plugin = row.plugin,
            chain = row.chain_id,
            reason = row.reason.map(Reason::as_str),
            "Plugin '{}' {message}",
            row.plugin
        );
    }
}

/// Returns the status of an execution, the reason, the message and the text of its fault.
fn judged(fault: Option<Fault>) -> (ExecutionStatus, Option<Reason>, Option<String>, Option<String>) {
    match fault {
        None => (ExecutionStatus::Success, None, None, None),
        Some(Fault::Denied(words)) => (ExecutionStatus::Denied, None, Some(format!("denied the call: {words}")), None),
        Some(Fault::Failed(Failure { reason, message, text, .. })) => {
            (status(reason), Some(reason), Some(message), text)
        }
    }
}

/// Returns the status of an execution that failed for this reason.
fn status(reason: Reason) -> ExecutionStatus {
    match reason {
        Reason::Timeout => ExecutionStatus::Timeout,
        Reason::PoolExhausted => ExecutionStatus::PoolExhausted,
        _ => ExecutionStatus::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_end_has_its_status() {
        let failed = |reason| judged(Some(Fault::Failed(Failure::new(reason, "why")))).0;
        assert_eq!(judged(None).0, ExecutionStatus::Success);
        assert_eq!(judged(Some(Fault::Denied("no".into()))).0, ExecutionStatus::Denied);
        assert_eq!(failed(Reason::Timeout), ExecutionStatus::Timeout);
        assert_eq!(failed(Reason::PoolExhausted), ExecutionStatus::PoolExhausted);
        for reason in [Reason::PluginError, Reason::InvalidOutput, Reason::NotLoaded] {
            assert_eq!(failed(reason), ExecutionStatus::Failed, "{reason}");
        }
    }
}
