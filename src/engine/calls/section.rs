//! Calls from sections of documents: those that are refused because their section is bound to another upstream.

use super::arrived::Arrived;
use crate::domain::reason::Reason;
use crate::domain::record::CallOutcome;
use crate::engine::chains::ends::CallEnds;
use crate::engine::chains::outcome::{CallEnd, Denial};
use crate::engine::chains::routed_call::Routed;
use crate::engine::plan::bound_section::invalid_section;
use crate::engine::request::Reply;

impl CallEnd {
    /// The end of a call that names a place in a document which is not valid.
    fn invalid_section(why: &str) -> Self {
        Self::new(Reply::Error(invalid_section(why)), CallOutcome::RpcError, Reason::InvalidSection)
    }
}

/// Refuses a call that names a place in a document which is not valid.
pub(super) fn place(arrived: &Arrived<'_>) -> Result<(), CallEnd> {
    arrived.meta.section.as_ref().map_or_else(|why| Err(CallEnd::invalid_section(why)), |_| Ok(()))
}

/// Refuses a call of an item that is not visible in the section that the call comes from.
pub(super) fn section(ends: &CallEnds, call: &Routed<'_>) -> Result<(), CallEnd> {
    let section = call.snapshot.bound_section(call.meta.place());
    let refusal = section.and_then(|section| section.refusal(call.route.upstream));
    refusal.map_or(Ok(()), |refusal| Err(ends.refused(call.request.kind, Denial::refused(None, &refusal))))
}
