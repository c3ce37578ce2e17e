//! Forms of upstreams and pipelines in the previous plan that stay in force.

use super::names::Candidate;
use super::takes::takes;
use super::{is_invalid, switched_off};
use crate::config::input::{Inputs, Takes};
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{Plan, Refusal, UpstreamPlan};
use crate::domain::reason::Reason;

/// Returns an earlier form of an upstream or pipeline, if it was accepted. Refusals because of what the form refers to are left
/// out: they are decided anew for each plan.
pub(super) fn accepted(before: &UpstreamPlan) -> Option<UpstreamPlan> {
    let is_of_reference = |refusal: &Refusal| {
        let mut unavailable = before.plugins().filter_map(|step| step.unavailable.as_ref());
        refusal.reason == Reason::ModelRoleNotFound || unavailable.any(|step| step.reason == refusal.reason)
    };
    let is_accepted = before.refusing.as_ref().is_none_or(is_of_reference);
    is_accepted.then(|| UpstreamPlan { refusing: None, ..before.clone() })
}

/// Returns the last forms of the objects of this kind that are invalid now, without those that the gateway no longer takes.
/// `wanted` is what it takes; `None` means everything.
pub(super) fn kept_forms(
    kind: Kind,
    inputs: &Inputs,
    previous: Option<&Plan>,
    gateway: &ObjectKey,
    wanted: Option<&Takes>,
) -> Vec<Candidate> {
    let still_taken = |kept: &UpstreamPlan| {
        wanted.is_none_or(|wanted| takes(wanted, &gateway.namespace, &kept.key.namespace, &kept.labels, inputs))
    };
    let before = previous.iter().flat_map(|plan| &plan.upstreams).filter(|form| form.kind() == kind).enumerate();
    let kept = before.filter(|(_, form)| is_invalid(inputs, kind, &form.key) && still_taken(form));
    let candidate = |(place, form): (usize, &UpstreamPlan)| {
        let enabled = switched_off(inputs, kind, &form.key).map_or(form.enabled, |off| !off);
        let form = accepted(form).unwrap_or_else(|| form.clone());
        Candidate { place: Some(place), ..Candidate::new(UpstreamPlan { enabled, ..form }) }
    };
    kept.map(candidate).collect()
}
