//! Tracing spans of calls, following OpenTelemetry's conventions for MCP. They are created only while traces are
//! exported.

use tracing::field::Empty;
use tracing::{Span, debug_span};

use super::routed_call::Routed;
use crate::domain::record::CallOutcome;
use crate::engine::plan::link::{LinkedChain, LinkedEntry};
use crate::telemetry::traces::TARGET;

/// The maximum length of a tool's name in a span. Clients can send any name.
const MAX_NAME: usize = 128;

/// The span of a call, from its arrival to its answer.
pub(crate) fn call(tool: &str) -> Span {
    debug_span!(
        target: TARGET, "call",
        otel.name = %format_args!("tools/call {tool:.MAX_NAME$}"),
        otel.kind = "server",
        otel.status_code = Empty,
        mcp.method.name = "tools/call",
        gen_ai.tool.name = %format_args!("{tool:.MAX_NAME$}"),
        hawsepipe.request_id = Empty,
        hawsepipe.outcome = Empty,
        error.type = Empty,
    )
}

/// Records the outcome of the call in the current span.
pub(crate) fn ended(request_id: &str, outcome: CallOutcome) {
    let span = Span::current();
    span.record("hawsepipe.request_id", request_id);
    span.record("hawsepipe.outcome", outcome.as_label());
    if outcome != CallOutcome::Ok {
        span.record("otel.status_code", "ERROR");
        span.record("error.type", outcome.as_label());
    }
}

/// The span of the request to the server.
pub(crate) fn upstream(call: &Routed<'_>) -> Span {
    let (upstream, tool) = (&call.facts.upstream, &call.facts.tool);
    debug_span!(
        target: TARGET, "upstream",
        otel.name = %format_args!("tools/call {tool}"),
        otel.kind = "client",
        mcp.method.name = "tools/call",
        gen_ai.tool.name = tool,
        hawsepipe.upstream = upstream,
    )
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
