//! Which upstreams a gateway serves, and how.

use super::{id, is_invalid, takes, values};
use crate::config::input::{GatewayInput, Inputs, UpstreamInput};
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{NamedValue, Plan, Refusal, TransportPlan, UpstreamPlan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// The upstreams in routing order.
pub(super) fn compile(
    inputs: &Inputs,
    previous: Option<&Plan>,
    gateway: &ObjectKey,
    problems: &mut Vec<Problem>,
) -> Vec<UpstreamPlan> {
    let mut plans: Vec<UpstreamPlan> = Vec::with_capacity(inputs.upstreams.len());
    for upstream in &inputs.upstreams {
        if !is_taken(inputs, gateway, upstream, problems) {
            continue;
        }
        let plan = compile_one(inputs, previous, upstream, problems);
        add(&mut plans, plan, problems);
    }
    // An upstream whose edit is not valid keeps its last form, and its place as far as that can be told.
    for (place, kept) in previous.iter().flat_map(|plan| plan.upstreams.iter().enumerate()) {
        if is_invalid(inputs, Kind::MCPUpstream, &kept.key) && !plans.iter().any(|p| p.key.name == kept.key.name) {
            plans.insert(place.min(plans.len()), kept.clone());
        }
    }
    plans
}

fn is_taken(inputs: &Inputs, gateway: &ObjectKey, upstream: &UpstreamInput, problems: &mut Vec<Problem>) -> bool {
    let key = &upstream.plan.key;
    let all = Default::default();
    let wanted = inputs.gateway.as_ref().map_or(&all, |g: &GatewayInput| &g.upstreams);
    let implicit = inputs.gateway.is_none();
    if !implicit && !takes::takes(wanted, &gateway.namespace, &key.namespace, &upstream.plan.labels, inputs) {
        return false;
    }
    if implicit || takes::shared(upstream.share_with.as_ref(), &key.namespace, &gateway.namespace, inputs) {
        return true;
    }
    let message = format!("{key} is not shared with {} (its spec.shareWith)", gateway.namespace);
    problems.push(Problem::warning(Reason::RefNotPermitted, id(Kind::MCPUpstream, key), "spec.shareWith", message));
    false
}

fn add(plans: &mut Vec<UpstreamPlan>, plan: UpstreamPlan, problems: &mut Vec<Problem>) {
    match plans.iter().find(|p| p.key.name == plan.key.name) {
        Some(older) => problems.push(Problem::error(
            Reason::NameConflict,
            id(Kind::MCPUpstream, &plan.key),
            "metadata.name",
            format!("{} has this name already on this gateway; give one of them another", older.key),
        )),
        None => plans.push(plan),
    }
}

fn compile_one(
    inputs: &Inputs,
    previous: Option<&Plan>,
    upstream: &UpstreamInput,
    problems: &mut Vec<Problem>,
) -> UpstreamPlan {
    let object = id(Kind::MCPUpstream, &upstream.plan.key);
    let mut plan = upstream.plan.clone();
    if let Some((field, message)) = bad_glob(&plan) {
        problems.push(Problem::error(Reason::InvalidPattern, object, field, message.clone()));
        let accepted = previous.and_then(|p| p.upstream(&plan.key.name)).filter(|u| u.key == plan.key);
        return accepted.cloned().unwrap_or_else(|| {
            plan.refusing = Some(Refusal { reason: Reason::InvalidPattern, message });
            (plan.include, plan.exclude) = (Vec::new(), Vec::new());
            plan
        });
    }
    match values::resolve(inputs, &object, &upstream.values, problems) {
        Ok(values) => put_values(&mut plan.transport, values),
        Err(refusal) => {
            plan.refusing.get_or_insert(refusal);
        }
    }
    plan
}

fn put_values(transport: &mut TransportPlan, values: Vec<NamedValue>) {
    match transport {
        TransportPlan::External { headers, .. } => *headers = values,
        TransportPlan::Process { env, .. } => *env = values,
        TransportPlan::None => {}
    }
}

fn bad_glob(plan: &UpstreamPlan) -> Option<(String, String)> {
    let lists = [("spec.tools.include", &plan.include), ("spec.tools.exclude", &plan.exclude)];
    lists.into_iter().find_map(|(field, globs)| values::bad_glob(field, globs))
}
