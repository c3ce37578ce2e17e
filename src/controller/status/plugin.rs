//! The status of a Plugin.

use serde_json::Value;

use super::Truth;
use super::conditions::Set;
use super::grant::grant_command;
use super::serving::{Serving, gateways, live, problems, programmed, secrets, serving};
use crate::api::lower::Lowered;
use crate::api::plugin::status::{PluginStatus, RunningRevision};
use crate::controller::lowered::Read;
use crate::domain::digest::sha256_hex;
use crate::domain::ids::ObjectKey;
use crate::domain::plan::{NamedValue, PluginPlan, ValueSource};
use crate::domain::reason::Reason;
use crate::domain::report::{PluginState, SecretState};

pub(super) fn status(truth: &Truth, object: &Read, now: &str) -> Value {
    let serving = serving(truth, &object.id);
    let found = problems(truth, &serving, &object.id);
    let running = serving.iter().find_map(|s| s.state.planned.plan.plugin(&object.id.key));
    let mut set = Set::new(object, now);
    let fine = set.accepted(&found) & set.resolved(&found) & of_secrets(&mut set, &serving, running);
    if serving.is_empty() && fine {
        set.yes("Programmed", "NotUsed", "no chain that a gateway takes names it");
    } else {
        programmed(&mut set, truth, &serving, !fine, (Reason::NotUsed, "no chain that a gateway takes names it"));
    }
    failed_to_start(&mut set, object, &serving);
    let input = match &*object.lowered {
        Ok(Lowered::Plugin(input)) => Some(input),
        _ => None,
    };
    let digest = running.filter(|_| fine).map(|plan| plan.digest.clone()).filter(|digest| !digest.is_empty());
    let status = PluginStatus {
        observed_generation: Some(object.generation()),
        live: Some(live(&serving)),
        gateways: Some(gateways(&serving)),
        id: Some(sha256_hex(object.id.key.to_string().as_bytes())[..8].to_owned()),
        r#type: Some("middleware".to_owned()),
        role: input.map(|input| format!("{:?}", input.role)),
        sha256: digest,
        protocol: running.map(|plan| format!("{:?}", plan.protocol)),
        chains: Some(named_by(truth, &object.id.key)),
        running: running
            .filter(|plan| !plan.digest.is_empty())
            .map(|plan| RunningRevision { sha256: Some(plan.digest.clone()), ..RunningRevision::default() }),
        conditions: Some(set.finish()),
        ..PluginStatus::default()
    };
    serde_json::to_value(status).unwrap_or_default()
}

/// What pods say of the Secrets that it names. Says whether nothing is wrong with them.
pub(super) fn of_secrets(set: &mut Set, serving: &[Serving<'_>], plan: Option<&PluginPlan>) -> bool {
    told_of_secrets(set, serving, &plan.map(|plan| secret_keys(&plan.env)).unwrap_or_default())
}

/// The keys of Secrets among `values`.
pub(super) fn secret_keys(values: &[NamedValue]) -> Vec<(ObjectKey, String)> {
    let keys = values.iter().filter_map(|named| match &named.value {
        ValueSource::Secret { secret, key, optional: false } => Some((secret.clone(), key.clone())),
        _ => None,
    });
    keys.collect()
}

/// The same for any object whose plan names `named`.
pub(super) fn told_of_secrets(set: &mut Set, serving: &[Serving<'_>], named: &[(ObjectKey, String)]) -> bool {
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
    set.replace("ResolvedRefs", reason.as_str(), &message);
    false
}

/// Chains that name it.
fn named_by(truth: &Truth, key: &ObjectKey) -> u32 {
    let chains = truth.compiled.objects.iter().filter(|object| match &*object.lowered {
        Ok(Lowered::Chain(chain)) => chain.entries.iter().any(|entry| entry.plugin == *key),
        _ => false,
    });
    u32::try_from(chains.count()).unwrap_or(u32::MAX)
}

/// A plugin that a pod cannot start.
fn failed_to_start(set: &mut Set, object: &Read, serving: &[Serving<'_>]) {
    let name = object.id.key.to_string();
    let reports = serving.iter().filter_map(|s| s.pods).flat_map(|pods| pods.reports());
    let failed =
        reports.flat_map(|report| &report.plugins).find(|p| p.plugin == name && p.state == PluginState::Failed);
    if let Some(failed) = failed {
        set.stops("CrashLooping", "StartFailed", failed.message.as_deref().unwrap_or("it cannot be started"));
    }
}
