//! Asks the rules about calls that wait for their client, when the client answers.

use serde_json::value::RawValue;

use super::Calls;
use super::finish::add_modern_members;
use super::own_tool::NamedCall;
use super::recorder::blank;
use crate::domain::budget::Category;
use crate::domain::item::ItemKind;
use crate::domain::upstream::InputRound;
use crate::engine::chains::chain::Nobody;
use crate::engine::chains::meta::CallMeta;
use crate::engine::chains::routed_call::Routed;
use crate::engine::plan::snapshot::Lookup;
use crate::engine::request::{CallRequest, Caller, Endpoint, Reply, TaskUse};

/// Returns the reply for a call that waits, here or at another replica, if the rules deny it: only the replica that the client
/// has reached knows its whole identity for certain. `caller` sends the client's answer for the item of this name and kind.
pub fn denied_waiting(
    calls: &Calls,
    caller: &Caller,
    endpoint: Endpoint<'_>,
    (kind, name): (ItemKind, &str),
    (input, meta): (Option<&RawValue>, Option<&RawValue>),
) -> Option<Reply> {
    let snapshot = calls.in_force.snapshot();
    snapshot.linked.rules.as_ref()?;
    let request = CallRequest {
        endpoint,
        caller,
        id: None,
        rpc_id: None,
        kind,
        name,
        input,
        meta,
        round: InputRound::default(),
        wants_progress: false,
        log_level: None,
        client: &Nobody,
        reservation: &calls.budget.reservation(Category::Request),
        check_mirrored: None,
        within: None,
        task: TaskUse::None,
    };
    let named = NamedCall::of(&snapshot, &request);
    let request = match &named {
        Some(named) => named.request(request),
        None => request,
    };
    // An item that is not listed here is decided about where the call waits.
    let Lookup::Found(found) = snapshot.usable(request.item().find(&snapshot), false) else { return None };
    let meta = CallMeta::read(meta);
    let call = Routed::new(&snapshot, &found, &request, &meta, &blank());
    let mut reply = calls.ends.denied_with(&call, &call.content, "received")?.reply;
    if let Reply::Result(result) = &mut reply {
        // Only calls of the modern era wait so.
        add_modern_members(result, kind, false, false);
    }
    Some(reply)
}
