//! Compiles upstreams: which ones a gateway serves, and in which form.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{FieldFault, bounds, id, is_invalid, switched_off, takes, values};
use crate::config::input::{Inputs, UpstreamInput};
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{GatewayTakes, NamedValue, Plan, Refusal, Takes, TransportPlan, UpstreamPlan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Returns the upstreams in routing order. `takes` decides which upstreams are served; `None` means all.
pub(super) fn compile(
    inputs: &Inputs,
    previous: Option<&Plan>,
    gateway: &ObjectKey,
    takes: Option<&GatewayTakes>,
    problems: &mut Vec<Problem>,
) -> Vec<UpstreamPlan> {
    let takes = takes.map(|takes| &takes.upstreams);
    let kept = kept(inputs, previous, gateway, takes);
    let mut plans: Vec<UpstreamPlan> = Vec::with_capacity(inputs.upstreams.len());
    let mut named: HashMap<String, ObjectKey> =
        kept.iter().map(|(_, kept)| (kept.key.name.clone(), kept.key.clone())).collect();
    for upstream in &inputs.upstreams {
        if !is_taken(inputs, gateway, takes, upstream, problems) {
            continue;
        }
        let plan = compile_one(inputs, previous, upstream, problems);
        match named.entry(plan.key.name.clone()) {
            Entry::Occupied(older) => problems.push(name_conflict(&plan.key, older.get())),
            Entry::Vacant(free) => {
                free.insert(plan.key.clone());
                plans.push(plan);
            }
        }
    }
    // A kept upstream stays at its previous position, or goes to the end if there are fewer upstreams now.
    for (place, kept) in kept {
        let enabled = switched_off(inputs, Kind::MCPUpstream, &kept.key).map_or(kept.enabled, |off| !off);
        plans.insert(place.min(plans.len()), UpstreamPlan { enabled, ..kept.clone() });
    }
    plans
}

/// Returns the previous forms of upstreams that are now invalid, with their positions. Upstreams that the gateway no
/// longer takes are left out.
fn kept<'a>(
    inputs: &Inputs,
    previous: Option<&'a Plan>,
    gateway: &ObjectKey,
    wanted: Option<&Takes>,
) -> Vec<(usize, &'a UpstreamPlan)> {
    let still_taken = |kept: &UpstreamPlan| {
        wanted.is_none_or(|wanted| takes::takes(wanted, &gateway.namespace, &kept.key.namespace, &kept.labels, inputs))
    };
    let running = previous.iter().flat_map(|plan| plan.upstreams.iter().enumerate());
    running.filter(|(_, kept)| is_invalid(inputs, Kind::MCPUpstream, &kept.key) && still_taken(kept)).collect()
}

fn is_taken(
    inputs: &Inputs,
    gateway: &ObjectKey,
    wanted: Option<&Takes>,
    upstream: &UpstreamInput,
    problems: &mut Vec<Problem>,
) -> bool {
    let key = &upstream.plan.key;
    let Some(wanted) = wanted else { return true };
    if !takes::takes(wanted, &gateway.namespace, &key.namespace, &upstream.plan.labels, inputs) {
        return false;
    }
    if takes::shared(upstream.share_with.as_ref(), &key.namespace, &gateway.namespace, inputs) {
        return true;
    }
    let message = format!("{key} is not shared with {} (its spec.shareWith)", gateway.namespace);
    problems.push(Problem::warning(Reason::RefNotPermitted, id(Kind::MCPUpstream, key), "spec.shareWith", message));
    false
}

fn name_conflict(newer: &ObjectKey, older: &ObjectKey) -> Problem {
    let message = format!("{older} has this name already on this gateway; give one of them another");
    Problem::error(Reason::NameConflict, id(Kind::MCPUpstream, newer), "metadata.name", message)
}

/// Returns the upstream as written; if that is not accepted, its last accepted form; if there is none, a form that
/// refuses calls.
fn compile_one(
    inputs: &Inputs,
    previous: Option<&Plan>,
    upstream: &UpstreamInput,
    problems: &mut Vec<Problem>,
) -> UpstreamPlan {
    let (reason, field, mut message) = match accept(inputs, upstream, problems) {
        Ok(plan) => return plan,
        Err(fault) => fault,
    };
    let key = &upstream.plan.key;
    let accepted = previous.and_then(|p| p.upstream(&key.name)).filter(|u| u.key == *key && u.refusing.is_none());
    let mut plan = accepted.cloned().unwrap_or_else(|| refusing(&upstream.plan, reason, &message));
    // `enabled` takes effect even if the rest of the object is wrong.
    plan.enabled = upstream.plan.enabled;
    message.push_str(match plan.refusing {
        _ if !plan.enabled => ". It is switched off",
        Some(_) => ". Its calls are refused",
        None => ". The last accepted form runs on",
    });
    problems.push(Problem::error(reason, id(Kind::MCPUpstream, key), field, message));
    plan
}

/// Returns a form of an upstream that was never accepted. It refuses calls, and leaves out the parts that could be
/// wrong.
fn refusing(written: &UpstreamPlan, reason: Reason, message: &str) -> UpstreamPlan {
    let refusing = Some(Refusal { reason, message: message.to_owned() });
    let mut plan = UpstreamPlan { refusing, include: Vec::new(), exclude: Vec::new(), ..written.clone() };
    if reason == Reason::TooLarge {
        (plan.overrides, plan.transport) = (Vec::new(), TransportPlan::None);
    }
    plan
}

/// Returns the upstream as written, or what is wrong with it.
fn accept(inputs: &Inputs, upstream: &UpstreamInput, problems: &mut Vec<Problem>) -> Result<UpstreamPlan, FieldFault> {
    let mut plan = upstream.plan.clone();
    if let Some((field, message)) = bad_glob(&plan) {
        return Err((Reason::InvalidPattern, field, message));
    }
    if let Some((field, message)) = upstream.managed.as_ref().and_then(|managed| managed.fault.clone()) {
        return Err((Reason::InvalidConfig, field, message));
    }
    let referred = upstream.server.as_ref();
    let referred = referred.and_then(|server| inputs.servers.get(&(plan.key.namespace.clone(), server.clone())));
    let managed = upstream.managed.as_ref().and_then(|_| inputs.managed.get(&plan.key));
    let found = referred.map(|url| ("spec.serverRef", url)).or(managed.map(|url| ("spec.managed", url)));
    match found {
        Some((_, Ok(url))) => plan.transport = TransportPlan::External { url: url.clone(), headers: Vec::new() },
        // Somebody else is at the address, so that no earlier form may be called either.
        Some((field, Err((Reason::NameTaken, message)))) => {
            let refusal = Refusal { reason: Reason::NameTaken, message: message.clone() };
            (plan.transport, plan.refusing) = (TransportPlan::None, Some(refusal));
            let problem = Problem::error(Reason::NameTaken, id(Kind::MCPUpstream, &plan.key), field, message.clone());
            problems.push(problem);
        }
        Some((field, Err((reason, message)))) => return Err((*reason, field.to_owned(), message.clone())),
        None => {}
    }
    let object = id(Kind::MCPUpstream, &plan.key);
    let values = values::resolve(inputs, &object, &upstream.values, problems)?;
    put_values(&mut plan.transport, values);
    bounds::check(inputs, &object, &plan)?;
    Ok(plan)
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
