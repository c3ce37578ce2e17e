//! Compiles upstreams: which ones a gateway serves, and in which form.

use super::fault::invalid;
use super::life_cycle::{Planned, PlannedKind};
use super::references::accepted;
use super::takes::Consent;
use super::world::World;
use super::{Faults, FieldFault, bounds, id, values};
use crate::config::input::{Inputs, Labels, UpstreamInput};
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{GatewayTakes, NamedValue, Plan, Refusal, Takes, TransportPlan, UpstreamPlan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// Upstreams, which become part of a plan if their own namespace shares them.
pub(super) struct Upstreams<'a>(pub(super) World<'a>);

impl PlannedKind for Upstreams<'_> {
    type Input = UpstreamInput;
    type Plan = UpstreamPlan;
    const KIND: Kind = Kind::MCPUpstream;
    const FIELD: &'static str = "upstreams";
    const WANTED: fn(&GatewayTakes) -> &Takes = |takes| &takes.upstreams;
    const WRITTEN: fn(&Inputs) -> &[UpstreamInput] = |inputs| &inputs.upstreams;
    const PLANNED: fn(&Plan) -> Vec<Planned<'_, UpstreamPlan>> = |plan| planned(plan, Kind::MCPUpstream);

    fn about(input: &UpstreamInput) -> (&ObjectKey, &Labels, Consent<'_>) {
        (&input.plan.key, &input.plan.labels, Consent::ShareWith(input.share_with.as_ref()))
    }

    fn accept(&self, input: &UpstreamInput, problems: &mut Vec<Problem>) -> Result<UpstreamPlan, Vec<FieldFault>> {
        accept(self.0.inputs, input, problems).map_err(|fault| vec![fault])
    }

    fn accepted(before: &UpstreamPlan) -> Option<UpstreamPlan> {
        accepted(before)
    }

    fn kept(&self, form: UpstreamPlan, input: Option<&UpstreamInput>) -> UpstreamPlan {
        let form = switched(self.0.inputs, form, input.map(|input| &input.plan));
        match taken_address(self.0.inputs, &form.key) {
            Some(message) if input.is_none() => refusing(&form, Reason::NameTaken, message),
            _ => form,
        }
    }

    fn refusing(&self, input: &UpstreamInput, before: Option<&UpstreamPlan>, fault: &FieldFault) -> UpstreamPlan {
        let (reason, _, message) = fault;
        // As long as it is not known whether a server that the operator runs has its address, a form that refuses calls stays
        // as it was: another message would be another revision of the gateway's plan.
        let awaited = before.filter(|_| *reason == Reason::Pending && input.managed.is_some());
        let refusing = || refusing(&input.plan, *reason, message);
        awaited.map_or_else(refusing, |before| self.kept(before.clone(), Some(input)))
    }

    fn resolve(&self, form: &mut UpstreamPlan) -> Vec<FieldFault> {
        self.0.resolve(form)
    }

    fn effect(form: &UpstreamPlan, runs_on: bool) -> &'static str {
        match runs_on {
            _ if !form.enabled => "It is switched off",
            true => "The last accepted form runs on",
            false => Self::REFUSED,
        }
    }
}

/// Returns an earlier form of an upstream or pipeline, switched off or on as it is `written`. `None` is one that is invalid.
pub(super) fn switched(inputs: &Inputs, form: UpstreamPlan, written: Option<&UpstreamPlan>) -> UpstreamPlan {
    let off = || invalid(inputs, form.kind(), &form.key).and_then(|invalid| invalid.off);
    let enabled = written.map(|written| written.enabled).or_else(|| off().map(|off| !off));
    UpstreamPlan { enabled: enabled.unwrap_or(form.enabled), ..form }
}

/// Returns the forms of upstreams or pipelines in a plan.
pub(super) fn planned(plan: &Plan, kind: Kind) -> Vec<Planned<'_, UpstreamPlan>> {
    let forms = plan.upstreams.iter().filter(|form| form.kind() == kind);
    forms.map(|form| (&form.key, Some(&form.labels), form)).collect()
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
