//! Calls from sections of documents: those that are refused because their section is bound to another upstream.

use serde_json::json;

use super::Calls;
use super::arrived::Arrived;
use crate::domain::reason::Reason;
use crate::domain::record::CallOutcome;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::engine::chains::outcome::{CallEnd, Denial};
use crate::engine::chains::routed_call::Routed;
use crate::engine::request::Reply;

/// Returns the error for a request whose place is not valid.
pub(crate) fn invalid_section(why: &str) -> RpcError {
    RpcError::new(INVALID_PARAMS, why).with_data(json!({"reason": Reason::InvalidSection}))
}

impl CallEnd {
    /// The end of a call that names a place in a document which is not valid.
    fn invalid_section(why: &str) -> Self {
        Self::new(Reply::Error(invalid_section(why)), CallOutcome::RpcError, Reason::InvalidSection)
    }
}

impl Calls {
    /// Refuses a call that names a place in a document which is not valid.
    pub(super) fn place(&self, arrived: &Arrived<'_>) -> Result<(), CallEnd> {
        arrived.meta.section.as_ref().map_or_else(|why| Err(CallEnd::invalid_section(why)), |_| Ok(()))
    }

    /// Refuses a call of an item that is not visible in the section that the call comes from.
    pub(super) fn section(&self, call: &Routed<'_>) -> Result<(), CallEnd> {
        let section = call.snapshot.bound_section(call.meta.place());
        let refusal = section.and_then(|section| section.refusal(call.route.upstream));
        refusal.map_or(Ok(()), |refusal| Err(self.ends.refused(call.request.kind, Denial::refused(None, &refusal))))
    }
}
