//! The status of an MCPGateway.

use serde_json::Value;

use super::chain::{refusal, refusing_reason, told};
use super::conditions::Conditions;
use super::input::{GatewayState, Pin, StatusInput, blind};
use super::serving::warnings;
use crate::api::gateway::status::{MCPGatewayStatus, SnapshotRef};
use crate::controller::GATEWAY_LABEL;
use crate::controller::condition_type::ConditionType;
use crate::controller::lowered::LoweredObject;
use crate::controller::pods::Pods;
use crate::domain::audit::AuditMode;
use crate::domain::plan::{ChainPlan, Refusal, Restrictions};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::report::Report;
use crate::domain::sandbox::{SandboxMode, SandboxState};

/// Maximum number of problems that a message lists.
const MAX_TOLD: usize = 5;

pub(super) fn status(input: &StatusInput, object: &LoweredObject, now: &str) -> Value {
    let key = &object.id.key;
    let state = input.gateways.get(key);
    let pods = input.pods.get(key).cloned().unwrap_or_default();
    let mut found = state.and_then(|state| state.planned.problems.get(&object.id)).cloned().unwrap_or_default();
    found.extend(state.and_then(|state| no_route_kind(state, object)));
    let mut set = Conditions::new(object, now).warned(warnings(input, object));
    let accepted = set.accepted(&found);
    found.extend(found_by_pods(object, &pods));
    set.resolved(&found);
    programmed(&mut set, input, object, &pods, accepted);
    refusing(&mut set, state, &found, &pods);
    let mode = state.and_then(|state| state.in_force.gateway.runtime.sandbox);
    sandbox_degraded(&mut set, mode, &pods);
    let problems = state.map(problems).unwrap_or_default();
    let not_started = not_started(state, &pods);
    partially_invalid(&mut set, input, not_started.as_ref(), &problems);
    let count = |n: usize| u32::try_from(n).ok();
    let on_current = pods.reports().filter(|report| Some(&report.revision) == state.and_then(|s| s.current.as_ref()));
    let status = MCPGatewayStatus {
        observed_generation: Some(object.generation()),
        live: Some(format!("{}/{}", on_current.count(), pods.ready.len())),
        replicas: Some(pods.all),
        ready_replicas: count(pods.ready.len()),
        selector: Some(format!("{GATEWAY_LABEL}={}", key.name)),
        ready_pods: Some(format!("{}/{}", pods.ready.len(), pods.all)),
        snapshot: state.and_then(snapshot),
        upstreams: state.and_then(|state| {
            count(state.in_force.upstreams.iter().filter(|upstream| upstream.pipeline().is_none()).count())
        }),
        tools: tools(&pods),
        chains: state.and_then(|state| count(state.in_force.chains.len())),
        problems: count(
            problems.len()
                + found.iter().filter(|problem| problem.is_error()).count()
                + usize::from(not_started.is_some()),
        ),
        conditions: Some(set.finish()),
        addresses: state.map(|state| state.addresses.clone()),
    };
    serde_json::to_value(status).unwrap_or_default()
}

/// Returns the problem of a gateway that asks for a route in a cluster without Gateway API.
fn no_route_kind(state: &GatewayState, object: &LoweredObject) -> Option<Problem> {
    let message = "the cluster does not have the kind HTTPRoute of gateway.networking.k8s.io/v1: install the CRDs of \
                   Gateway API, or take the field out";
    let problem = || Problem::error(Reason::GatewayAPINotInstalled, object.id.clone(), "spec.route", message);
    state.lacks_route_kind.then(problem)
}

/// Returns the errors that pods found in the gateway: in the Secrets that it names, which the operator does not read, and in what
/// it depends on.
fn found_by_pods(object: &LoweredObject, pods: &Pods) -> Vec<Problem> {
    let mut found: Vec<Problem> = Vec::new();
    for problem in pods.reported().flat_map(|reported| reported.problems(&object.id)) {
        if problem.is_error() && !found.contains(problem) {
            found.push(problem.clone());
        }
    }
    found
}

/// Pods that do not start beside others that serve.
struct NotStarted {
    message: String,
    /// Whether Kubernetes has given the rollout up: what the newest template says is not in effect, and will not be.
    is_given_up: bool,
}

/// Returns which pods do not start while others are ready. While none is, or the API server refuses them, `Programmed`
/// says so.
fn not_started(state: Option<&GatewayState>, pods: &Pods) -> Option<NotStarted> {
    let rollout = state.map(|state| &state.rollout);
    if pods.ready.is_empty() || rollout.is_some_and(|rollout| rollout.refused.is_some()) {
        return None;
    }
    let stalled = rollout.and_then(|rollout| rollout.stalled.as_ref());
    let told: Vec<_> = pods.failing.iter().chain(stalled).map(String::as_str).collect();
    (!told.is_empty()).then(|| NotStarted {
        message: format!("the pods that are ready serve on, and others do not start: {}", told.join("; ")),
        is_given_up: stalled.is_some(),
    })
}

/// Adds `PartiallyInvalid` if pods do not start, objects in the plan have problems or, if none has, the statuses of some
/// kind cannot be written.
fn partially_invalid(
    set: &mut Conditions,
    input: &StatusInput,
    not_started: Option<&NotStarted>,
    problems: &[Problem],
) {
    const TYPE: ConditionType = ConditionType::PartiallyInvalid;
    let mut told: Vec<_> = not_started.map(|pods| pods.message.clone()).into_iter().collect();
    told.extend(problems.iter().take(MAX_TOLD).map(ToString::to_string));
    let more = problems.len().saturating_sub(MAX_TOLD);
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    let message = format!("{}{rest}", told.join("; "));
    if let Some(pods) = not_started {
        let reason = Reason::WorkloadNotReady.as_str();
        match pods.is_given_up {
            true => set.stops(TYPE, reason, &message),
            false => set.bad_while_true(TYPE, reason, &message),
        }
    } else if let Some(first) = problems.first() {
        set.bad_while_true(TYPE, first.reason.as_str(), &message);
    } else if let Some((kind, words)) = input.refused.first_key_value() {
        let message = format!("no status of a {kind} can be written: {words}");
        set.bad_while_true(TYPE, Reason::Forbidden.as_str(), &message);
    }
}

/// Returns the errors of the objects in the gateway's plan, in a fixed order.
fn problems(state: &GatewayState) -> Vec<Problem> {
    let of_it = state.planned.problems.iter().filter(|(object, _)| state.planned.digests.contains_key(*object));
    let mut problems: Vec<_> = of_it.flat_map(|(_, found)| found).filter(|p| p.is_error()).cloned().collect();
    problems.sort_by(|a, b| (&a.object, &a.field, &a.message).cmp(&(&b.object, &b.field, &b.message)));
    problems
}

fn programmed(set: &mut Conditions, input: &StatusInput, object: &LoweredObject, pods: &Pods, accepted: bool) {
    const TYPE: ConditionType = ConditionType::Programmed;
    if let Some(why) = input.blind.first() {
        return set.unknown(TYPE, Reason::Pending.as_str(), &blind(why));
    }
    let Some(state) = input.gateways.get(&object.id.key) else {
        let unread = input.unread.get(&object.id.key).map_or("it is not compiled yet", String::as_str);
        return set.unknown(TYPE, Reason::Pending.as_str(), unread);
    };
    if let Some((reason, message)) = &state.fault {
        return set.no(TYPE, reason.as_str(), message);
    }
    let Some(current) = &state.current else {
        return set.unknown(TYPE, Reason::Pending.as_str(), "its snapshot is not written yet");
    };
    if let Pin::Lost(pinned) = &state.pin {
        let message =
            format!("spec.pinnedRevision: revision {pinned} is not kept; {current}, which ran before, runs on");
        return set.no(TYPE, Reason::RevisionNotFound.as_str(), &message);
    }
    if let Some(message) = &state.rollout.refused {
        return set.no(TYPE, Reason::PodsRefused.as_str(), message);
    }
    if pods.ready.is_empty() {
        return set.no(TYPE, Reason::NoReadyPods.as_str(), &none_ready(state, object, pods));
    }
    if let Some(message) = behind(state, current, pods) {
        return set.no(TYPE, Reason::Pending.as_str(), &message);
    }
    if let Some((pod, why)) = pods.ready.iter().find_map(|(pod, report)| Some((pod, report.as_ref().err()?))) {
        return set.unknown(TYPE, Reason::Pending.as_str(), &format!("pod {pod} does not report: {why}"));
    }
    if state.pin == Pin::Kept {
        let message = format!("spec.pinnedRevision: pods run {current}; newer revisions are compiled and wait");
        return set.no(TYPE, Reason::Pinned.as_str(), &message);
    }
    if !accepted {
        return set.no(TYPE, Reason::PreviousRevision.as_str(), "the last accepted form runs on; see Accepted");
    }
    set.yes(TYPE, TYPE.as_str(), "");
}

/// Describes the first difference between what a reporting pod runs and what it should run; `None` if there is none.
fn behind(state: &GatewayState, current: &str, pods: &Pods) -> Option<String> {
    let reported = pods.ready.iter().filter_map(|(pod, reported)| Some((pod, &reported.as_ref().ok()?.report)));
    let mut behind = reported.filter_map(|(pod, report)| {
        if report.revision != current {
            let why = report.pending.as_ref().map(|pending| format!(": {}", pending.message)).unwrap_or_default();
            return Some(format!("pod {pod} runs revision {}, not {current}{why}", report.revision));
        }
        if let Some(late) = report.not_in_force.first() {
            return Some(format!("pod {pod} does not run {late} in its newest form yet"));
        }
        let [theirs, ours] = [&report.restrictions, &state.restrictions];
        let [format, known] = [theirs, ours].map(|digest| Restrictions::format_of(digest));
        if format != known && !format.is_empty() && !known.is_empty() {
            return Some(format!(
                "pod {pod} is of another version, which reads what counts at once, such as the stop switch, in format \
                 {format}, and the operator writes {known}: bring gateway and operator to the same version"
            ));
        }
        (theirs != ours).then(|| format!("pod {pod} does not do yet what counts at once, such as the stop switch"))
    });
    behind.next()
}

/// Describes that no pod is ready, and what keeps the first one from it.
fn none_ready(state: &GatewayState, object: &LoweredObject, pods: &Pods) -> String {
    if pods.all == 0 && object.spec["replicas"] == 0 {
        return "spec.replicas is 0".into();
    }
    let label = format!("{GATEWAY_LABEL}={}", object.id.key.name);
    let told: Vec<_> = pods.failing.iter().chain(&state.rollout.stalled).map(String::as_str).collect();
    let mut why = if told.is_empty() { String::new() } else { format!(": {}", told.join("; ")) };
    if told.is_empty() && state.in_force.gateway.audit == AuditMode::Required {
        why.push_str("; with audit.mode Required, a pod is ready once it has reached its store: its log has the cause");
    }
    match pods.all {
        0 => format!("there is no pod with its label, {label}{why}"),
        all => format!("none of its {all} pods ({label}) is ready{why}"),
    }
}

/// Adds `Refusing` if every call is refused, or every call that some chain selects.
fn refusing(set: &mut Conditions, state: Option<&GatewayState>, found: &[Problem], pods: &Pods) {
    let Some(state) = state else { return };
    let gateway = &state.in_force.gateway;
    if gateway.stopped {
        set.stops(ConditionType::Refusing, Reason::Stopped.as_str(), "spec.stopped: every call is refused");
    } else if let Some(refusal) = &gateway.refusing {
        let told: Vec<_> = found.iter().filter(|p| p.reason == refusal.reason).map(|p| p.message.as_str()).collect();
        let message = if told.is_empty() { refusal.message.clone() } else { told.join("; ") };
        set.stops(ConditionType::Refusing, refusal.reason.as_str(), &message);
    } else if let Some(audit) = found.iter().find(|p| p.is_error() && p.reason == Reason::AuditUnavailable) {
        set.stops(ConditionType::Refusing, audit.reason.as_str(), &format!("{}: {}", audit.field, audit.message));
    } else if let Some((chain, refusal)) = state.in_force.chains.iter().find_map(refusing_chain) {
        let message = format!("calls that PluginChain {} selects are refused: {}", chain.key, refusal.message);
        set.bad_while_true(ConditionType::Refusing, refusing_reason(refusal).as_str(), &message);
    } else if let Some(message) = refused_by_pods(state, pods) {
        set.bad_while_true(ConditionType::Refusing, Reason::GuardUnavailable.as_str(), &message);
    }
}

/// Describes the first chain whose calls a pod refuses: of a pod that runs what it should run, if there is one.
fn refused_by_pods(state: &GatewayState, pods: &Pods) -> Option<String> {
    let is_current = |report: &Report| state.current.as_ref() == Some(&report.revision);
    let found = || pods.reports().filter_map(|report| Some((report, report.refusing.first()?)));
    let (report, refusing) = found().find(|(report, _)| is_current(report)).or_else(|| found().next())?;
    let by = if is_current(report) { String::new() } else { format!(" by pods of revision {}", report.revision) };
    Some(format!("calls that PluginChain {} selects are refused{by}: {}", refusing.chain, told(refusing)))
}

/// Returns the chain and the reason if every call that the chain selects is refused.
fn refusing_chain(chain: &ChainPlan) -> Option<(&ChainPlan, &Refusal)> {
    refusal(chain).map(|refusal| (chain, refusal))
}

/// Adds `SandboxDegraded` if a pod's kernel does not enforce all of the plugins' sandbox. If the sandbox is required,
/// plugins do not run on that pod.
pub(super) fn sandbox_degraded(set: &mut Conditions, mode: Option<SandboxMode>, pods: &Pods) {
    const TYPE: ConditionType = ConditionType::SandboxDegraded;
    let Some(lacks) = pods.reports().map(|report| &report.sandbox_lacks).find(|lacks| !lacks.is_empty()) else {
        return;
    };
    let sandbox = SandboxState { required: mode != Some(SandboxMode::BestEffort), lacks: lacks.clone() };
    let reason = Reason::KernelTooOld.as_str();
    match sandbox.refusal() {
        Some(refusal) => set.stops(TYPE, reason, &refusal),
        None => set.bad_while_true(TYPE, reason, &format!("the kernel lacks {}", sandbox.lacking())),
    }
}

fn snapshot(state: &GatewayState) -> Option<SnapshotRef> {
    Some(SnapshotRef { revision: Some(state.current.clone()?), ..SnapshotRef::default() })
}

/// Returns how many tools the pods offer: the highest number among them, so that a pod that has just started does not
/// lower it.
fn tools(pods: &Pods) -> Option<u32> {
    let offered =
        |report: &Report| report.upstreams.iter().map(|upstream| upstream.tool_count.unwrap_or_default()).sum();
    pods.reports().map(offered).max()
}
