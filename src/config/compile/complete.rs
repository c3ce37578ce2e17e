//! A plan whose plugins' code is partly in the gateway's own files: puts that in.

use std::collections::{BTreeMap, BTreeSet};

use super::lost_exports::Lost;
use super::plugin_code::{JudgedCode, WantedCode, file_code, judge, warn_of_missing_variables};
use super::plugins::still_runs;
use super::resolve::{report_entry, withhold, wrong_phase};
use super::{FieldFault, id};
use crate::config::input::{Files, ProtocolSetting};
use crate::domain::ids::Kind;
use crate::domain::plan::{ChainPlan, Plan, PluginPlan};
use crate::domain::plugin::Protocol;
use crate::domain::ports::CodeFacts;
use crate::domain::problem::Problem;

/// The field that names the file.
const FIELD: &str = "spec.source.path";

/// Puts the code of `files` into the plugins that have a path, with what it turned out to be. `previous` is the plan
/// that runs.
///
/// As everywhere, what is not accepted changes nothing that runs: a plugin whose code is not accepted keeps the form
/// that it has in `previous`. Where it has none there, it stays without code and cannot be loaded where it is used.
pub fn complete(
    mut plan: Plan,
    previous: Option<&Plan>,
    files: &Files,
    facts: &BTreeMap<String, CodeFacts>,
) -> (Plan, Vec<Problem>) {
    let mut problems = Vec::new();
    for plugin in plan.plugins.iter_mut().filter(|plugin| plugin.path.is_some()) {
        let kept = previous.and_then(|plan| kept_form(plan, plugin));
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

/// Checks that code exports still what chains of the plan run.
fn follows(before: &PluginPlan, after: &PluginPlan, chains: &[ChainPlan]) -> Result<(), FieldFault> {
    let lost = Lost::between(before, after, after.wanted_protocol.is_some(), after.wanted_phases.is_some());
    lost.and_then(|lost| lost.fault(&after.key, chains, FIELD)).map_or(Ok(()), Err)
}

/// A plugin with its code, and the text of that.
fn put_in(
    plugin: &PluginPlan,
    files: &Files,
    facts: &BTreeMap<String, CodeFacts>,
    problems: &mut Vec<Problem>,
) -> Result<(PluginPlan, String), FieldFault> {
    let path = plugin.path.as_deref().unwrap_or_default();
    let code = file_code(files, path).map_err(|why| (why.reason, FIELD.to_owned(), why.message))?;
    let parsing = BTreeSet::new();
    let wanted = WantedCode {
        field: FIELD,
        sha256: plugin.sha256.as_deref(),
        protocol: match plugin.wanted_protocol {
            None => ProtocolSetting::Auto,
            Some(Protocol::Once) => ProtocolSetting::Once,
            Some(Protocol::Lines) => ProtocolSetting::Lines,
            Some(Protocol::Module) => ProtocolSetting::Module,
        },
        reuse: plugin.reuse,
        phases: plugin.wanted_phases.as_deref(),
        parsing: &parsing,
    };
    let (judged, facts) = judge(&wanted, &code, facts)?;
    warn_of_missing_variables(plugin, facts, problems);
    let JudgedCode { digest, file_name, protocol, phases } = judged;
    let (folder, siblings) = (code.folder.map(Into::into), code.siblings.to_owned());
    let plugin = PluginPlan { digest, file_name, protocol, phases, folder, siblings, ..plugin.clone() };
    Ok((plugin, code.text.to_owned()))
}

/// The form of the plan that runs which may stand in for `plugin`, and its text, where it has one. It is switched on where
/// `plugin` is, and has no right that was taken from that.
fn kept_form<'p>(previous: &'p Plan, plugin: &PluginPlan) -> Option<(PluginPlan, &'p String)> {
    let form = previous.plugin(&plugin.key)?;
    let text = previous.code.get(&form.digest)?;
    let may_run = form.keeps_its_rights(&plugin.egress, &plugin.env);
    (may_run || !plugin.enabled).then(|| (PluginPlan { enabled: plugin.enabled, ..form.clone() }, text))
}

/// Makes entries unavailable whose code does not serve their chain's phase. The operator could not know: it has no code.
fn withhold_wrong_phases(plan: &mut Plan, problems: &mut Vec<Problem>) {
    let known = plan.plugins.iter().filter(|plugin| plugin.path.is_some() && !plugin.digest.is_empty());
    let known: BTreeMap<_, _> = known.map(|plugin| (&plugin.key, &plugin.phases)).collect();
    for chain in &mut plan.chains {
        for entry in chain.entries.iter_mut().filter(|entry| entry.unavailable.is_none()) {
            if known.get(&entry.plugin).is_some_and(|phases| !phases.contains(&chain.phase)) {
                let refusal = wrong_phase(&entry.plugin, chain.phase);
                withhold(entry, refusal);
                report_entry(&chain.key, entry, problems);
            }
        }
    }
}
