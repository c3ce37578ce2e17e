//! Calls from sections of documents: those that are refused because their section is bound to another upstream.

use serde_json::json;

use super::meta::CallMeta;
use super::outcome::{CallEnd, Denial};
use super::recorder::CallRecorder;
use crate::domain::item::MAX_URI;
use crate::domain::reason::Reason;
use crate::domain::record::CallOutcome;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::engine::Engine;
use crate::engine::plan::bound_section::BoundSection;
use crate::engine::plan::snapshot::{Lookup, Snapshot};
use crate::engine::request::{CallRequest, Reply};

/// Returns the error for a request whose place is not valid.
pub(crate) fn invalid_section(why: &str) -> RpcError {
    RpcError::new(INVALID_PARAMS, why).with_data(json!({"reason": Reason::InvalidSection}))
}

impl CallEnd {
    /// The end of a call that names a place in a document which is not valid.
    pub(super) fn invalid_section(why: &str) -> Self {
        Self::new(Reply::Error(invalid_section(why)), CallOutcome::RpcError, Reason::InvalidSection)
    }
}

impl Engine {
    /// Returns the end of a call of an item that is not visible in the section that the call comes from.
    pub(super) fn outside_section(
        &self,
        snapshot: &Snapshot,
        lookup: &Lookup,
        request: &CallRequest<'_>,
        meta: &CallMeta,
        recorder: &mut CallRecorder,
    ) -> Option<CallEnd> {
        let section = snapshot.bound_section(meta.place())?;
        let (kind, linked) = (request.kind, &snapshot.linked.upstreams);
        let refusal = match lookup {
            Lookup::Found(found) => section.refusal(found.route.upstream),
            _ => section.refusal(section.index()),
        };
        match (lookup, refusal) {
            (Lookup::Found(found), Some(refusal)) => {
                let upstream = &linked[found.route.upstream].target;
                let shown = upstream.mask().masked(kind.shown(&found.route.item.name)).into_owned();
                recorder.routed(&upstream.plan.key.name, &shown);
                Some(self.refused(kind, Denial::refused(None, &refusal)))
            }
            (Lookup::Found(_), None) => None,
            (_, Some(refusal)) => Some(self.refused(kind, Denial::refused(None, &refusal))),
            (_, None) => Some(self.unknown_in(snapshot, request, &section)),
        }
    }

    /// Returns the end of a call of an item that is not found. Unlike elsewhere, it names no other items and upstreams.
    fn unknown_in(&self, snapshot: &Snapshot, request: &CallRequest<'_>, section: &BoundSection) -> CallEnd {
        let (kind, upstream) = (request.kind, &snapshot.linked.upstreams[section.index()]);
        self.refused_by(snapshot, kind, upstream, request.name).unwrap_or_else(|| {
            let name: String = request.name.chars().take(MAX_URI).collect();
            let hint =
                format!(" (in this section, only what upstream {} offers is there)", section.binding.upstream.name);
            CallEnd::unknown_item(kind, request.caller.era, &name, &hint)
        })
    }
}
