//! The status of a Plugin.

use std::collections::BTreeSet;

use serde_json::Value;

use super::conditions::Conditions;
use super::grant::{grant_command, secret_keys};
use super::input::StatusInput;
use super::serving::{
    Serving, found_by_pods, gateways, has, live, naming, problems, programmed, refused_by_gateways, secrets, serving,
    warnings,
};
use crate::api::lower::Lowered;
use crate::api::plugin::status::{PluginStatus, RunningRevision};
use crate::controller::condition_type::ConditionType;
use crate::controller::lowered::LoweredObject;
use crate::controller::pods::{Pods, Reported};
use crate::domain::digest::sha256_hex;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::PluginPlan;
use crate::domain::plugin::PluginKind;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::report::{PluginReport, PluginState, SecretState};

/// Maximum number of export names in a status, and maximum number of characters of one name.
const MAX_EXPORTS: usize = 64;
const MAX_EXPORT: usize = 128;

/// Why a plugin without faults is on no gateway.
const UNNAMED: &str = "no chain that a gateway takes, and that may use it, names it";

pub(super) fn status(input: &StatusInput, object: &LoweredObject, now: &str) -> Value {
    let serving = serving(input, &object.id);
    let (found, unloaded) = found(input, object, &serving);
    let cannot_run = unloaded || lacks_code(&serving, object);
    let running = serving.iter().find_map(|s| s.state.planned.plan.plugin(&object.id.key));
    let mut set = Conditions::new(object, now).warned(warnings(input, object));
    let as_written = set.accepted(&found) & set.resolved(&found);
    let fine = as_written & of_secrets(&mut set, &serving, running);
    set_programmed(&mut set, input, &serving, [as_written, fine, cannot_run]);
    failed_to_start(&mut set, object, &serving);
    let written = match &*object.lowered {
        Ok(Lowered::Plugin(written)) => Some(written),
        _ => None,
    };
    let code = input.compiled.code.get(&object.id.key);
    let reported = reported(&serving, object);
    // If only pods have the code, the status shows what they report, as long as they agree.
    let there = reported.first().filter(|first| code.is_none() && reported.iter().all(|r| r.digest == first.digest));
    let status = PluginStatus {
        observed_generation: Some(object.generation()),
        live: Some(live(&serving, !as_written)),
        gateways: Some(gateways(&serving)),
        id: Some(sha256_hex(object.id.key.to_string().as_bytes())[..8].to_owned()),
        r#type: Some(object.spec["type"].as_str().unwrap_or(PluginKind::Middleware.as_str()).to_owned()),
        role: written.map(|written| format!("{:?}", written.role)),
        sha256: code.map(|code| &code.digest).or(there.map(|there| &there.digest)).cloned(),
        size_bytes: code.map(|code| code.size as u64).or(there.and_then(|there| there.size_bytes)).map(bytes),
        exports: code.and_then(|code| code.exports.as_deref()).map(exports),
        protocol: protocol(input, &object.id.key, running, there.copied()),
        chains: Some(named_by(input, &object.id.key)),
        running: runs(object, &serving, &reported, as_written),
        conditions: Some(set.finish()),
    };
    serde_json::to_value(status).unwrap_or_default()
}

/// Sets `Programmed`. The flags say whether the plugin is accepted as it is written, whether nothing else is wrong with it,
/// and whether pods have it and cannot load it.
fn set_programmed(
    set: &mut Conditions,
    input: &StatusInput,
    serving: &[Serving<'_>],
    [as_written, fine, cannot_run]: [bool; 3],
) {
    let absent =
        (Reason::NotUsed, if as_written { UNNAMED } else { "no gateway runs it; see Accepted and ResolvedRefs" });
    if serving.is_empty() && fine {
        set.yes(ConditionType::Programmed, absent.0.as_str(), absent.1);
    } else {
        programmed(set, input, serving, !as_written && !cannot_run, absent);
    }
    if cannot_run {
        let message = "pods have it and cannot load it; see Accepted and ResolvedRefs";
        set.replace(ConditionType::Programmed, Reason::NotLoaded.as_str(), message);
    }
}

/// Returns what the operator, gateways and pods find wrong with the plugin, and whether that includes that pods cannot
/// load it.
fn found(input: &StatusInput, object: &LoweredObject, serving: &[Serving<'_>]) -> (Vec<Problem>, bool) {
    let mut found = problems(input, serving, &object.id);
    if serving.is_empty() {
        found.extend(refused_by_gateways(input, object));
    }
    found.extend(found_by_pods(serving, &object.id).into_iter().filter(is_of_code));
    let unloaded = not_loaded(serving, object).filter(|_| !found.iter().any(Problem::is_error));
    let is_unloaded = unloaded.is_some();
    found.extend(unloaded);
    (found, is_unloaded)
}

/// Returns the reports about the plugin from pods that can run it and have its code.
fn reported<'a>(serving: &[Serving<'a>], object: &LoweredObject) -> Vec<&'a PluginReport> {
    let name = object.id.key.to_string();
    let reports = serving.iter().filter_map(|s| s.pods).flat_map(|pods| pods.reports());
    let of_it = reports.flat_map(|report| &report.plugins).filter(|p| p.plugin == name && !p.digest.is_empty());
    of_it.filter(|plugin| plugin.state == PluginState::Enabled).collect()
}

fn bytes(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// Returns the names without duplicates, as far as the schema has room for them.
fn exports(names: &[String]) -> Vec<String> {
    let fits = |name: &&String| name.chars().count() <= MAX_EXPORT;
    let names: BTreeSet<_> = names.iter().filter(fits).take(MAX_EXPORTS).cloned().collect();
    names.into_iter().collect()
}

/// Returns the plugin's protocol: that of the running form, otherwise that of the current object, otherwise what a
/// pod reports.
fn protocol(
    input: &StatusInput,
    key: &ObjectKey,
    running: Option<&PluginPlan>,
    there: Option<&PluginReport>,
) -> Option<String> {
    let open = |plan: &&PluginPlan| plan.path.is_some() && plan.wanted_protocol.is_none();
    let known = running.filter(|plan| !open(plan)).map(|plan| plan.protocol);
    let known = known.or_else(|| input.compiled.protocols.get(key).copied());
    known.map(|protocol| format!("{protocol:?}")).or_else(|| there?.protocol.clone())
}

/// Returns the digest of the code that ready pods run, and the generation of the object that the code comes from. While
/// pods differ, the previous value stays as long as one of them still runs the code that it names.
fn runs(
    object: &LoweredObject,
    serving: &[Serving<'_>],
    reported: &[&PluginReport],
    accepted: bool,
) -> Option<RunningRevision> {
    let before: Option<RunningRevision> = serde_json::from_value(object.status["running"].clone()).ok();
    let still = before.filter(|before| reported.iter().any(|r| Some(&r.digest) == before.sha256.as_ref()));
    let first = reported.first()?;
    if reported.iter().any(|other| other.digest != first.digest) {
        return still;
    }
    let as_written = accepted && serving.iter().all(|s| s.live);
    let generation = if as_written { Some(object.generation()) } else { still.and_then(|still| still.generation) };
    Some(RunningRevision { sha256: Some(first.digest.clone()), generation })
}

/// If pods report a problem with a Secret that the plugin names, makes `ResolvedRefs` false. Returns true if there is
/// no such problem.
pub(super) fn of_secrets(set: &mut Conditions, serving: &[Serving<'_>], plan: Option<&PluginPlan>) -> bool {
    told_of_secrets(set, serving, &plan.map(|plan| secret_keys(&plan.env)).unwrap_or_default())
}

/// Like [`of_secrets`], for any object; `named` are the Secret keys that its plan names.
pub(super) fn told_of_secrets(set: &mut Conditions, serving: &[Serving<'_>], named: &[(ObjectKey, String)]) -> bool {
    let worst = secrets(serving, named);
    let Some((secret, state)) = worst.filter(|(_, state)| *state != SecretState::Found) else { return true };
    let granting = serving.iter().find(|s| s.key.namespace != secret.namespace);
    let (reason, message) = match state {
        SecretState::NotGranted => {
            let command =
                granting.map(|s| grant_command(&secret.namespace, s.key, &s.state.planned.plan)).unwrap_or_default();
            (Reason::SecretNotGranted, command)
        }
        SecretState::Invalid => (Reason::InvalidSecret, format!("a value in Secret {secret} cannot be used as it is")),
        SecretState::Found | SecretState::NotFound => {
            (Reason::SecretNotFound, format!("pods do not have every key that is named of Secret {secret}"))
        }
    };
    set.replace(ConditionType::ResolvedRefs, reason.as_str(), &message);
    false
}

/// Returns how many chains name the plugin.
fn named_by(input: &StatusInput, key: &ObjectKey) -> u32 {
    u32::try_from(naming(input, key).count()).unwrap_or(u32::MAX)
}

/// Returns the error of a pod that could not load the plugin as planned. If there is an earlier form, the next plan
/// uses it.
fn not_loaded(serving: &[Serving<'_>], object: &LoweredObject) -> Option<Problem> {
    let name = object.id.key.to_string();
    let failed = serving.iter().find_map(|s| {
        let reports = s.pods?.reports().filter(|report| has(s.state, &report.revision, &object.id, s.digest));
        reports.flat_map(|report| &report.not_loaded).find(|failed| failed.plugin == name)
    })?;
    Some(Problem::error(Reason::NotLoaded, object.id.clone(), "spec.source", failed.message.clone()))
}

/// Whether a Problem that a pod reports of a plugin is about its code. What is wrong with Secrets is told with the
/// command that grants them, and a form that was not loaded has a report of its own.
fn is_of_code(problem: &Problem) -> bool {
    use Reason::{InvalidSecret, NotLoaded, SecretNotFound, SecretNotGranted};
    !matches!(problem.reason, InvalidSecret | NotLoaded | SecretNotFound | SecretNotGranted)
}

/// Returns the pods that cannot run the plugin in any form, each with what it says of that.
fn failed<'a>(serving: &[Serving<'a>], object: &LoweredObject) -> Vec<(&'a Reported, &'a PluginReport)> {
    let name = object.id.key.to_string();
    let of = |reported: &'a Reported| {
        let failed = |p: &&PluginReport| p.plugin == name && p.state == PluginState::Failed;
        Some((reported, reported.report.plugins.iter().find(failed)?))
    };
    serving.iter().filter_map(|s| s.pods).flat_map(Pods::reported).filter_map(of).collect()
}

/// Whether a pod cannot run the plugin in any form, because it lacks code that is accepted.
fn lacks_code(serving: &[Serving<'_>], object: &LoweredObject) -> bool {
    let is_told = |reported: &Reported| reported.problems(&object.id).any(|p| p.is_error() && is_of_code(p));
    failed(serving, object).into_iter().any(|(reported, _)| is_told(reported))
}

/// Adds that a pod cannot start the plugin, unless the pod names another cause, which is told elsewhere. That a pod has
/// no sandbox is told beside a Secret that is missing, because it stays when the Secret is there.
fn failed_to_start(set: &mut Conditions, object: &LoweredObject, serving: &[Serving<'_>]) {
    let is_cause = |problem: &Problem| problem.is_error() && problem.reason != Reason::NotLoaded;
    let no_sandbox = Reason::SandboxUnavailable.as_str();
    let lacks_sandbox = |plugin: &PluginReport| plugin.reason.as_deref() == Some(no_sandbox);
    let counts = |(reported, plugin): &(&Reported, &PluginReport)| {
        lacks_sandbox(plugin) || !reported.problems(&object.id).any(is_cause)
    };
    let Some((_, failed)) = failed(serving, object).into_iter().find(counts) else { return };
    let message = failed.message.as_deref().unwrap_or("it cannot be started");
    if lacks_sandbox(failed) {
        set.replace(ConditionType::Programmed, no_sandbox, message);
    } else {
        set.stops(ConditionType::CrashLooping, "StartFailed", message);
    }
}
