//! Calls from sections of documents: those that are refused because their section is bound to another upstream.

use serde_json::json;

use super::arrived::Arrived;
use crate::domain::item::MAX_URI;
use crate::domain::reason::Reason;
use crate::domain::record::CallOutcome;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::engine::Engine;
use crate::engine::chains::meta::CallMeta;
use crate::engine::chains::outcome::{CallEnd, Denial};
use crate::engine::chains::routed_call::Routed;
use crate::engine::plan::snapshot::{Lookup, Snapshot};
use crate::engine::request::{CallRequest, Reply};

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

impl Engine {
    /// Refuses a call that names a place in a document which is not valid.
    pub(super) fn place(&self, arrived: &Arrived<'_>) -> Result<(), CallEnd> {
        arrived.meta.section.as_ref().map_or_else(|why| Err(CallEnd::invalid_section(why)), |_| Ok(()))
    }

    /// Refuses a call of an item that is not visible in the section that the call comes from.
    pub(super) fn section(&self, call: &Routed<'_>) -> Result<(), CallEnd> {
        let section = call.snapshot.bound_section(call.meta.place());
        let refusal = section.and_then(|section| section.refusal(call.route.upstream));
        refusal.map_or(Ok(()), |refusal| Err(self.refused(call.request.kind, Denial::refused(None, &refusal))))
    }

    /// Returns the end of a call of an item that is not there, or that no rule could allow its client: these two cannot be told
    /// apart. In a section, it names no other items and upstreams.
    pub(in crate::engine) fn not_there(
        &self,
        snapshot: &Snapshot,
        request: &CallRequest<'_>,
        meta: &CallMeta,
        lookup: &Lookup,
    ) -> CallEnd {
        let kind = request.kind;
        let Some(section) = snapshot.bound_section(meta.place()) else {
            return self.not_found(snapshot, request.item(), request.caller, lookup);
        };
        if let Some(refusal) = section.refusal(section.index()) {
            return self.refused(kind, Denial::refused(None, &refusal));
        }
        let upstream = &snapshot.linked.upstreams[section.index()];
        self.refused_by(snapshot, kind, upstream, request.name).unwrap_or_else(|| {
            let name: String = request.name.chars().take(MAX_URI).collect();
            let hint =
                format!(" (in this section, only what upstream {} offers is there)", section.binding.upstream.name);
            CallEnd::unknown_item(kind, request.caller.era, &name, &hint)
        })
    }
}
