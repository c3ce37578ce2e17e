//! What requests from a section see, if it is bound to an upstream (document 003, SectionBinding).

use std::sync::Arc;

use serde_json::json;

use super::snapshot::Snapshot;
use crate::config::sections::Sections;
use crate::domain::plan::{Plan, Refusal, SectionPlan};
use crate::domain::reason::Reason;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::domain::section::Place;

/// The section that a request comes from, bound to an upstream of a plan.
pub(crate) struct BoundSection {
    /// The binding that counts.
    pub(crate) binding: Arc<SectionPlan>,
    /// The index of the only upstream that is visible, or why none is.
    pub(crate) upstream: Result<usize, Refusal>,
}

impl BoundSection {
    /// Returns the section at a place, if it is bound. `None` means that every upstream is visible.
    pub(crate) fn of(sections: &Sections, plan: &Plan, place: &Place) -> Option<Self> {
        let binding = Arc::clone(sections.covering(place).first()?);
        let key = &binding.upstream;
        let served = plan.upstreams.iter().position(|upstream| upstream.key == *key);
        // A plan without the upstream is one from which a restriction took it.
        let gone = || Refusal { reason: Reason::UpstreamNotFound, message: format!("there is no MCPUpstream {key}") };
        let upstream = binding.refusing.clone().map_or_else(|| served.ok_or_else(gone), Err);
        Some(Self { upstream, binding })
    }

    /// Returns why an item of the upstream with this index is not visible; `None` if it is.
    pub(crate) fn refusal(&self, upstream: usize) -> Option<Refusal> {
        let SectionPlan { key, part, glob, upstream: bound, .. } = &*self.binding;
        let by = format!(
            "it comes from a section that SectionBinding {key} ({part} in {glob}) binds to upstream {}",
            bound.name
        );
        match &self.upstream {
            Ok(visible) if *visible == upstream => None,
            Ok(_) => {
                let message = format!("{by}: use what that upstream offers, or call from another part of the document");
                Some(Refusal { reason: Reason::OutsideSection, message })
            }
            Err(why) => Some(Refusal { reason: why.reason, message: format!("{by}, and {}", why.message) }),
        }
    }

    /// Whether items of the upstream with this index are visible.
    pub(crate) fn sees(&self, upstream: usize) -> bool {
        self.upstream.as_ref().is_ok_and(|visible| *visible == upstream)
    }

    /// Returns the index of the visible upstream, or [`NONE_VISIBLE`].
    pub(crate) fn index(&self) -> usize {
        self.upstream.as_ref().map_or(NONE_VISIBLE, |visible| *visible)
    }
}

/// An index that no upstream has.
const NONE_VISIBLE: usize = usize::MAX;

impl Snapshot {
    /// Returns the section at a place, if it is bound.
    pub(crate) fn bound_section(&self, place: Option<&Place>) -> Option<BoundSection> {
        BoundSection::of(&self.linked.sections, self.plan(), place?)
    }
}

/// Returns the error for a request whose place is not valid.
pub(crate) fn invalid_section(why: &str) -> RpcError {
    RpcError::new(INVALID_PARAMS, why).with_data(json!({"reason": Reason::InvalidSection}))
}
