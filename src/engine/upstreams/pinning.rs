//! Tools whose definitions are not those that the owner of their upstream approved.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::ids::{Kind, ObjectId};
use crate::domain::plan::{PinningPlan, UpstreamPlan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::engine::upstreams::state::UpstreamState;

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

/// Returns the tools that the server lists and whose definitions are not approved; none without pinning.
pub(crate) fn unapproved(plan: &UpstreamPlan, state: &UpstreamState) -> BTreeSet<String> {
    let (Some(pinning), Some(list)) = (&plan.pinning, &state.catalogue) else { return BTreeSet::new() };
    let approved = pinning.approved.as_ref().unwrap_or(&state.first_seen);
    list.pins().filter(|(tool, digest)| approved.get(*tool) != Some(digest)).map(|(tool, _)| tool.clone()).collect()
}

/// Returns the tools that are neither listed nor callable because their definitions are not approved.
pub(crate) fn withheld(plan: &UpstreamPlan, state: &UpstreamState) -> BTreeSet<String> {
    if plan.pinning.as_ref().is_some_and(|pinning| pinning.enforce) { unapproved(plan, state) } else { BTreeSet::new() }
}

/// Returns a Problem for each tool whose definition is not approved.
pub(crate) fn changed(plan: &UpstreamPlan, state: &UpstreamState) -> Vec<Problem> {
    let (Some(pinning), Some(list)) = (&plan.pinning, &state.catalogue) else { return Vec::new() };
    let object = ObjectId::new(Kind::MCPUpstream, plan.key.clone());
    let tools = unapproved(plan, state);
    let problem = |(tool, digest): (&String, &String)| {
        let message = message(pinning, tool, digest);
        let found = if pinning.enforce { Problem::error } else { Problem::warning };
        found(Reason::DefinitionChanged, object.clone(), "spec.pinning.approved".to_owned(), message)
    };
    list.pins().filter(|(tool, _)| tools.contains(*tool)).take(MAX_TOLD).map(problem).collect()
}

fn message(pinning: &PinningPlan, tool: &str, digest: &str) -> String {
    let known = pinning.approved.as_ref().is_none_or(|approved| approved.contains_key(tool));
    let what = if known { "changed" } else { "is not approved" };
    let effect = if pinning.enforce { "it is withheld" } else { "it is offered all the same" };
    format!("{tool} {what}: {effect} until spec.pinning.approved names {digest}")
}
