//! The status of a SectionBinding.

use serde_json::Value;

use super::conditions::Conditions;
use super::input::StatusInput;
use super::serving::{gateways, live, problems, programmed, serving, warnings};
use crate::api::lower::Lowered;
use crate::api::section::SectionBindingStatus;
use crate::controller::lowered::LoweredObject;
use crate::domain::reason::Reason;

pub(super) fn status(input: &StatusInput, object: &LoweredObject, now: &str) -> Value {
    let serving = serving(input, &object.id);
    let found = problems(input, &serving, &object.id);
    let mut set = Conditions::new(object, now).warned(warnings(input, object));
    let (accepted, _) = (set.accepted(&found), set.resolved(&found));
    // A binding in conflict runs as it is written. Only one that is not valid can have an older form.
    let is_conflict = found.iter().any(|problem| problem.reason == Reason::Conflicted);
    let kept = !accepted && !is_conflict;
    programmed(&mut set, input, &serving, kept, absent(input, object));
    let section = match &*object.lowered {
        Ok(Lowered::Section(section)) => Some(section.plan.part.to_string()),
        _ => None,
    };
    let status = SectionBindingStatus {
        observed_generation: Some(object.generation()),
        live: Some(live(&serving, kept)),
        gateways: Some(gateways(&serving)),
        section,
        conditions: Some(set.finish()),
    };
    serde_json::to_value(status).unwrap_or_default()
}

/// Returns why the binding is in no gateway's plan.
fn absent(input: &StatusInput, object: &LoweredObject) -> (Reason, &'static str) {
    let mut found = input.gateways.values().filter_map(|state| state.planned.problems.get(&object.id)).flatten();
    if found.any(|problem| problem.reason == Reason::NotTaken) {
        return (
            Reason::NotTaken,
            "no gateway takes it: a gateway's spec.sections and its own spec.gateways must agree",
        );
    }
    (Reason::NoGateway, "no gateway is there that takes it")
}
