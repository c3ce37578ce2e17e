//! Decides which upstreams and pipelines get the names that they ask for. A name has one owner in a plan, which keeps it as long
//! as its form in force has it.

use std::collections::{HashMap, HashSet};

use super::fault::id;
use super::life_cycle::{Candidate, in_order};
use crate::domain::ids::Kind;
use crate::domain::plan::{PipelinePlan, Plan, TransportPlan, UpstreamPlan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// A name, and the field that has it. Names of different fields do not conflict.
type Name = (&'static str, String);

/// A name that two candidates ask for, by their indexes.
struct NameConflict {
    newer: usize,
    older: usize,
    name: Name,
}

/// The names of upstreams and pipelines.
pub(super) struct Names<'p> {
    /// The owners of names in the previous plan.
    held: HashMap<Name, &'p UpstreamPlan>,
}

impl<'p> Names<'p> {
    pub(super) fn new(previous: Option<&'p Plan>) -> Self {
        let forms = previous.iter().flat_map(|plan| &plan.upstreams);
        Self { held: forms.flat_map(|form| names(form).into_iter().map(move |name| (name, form))).collect() }
    }

    /// Returns the forms that are in force: upstreams in routing order, then pipelines.
    ///
    /// An object that has a name in the previous plan keeps it if it still asks for it; other names go to the first that asks. An
    /// object that does not get all its names keeps its form of the previous plan, or is left out if it has none.
    pub(super) fn assign(
        &self,
        mut candidates: Vec<Candidate<UpstreamPlan>>,
        problems: &mut Vec<Problem>,
    ) -> Vec<UpstreamPlan> {
        // A form that is put back can have names that others got, so all are assigned anew. Each round puts one back at least.
        loop {
            let mut conflicts = self.conflicts(&candidates);
            let is_last = conflicts.iter().all(|conflict| candidates[conflict.newer].before.is_none());
            conflicts.retain(|conflict| is_last || candidates[conflict.newer].before.is_some());
            for NameConflict { newer, older, name } in &conflicts {
                let (before, mut message) = (candidates[*newer].before.take(), message(&candidates[*older].form, name));
                let form = &mut candidates[*newer].form;
                if let Some(before) = before {
                    message.push_str(match before.refusing {
                        None => ". The last accepted form runs on",
                        Some(_) => ". Its last form stays, whose calls are refused",
                    });
                    *form = before;
                }
                problems.push(Problem::error(Reason::NameConflict, id(form.kind(), &form.key), name.0, message));
            }
            if is_last {
                let lost: HashSet<_> = conflicts.iter().map(|conflict| conflict.newer).collect();
                let others = candidates.into_iter().enumerate().filter(|(index, _)| !lost.contains(index));
                let (pipelines, upstreams) =
                    others.map(|(_, it)| it).partition(|it| it.form.kind() == Kind::ToolPipeline);
                return [in_order(upstreams), in_order(pipelines)].concat();
            }
        }
    }

    /// Returns for each candidate that does not get all its names the first one that another has.
    fn conflicts(&self, candidates: &[Candidate<UpstreamPlan>]) -> Vec<NameConflict> {
        let wanted: Vec<_> = candidates.iter().map(|candidate| names(&candidate.form)).collect();
        let mut owners: HashMap<&Name, usize> = HashMap::new();
        // Objects of both kinds that had the name in the previous plan come before all others.
        for (index, names) in wanted.iter().enumerate() {
            let form = &candidates[index].form;
            let keeps = |name: &&Name| self.held.get(name).is_some_and(|owner| is_same_object(form, owner));
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
}

fn names(form: &UpstreamPlan) -> Vec<Name> {
    let tool = form.pipeline().map(PipelinePlan::tool_name).filter(|tool| !tool.is_empty());
    let own = ("metadata.name", form.key.name.clone());
    [own].into_iter().chain(tool.map(|tool| ("spec.tool.name", tool))).collect()
}

/// Whether `before` is a form of the same object as `form`. One without a transport can be of an object of either kind.
fn is_same_object(form: &UpstreamPlan, before: &UpstreamPlan) -> bool {
    form.key == before.key && (form.kind() == before.kind() || before.transport == TransportPlan::None)
}

fn message(owner: &UpstreamPlan, (field, name): &Name) -> String {
    let (kind, key) = (owner.kind(), &owner.key);
    match *field {
        "metadata.name" => format!("{kind} {key} has this name already on this gateway: rename one of them"),
        _ => format!("{kind} {key} has the tool {name} already: give it another name"),
    }
}
