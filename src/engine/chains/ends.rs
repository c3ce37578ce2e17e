//! The ends of calls that the gateway refuses, or whose server did not answer: each is counted, and logged where it is a fault.

use std::sync::Arc;

use super::outcome::{CallEnd, Denial, DenialKind};
use super::routed_call::Routed;
use crate::domain::health::ConnectionState;
use crate::domain::ids::ObjectKey;
use crate::domain::item::ItemKind;
use crate::domain::json::{JsonStep, Pointer};
use crate::domain::plan::UpstreamPlan;
use crate::domain::ports::Clock;
use crate::domain::upstream::UpstreamError;
use crate::engine::access::admission::AdmissionError;
use crate::engine::catalogue::Catalogues;
use crate::engine::catalogue::probes::Probes;
use crate::telemetry::metrics::Metrics;

/// Names of members that the protocol itself defines (MCP, CallToolResult, ContentBlock, GetPromptResult and
/// ReadResourceResult; JSON-RPC 2.0, error object).
const KNOWN_MEMBERS: [&str; 21] = [
    "_meta",
    "annotations",
    "blob",
    "code",
    "content",
    "contents",
    "data",
    "description",
    "isError",
    "message",
    "messages",
    "mimeType",
    "name",
    "resource",
    "result",
    "resultType",
    "role",
    "structuredContent",
    "text",
    "type",
    "uri",
];

/// Makes the ends of calls, and counts them.
#[derive(Clone)]
pub(in crate::engine) struct CallEnds {
    pub(in crate::engine) metrics: Arc<Metrics>,
    pub(in crate::engine) clock: Arc<dyn Clock>,
    pub(in crate::engine) catalogues: Arc<Catalogues>,
    pub(in crate::engine) probes: Arc<Probes>,
}

impl CallEnds {
    /// Counts a call that admission refused, and returns its end.
    pub(crate) fn not_admitted(&self, error: &AdmissionError) -> CallEnd {
        self.metrics.refused(error.reason);
        CallEnd::not_admitted(error)
    }

    /// Counts a call that was refused after admission but before it was sent, and returns its end.
    pub(crate) fn refused(&self, kind: ItemKind, denial: Denial) -> CallEnd {
        if let DenialKind::Refused(reason) = denial.kind {
            self.metrics.refused(reason);
        }
        CallEnd::denied(kind, denial)
    }

    /// Logs and counts the failure of a call whose upstream returned no answer, and returns the end of the call. An
    /// upstream that may be down is probed soon.
    pub(crate) fn upstream_failed(&self, call: &Routed<'_>, error: &UpstreamError) -> CallEnd {
        self.note_failed_request(&call.plan().key, error);
        CallEnd::upstream_failed(&call.plan().key.name, &call.timeout_field(), error)
    }

    /// Like [`Self::upstream_failed`], for a request that is no call.
    pub(crate) fn request_failed(&self, plan: &UpstreamPlan, error: &UpstreamError) -> CallEnd {
        self.note_failed_request(&plan.key, error);
        let field = format!("spec.timeouts.callMs of MCPUpstream {}", plan.key);
        CallEnd::upstream_failed(&plan.key.name, &field, error)
    }

    fn note_failed_request(&self, key: &ObjectKey, error: &UpstreamError) {
        if matches!(error, UpstreamError::NeverAsked) {
            return;
        }
        // The upstream is not to blame if the gateway has no room for its answer, or runs as many of its processes as may, nor
        // for what the client has not sent.
        let own = error.is_refusal() || matches!(error, UpstreamError::NoRoom);
        if matches!(error, UpstreamError::OwnProcesses(_)) {
            self.metrics.refused(error.reason());
        }
        if !own {
            self.metrics.upstream_failed(&key.name);
        }
        // Another request is no help to a server that takes no more.
        let answers =
            |error: &UpstreamError| matches!(error, UpstreamError::TooLarge(_) | UpstreamError::RateLimited { .. });
        if !own && !answers(error) && !matches!(error, UpstreamError::Timeout(_) | UpstreamError::Cancelled) {
            self.suspect(key);
        }
        tracing::warn!(upstream = key.name, reason = error.reason().as_str(), "{}", error.without_content());
    }

    /// Has an upstream probed soon that failed a request, unless its connection is known to have ended.
    pub(crate) fn suspect(&self, key: &ObjectKey) {
        if self.catalogues.upstream(key).health.state != ConnectionState::Disconnected {
            self.probes.kick(key);
        }
    }

    /// Withholds an answer that a Guard must check, because it has a key twice in one object. Returns the end of the
    /// call. No Guard has checked the member names of the answer, so the message shows only those that the protocol
    /// itself defines.
    pub(crate) fn withheld(&self, call: &Routed<'_>, steps: &[JsonStep]) -> CallEnd {
        let shown = |step: &JsonStep| match step {
            JsonStep::Member(name) if !KNOWN_MEMBERS.contains(&name.as_str()) => JsonStep::Member("*".to_owned()),
            step => step.clone(),
        };
        let steps: Vec<_> = steps.iter().map(shown).collect();
        let (upstream, place) = (&call.plan().key.name, Pointer(&steps).to_string());
        tracing::warn!(
            upstream,
            method = %call.facts.kind.used_by(),
            tool = call.facts.shown,
            place,
            "an answer was withheld: a key stands twice in an object"
        );
        CallEnd::withheld(upstream, &place)
    }
}
