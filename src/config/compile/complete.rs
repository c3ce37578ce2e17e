//! Completes a plan with plugin code from the gateway's own files.

use std::collections::{BTreeMap, BTreeSet};

use super::code_warnings::warn;
use super::descriptors::describe;
use super::lost_exports::Lost;
use super::plugin_code::{IMAGE, JudgedCode, PATH, WantedCode, file_code};
use super::plugins::still_runs;
use super::resolve::{report_entry, withhold, wrong_phase};
use super::wrappers::judge;
use super::{FieldFault, id};
use crate::config::input::{Files, ProtocolSetting};
use crate::domain::ids::Kind;
use crate::domain::plan::{ChainPlan, GatewayPlan, Plan, PluginPlan};
use crate::domain::plugin::Protocol;
use crate::domain::ports::CodeFacts;
use crate::domain::problem::Problem;

/// Adds the code in `files` to the plugins with a path, together with the settings that follow from the code.
/// `previous` is the plan that runs.
///
/// A plugin whose code is not accepted keeps the form that it has in `previous`, if there is one that can still be
/// used; otherwise the plugin stays without code and cannot be loaded.
pub fn complete(
    mut plan: Plan,
    previous: Option<&Plan>,
    files: &Files,
    facts: &BTreeMap<String, CodeFacts>,
) -> (Plan, Vec<Problem>) {
    let mut problems = Vec::new();
    for plugin in plan.plugins.iter_mut().filter(|plugin| plugin.path.is_some()) {
        let kept = previous.and_then(|previous| kept_form(previous, &plan.gateway, plugin));
        let completed = put_in(plugin, files, facts, &mut problems).and_then(|(completed, text)| {
            kept.as_ref().map_or(Ok(()), |(form, _)| follows(form, &completed, &plan.chains))?;
            Ok((completed, text))
        });
        match completed {
            Ok((completed, text)) => {
                plan.code.insert(completed.digest.clone(), text);
                *plugin = completed;
            }
            Err((reason, field, mut message)) => {
                if let Some((form, text)) = kept {
                    message = still_runs(message, &form);
                    plan.code.insert(form.digest.clone(), text.clone());
                    *plugin = form;
                }
                problems.push(Problem::error(reason, id(Kind::Plugin, &plugin.key), field, message));
            }
        }
    }
    withhold_wrong_phases(&mut plan, &mut problems);
    (plan, problems)
}

/// Checks that `after` still exports the functions of `before` that `chains` run.
fn follows(before: &PluginPlan, after: &PluginPlan, chains: &[ChainPlan]) -> Result<(), FieldFault> {
    let lost = Lost::between(before, after, after.wanted_protocol.is_some(), after.wanted_phases.is_some());
    lost.and_then(|lost| lost.fault(&after.key, chains, field(after))).map_or(Ok(()), Err)
}

/// Returns the manifest field that names the file.
fn field(plugin: &PluginPlan) -> &'static str {
    if plugin.image.is_some() { IMAGE } else { PATH }
}

/// Returns the plugin, completed with what follows from its code, and the text of the code.
fn put_in(
    plugin: &PluginPlan,
    files: &Files,
    facts: &BTreeMap<String, CodeFacts>,
    problems: &mut Vec<Problem>,
) -> Result<(PluginPlan, String), FieldFault> {
    let path = plugin.path.as_deref().unwrap_or_default();
    let code = file_code(files, path).map_err(|why| (why.reason, field(plugin).to_owned(), why.message))?;
    let parsing = BTreeSet::new();
    let wanted = WantedCode {
        field: field(plugin),
        sha256: plugin.sha256.as_deref(),
        protocol: match plugin.wanted_protocol {
            None => ProtocolSetting::Auto,
            Some(Protocol::Once) => ProtocolSetting::Once,
            Some(Protocol::Lines) => ProtocolSetting::Lines,
            Some(Protocol::Module) => ProtocolSetting::Module,
        },
        kind: plugin.kind,
        reuse: plugin.reuse,
        phases: plugin.wanted_phases.as_deref(),
        parsing: &parsing,
    };
    let (judged, facts) = judge(&wanted, plugin.wrapper.as_ref(), &code, facts)?;
    let JudgedCode { digest, file_name, protocol, phases } = judged;
    let (folder, siblings) = (code.folder.map(Into::into), code.siblings.to_owned());
    let mut plugin = PluginPlan { digest, file_name, protocol, phases, folder, siblings, ..plugin.clone() };
    describe(&mut plugin, &code, facts)?;
    if let Some(facts) = facts {
        warn(&wanted, &plugin, facts, problems);
    }
    Ok((plugin, code.text.to_owned()))
}

/// Returns the form in the running plan that can replace `plugin`, with its code, or `None` if there is none. The form
/// is enabled if `plugin` is. An enabled form must not have a right that `plugin` no longer has.
fn kept_form<'p>(previous: &'p Plan, gateway: &GatewayPlan, plugin: &PluginPlan) -> Option<(PluginPlan, &'p String)> {
    let form = previous.plugin(&plugin.key)?;
    let text = previous.code.get(&form.digest)?;
    let may_run = form.keeps_its_rights(&plugin.egress, &plugin.env) && gateway.runtime.allows(form);
    (may_run || !plugin.enabled).then(|| (PluginPlan { enabled: plugin.enabled, ..form.clone() }, text))
}

/// Makes entries unavailable if their plugin's code does not support the chain's phase. The operator cannot check this,
/// because it does not have the code.
fn withhold_wrong_phases(plan: &mut Plan, problems: &mut Vec<Problem>) {
    let known = plan.plugins.iter().filter(|plugin| plugin.path.is_some() && !plugin.digest.is_empty());
    let known: BTreeMap<_, _> = known.map(|plugin| (&plugin.key, &plugin.phases)).collect();
    for chain in &mut plan.chains {
        for entry in chain.entries.iter_mut().filter(|entry| entry.unavailable.is_none()) {
            if known.get(&entry.plugin).is_some_and(|phases| !phases.contains(&chain.phase)) {
                let refusal = wrong_phase(&entry.plugin, chain.phase);
                withhold(entry, refusal);
                report_entry((&chain.key, chain.phase), entry, "", problems);
            }
        }
    }
}
