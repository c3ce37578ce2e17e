//! The last steps of a call: the call is counted and recorded, and its upstream is probed if the upstream may be down.

use serde_json::json;
use serde_json::value::RawValue;

use super::arrived::Arrived;
use crate::domain::apps;
use crate::domain::budget::Reservation;
use crate::domain::ids::ObjectKey;
use crate::domain::item::{ItemKind, MAX_URI};
use crate::domain::json::{JsonStep, Pointer};
use crate::domain::plan::{PrefixMode, UpstreamPlan};
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::reason::Reason;
use crate::domain::record::{CallOutcome, EntryTrace};
use crate::domain::route::Route;
use crate::domain::rpc::{INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError};
use crate::domain::tool_name::MAX_NAME;
use crate::domain::upstream::UpstreamError;
use crate::domain::version::Era;
use crate::engine::Engine;
use crate::engine::access::admission::AdmissionError;
use crate::engine::chains::cause::Cause;
use crate::engine::chains::outcome::{CallEnd, Denial, DenialKind};
use crate::engine::chains::routed_call::Routed;
use crate::engine::chains::tool_result::{says_caching, set_members, with_meta};
use crate::engine::plan::link::LinkedUpstream;
use crate::engine::plan::snapshot::{Lookup, Snapshot};
use crate::engine::plan::withheld_item::WithheldItem;
use crate::engine::request::{Caller, Endpoint, ItemName, Reply};

/// The member that has the trace of a call, if the client asked for it.
const TRACE: &str = "hawsepipe.dev/trace";

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

impl Engine {
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

    /// Returns the end of a request whose item was not found, or that its client may not see. It names an upstream because of a
    /// URI only if the client may see a resource with this URI there.
    pub(crate) fn not_found(
        &self,
        snapshot: &Snapshot,
        item: ItemName<'_>,
        caller: &Caller,
        lookup: &Lookup,
    ) -> CallEnd {
        let may_see = |upstream: usize| {
            Route::unlisted(upstream, item.name).is_some_and(|route| snapshot.may_see(caller, &route))
        };
        match lookup {
            Lookup::Ambiguous(first, second) if may_see(*first) && may_see(*second) => {
                self.ambiguous_uri(snapshot, item.name, [*first, *second])
            }
            Lookup::Undecided(upstream) if may_see(*upstream) => self.undecided(snapshot, item, *upstream),
            _ => self.unknown_item(snapshot, item, caller.era),
        }
    }

    /// Returns the end of a call whose item is not currently listed by any upstream.
    fn unknown_item(&self, snapshot: &Snapshot, item: ItemName<'_>, era: Era) -> CallEnd {
        let kind = item.kind;
        let most = if kind.has_name() { MAX_NAME } else { MAX_URI };
        let name: String = item.name.chars().take(most).collect();
        let named = match item.endpoint {
            Endpoint::One(upstream) => Some(upstream),
            Endpoint::All if !kind.has_name() => None,
            Endpoint::All => name.split_once("__").map(|(upstream, _)| upstream),
        };
        let named = named.and_then(|name| snapshot.upstream(name)).map(|index| &snapshot.linked.upstreams[index]);
        let named = named.or_else(|| snapshot.refusing_pipeline(item));
        let Some(upstream) = named else {
            // Any of them may have the item, unless its name would say which.
            let any = !kind.has_name() || snapshot.plan().gateway.prefix != PrefixMode::Always;
            let mut all = snapshot.linked.upstreams.iter().filter(|upstream| any && upstream.target.plan.enabled);
            if let Some((chain, refusal)) =
                all.find_map(|upstream| snapshot.linked.refused_list(&upstream.target.plan, kind, &name))
            {
                return self.refused(kind, Denial::refused(Some(chain), refusal));
            }
            let down = snapshot.linked.upstreams.iter().filter(|upstream| self.down(upstream).is_some());
            let down: Vec<_> = down.map(|upstream| upstream.target.plan.key.name.as_str()).collect();
            let hint = match down.is_empty() {
                true => String::new(),
                // The client may not learn the names of upstreams of which it may see nothing.
                false if snapshot.linked.rules.is_some() => " (some upstreams are down)".to_owned(),
                false => format!(" (upstreams down: {})", down.join(", ")),
            };
            return self.not_offered(snapshot, item, era, &name, &hint);
        };
        let own = &upstream.target.plan.key.name;
        let end = self.refused_by(snapshot, kind, upstream, own_name(&name, own)).unwrap_or_else(|| {
            let hint = format!(" (no such {kind} of upstream {own} is offered now)");
            self.not_offered(snapshot, item, era, &name, &hint)
        });
        CallEnd { cause: Cause::upstream(own), ..end }
    }

    /// Returns the end of a call of an item that this upstream does not offer because it, or a chain over its list, refuses all,
    /// or because it is down.
    pub(super) fn refused_by(
        &self,
        snapshot: &Snapshot,
        kind: ItemKind,
        upstream: &LinkedUpstream,
        own_name: &str,
    ) -> Option<CallEnd> {
        let plan = &upstream.target.plan;
        if let Some(refusal) = &upstream.refusing {
            return Some(self.refused(kind, Denial::refused(None, refusal)));
        }
        if let Some(why) = self.down(upstream) {
            return Some(CallEnd::upstream_down(kind, &plan.key.name, &why));
        }
        let (chain, refusal) = snapshot.linked.refused_list(plan, kind, own_name)?;
        Some(self.refused(kind, Denial::refused(Some(chain), refusal)))
    }

    /// Returns the end of the use of a resource of which it is not known whether chains over lists withhold it.
    fn undecided(&self, snapshot: &Snapshot, item: ItemName<'_>, upstream: usize) -> CallEnd {
        let upstream = &snapshot.linked.upstreams[upstream];
        self.refused_by(snapshot, item.kind, upstream, item.name).unwrap_or_else(|| {
            self.metrics.refused(Reason::ListUnread);
            let own = &upstream.target.plan.key.name;
            CallEnd { cause: Cause::upstream(own), ..list_unread(own) }
        })
    }

    /// Returns the end of a call whose item is not there or is withheld, which clients cannot tell apart. The log says why it
    /// is withheld.
    fn not_offered(&self, snapshot: &Snapshot, item: ItemName<'_>, era: Era, name: &str, hint: &str) -> CallEnd {
        let kind = item.kind;
        // With rules, a name can be meant that the client must not learn.
        let meant = snapshot.linked.rules.is_none().then(|| item.endpoint.did_you_mean(snapshot, kind, name));
        let meant = meant.unwrap_or_default();
        let end = CallEnd::unknown_item(kind, era, name, &format!("{hint}{meant}"));
        let withheld = snapshot.withheld(&self.state, &item.endpoint, kind, item.name);
        let Some(WithheldItem { upstream, name, why }) = withheld else { return end };
        let target = &snapshot.linked.upstreams[upstream].target;
        let (upstream, shown) = (&*target.plan.key.name, kind.shown(&name));
        tracing::info!(
            upstream,
            item = &*target.mask().masked(&shown),
            "a request names a {kind} that is withheld: {why}"
        );
        CallEnd { reason: Some(Reason::Withheld.to_string()), ..end }
    }

    /// Returns the end of the reading of a resource that templates of several upstreams fit. None of them may take the URIs
    /// of another.
    fn ambiguous_uri(&self, snapshot: &Snapshot, uri: &str, upstreams: [usize; 2]) -> CallEnd {
        self.metrics.refused(Reason::ItemConflict);
        let uri: String = uri.chars().take(MAX_URI).collect();
        CallEnd::ambiguous_uri(&uri, upstreams.map(|index| &*snapshot.linked.upstreams[index].target.plan.key.name))
    }

    /// Returns why the last attempt to reach an upstream failed, or that it is starting, in words that clients can see. `None` if
    /// the attempt succeeded, if a list of the upstream was ever read, or if the upstream is disabled.
    fn down(&self, upstream: &LinkedUpstream) -> Option<String> {
        let state = self.state.upstream(&upstream.target.plan.key);
        let is_unknown = state.catalogue.is_none() && upstream.target.plan.enabled;
        let why = state.starting(self.clock.monotonic()).or(state.down);
        why.filter(|_| is_unknown)
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

    /// Records the end of a call, and returns the reply for the client.
    pub(super) fn finish(&self, end: CallEnd, arrived: Arrived<'_>) -> Reply {
        let Arrived { request, meta, mut recorder, .. } = arrived;
        let end = published(end, &recorder.record().upstream, &request.endpoint).held_in(request.reservation);
        recorder.gives(&end);
        recorder.end(end.outcome, end.reason);
        let (mut reply, entries) = (end.reply, &recorder.traces.entries);
        match &mut reply {
            Reply::Result(result) => {
                if meta.trace {
                    add_trace(result, entries, request.reservation);
                }
                if request.caller.era == Era::Modern {
                    add_modern_members(result, request.kind, end.typed, !entries.is_empty());
                }
            }
            // Denials of other requests than tool calls are errors.
            Reply::Error(error) if meta.trace && !entries.is_empty() => add_trace_to_error(error, entries),
            Reply::UpstreamError(error) => {
                if request.kind == ItemKind::Resource {
                    reword_not_found(error, request.caller.era, request.name);
                }
                if meta.trace && !entries.is_empty() {
                    add_trace_to_server_error(error, entries, request.reservation);
                }
            }
            Reply::Error(_) => {}
        }
        reply
    }
}

/// Returns the server's own name of an item with this public name, as far as the name shows it.
fn own_name<'a>(public: &'a str, upstream: &str) -> &'a str {
    public.strip_prefix(upstream).and_then(|rest| rest.strip_prefix("__")).unwrap_or(public)
}

/// Returns the end of a call, or of another request, with the URIs that apps have on the endpoint.
pub(in crate::engine) fn published(mut end: CallEnd, upstream: &str, endpoint: &Endpoint<'_>) -> CallEnd {
    if let Endpoint::One(_) = endpoint {
        return end;
    }
    let published = match &end.reply {
        Reply::Result(result) => apps::published(result, upstream),
        Reply::UpstreamError(error) => apps::published_error(error, upstream),
        Reply::Error(_) => None,
    };
    if let (Some(published), Reply::Result(text) | Reply::UpstreamError(text)) = (published, &mut end.reply) {
        *text = published;
    }
    end
}

/// Adds the members that MCP 2026-07-28 requires in results: `resultType` if `typed` is not set, and how the result of
/// reading a resource may be cached. Where chains select the resource, nobody may cache it, because another request could
/// pass other chains. Otherwise the server decides; if it says nothing, nobody may.
pub(crate) fn add_modern_members(result: &mut Box<RawValue>, kind: ItemKind, typed: bool, is_chained: bool) {
    let mut members = Vec::new();
    if !typed {
        members.push(("resultType", r#""complete""#));
    }
    if kind == ItemKind::Resource && (is_chained || !says_caching(result)) {
        members.extend([("ttlMs", "0"), ("cacheScope", r#""private""#)]);
    }
    set_members(result, &members);
}

/// Gives a server's error about a resource that is not there the code that it has in the client's era: `-32602` in MCP
/// 2026-07-28, `-32002` before (resources: error handling). `-32602` has other causes too; it means this one if the error's
/// `data` names the URI.
fn reword_not_found(error: &mut Box<RawValue>, era: Era, uri: &str) {
    let Ok(mut object) = RawObject::parse(error.get()) else { return };
    let Some(code) = object.get("code").and_then(|code| code.get().parse::<i64>().ok()) else { return };
    let names_uri = || {
        let data = object.get("data").and_then(|data| RawObject::parse(data.get()).ok());
        data.and_then(|data| data.get_str("uri")).as_deref() == Some(uri)
    };
    let code = match (code, era) {
        (RESOURCE_NOT_FOUND, Era::Modern) => INVALID_PARAMS,
        (INVALID_PARAMS, Era::Legacy) if names_uri() => RESOURCE_NOT_FOUND,
        _ => return,
    };
    object.set("code", to_raw(&code));
    *error = object.to_raw();
}

fn for_client(entries: &[EntryTrace]) -> Vec<EntryTrace> {
    entries.iter().map(EntryTrace::for_client).collect()
}

/// Adds the trace to the details of an error.
fn add_trace_to_error(error: &mut RpcError, entries: &[EntryTrace]) {
    let data = error.data.get_or_insert_with(|| json!({}));
    if let Some(data) = data.as_object_mut() {
        data.insert(TRACE.to_owned(), json!(for_client(entries)));
    }
}

/// Adds the trace to the details of a server's error, if these are an object or there are none, and the memory budget has room.
fn add_trace_to_server_error(error: &mut Box<RawValue>, entries: &[EntryTrace], reservation: &Reservation) {
    let Ok(mut object) = RawObject::parse(error.get()) else { return };
    let data = object.get("data").filter(|data| data.get() != "null");
    let data = data.map_or_else(|| Ok(RawObject::default()), |data| RawObject::parse(data.get()));
    let (Ok(mut data), trace) = (data, to_raw(&for_client(entries))) else { return };
    if reservation.resize((error.get().len() + trace.get().len()) as u64).is_ok() {
        data.set(TRACE, trace);
        object.set("data", data.to_raw());
        *error = object.to_raw();
    }
}

/// Adds the trace to a result if the memory budget has room for both.
fn add_trace(result: &mut Box<RawValue>, entries: &[EntryTrace], reservation: &Reservation) {
    let trace = to_raw(&for_client(entries));
    if reservation.resize((result.get().len() + trace.get().len()) as u64).is_ok() {
        *result = with_meta(result, TRACE, &trace);
    }
}

/// The end of the use of a resource while the list of resources of its upstream is unread, which chains have to see.
fn list_unread(upstream: &str) -> CallEnd {
    let reason = Reason::ListUnread;
    let message = format!(
        "the gateway could not read resources/list of upstream {upstream}, so that it is not known which resources its plugins \
         withhold. Nothing was sent. Until it can, only what a list names can be used"
    );
    let data = json!({"reason": reason, "upstream": upstream});
    CallEnd::new(Reply::Error(RpcError::new(INTERNAL_ERROR, message).with_data(data)), CallOutcome::Refused, reason)
}
