//! The last steps of a call: the call is counted and recorded, and its upstream is probed if the upstream may be down.

use serde_json::value::RawValue;

use super::meta::CallMeta;
use super::outcome::{CallEnd, Denial};
use super::recorder::CallRecorder;
use super::routed_call::Routed;
use super::tool_result::{complete, with_meta};
use crate::domain::budget::Reservation;
use crate::domain::json::{JsonStep, Pointer};
use crate::domain::raw::to_raw;
use crate::domain::record::EntryTrace;
use crate::domain::upstream::UpstreamError;
use crate::domain::version::Era;
use crate::engine::Engine;
use crate::engine::access::admission::AdmissionError;
use crate::engine::plan::link::LinkedUpstream;
use crate::engine::plan::snapshot::Snapshot;
use crate::engine::request::{CallRequest, Endpoint, Reply};

/// Names of members that the protocol itself defines (MCP, CallToolResult and ContentBlock; JSON-RPC 2.0, error
/// object).
const KNOWN_MEMBERS: [&str; 17] = [
    "_meta",
    "annotations",
    "blob",
    "code",
    "content",
    "data",
    "isError",
    "message",
    "mimeType",
    "name",
    "resource",
    "result",
    "resultType",
    "structuredContent",
    "text",
    "type",
    "uri",
];

impl Engine {
    /// Counts a call that admission refused, and returns its end.
    pub(crate) fn not_admitted(&self, error: &AdmissionError) -> CallEnd {
        self.metrics.refused(error.reason.as_str());
        CallEnd::not_admitted(error)
    }

    /// Counts a call that was refused after admission but before it was sent, and returns its end.
    pub(crate) fn refused(&self, denial: Denial) -> CallEnd {
        self.metrics.refused(&denial.reason);
        CallEnd::denied(denial)
    }

    /// Logs and counts the failure of a call whose upstream returned no answer, and returns the end of the call. An
    /// upstream that may be down is probed soon.
    pub(crate) fn upstream_failed(&self, call: &Routed<'_>, error: &UpstreamError) -> CallEnd {
        let key = &call.plan().key;
        // The upstream is not to blame if the gateway has no room for its answer.
        let own = *error == UpstreamError::NoRoom;
        if !own {
            self.metrics.upstream_failed(&key.name);
        }
        if !own && !matches!(error, UpstreamError::Timeout(_) | UpstreamError::TooLarge(_) | UpstreamError::Cancelled) {
            self.probes.kick(key);
        }
        tracing::warn!(upstream = key.name, reason = error.reason(), "{error}");
        CallEnd::upstream_failed(call, error)
    }

    /// Returns the end of a call whose tool is not currently listed by any upstream.
    pub(crate) fn unknown_tool(&self, snapshot: &Snapshot, request: &CallRequest<'_>) -> CallEnd {
        let name: String = request.name.chars().take(128).collect();
        let named = match &request.endpoint {
            Endpoint::One(upstream) => Some(*upstream),
            Endpoint::All => name.split_once("__").map(|(upstream, _)| upstream),
        };
        let named = named.and_then(|name| snapshot.upstream(name)).map(|index| &snapshot.linked.upstreams[index]);
        let Some(upstream) = named else {
            let down = snapshot.linked.upstreams.iter().filter(|upstream| self.down(upstream).is_some());
            let down: Vec<_> = down.map(|upstream| upstream.target.plan.key.name.as_str()).collect();
            let hint = if down.is_empty() { String::new() } else { format!(" (upstreams down: {})", down.join(", ")) };
            return CallEnd::unknown_tool(&name, &hint);
        };
        let own = &upstream.target.plan.key.name;
        match (&upstream.refusing, self.down(upstream)) {
            (Some(refusal), _) => self.refused(Denial::refused(None, refusal)),
            (None, Some(why)) => CallEnd::upstream_down(own, &why),
            (None, None) => CallEnd::unknown_tool(&name, &format!(" (upstream {own} lists no such tool now)")),
        }
    }

    /// Returns why the last attempt to reach an upstream failed, in words that clients can see. `None` if the attempt
    /// succeeded, if a tool list of the upstream was ever read, or if the upstream is disabled.
    fn down(&self, upstream: &LinkedUpstream) -> Option<String> {
        let state = self.state.upstream(&upstream.target.plan.key);
        state.down.filter(|_| state.catalogue.is_none() && upstream.target.plan.enabled)
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
            tool = call.facts.tool,
            place,
            "an answer was withheld: a key stands twice in an object"
        );
        CallEnd::withheld(upstream, &place)
    }

    /// Records the end of a call, and returns the reply for the client.
    pub(crate) fn finish(
        &self,
        end: CallEnd,
        mut recorder: CallRecorder,
        meta: &CallMeta,
        request: &CallRequest<'_>,
    ) -> Reply {
        let end = end.held_in(request.reservation);
        recorder.end(end.outcome, end.reason);
        let mut reply = end.reply;
        if let Reply::Result(result) = &mut reply {
            if meta.trace {
                add_trace(result, &recorder.traces.entries, request.reservation);
            }
            if request.caller.era == Era::Modern && !end.typed {
                complete(result);
            }
        }
        reply
    }
}

/// Adds the trace to a result if the memory budget has room for both.
fn add_trace(result: &mut Box<RawValue>, entries: &[EntryTrace], reservation: &Reservation) {
    let trace = to_raw(&entries);
    if reservation.resize((result.get().len() + trace.get().len()) as u64).is_ok() {
        *result = with_meta(result, "hawsepipe.dev/trace", trace);
    }
}
