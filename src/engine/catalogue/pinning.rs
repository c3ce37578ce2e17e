//! Tools whose definitions are not those that the owner of their upstream approved.

use std::collections::BTreeMap;

use crate::domain::ids::ObjectId;
use crate::domain::plan::{PinningPlan, UpstreamPlan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::engine::catalogue::upstream_state::Catalogue;

/// Maximum number of tools of an upstream whose first definition is remembered, which is as many as a list of approved
/// tools can have. Others count as not approved.
const MAX_REMEMBERED: usize = 512;
/// Maximum number of Problems of one upstream.
const MAX_TOLD: usize = 20;

/// Adds the digests of tools that were not seen before.
pub(crate) fn remember(first_seen: &mut BTreeMap<String, String>, pins: &BTreeMap<String, String>) {
    for (tool, digest) in pins {
        if first_seen.len() < MAX_REMEMBERED && !first_seen.contains_key(tool) {
            first_seen.insert(tool.clone(), digest.clone());
        }
    }
}

/// Returns the tools of the list whose definitions are not approved, with their digests; none without pinning.
/// `first_seen` counts if the owner approved no definitions.
pub(crate) fn unapproved<'a>(
    plan: &UpstreamPlan,
    list: Option<&'a Catalogue>,
    first_seen: &BTreeMap<String, String>,
) -> BTreeMap<&'a str, &'a str> {
    let (Some(pinning), Some(list)) = (&plan.pinning, list) else { return BTreeMap::new() };
    let approved = pinning.approved.as_ref().unwrap_or(first_seen);
    let changed = list.pins().filter(|(tool, digest)| approved.get(*tool) != Some(digest));
    changed.map(|(tool, digest)| (tool.as_str(), digest.as_str())).collect()
}

/// Returns the tools that are neither listed nor callable because their definitions are not approved.
pub(crate) fn withheld<'a>(
    plan: &UpstreamPlan,
    list: Option<&'a Catalogue>,
    first_seen: &BTreeMap<String, String>,
) -> BTreeMap<&'a str, &'a str> {
    let enforce = plan.pinning.as_ref().is_some_and(|pinning| pinning.enforce);
    if enforce { unapproved(plan, list, first_seen) } else { BTreeMap::new() }
}

/// Returns a Problem for each tool whose definition is not approved, up to a number of them.
pub(crate) fn changed(
    plan: &UpstreamPlan,
    list: Option<&Catalogue>,
    first_seen: &BTreeMap<String, String>,
) -> Vec<Problem> {
    let Some(pinning) = &plan.pinning else { return Vec::new() };
    let object = ObjectId::new(plan.kind(), plan.key.clone());
    let problem = |(tool, digest): (&str, &str)| {
        let found = if pinning.enforce { Problem::error } else { Problem::warning };
        found(
            Reason::DefinitionChanged,
            object.clone(),
            "spec.pinning.approved".to_owned(),
            message(pinning, tool, digest),
        )
    };
    unapproved(plan, list, first_seen).into_iter().take(MAX_TOLD).map(problem).collect()
}

fn message(pinning: &PinningPlan, tool: &str, digest: &str) -> String {
    let known = pinning.approved.as_ref().is_none_or(|approved| approved.contains_key(tool));
    let what = if known { "changed" } else { "is not approved" };
    let effect = if pinning.enforce { "it is withheld" } else { "it is offered all the same" };
    format!("{tool} {what}: {effect} until spec.pinning.approved names {digest}")
}
