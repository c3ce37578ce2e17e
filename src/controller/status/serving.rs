//! Determines which gateways have an object in their plans, and whether their pods run it.

use super::conditions::Conditions;
use super::input::{GatewayState, Pin, StatusInput, blind};
use crate::api::lower::Lowered;
use crate::api::status::TakenBy;
use crate::controller::condition_type::ConditionType;
use crate::controller::lowered::LoweredObject;
use crate::controller::pods::Pods;
use crate::domain::ids::{Kind, ObjectId, ObjectKey};
use crate::domain::problem::{Level, Problem};
use crate::domain::reason::Reason;
use crate::domain::report::{Report, SecretState};

/// Maximum number of gateways that a status lists.
const MAX_GATEWAYS: usize = 16;

/// A gateway that has the object in its plan.
pub(super) struct Serving<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) state: &'a GatewayState,
    pub(super) pods: Option<&'a Pods>,
    /// Digest of the object's form in that plan.
    pub(super) digest: &'a str,
    /// Whether every ready pod runs that form; false if no pod is ready.
    pub(super) live: bool,
    /// Why it is uncertain whether every ready pod runs that form: a pod does not report, and all that report run it.
    /// `None` if it is certain.
    pub(super) silent: Option<String>,
}

/// Returns the gateways that have `id` in their plans, ordered by name.
pub(super) fn serving<'a>(input: &'a StatusInput, id: &ObjectId) -> Vec<Serving<'a>> {
    let taking = input.gateways.iter().filter_map(|(key, state)| {
        let digest = state.planned.digests.get(id)?;
        let pods = input.pods.get(key);
        let live = pods.is_some_and(|pods| runs(state, pods, id, digest));
        let silent = pods.filter(|_| !live).and_then(|pods| silent(state, pods, id, digest));
        Some(Serving { key, state, pods, digest, live, silent })
    });
    taking.collect()
}

/// Whether a pod is ready, and every ready pod runs the object in this form.
fn runs(state: &GatewayState, pods: &Pods, id: &ObjectId, digest: &str) -> bool {
    !pods.ready.is_empty()
        && pods.ready.values().all(|report| report.as_ref().is_ok_and(|r| has_in_force(state, &r.report, id, digest)))
}

/// Whether the object has this form in a revision.
pub(super) fn has(state: &GatewayState, revision: &str, id: &ObjectId, digest: &str) -> bool {
    state.revisions.get(revision).and_then(|digests| digests.get(id)).is_some_and(|found| found == digest)
}

/// Whether a pod runs the object in this form.
fn has_in_force(state: &GatewayState, report: &Report, id: &ObjectId, digest: &str) -> bool {
    has(state, &report.revision, id, digest) && !report.not_in_force.contains(id)
}

/// Returns why a pod does not report, if all pods that report run the object in this form.
fn silent(state: &GatewayState, pods: &Pods, id: &ObjectId, digest: &str) -> Option<String> {
    let others = pods.reports().all(|report| has_in_force(state, report, id, digest));
    let (pod, why) = pods.ready.iter().find_map(|(pod, report)| Some((pod, report.as_ref().err()?)))?;
    others.then(|| format!("pod {pod} does not report: {why}"))
}

/// Returns the problems of the object on the gateways that have it in their plans, because only their compilation knows
/// which form ran before. If there is no such gateway, returns the problems that the object has regardless of the
/// gateway.
pub(super) fn problems(input: &StatusInput, serving: &[Serving<'_>], id: &ObjectId) -> Vec<Problem> {
    if serving.is_empty() {
        return input.compiled.own.get(id).cloned().unwrap_or_default();
    }
    let found = serving.iter().filter_map(|s| s.state.planned.problems.get(id)).flatten();
    found.cloned().collect()
}

/// Returns the errors that pods which have the object in its planned form found in it, and the operator cannot: it does
/// not have the code that is in their files.
pub(super) fn found_by_pods(serving: &[Serving<'_>], id: &ObjectId) -> Vec<Problem> {
    let of = |s: &Serving<'_>| -> Vec<Problem> {
        let reported = s.pods.into_iter().flat_map(Pods::reported);
        let of_form = reported.filter(|reported| has(s.state, &reported.report.revision, id, s.digest));
        of_form.flat_map(|reported| reported.problems(id)).filter(|problem| problem.is_error()).cloned().collect()
    };
    serving.iter().flat_map(of).collect()
}

/// Returns the chains that name the plugin.
pub(super) fn naming<'a>(input: &'a StatusInput, plugin: &'a ObjectKey) -> impl Iterator<Item = &'a LoweredObject> {
    input.compiled.objects.iter().filter(move |object| match &*object.lowered {
        Ok(Lowered::Chain(chain)) => chain.entries.iter().any(|entry| entry.plugin == *plugin),
        _ => false,
    })
}

/// Returns why gateways cannot use the plugin although they take a chain of its own namespace that names it. What only
/// concerns chains of other namespaces is told there, because it must not make their neighbour's object look bad.
pub(super) fn refused_by_gateways(input: &StatusInput, object: &LoweredObject) -> Vec<Problem> {
    let id = &object.id;
    let own = input.compiled.own.get(id).map_or(&[][..], Vec::as_slice);
    let of = |state: &'_ GatewayState| -> Vec<Problem> {
        let planned = &state.planned;
        let found = planned.problems.get(id).into_iter().flatten();
        let found: Vec<_> = found.filter(|problem| problem.is_error() && !own.contains(problem)).cloned().collect();
        let is_taken = |chain: &LoweredObject| {
            chain.id.key.namespace == id.key.namespace && planned.digests.contains_key(&chain.id)
        };
        let concerns = !found.is_empty() && !planned.digests.contains_key(id) && naming(input, &id.key).any(is_taken);
        if concerns { found } else { Vec::new() }
    };
    if id.kind != Kind::Plugin { Vec::new() } else { input.gateways.values().flat_map(of).collect() }
}

/// Returns warnings that no other condition of the object shows, without duplicates: something in the object has less
/// effect than it seems to have.
pub(in crate::controller) fn warnings(input: &StatusInput, object: &LoweredObject) -> Vec<Problem> {
    let id = &object.id;
    let taken = input.gateways.values().any(|state| state.planned.digests.contains_key(id));
    let found = input.gateways.values().filter_map(|state| state.planned.problems.get(id)).flatten();
    let own = input.compiled.own.get(id).into_iter().flatten();
    // What one gateway cannot use while another runs it is no error of the object.
    let refused = if taken { refused_by_gateways(input, object) } else { Vec::new() };
    let refused: Vec<_> = refused.into_iter().map(|problem| Problem { level: Level::Warning, ..problem }).collect();
    let mut told: Vec<Problem> = Vec::new();
    for problem in object.problems.iter().chain(own).chain(found).chain(&refused) {
        let counts = match problem.reason {
            Reason::GuardWeakened | Reason::NothingEnabled => false,
            // If the object is in no gateway's plan, `Programmed` shows that. A chain that names its gateways need not
            // be in the plans of others.
            Reason::NotTaken => false,
            Reason::NameConflict | Reason::RefNotPermitted => taken || !problem.is_error(),
            _ => !problem.is_error(),
        };
        if counts && !told.contains(problem) {
            told.push(problem.clone());
        }
    }
    told
}

/// Returns the value of the field `live`: the number of gateways whose ready pods all run the object's current form,
/// out of the number that have the object in their plans. If an older form is `kept`, the first number is 0.
pub(super) fn live(serving: &[Serving<'_>], kept: bool) -> String {
    format!("{}/{}", serving.iter().filter(|s| s.live && !kept).count(), serving.len())
}

/// Returns the value of the field `gateways`, with at most [`MAX_GATEWAYS`] items.
pub(super) fn gateways(serving: &[Serving<'_>]) -> Vec<TakenBy> {
    let taken = serving.iter().take(MAX_GATEWAYS).map(|s| TakenBy {
        namespace: s.key.namespace.clone(),
        name: s.key.name.clone(),
        revision: Some(s.digest.to_owned()),
        programmed: Some(s.live),
        served_as: None,
    });
    taken.collect()
}

/// Adds `Programmed`. `kept` is true if an older form runs. `absent` is the reason and message for an object that is in
/// no gateway's plan.
pub(super) fn programmed(
    set: &mut Conditions,
    input: &StatusInput,
    serving: &[Serving<'_>],
    kept: bool,
    absent: (Reason, &str),
) {
    if let Some(why) = &input.no_pods {
        return set.unknown(ConditionType::Programmed, Reason::Pending.as_str(), &blind(why));
    }
    if serving.is_empty() && set.is_pending() {
        return set.no(
            ConditionType::Programmed,
            Reason::Pending.as_str(),
            "it is not known yet whether it is accepted",
        );
    }
    if serving.is_empty() {
        return set.no(ConditionType::Programmed, absent.0.as_str(), absent.1);
    }
    // A gateway that is known to lag behind is shown before one whose state is unknown.
    let behind = serving.iter().find(|s| !s.live && s.silent.is_none());
    match behind.or_else(|| serving.iter().find(|s| !s.live)) {
        Some(Serving { silent: Some(why), .. }) => {
            set.unknown(ConditionType::Programmed, Reason::Pending.as_str(), why)
        }
        Some(behind) => {
            let (reason, message) = why_behind(behind);
            set.no(ConditionType::Programmed, reason.as_str(), &message);
        }
        None if kept && set.is_pending() => {
            let message = "the last accepted form runs on until it is known whether this one is accepted";
            set.no(ConditionType::Programmed, Reason::Pending.as_str(), message);
        }
        None if kept => {
            let message = "the last accepted form runs on; see Accepted and ResolvedRefs";
            set.no(ConditionType::Programmed, Reason::PreviousRevision.as_str(), message);
        }
        None => set.yes(ConditionType::Programmed, "Programmed", ""),
    }
}

fn why_behind(behind: &Serving<'_>) -> (Reason, String) {
    if let Some((reason, message)) = &behind.state.fault {
        return (*reason, message.clone());
    }
    match &behind.state.pin {
        Pin::Kept => return (Reason::Pinned, format!("{} is pinned to another revision", behind.key)),
        Pin::Lost(pinned) => {
            return (
                Reason::Pinned,
                format!("{} is pinned to {pinned}, which is not kept: what ran runs on", behind.key),
            );
        }
        Pin::None => {}
    }
    match behind.pods.map(|pods| pods.ready.len()) {
        None | Some(0) => (Reason::Pending, format!("{} has no ready pod", behind.key)),
        Some(_) => (Reason::Pending, format!("not every ready pod of {} runs it yet", behind.key)),
    }
}

/// Returns the worst state that pods report for the Secret keys in `named`, and the Secret that is in this state.
pub(super) fn secrets(serving: &[Serving<'_>], named: &[(ObjectKey, String)]) -> Option<(ObjectKey, SecretState)> {
    let reports = serving.iter().filter_map(|s| s.pods).flat_map(Pods::reports).flat_map(|report| &report.secrets);
    let of_it = reports.filter(|secret| {
        named
            .iter()
            .any(|(named, key)| named.namespace == secret.namespace && named.name == secret.name && *key == secret.key)
    });
    let worst = of_it.max_by_key(|secret| secret.state)?;
    Some((ObjectKey::new(&worst.namespace, &worst.name), worst.state))
}
