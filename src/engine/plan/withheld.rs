//! Why clients get an item that its server lists neither in lists nor by its name.

use std::collections::BTreeMap;
use std::fmt;

use super::link::LinkedUpstream;
use crate::domain::ids::ObjectKey;
use crate::domain::item::{Item, ItemKind};
use crate::domain::plan::GatewayPlan;

/// Why an item is withheld from clients. Its text is for operators: clients are not told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Withheld {
    /// This upstream is disabled.
    Disabled(ObjectKey),
    /// The upstream's `include` does not match the tool.
    NotIncluded,
    /// The upstream's `exclude` matches the tool.
    Excluded,
    /// The override at this place hides the tool.
    Hidden(usize),
    /// Only pipelines can use the tool.
    ForPipelines,
    /// Providers of models reject its schema, for this reason.
    Invalid(String),
    /// The definition of the tool, which has this digest, is not approved.
    NotApproved(String),
    /// The chains over the list withhold the item, for this reason; `None` if they have not seen it yet.
    ByChains(Option<String>),
    /// The list of resources is unread, over which chains may withhold the URI.
    Undecided,
    /// No list names the URI, and only those that passed the chains over the lists of its upstream are read.
    Unlisted,
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled(upstream) => {
                write!(f, "its upstream is disabled: spec.enabled of MCPUpstream {upstream} is false")
            }
            Self::NotIncluded => f.write_str("its upstream does not include it (spec.tools.include)"),
            Self::Excluded => f.write_str("its upstream excludes it (spec.tools.exclude)"),
            Self::Hidden(place) => write!(f, "its upstream hides it (spec.tools.overrides[{place}].hidden)"),
            Self::ForPipelines => f.write_str("its upstream offers it to pipelines only (spec.tools.offeredTo)"),
            Self::Invalid(fault) => write!(
                f,
                "providers of models reject it ({fault}): correct that at the server, or set spec.upstreams.invalidTools of the \
                 MCPGateway to Offer"
            ),
            Self::NotApproved(digest) => {
                write!(f, "its definition is not approved: spec.pinning.approved of its upstream has to name {digest}")
            }
            Self::ByChains(Some(why)) => f.write_str(why),
            Self::ByChains(None) => f.write_str("the chains over its list have not run on its definition yet"),
            Self::Undecided => f.write_str(
                "the gateway could not read resources/list of its upstream, so that it is not known whether chains withhold it",
            ),
            Self::Unlisted => f.write_str(
                "no list names it as it is written, and chains check the lists of its upstream, so that only URIs that passed \
                 them can be used",
            ),
        }
    }
}

impl Withheld {
    /// Returns the fault of a tool that is withheld for it, as the gateway says; `None` if it is not.
    pub(crate) fn by_fault(gateway: &GatewayPlan, item: &Item) -> Option<Self> {
        let fault = item.fault.as_ref().filter(|_| !gateway.offers_invalid_tools)?;
        Some(Self::Invalid(fault.to_string()))
    }

    /// Returns why the manifest of an upstream withholds an item; `None` if it does not. `unapproved` are the tools that are
    /// not approved, with their digests.
    pub(crate) fn by_manifest(
        upstream: &LinkedUpstream,
        kind: ItemKind,
        name: &str,
        unapproved: &BTreeMap<&str, &str>,
    ) -> Option<Self> {
        let plan = &upstream.target.plan;
        if !plan.enabled {
            return Some(Self::Disabled(plan.key.clone()));
        }
        if kind != ItemKind::Tool {
            return None;
        }
        if !upstream.include.admits(name) {
            return Some(Self::NotIncluded);
        }
        if upstream.exclude.names(name) {
            return Some(Self::Excluded);
        }
        if let Some(place) = plan.overrides.iter().position(|change| change.hidden && change.name == name) {
            return Some(Self::Hidden(place));
        }
        unapproved.get(name).map(|digest| Self::NotApproved((*digest).to_owned()))
    }
}
