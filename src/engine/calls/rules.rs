//! Asks the rules of the gateway about a call: before its request chains, and again if something changed what is sent.

use crate::domain::upstream::OutMembers;
use crate::engine::chains::ends::CallEnds;
use crate::engine::chains::outcome::CallEnd;
use crate::engine::chains::routed_call::Routed;

/// Asks the rules about a call as it was received.
pub(super) fn received_rules(ends: &CallEnds, call: &Routed<'_>) -> Result<(), CallEnd> {
    ends.denied_with(call, &call.content, "received").map_or(Ok(()), Err)
}

/// Asks the rules about a call as it is sent, if they read its content and that has changed.
pub(super) fn changed_rules(ends: &CallEnds, call: &Routed<'_>, sent: &OutMembers) -> Result<(), CallEnd> {
    if !call.snapshot.linked.rules.as_ref().is_some_and(|rules| rules.read_calls()) {
        return Ok(());
    }
    let content = call.as_content(sent);
    let denied = if content == call.content { None } else { ends.denied_with(call, &content, "changed") };
    denied.map_or(Ok(()), Err)
}
