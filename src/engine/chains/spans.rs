//! Tracing spans of calls, following OpenTelemetry's conventions for MCP and for generative AI. They are created only while traces are
//! exported.

use tracing::field::Empty;
use tracing::{Span, debug_span};

use super::meta::CallMeta;
use super::routed_call::Routed;
use super::unchecked::Unchecked;
use crate::domain::item::ItemKind;
use crate::domain::method::Method;
use crate::domain::model::{ModelAnswer, ModelFailure};
use crate::domain::plan::TransportPlan;
use crate::domain::record::CallOutcome;
use crate::domain::rpc::code_of;
use crate::domain::upstream::{Answer, ServerFacts, UpstreamError};
use crate::engine::plan::link::{LinkedChain, LinkedEntry};
use crate::engine::request::CallRequest;
use crate::telemetry::trace_context::TARGET;

/// The maximum length of an item's name and of a request's id in a span. Clients can send any of them.
const MAX_NAME: usize = 128;

/// The span of a call, from its arrival to its answer.
pub(crate) fn call(request: &CallRequest<'_>, meta: &CallMeta) -> Span {
    let (name, kind) = (request.name, request.kind);
    let method = request.method();
    let span = debug_span!(
        target: TARGET, "call",
        otel.name = title(method, kind, name),
        otel.kind = "server",
        otel.status_code = Empty,
        mcp.method.name = method.as_str(),
        mcp.protocol.version = request.caller.version,
        jsonrpc.request.id = Empty,
        network.transport = Empty,
        gen_ai.operation.name = (kind == ItemKind::Tool).then_some("execute_tool"),
        gen_ai.tool.name = (kind == ItemKind::Tool).then(|| cut(name)),
        gen_ai.prompt.name = (kind == ItemKind::Prompt).then(|| cut(name)),
        mcp.resource.uri = (!kind.has_name()).then(|| kind.shown(name)),
        hawsepipe.request_id = Empty,
        hawsepipe.outcome = Empty,
        error.type = Empty,
    );
    if !span.is_disabled() {
        meta.cause().lead_to(&span);
        if let Some(id) = request.rpc_id {
            let id = serde_json::from_str(id).unwrap_or_else(|_| id.to_owned());
            span.record("jsonrpc.request.id", tracing::field::display(format_args!("{id:.MAX_NAME$}")));
            span.record("network.transport", "tcp");
        }
    }
    span
}

/// Records the outcome of the call in the current span.
pub(crate) fn ended(request_id: &str, outcome: CallOutcome) {
    let span = Span::current();
    span.record("hawsepipe.request_id", request_id);
    span.record("hawsepipe.outcome", outcome.as_label());
    if outcome != CallOutcome::Ok {
        failed(&span, outcome.as_label());
    }
}

/// The span of the request to the server, which `facts` tells about.
pub(crate) fn upstream(call: &Routed<'_>, facts: impl FnOnce() -> Option<ServerFacts>) -> Span {
    let (upstream, name, kind) = (&call.facts.upstream, &*call.facts.tool, call.facts.kind);
    let method = call.request.method();
    let span = debug_span!(
        target: TARGET, "upstream",
        otel.name = title(method, kind, name),
        otel.kind = "client",
        otel.status_code = Empty,
        mcp.method.name = method.as_str(),
        mcp.protocol.version = Empty,
        gen_ai.operation.name = (kind == ItemKind::Tool).then_some("execute_tool"),
        gen_ai.tool.name = (kind == ItemKind::Tool).then(|| cut(name)),
        gen_ai.prompt.name = (kind == ItemKind::Prompt).then(|| cut(name)),
        mcp.resource.uri = (!kind.has_name()).then(|| kind.shown(name)),
        network.transport = transport(&call.plan().transport),
        hawsepipe.upstream = upstream,
        rpc.response.status_code = Empty,
        error.type = Empty,
    );
    if !span.is_disabled()
        && let Some(facts) = facts()
    {
        span.record("mcp.protocol.version", facts.version);
    }
    span
}

/// Returns the name of a span: the method and, where there are few of them, the name of the item.
fn title(method: Method, kind: ItemKind, name: &str) -> String {
    if kind.has_name() { format!("{method} {name:.MAX_NAME$}") } else { method.to_string() }
}

fn cut(name: &str) -> String {
    name.chars().take(MAX_NAME).collect()
}

fn transport(plan: &TransportPlan) -> Option<&'static str> {
    match plan {
        TransportPlan::External { .. } => Some("tcp"),
        TransportPlan::Process { .. } => Some("pipe"),
        TransportPlan::Pipeline(_) | TransportPlan::Plugin(_) | TransportPlan::None => None,
    }
}

/// Records what came of the request to the server in the span that [`upstream`] made.
pub(in crate::engine) fn answered(span: &Span, answer: Result<&Unchecked, &UpstreamError>) {
    if span.is_disabled() {
        return;
    }
    match answer.map(|answer| (answer.unseen(), answer.facts())) {
        Ok((Answer::Error(text), _)) => {
            let code = code_of(text).map_or_else(|| "_OTHER".to_owned(), |code| code.to_string());
            span.record("rpc.response.status_code", &code);
            failed(span, &code);
        }
        Ok((_, facts)) if facts.is_error => failed(span, CallOutcome::ToolError.as_label()),
        Ok(_) => {}
        Err(error) => failed(span, error.reason().as_str()),
    }
}

fn failed(span: &Span, error: &str) {
    span.record("otel.status_code", "ERROR");
    span.record("error.type", error);
}

/// The span of one entry of a chain.
pub(crate) fn plugin(chain: &LinkedChain, entry: &LinkedEntry) -> Span {
    debug_span!(
        target: TARGET, "plugin",
        otel.name = %format_args!("plugin {}", entry.name),
        hawsepipe.plugin = entry.name,
        hawsepipe.chain = chain.name,
        hawsepipe.phase = chain.plan.phase.wire(),
        hawsepipe.outcome = Empty,
    )
}

/// The span of a request to a language model with its repetitions. It holds nothing of what is said.
pub(crate) fn chat(model: &str) -> Span {
    debug_span!(
        target: TARGET, "chat",
        otel.name = %format_args!("chat {model:.MAX_NAME$}"),
        otel.kind = "client",
        otel.status_code = Empty,
        gen_ai.operation.name = "chat",
        // The conventions name the API here, not who runs the endpoint.
        gen_ai.provider.name = "openai",
        gen_ai.request.model = cut(model),
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        error.type = Empty,
    )
}

/// Records what came of a request to a language model in the span that [`chat`] made.
pub(crate) fn completed(span: &Span, answer: &Result<ModelAnswer, ModelFailure>) {
    match answer {
        Ok(answer) => {
            // OpenTelemetry has signed integers only; others would become text.
            let tokens = |count| i64::try_from(count).unwrap_or(i64::MAX);
            span.record("gen_ai.usage.input_tokens", tokens(answer.usage.prompt_tokens));
            span.record("gen_ai.usage.output_tokens", tokens(answer.usage.completion_tokens));
        }
        Err(failure) => failed(span, failure.reason.as_str()),
    }
}
