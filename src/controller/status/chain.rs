//! The status of a PluginChain.

use serde_json::Value;

use super::conditions::Conditions;
use super::input::StatusInput;
use super::serving::{Serving, found_by_pods, gateways, has, live, problems, programmed, serving, warnings};
use crate::api::chain::status::PluginChainStatus;
use crate::api::lower::Lowered;
use crate::controller::compiled::MANY;
use crate::controller::condition_type::ConditionType;
use crate::controller::lowered::LoweredObject;
use crate::controller::pods::Reported;
use crate::domain::ids::ObjectId;
use crate::domain::plan::{ChainPlan, EntryPlan, Refusal};
use crate::domain::plugin::{FailurePolicy, Mode};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::report::RefusingReport;

pub(super) fn status(input: &StatusInput, object: &LoweredObject, now: &str) -> Value {
    let serving = serving(input, &object.id);
    let of_pods = found_by_pods(&serving, &object.id);
    let found = [problems(input, &serving, &object.id), of_pods.clone()].concat();
    let forms: Vec<_> = serving.iter().filter_map(|s| s.state.in_force.chain(&object.id.key)).collect();
    let mut set = Conditions::new(object, now).warned(warnings(input, object));
    let fine = set.accepted(&found) & set.resolved(&found);
    refusing(&mut set, object, &forms, &serving);
    let in_force = forms.iter().all(|form| form.refusing.is_none());
    // An entry that became unavailable takes effect immediately, so no older form of the chain runs.
    let unavailable =
        !of_pods.is_empty() || forms.iter().flat_map(|form| &form.entries).any(|e| e.unavailable.is_some());
    let kept = !fine && in_force && !unavailable;
    if let (true, Some(message)) = (in_force, selects_nothing(&serving, object)) {
        set.no(ConditionType::Programmed, Reason::NoUpstreams.as_str(), &message);
    } else {
        programmed(&mut set, input, &serving, kept, absent(input, object));
    }
    partial(&mut set, input, &found, &serving, &forms);
    let first = forms.first();
    let status = PluginChainStatus {
        observed_generation: Some(object.generation()),
        live: Some(live(&serving, kept)),
        gateways: Some(gateways(&serving)),
        revision: first.map(|form| form.revision.clone()),
        runs: Some(runs(object, first.copied())),
        entries: entries(object),
        upstreams: Some(upstreams(&serving, object)),
        conditions: Some(set.finish()),
    };
    serde_json::to_value(status).unwrap_or_default()
}

/// Returns a message if the chain is in force on a gateway but covers no upstream of any gateway, so that it has no
/// effect.
fn selects_nothing(serving: &[Serving<'_>], object: &LoweredObject) -> Option<String> {
    let covers = |s: &Serving<'_>| s.state.planned.covered.get(&object.id.key).is_some_and(|covered| *covered > 0);
    let first = serving.first().filter(|_| !serving.iter().any(covers))?;
    Some(format!(
        "it selects no upstream that {} serves, so it does nothing: its spec.upstreams must name some, or be left out",
        first.key
    ))
}

/// Returns why the chain is in no gateway's plan.
fn absent(input: &StatusInput, object: &LoweredObject) -> (Reason, &'static str) {
    let found = input.gateways.values().filter_map(|state| state.planned.problems.get(&object.id)).flatten();
    if found.clone().any(|problem| problem.reason == Reason::NotTaken) {
        return (Reason::NotTaken, "no gateway takes it: a gateway's spec.chains and its own spec.gateways must agree");
    }
    (Reason::NoGateway, "no gateway is there that takes it")
}

/// Whether calls that the chain selects are refused because this entry cannot run.
fn refuses(entry: &EntryPlan) -> bool {
    entry.unavailable.is_some() && must_run(entry)
}

fn must_run(entry: &EntryPlan) -> bool {
    entry.enabled && entry.mode == Mode::Enforce && entry.failure_policy == FailurePolicy::Fail
}

/// Returns which calls are not refused although one of these entries cannot run.
fn exception(form: &ChainPlan, unable: impl Fn(&EntryPlan) -> bool) -> &'static str {
    let entries = form.entries.iter().filter(|entry| form.refusing.is_none() && unable(entry));
    entries.map(|entry| entry.exception(form.phase)).min_by_key(|except| except.len()).unwrap_or_default()
}

/// Returns why each call that the chain selects is refused; `None` if calls are not refused.
pub(super) fn refusal(form: &ChainPlan) -> Option<&Refusal> {
    let entry = || form.entries.iter().find(|entry| refuses(entry));
    form.refusing.as_ref().or_else(|| entry().and_then(|entry| entry.unavailable.as_ref()))
}

/// Returns the reason to show for refused calls: `Pending` if the plugin's code is still being parsed, else
/// `GuardUnavailable`.
pub(super) fn refusing_reason(refusal: &Refusal) -> Reason {
    if refusal.reason == Reason::Pending { Reason::Pending } else { Reason::GuardUnavailable }
}

/// Adds `Refusing` if the plan refuses the calls that the chain selects, or if pods report that they refuse them. What
/// only pods say that run another form of the chain, or other code of its plugins, is not said of the one that is written.
fn refusing(set: &mut Conditions, object: &LoweredObject, forms: &[&ChainPlan], serving: &[Serving<'_>]) {
    let by_pods = |is_planned: bool| serving.iter().find_map(|s| refused_by_pods(s, &object.id, is_planned));
    let each = "each call that it selects is refused";
    let (reason, message) = if let Some((form, refusal)) = forms.iter().find_map(|form| Some((form, refusal(form)?))) {
        (refusing_reason(refusal), format!("{each}{}: {}", exception(form, refuses), refusal.message))
    } else if let Some(why) = by_pods(true) {
        let except = forms.first().map_or("", |form| exception(form, must_run));
        (Reason::GuardUnavailable, format!("{each}{except}: {why}"))
    } else if let Some(why) = by_pods(false) {
        let message = format!("pods of another revision of it refuse each call that their revision selects: {why}");
        (Reason::GuardUnavailable, message)
    } else {
        return;
    };
    set.stops(ConditionType::Refusing, reason.as_str(), &message);
}

/// Returns the words and the reason of the first pod of a gateway that refuses the calls that the chain selects, and how
/// many of the gateway's ready pods do so if not all of them do. Only pods count that have the chain as it is planned or,
/// unless `is_planned`, those that do not.
fn refused_by_pods(serving: &Serving<'_>, id: &ObjectId, is_planned: bool) -> Option<String> {
    let pods = serving.pods?;
    let name = id.key.to_string();
    let has_planned = |reported: &Reported| has(serving.state, &reported.report.revision, id, serving.digest);
    let counted = pods.reported().filter(|reported| has_planned(reported) == is_planned);
    let refusing: Vec<_> = counted.filter_map(|reported| reported.refusing(&name)).collect();
    let first = refusing.first()?;
    let (some, all) = (refusing.len(), pods.ready.len());
    let of =
        if some < all { format!("; so say {some} of the {all} ready pods of {}", serving.key) } else { String::new() };
    Some(format!("{}{of}", told(first)))
}

/// Returns the words and the reason of a pod that refuses the calls that a chain selects.
pub(super) fn told(refusing: &RefusingReport) -> String {
    let RefusingReport { message, reason, .. } = refusing;
    if message.is_empty() { format!("a plugin of it cannot run ({reason})") } else { format!("{message} ({reason})") }
}

/// Adds conditions that are bad but leave the chain ready.
fn partial(
    set: &mut Conditions,
    input: &StatusInput,
    found: &[Problem],
    serving: &[Serving<'_>],
    forms: &[&ChainPlan],
) {
    let first = |reason: Reason| found.iter().find(|problem| problem.reason == reason);
    if let Some(weak) = first(Reason::GuardWeakened) {
        set.bad_while_true(
            ConditionType::FailsOpen,
            weak.reason.as_str(),
            &format!("{}: {}", weak.field, weak.message),
        );
    }
    let older: Vec<_> = forms.iter().flat_map(|form| &form.entries).filter(|e| is_older(input, serving, e)).collect();
    let passed_by = || {
        forms
            .iter()
            .flat_map(|form| &form.entries)
            .filter(|e| e.enabled && !refuses(e))
            .find_map(|e| e.unavailable.as_ref())
    };
    if let Some(entry) = older.first() {
        let message = format!("Plugin {} runs on in its last accepted form", entry.plugin);
        set.bad_while_true(ConditionType::PartiallyInvalid, Reason::PreviousRevision.as_str(), &message);
    } else if let Some(refusal) = passed_by() {
        let is_pending = refusal.reason == Reason::Pending;
        let reason = if is_pending { refusal.reason } else { Reason::EntryUnavailable };
        set.bad_while_true(ConditionType::PartiallyInvalid, reason.as_str(), &refusal.message);
    } else if let Some(empty) = first(Reason::NothingEnabled) {
        set.bad_while_true(ConditionType::PartiallyInvalid, empty.reason.as_str(), &empty.message);
    }
}

/// Whether an entry runs an older form of its plugin, because the current one is not accepted or cannot be loaded.
fn is_older(input: &StatusInput, serving: &[Serving<'_>], entry: &EntryPlan) -> bool {
    let lost = |s: &Serving<'_>| s.state.planned.not_loaded.iter().any(|form| form.is_of(&entry.plugin));
    let wrong = input.compiled.wrong_plugins.contains(&entry.plugin) || serving.iter().any(lost);
    entry.enabled && entry.unavailable.is_none() && wrong
}

/// Returns the names of the plugins of the enabled entries, in order, separated by commas.
fn runs(object: &LoweredObject, form: Option<&ChainPlan>) -> String {
    let name = |key: &crate::domain::ids::ObjectKey| match key.namespace == object.id.key.namespace {
        true => key.name.clone(),
        false => key.to_string(),
    };
    let names: Vec<_> = match (form, &*object.lowered) {
        (Some(form), _) => form.entries.iter().filter(|e| e.enabled).map(|e| name(&e.plugin)).collect(),
        (None, Ok(Lowered::Chain(chain))) => {
            chain.entries.iter().filter(|e| e.enabled).map(|e| name(&e.plugin)).collect()
        }
        _ => Vec::new(),
    };
    names.join(",").chars().take(2048).collect()
}

fn entries(object: &LoweredObject) -> Option<u32> {
    match &*object.lowered {
        Ok(Lowered::Chain(chain)) => u32::try_from(chain.entries.len()).ok(),
        _ => None,
    }
}

/// Returns how many upstreams the chain covers, on the gateway where it covers the most.
fn upstreams(serving: &[Serving<'_>], object: &LoweredObject) -> String {
    let covered = serving.iter().filter_map(|s| s.state.planned.covered.get(&object.id.key)).max();
    match covered.copied().unwrap_or_default() {
        many if many >= MANY => format!("{}+", MANY - 1),
        few => few.to_string(),
    }
}
