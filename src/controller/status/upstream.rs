//! The status of an MCPUpstream.

use serde::Deserialize;
use serde_json::Value;

use super::conditions::Conditions;
use super::grant::{secret_keys, values_of};
use super::input::StatusInput;
use super::plugin::told_of_secrets;
use super::serving::{Serving, gateways, live, problems, programmed, serving, warnings};
use crate::api::upstream::managed;
use crate::api::upstream::status::{
    ConnectionState as Shown, MCPUpstreamStatus, ServerInfo, SpokenProtocol, ToolStatus, WorkloadRef,
};
use crate::controller::condition_type::ConditionType;
use crate::controller::lowered::LoweredObject;
use crate::controller::managed_state::ManagedServer;
use crate::domain::health::ConnectionState;
use crate::domain::plan::{TransportPlan, UpstreamPlan};
use crate::domain::reason::Reason;
use crate::domain::report::UpstreamReport;

/// The fields of the spec that determine the type of an upstream. Exactly one of them is set.
const TYPES: [&str; 6] = ["managed", "external", "process", "serverRef", "vectorSearch", "knowledgeAssistant"];

pub(super) fn status(input: &StatusInput, object: &LoweredObject, now: &str) -> Value {
    let serving = serving(input, &object.id);
    let found = problems(input, &serving, &object.id);
    let plan = serving.iter().find_map(|s| s.state.planned.upstream(&object.id.key));
    let secrets = plan.map(|plan| secret_keys(values_of(plan)));
    let mut set = Conditions::new(object, now).warned(warnings(input, object));
    let fine = set.accepted(&found) & set.resolved(&found);
    told_of_secrets(&mut set, &serving, &secrets.unwrap_or_default());
    let kept = !fine && plan.is_some_and(|plan| plan.refusing.is_none());
    let server = input.managed.get(&object.id.key).filter(|server| server.uid == object.uid());
    match server.and_then(unserved) {
        Some((reason, message)) => set.no(ConditionType::Programmed, reason.as_str(), &message),
        None => programmed(&mut set, input, &serving, kept, absent(input, object)),
    }
    let reports = reports(&serving, object);
    connected(&mut set, plan, &reports);
    approved(&mut set, plan, &serving, object, &reports);
    partial(&mut set, &serving, object);
    let mut status = MCPUpstreamStatus {
        observed_generation: Some(object.generation()),
        live: Some(live(&serving, kept)),
        gateways: Some(gateways(&serving)),
        r#type: TYPES.into_iter().find(|name| object.spec.get(name).is_some()).map(Into::into),
        address: plan.and_then(address),
        workload: workload(server, object),
        enable_acknowledged: object.status["enableAcknowledged"].as_str().map(Into::into),
        conditions: Some(set.finish()),
        ..MCPUpstreamStatus::default()
    };
    reported(&mut status, &reports);
    serde_json::to_value(status).unwrap_or_default()
}

/// Returns why the server that the operator runs for the upstream does not serve what the spec says.
fn unserved(server: &ManagedServer) -> Option<(Reason, String)> {
    let not_ready = || Some((Reason::WorkloadNotReady, server.not_ready.clone()?));
    server.fault.clone().or_else(not_ready)
}

/// Returns the workload that runs the server: the stored one while it is not known.
fn workload(server: Option<&ManagedServer>, object: &LoweredObject) -> Option<WorkloadRef> {
    let stored = || WorkloadRef::deserialize(object.status.get("workload")?).ok();
    let name = managed::workload(&object.id.key.name);
    let of_kind = |kind: &str| WorkloadRef { kind: Some(kind.to_owned()), name: Some(name) };
    server.and_then(|server| server.kind.map(of_kind).or_else(stored))
}

/// Returns why the upstream is in no gateway's plan.
fn absent(input: &StatusInput, object: &LoweredObject) -> (Reason, &'static str) {
    let found = input.gateways.values().filter_map(|state| state.planned.problems.get(&object.id)).flatten();
    if found.clone().any(|problem| problem.reason == Reason::NameConflict) {
        return (Reason::NameConflict, "another object has this name on every gateway that would take it");
    }
    if found.clone().any(|problem| problem.reason == Reason::RefNotPermitted) {
        return (Reason::NoGateway, "a gateway would take it, but it is not shared with that one (its spec.shareWith)");
    }
    (Reason::NoGateway, "no gateway takes it")
}

/// Returns the pods' reports about the upstream.
fn reports<'a>(serving: &[Serving<'a>], object: &LoweredObject) -> Vec<&'a UpstreamReport> {
    let name = object.id.key.to_string();
    serving.iter().filter_map(|s| s.pods).flat_map(|pods| pods.of_upstream(&name).collect::<Vec<_>>()).collect()
}

fn connected(set: &mut Conditions, plan: Option<&UpstreamPlan>, reports: &[&UpstreamReport]) {
    const TYPE: ConditionType = ConditionType::Connected;
    if plan.is_some_and(|plan| !plan.enabled) {
        return set.no(TYPE, "Disabled", "spec.enabled is false");
    }
    let Some(first) = reports.first() else {
        return set.unknown(TYPE, Reason::Pending.as_str(), "no ready pod has reported on it");
    };
    let worst = reports.iter().max_by_key(|report| rank(report)).unwrap_or(first);
    let why = worst.error.as_deref().unwrap_or_default();
    match worst.connection_state {
        _ if worst.auto_disabled => set.no(TYPE, "AutoDisabled", &format!("it left routing: {why}")),
        ConnectionState::Connected => set.yes(TYPE, TYPE.as_str(), ""),
        ConnectionState::Error => set.no(TYPE, failure(why), why),
        ConnectionState::Connecting | ConnectionState::Disconnected => set.unknown(TYPE, "Connecting", why),
    }
}

/// Returns the reason for a failure to connect: `Unauthorized`, `ProtocolError`, `RateLimited` or `NotLoaded` if the pod's error
/// begins with that word, otherwise `ConnectFailed`.
fn failure(why: &str) -> &'static str {
    let told = ["Unauthorized", "ProtocolError", "RateLimited", "NotLoaded"];
    told.into_iter().find(|word| why.starts_with(&format!("{word}: "))).unwrap_or("ConnectFailed")
}

fn rank(report: &UpstreamReport) -> u8 {
    match report.connection_state {
        _ if report.auto_disabled => 3,
        ConnectionState::Error => 2,
        ConnectionState::Connecting | ConnectionState::Disconnected => 1,
        ConnectionState::Connected => 0,
    }
}

/// Adds `ToolsApproved` if the definitions of the tools have to be approved.
fn approved(
    set: &mut Conditions,
    plan: Option<&UpstreamPlan>,
    serving: &[Serving<'_>],
    object: &LoweredObject,
    reports: &[&UpstreamReport],
) {
    const TYPE: ConditionType = ConditionType::ToolsApproved;
    if plan.is_none_or(|plan| plan.pinning.is_none()) {
        return;
    }
    let found = serving.iter().filter_map(|s| s.pods).flat_map(|pods| pods.reports());
    let changed = found
        .flat_map(|report| &report.problems)
        .find(|problem| problem.object.as_ref() == Some(&object.id) && problem.reason == Reason::DefinitionChanged);
    match changed {
        Some(changed) => set.no(TYPE, changed.reason.as_str(), &changed.message),
        None if reports.iter().any(|report| report.tool_count.is_some()) => set.yes(TYPE, TYPE.as_str(), ""),
        None => set.unknown(TYPE, Reason::Pending.as_str(), "no ready pod has the list of its tools"),
    }
}

/// Adds `PartiallyInvalid` if pods found something wrong with the upstream's tools.
fn partial(set: &mut Conditions, serving: &[Serving<'_>], object: &LoweredObject) {
    let reports = serving.iter().filter_map(|s| s.pods).flat_map(|pods| pods.reports());
    let wrong = reports.flat_map(|report| &report.problems).find(|problem| {
        problem.object.as_ref() == Some(&object.id)
            && matches!(
                problem.reason,
                Reason::ToolNotFound | Reason::InvalidOverride | Reason::ToolNameConflict | Reason::InvalidTool
            )
    });
    if let Some(wrong) = wrong {
        set.bad_while_true(ConditionType::PartiallyInvalid, wrong.reason.as_str(), &wrong.message);
    }
}

/// Sets the fields that depend on what pods report.
fn reported(status: &mut MCPUpstreamStatus, reports: &[&UpstreamReport]) {
    let Some(worst) = reports.iter().max_by_key(|report| rank(report)) else { return };
    status.connection_state = Some(match worst.connection_state {
        ConnectionState::Disconnected => Shown::Disconnected,
        ConnectionState::Connecting => Shown::Connecting,
        ConnectionState::Connected => Shown::Connected,
        ConnectionState::Error => Shown::Error,
    });
    status.failure_count = Some(reports.iter().map(|report| report.failures).max().unwrap_or_default());
    let disabled = reports.iter().filter(|report| report.auto_disabled).count();
    status.auto_disabled_pods = (disabled > 0).then(|| format!("{disabled}/{}", reports.len()));
    status.auto_disabled_time = reports.iter().filter_map(|report| report.auto_disabled_at.clone()).min();
    // The annotation counts as acknowledged once every pod reports the same value.
    let obeyed = reports.iter().all(|report| report.enable == worst.enable);
    status.enable_acknowledged = if obeyed { worst.enable.clone() } else { status.enable_acknowledged.take() };
    status.last_connected_time = reports.iter().filter_map(|report| report.last_connected_at.clone()).max();
    let Some(known) = reports.iter().filter(|report| report.tool_count.is_some()).max_by_key(|r| r.tool_count) else {
        return;
    };
    status.protocol = known.era.is_some().then(|| SpokenProtocol {
        era: known.era.clone(),
        version: known.version.clone(),
        transport: known.transport.clone(),
    });
    let named = known.server_name.is_some() || known.server_version.is_some();
    status.server =
        named.then(|| ServerInfo { name: known.server_name.clone(), version: known.server_version.clone() });
    status.tool_count = known.tool_count;
    status.tools_revision.clone_from(&known.tools_revision);
    let tools = known.tools.iter().map(|tool| ToolStatus {
        name: tool.name.clone(),
        r#as: tool.r#as.clone(),
        sha256: Some(tool.sha256.clone()),
        approved: tool.approved,
    });
    status.tools = Some(tools.collect());
}

fn address(plan: &UpstreamPlan) -> Option<String> {
    match &plan.transport {
        TransportPlan::External { url, .. } => Some(crate::domain::plan::address_of(url)),
        TransportPlan::Process { .. } | TransportPlan::Pipeline(_) | TransportPlan::Plugin(_) | TransportPlan::None => {
            None
        }
    }
}
