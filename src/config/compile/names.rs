//! Decides which upstreams and pipelines get the names that they ask for. A name has one owner in a plan, which keeps it as long
//! as its form in force has it.

use std::collections::HashMap;

use super::fault::id;
use crate::domain::ids::Kind;
use crate::domain::plan::{PipelinePlan, Plan, TransportPlan, UpstreamPlan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// An upstream or pipeline that asks for its names.
pub(super) struct Candidate {
    /// The form to put in force.
    pub(super) form: UpstreamPlan,
    /// The form that is put in force if another object has a name of `form`: the one of the previous plan, if there is one.
    pub(super) before: Option<UpstreamPlan>,
    /// For an object that is invalid: the place of its kept form among those of its kind in the previous plan.
    pub(super) place: Option<usize>,
}

impl Candidate {
    /// An object in a form that has the names of its earlier form, if there is one.
    pub(super) fn new(form: UpstreamPlan) -> Self {
        Self { form, before: None, place: None }
    }
}

/// A name, and the field that has it. Names of different fields do not conflict.
type Name = (&'static str, String);

/// Returns the forms that are in force: upstreams in routing order, then pipelines.
///
/// An object that has a name in the `previous` plan keeps it if it still asks for it; other names go to the first that asks. An
/// object that does not get all its names keeps its form of the previous plan, or is left out if it has none.
pub(super) fn assign(
    mut candidates: Vec<Candidate>,
    previous: Option<&Plan>,
    problems: &mut Vec<Problem>,
) -> Vec<UpstreamPlan> {
    let mut held = HashMap::new();
    for form in previous.iter().flat_map(|plan| &plan.upstreams) {
        held.extend(names(form).into_iter().map(|name| (name, form)));
    }
    // A form that is put back can have names that others got, so all are assigned anew. Each round puts one back at least.
    loop {
        let conflicts = conflicts(&candidates, &held);
        let is_last = conflicts.iter().all(|conflict| candidates[conflict.newer].before.is_none());
        let mut lost = Vec::new();
        for NameConflict { newer, older, name } in conflicts {
            let (before, mut message) = (candidates[newer].before.take(), message(&candidates[older].form, &name));
            if before.is_none() && !is_last {
                continue;
            }
            let form = &candidates[newer].form;
            let object = id(form.kind(), &form.key);
            match before {
                Some(before) => {
                    message.push_str(match before.refusing {
                        None => ". The last accepted form runs on",
                        Some(_) => ". Its last form stays, whose calls are refused",
                    });
                    candidates[newer].form = before;
                }
                None => lost.push(newer),
            }
            problems.push(Problem::error(Reason::NameConflict, object, name.0, message));
        }
        if is_last {
            let mut index = 0..;
            candidates.retain(|_| index.next().is_none_or(|index| !lost.contains(&index)));
            return in_order(candidates);
        }
    }
}

/// A name that two candidates ask for, by their indexes.
struct NameConflict {
    newer: usize,
    older: usize,
    name: Name,
}

/// Returns for each candidate that does not get all its names the first one that another has. `held` are the owners of names in
/// the previous plan.
fn conflicts(candidates: &[Candidate], held: &HashMap<Name, &UpstreamPlan>) -> Vec<NameConflict> {
    let wanted: Vec<_> = candidates.iter().map(|candidate| names(&candidate.form)).collect();
    let mut owners: HashMap<&Name, usize> = HashMap::new();
    for (index, names) in wanted.iter().enumerate() {
        let form = &candidates[index].form;
        let keeps = |name: &&Name| held.get(name).is_some_and(|owner| is_same_object(form, owner));
        owners.extend(names.iter().filter(keeps).map(|name| (name, index)));
    }
    let mut conflicts = Vec::new();
    for (newer, names) in wanted.iter().enumerate() {
        let taken = names.iter().find_map(|name| Some((name, *owners.get(name).filter(|owner| **owner != newer)?)));
        match taken {
            Some((name, older)) => conflicts.push(NameConflict { newer, older, name: name.clone() }),
            None => owners.extend(names.iter().map(|name| (name, newer))),
        }
    }
    conflicts
}

fn names(form: &UpstreamPlan) -> Vec<Name> {
    let tool = form.pipeline().map(PipelinePlan::tool_name).filter(|tool| !tool.is_empty());
    let own = ("metadata.name", form.key.name.clone());
    [own].into_iter().chain(tool.map(|tool| ("spec.tool.name", tool))).collect()
}

/// Whether `before` is a form of the same object as `form`. One without a transport can be of an object of either kind.
pub(super) fn is_same_object(form: &UpstreamPlan, before: &UpstreamPlan) -> bool {
    form.key == before.key && (form.kind() == before.kind() || before.transport == TransportPlan::None)
}

fn message(owner: &UpstreamPlan, (field, name): &Name) -> String {
    let (kind, key) = (owner.kind(), &owner.key);
    match *field {
        "metadata.name" => format!("{kind} {key} has this name already on this gateway: rename one of them"),
        _ => format!("{kind} {key} has the tool {name} already: give it another name"),
    }
}

/// Returns the upstreams, then the pipelines. Kept forms stay at their places, or go to the end if there are fewer now.
fn in_order(candidates: Vec<Candidate>) -> Vec<UpstreamPlan> {
    let (kept, others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|candidate| candidate.place.is_some());
    let is_pipeline = |form: &UpstreamPlan| form.kind() == Kind::ToolPipeline;
    let (mut pipelines, mut upstreams): (Vec<_>, Vec<_>) =
        others.into_iter().map(|candidate| candidate.form).partition(is_pipeline);
    for Candidate { form, place, .. } in kept {
        let forms = if is_pipeline(&form) { &mut pipelines } else { &mut upstreams };
        forms.insert(place.unwrap_or_default().min(forms.len()), form);
    }
    upstreams.extend(pipelines);
    upstreams
}
