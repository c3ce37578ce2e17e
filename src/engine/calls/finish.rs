//! The last steps of a call: the call is counted and recorded, and its upstream is probed if the upstream may be down.

use serde_json::json;
use serde_json::value::RawValue;

use super::arrived::Arrived;
use crate::domain::apps;
use crate::domain::budget::Reservation;
use crate::domain::item::ItemKind;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::record::EntryTrace;
use crate::domain::rpc::{INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError};
use crate::domain::version::Era;
use crate::engine::chains::outcome::CallEnd;
use crate::engine::chains::tool_result::{says_caching, set_members, with_meta};
use crate::engine::request::{Endpoint, Reply};

/// The member that has the trace of a call, if the client asked for it.
const TRACE: &str = "hawsepipe.dev/trace";

/// Records the end of a call, and returns the reply for the client.
pub(super) fn finish(end: CallEnd, arrived: Arrived<'_>) -> Reply {
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
