//! What a call is refused for before its arguments are checked against schemas.

use super::arrived::Arrived;
use crate::domain::json::doubled_key;
use crate::domain::reason::Reason;
use crate::domain::record::CallOutcome;
use crate::engine::chains::Chains;
use crate::engine::chains::content::Content;
use crate::engine::chains::ends::CallEnds;
use crate::engine::chains::outcome::{CallEnd, Denial};
use crate::engine::chains::routed_call::Routed;
use crate::engine::request::Reply;

/// Refuses a call whose upstream, or whose override of the tool, refuses calls.
pub(super) fn refusal(ends: &CallEnds, call: &Routed<'_>) -> Result<(), CallEnd> {
    match call.refusing() {
        Some(refusal) => Err(ends.refused(call.request.kind, Denial::refused(None, refusal))),
        None => Ok(()),
    }
}

/// Refuses arguments that have a key twice in one object, if a rule or a chain reads them: it might see another value than the
/// server.
pub(super) fn unique_keys(call: &Routed<'_>) -> Result<(), CallEnd> {
    let rules_read = || call.snapshot.linked.rules.as_ref().is_some_and(|rules| rules.read_calls());
    if !call.item.reads_arguments() && !rules_read() {
        return Ok(());
    }
    let doubled = doubled_key(&call.content);
    doubled.map_or(Ok(()), |steps| Err(CallEnd::doubled_argument(call.request.kind, &steps)))
}

/// Compares arguments with the headers that repeat them. The list of tools says which do, and may have been read for this call.
pub(super) fn mirrored_headers(call: &Routed<'_>) -> Result<(), CallEnd> {
    let checked = call.request.check_mirrored.map_or(Ok(()), |check| check(&call.item.mirrored));
    checked.map_err(|fault| CallEnd::new(Reply::Error(fault), CallOutcome::RpcError, Reason::HeaderMismatch))
}

/// Refuses a call on which an entry of either phase must run and cannot: the tool must not run if its answer would have to be
/// withheld.
pub(super) fn guards_can_run(chains: &Chains, arrived: &mut Arrived<'_>, call: &Routed<'_>) -> Result<(), CallEnd> {
    let (when, content) = (call.when(&call.content), || Content::Arguments(call.content.clone().into_owned()));
    let traces = &mut arrived.recorder.traces;
    let denial = chains.loads.cannot_guard(call.item.chains(), &when, content, traces);
    if call.request.open_task().is_some() {
        // They ran on the call that began the task.
        call.item.request.iter().flat_map(|selected| &selected.chain.entries).for_each(|_| _ = traces.advance());
    }
    denial.map_or(Ok(()), |denial| Err(chains.ends.refused(call.request.kind, denial)))
}
