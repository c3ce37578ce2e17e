//! The life cycle of upstreams, pipelines, chains and bindings of sections: which ones a gateway takes, and in which forms.
//!
//! An object is in force as written if that is accepted. Otherwise its last accepted form stays or, if there is none, a form
//! that refuses calls takes its place. An object that is invalid keeps its form of the previous plan; a chain without one refuses
//! the calls that it selects.

use std::collections::HashMap;

use super::fault::{FieldFault, id};
use super::takes::{Consent, takes};
use super::world::World;
use crate::config::input::{Inputs, InvalidObject, Labels, Takes};
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::plan::{GatewayTakes, Plan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

/// A form in a plan, with its object's key and labels. Labels are `None` if plans do not contain them.
pub(super) type Planned<'p, P> = (&'p ObjectKey, Option<&'p Labels>, &'p P);

/// A kind of objects with this life cycle, and the context in which its objects are compiled.
pub(super) trait PlannedKind {
    /// An object as written.
    type Input;
    /// A form of an object in a plan.
    type Plan: Clone;
    const KIND: Kind;
    /// The field of a gateway's `spec` that selects objects of this kind.
    const FIELD: &'static str;
    /// Returns which objects of this kind a gateway takes.
    const WANTED: fn(&GatewayTakes) -> &Takes;
    /// Returns the objects of this kind that are not invalid.
    const WRITTEN: fn(&Inputs) -> &[Self::Input];
    /// Returns the forms of this kind in a plan.
    const PLANNED: fn(&Plan) -> Vec<Planned<'_, Self::Plan>>;
    /// The effect of a fault on an object that has no last accepted form to run on.
    const REFUSED: &'static str = "Its calls are refused";
    /// Whether an edit can change the names that an object has on its gateway.
    const IS_RENAMED: bool = false;

    /// Returns an object's key and labels, and to which gateways its owner gives it.
    fn about(input: &Self::Input) -> (&ObjectKey, &Labels, Consent<'_>);

    /// Returns the object as written, or what is wrong with it: one fault at least. Further faults can be added to `problems`.
    fn accept(&self, input: &Self::Input, problems: &mut Vec<Problem>) -> Result<Self::Plan, Vec<FieldFault>>;

    /// Returns a form of the previous plan, if it was accepted. Refusals because of other objects are left out.
    fn accepted(before: &Self::Plan) -> Option<Self::Plan>;

    /// Returns an earlier form with the edits that take effect although it is kept. `input` is `None` if the object is invalid.
    fn kept(&self, form: Self::Plan, _input: Option<&Self::Input>) -> Self::Plan {
        form
    }

    /// Returns a form that refuses calls because of a fault. `before` is the form of the previous plan, which was not accepted.
    fn refusing(&self, input: &Self::Input, before: Option<&Self::Plan>, fault: &FieldFault) -> Self::Plan;

    /// Returns the form of an invalid object that has no accepted one: that of the previous plan, if there is one.
    fn refusing_invalid(&self, _invalid: &InvalidObject, before: Option<&Self::Plan>) -> Option<Self::Plan> {
        before.cloned()
    }

    /// Resolves the references of a form. Returns a fault for each that cannot be resolved; the form then refuses calls.
    fn resolve(&self, _form: &mut Self::Plan) -> Vec<FieldFault> {
        Vec::new()
    }

    /// Returns the effect of a fault on an object. `runs_on` is true if `form`, which is in force, is accepted.
    fn effect(_form: &Self::Plan, runs_on: bool) -> &'static str {
        if runs_on { "The last accepted form runs on" } else { Self::REFUSED }
    }
}

/// An object that the gateway takes, with the form to put in force.
pub(super) struct Candidate<P> {
    pub(super) form: P,
    /// The form of the previous plan, which is put in force if another object has a name of `form`.
    pub(super) before: Option<P>,
    /// For an object that is invalid: the place of its form among those of its kind in the previous plan.
    pub(super) place: Option<usize>,
}

/// Returns the objects that the gateway takes: those that can be read, then the invalid ones.
pub(super) fn compile<K: PlannedKind>(
    kind: &K,
    world: &World<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<Candidate<K::Plan>> {
    let previous = world.previous.into_iter().flat_map(K::PLANNED).enumerate();
    let places = previous.map(|(place, (key, labels, form))| (key, (place, labels, form)));
    let previous: HashMap<_, _> = places.collect();
    let mut candidates = Vec::new();
    for object in K::WRITTEN(world.inputs) {
        if is_taken::<K>(world, object, problems) {
            let before = previous.get(K::about(object).0).map(|(_, _, form)| *form);
            candidates.push(valid(kind, object, before, problems));
        }
    }
    for object in world.inputs.invalid.iter().filter(|object| object.id.kind == K::KIND) {
        let key = &object.id.key;
        let before = previous.get(key).filter(|(_, labels, _)| wants::<K>(world, key, *labels));
        let (place, before) = before.map(|(place, _, form)| (*place, *form)).unzip();
        let form = before.and_then(K::accepted).or_else(|| kind.refusing_invalid(object, before));
        candidates.extend(form.map(|form| {
            let (form, missing) = resolved(kind, kind.kept(form, None));
            report::<K>(key, missing, None, problems);
            Candidate { form, before: None, place }
        }));
    }
    candidates
}

/// Returns an object that is not invalid. A reference that cannot be resolved is a fault if the last accepted form has none: the
/// edit names something that does not exist. Otherwise that was deleted, or was missing in the last accepted form too.
fn valid<K: PlannedKind>(
    kind: &K,
    input: &K::Input,
    before: Option<&K::Plan>,
    problems: &mut Vec<Problem>,
) -> Candidate<K::Plan> {
    let kept = |form: K::Plan| resolved(kind, kind.kept(form, Some(input)));
    let accepted = || before.and_then(K::accepted).map(kept);
    let runs = |(_, missing): &(K::Plan, Vec<FieldFault>)| missing.is_empty();
    let written = match kind.accept(input, problems).map(|form| resolved(kind, form)) {
        Ok((_, missing)) if !missing.is_empty() && accepted().as_ref().is_some_and(runs) => Err(missing),
        written => written,
    };
    let key = K::about(input).0;
    let (form, missing) = written.unwrap_or_else(|faults| {
        let accepted = accepted();
        let runs_on = accepted.as_ref().is_some_and(runs);
        let found = accepted.unwrap_or_else(|| resolved(kind, kind.refusing(input, before, &faults[0])));
        report::<K>(key, faults, Some(K::effect(&found.0, runs_on)), problems);
        found
    });
    report::<K>(key, missing, None, problems);
    let before = before.filter(|_| K::IS_RENAMED);
    let before = before.map(|before| kept(K::accepted(before).unwrap_or_else(|| before.clone())).0);
    Candidate { form, before, place: None }
}

fn resolved<K: PlannedKind>(kind: &K, mut form: K::Plan) -> (K::Plan, Vec<FieldFault>) {
    let missing = kind.resolve(&mut form);
    (form, missing)
}

fn report<K: PlannedKind>(key: &ObjectKey, faults: Vec<FieldFault>, effect: Option<&str>, problems: &mut Vec<Problem>) {
    problems.extend(faults.into_iter().map(|(reason, field, message)| {
        let message = effect.map_or_else(|| message.clone(), |effect| format!("{message}. {effect}"));
        Problem::error(reason, id(K::KIND, key), field, message)
    }));
}

/// Whether the gateway takes an object, and the object is for it. Adds a warning to `problems` if only one side agrees.
pub(super) fn is_taken<K: PlannedKind>(world: &World<'_>, input: &K::Input, problems: &mut Vec<Problem>) -> bool {
    let ((key, labels, consent), gateway) = (K::about(input), &world.gateway.key);
    let wanted = wants::<K>(world, key, Some(labels));
    if world.takes.is_none() || wanted == consent.includes(&key.namespace, gateway, world.inputs) {
        return wanted;
    }
    let (reason, field, message) = match (consent, wanted) {
        (Consent::ShareWith(_), false) => return false,
        (Consent::ShareWith(_), true) => {
            let message = format!("{key} is not shared with {} (its spec.shareWith)", gateway.namespace);
            (Reason::RefNotPermitted, "spec.shareWith", message)
        }
        (Consent::Gateways(_), _) => {
            let message = match wanted {
                true => format!("{gateway} takes it, but it does not name that gateway in spec.gateways"),
                false => format!("it is for {gateway}, which does not take it (spec.{} of the gateway)", K::FIELD),
            };
            (Reason::NotTaken, "spec.gateways", message)
        }
    };
    problems.push(Problem::warning(reason, id(K::KIND, key), field, message));
    false
}

/// Whether the gateway takes an object as far as it decides that. Labels that are not known count as those that it wants.
pub(super) fn wants<K: PlannedKind>(world: &World<'_>, key: &ObjectKey, labels: Option<&Labels>) -> bool {
    let own = &world.gateway.key.namespace;
    let is_required = K::KIND == Kind::PluginChain && world.gateway.required.contains(key);
    let wants = |all: &GatewayTakes| takes(K::WANTED(all), own, &key.namespace, labels, world.inputs);
    is_required || world.takes.is_none_or(wants)
}

/// Returns the forms of the candidates. Those of invalid objects stay at their places, or go to the end if there are fewer now.
pub(super) fn in_order<P>(candidates: Vec<Candidate<P>>) -> Vec<P> {
    let (mut kept, others): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|candidate| candidate.place.is_some());
    kept.sort_by_key(|candidate| candidate.place);
    let mut forms: Vec<_> = others.into_iter().map(|candidate| candidate.form).collect();
    for Candidate { form, place, .. } in kept {
        forms.insert(place.unwrap_or_default().min(forms.len()), form);
    }
    forms
}
