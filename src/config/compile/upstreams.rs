//! Compiles upstreams: which ones a gateway serves, and in which form.

use super::kept::{accepted, kept_forms};
use super::names::{Candidate, is_same_object};
use super::{Faults, FieldFault, bounds, id, takes, values};
use crate::config::input::{Inputs, UpstreamInput};
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{GatewayTakes, NamedValue, Plan, Refusal, Takes, TransportPlan, UpstreamPlan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Returns the upstreams in routing order, and the kept forms of invalid ones. `takes` decides which upstreams are served; `None`
/// means all.
pub(super) fn compile(
    inputs: &Inputs,
    previous: Option<&Plan>,
    gateway: &ObjectKey,
    takes: Option<&GatewayTakes>,
    problems: &mut Vec<Problem>,
) -> Vec<Candidate> {
    let takes = takes.map(|takes| &takes.upstreams);
    let mut candidates = Vec::with_capacity(inputs.upstreams.len());
    for upstream in &inputs.upstreams {
        if is_taken(inputs, gateway, takes, upstream, problems) {
            candidates.push(Candidate::new(compile_one(inputs, previous, upstream, problems)));
        }
    }
    for kept in kept_forms(Kind::MCPUpstream, inputs, previous, gateway, takes) {
        let form = match taken_address(inputs, &kept.form.key) {
            Some(message) => refusing(&kept.form, Reason::NameTaken, message),
            None => kept.form,
        };
        candidates.push(Candidate { form, ..kept });
    }
    candidates
}

/// Refuses the calls of upstreams that would get tokens of users and may not have them sent where they say.
pub(super) fn refuse_exchanges(
    inputs: &Inputs,
    gateway: &ObjectKey,
    plans: &mut [UpstreamPlan],
    problems: &mut Vec<Problem>,
) {
    for plan in plans.iter_mut().filter(|plan| !may_exchange(inputs, gateway, plan)) {
        let message = "tokens of users are exchanged for servers of the gateway's own namespace, or at an issuer whose tokens the \
                       gateway accepts: set oauth.issuer to one of spec.authentication.jwt of the MCPGateway. Its calls are refused";
        let object = id(Kind::MCPUpstream, &plan.key);
        problems.push(Problem::error(Reason::RefNotPermitted, object, "spec.external.oauth.tokenExchange", message));
        *plan = UpstreamPlan { transport: TransportPlan::None, ..refusing(plan, Reason::RefNotPermitted, message) };
    }
}

/// Whether the upstream gets no tokens of users, or may have them sent where it says. Otherwise, whoever writes an upstream could
/// collect the tokens by which users are known to the gateway.
fn may_exchange(inputs: &Inputs, gateway: &ObjectKey, plan: &UpstreamPlan) -> bool {
    let TransportPlan::External { oauth: Some(oauth), .. } = &plan.transport else { return true };
    let accepted = inputs.gateway.iter().flat_map(|gateway| &gateway.plan.authentication.jwt);
    let mut issuers = accepted.map(|jwt| &*jwt.issuer);
    oauth.exchange.is_none()
        || plan.key.namespace == gateway.namespace
        || oauth.issuer.as_deref().is_some_and(|issuer| issuers.any(|known| known == issuer))
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

/// Returns the upstream as written; if that is not accepted, its last accepted form; if there is none, a form that
/// refuses calls. As long as it is not known whether a server that the operator runs has its address, a form that refuses
/// calls stays as it was, too: another message would be another revision of the gateway's plan.
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
    let is_awaited = reason == Reason::Pending && upstream.managed.is_some();
    let before = previous.and_then(|plan| plan.upstream(&key.name));
    let before = before.filter(|before| is_same_object(&upstream.plan, before));
    let before = before.and_then(|before| accepted(before).or_else(|| is_awaited.then(|| before.clone())));
    let mut plan = before.unwrap_or_else(|| refusing(&upstream.plan, reason, &message));
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

/// Returns why nothing may be sent to the address of a server that the operator runs, if somebody else is there.
pub(super) fn taken_address<'a>(inputs: &'a Inputs, upstream: &ObjectKey) -> Option<&'a str> {
    match inputs.managed.get(upstream)? {
        Err((Reason::NameTaken, message)) => Some(message),
        _ => None,
    }
}

/// Returns a form of an upstream that refuses calls, and leaves out the parts that could be wrong.
fn refusing(written: &UpstreamPlan, reason: Reason, message: &str) -> UpstreamPlan {
    let refusing = Some(Refusal { reason, message: message.to_owned() });
    let mut plan = UpstreamPlan { refusing, include: Vec::new(), exclude: Vec::new(), ..written.clone() };
    if matches!(reason, Reason::TooLarge | Reason::NameTaken) {
        (plan.overrides, plan.transport) = (Vec::new(), TransportPlan::None);
    }
    plan
}

/// Returns the upstream as written, or what is wrong with it.
fn accept(inputs: &Inputs, upstream: &UpstreamInput, problems: &mut Vec<Problem>) -> Result<UpstreamPlan, FieldFault> {
    let mut plan = upstream.plan.clone();
    let object = id(Kind::MCPUpstream, &plan.key);
    // No earlier form may be called either, whatever else is wrong.
    if let Some(message) = upstream.managed.as_ref().and_then(|_| taken_address(inputs, &plan.key)) {
        problems.push(Problem::error(Reason::NameTaken, object, "spec.managed", message.to_owned()));
        return Ok(refusing(&plan, Reason::NameTaken, message));
    }
    let mut faults = Faults::default();
    faults.0.extend(values::bad_globs("spec.tools.include", &plan.include));
    faults.0.extend(values::bad_globs("spec.tools.exclude", &plan.exclude));
    let managed = upstream.managed.as_ref().and_then(|managed| managed.fault.clone());
    faults.0.extend(managed.map(|(field, message)| (Reason::InvalidConfig, field, message)));
    let referred = upstream.server.as_ref();
    let referred = referred.and_then(|server| inputs.servers.get(&(plan.key.namespace.clone(), server.clone())));
    let managed = upstream.managed.as_ref().and_then(|_| inputs.managed.get(&plan.key));
    let found = referred.map(|url| ("spec.serverRef", url)).or(managed.map(|url| ("spec.managed", url)));
    match found {
        Some((_, Ok(url))) => plan.transport = TransportPlan::at(url),
        // An upstream that is too large or has another fault gets no server.
        Some((field, Err((reason, message)))) if faults.0.is_empty() => {
            bounds::check(inputs, &object, &plan)?;
            faults.0.push((*reason, field.to_owned(), message.clone()));
        }
        Some(_) | None => {}
    }
    let values = faults.take(values::resolve(inputs, &object, &upstream.values, problems));
    if let TransportPlan::External { .. } = plan.transport {
        faults.0.extend(values::bad_headers(inputs, &plan.key.namespace, &upstream.values));
    }
    let certificates = faults.take(values::resolve(inputs, &object, &upstream.tls, problems));
    put_values(&mut plan.transport, values.unwrap_or_default(), certificates.unwrap_or_default());
    faults.take(bounds::check(inputs, &object, &plan));
    faults.finish(Ok(plan), &object, problems)
}

fn put_values(transport: &mut TransportPlan, values: Vec<NamedValue>, certificates: Vec<NamedValue>) {
    match transport {
        TransportPlan::External { headers, tls, .. } => (*headers, tls.values) = (values, certificates),
        TransportPlan::Process { env, .. } => *env = values,
        TransportPlan::Pipeline(_) | TransportPlan::Plugin(_) | TransportPlan::None => {}
    }
}
