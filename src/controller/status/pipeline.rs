//! The status of a ToolPipeline.

use serde_json::Value;

use super::conditions::Conditions;
use super::grant::{secret_keys, values_of};
use super::input::StatusInput;
use super::plugin::told_of_secrets;
use super::serving::{Serving, found_by_pods, gateways, live, problems, programmed, serving, warnings};
use crate::api::lower::Lowered;
use crate::api::pipeline::status::ToolPipelineStatus;
use crate::controller::condition_type::ConditionType;
use crate::controller::lowered::LoweredObject;
use crate::domain::plan::PipelinePlan;
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;

pub(super) fn status(input: &StatusInput, object: &LoweredObject, now: &str) -> Value {
    let serving = serving(input, &object.id);
    let found = problems(input, &serving, &object.id);
    let mut set = Conditions::new(object, now).warned(warnings(input, object));
    let fine = set.accepted(&found) & set.resolved(&found);
    let plan = serving.iter().find_map(|serving| serving.state.planned.upstream(&object.id.key));
    let kept = !fine && plan.is_some_and(|plan| plan.refusing.is_none());
    told_of_secrets(&mut set, &serving, &plan.map(|plan| secret_keys(values_of(plan))).unwrap_or_default());
    programmed(&mut set, input, &serving, kept, absent(input, object));
    if let Some(lost) = unnamed(&serving, object) {
        set.replace(ConditionType::Programmed, lost.reason.as_str(), &format!("{}: {}", lost.field, lost.message));
    }
    let written = match &*object.lowered {
        Ok(Lowered::Pipeline(pipeline)) => pipeline.plan.pipeline(),
        _ => None,
    };
    let steps = |plan: &PipelinePlan| u32::try_from(plan.plugins().count()).unwrap_or(u32::MAX);
    let status = ToolPipelineStatus {
        observed_generation: Some(object.generation()),
        live: Some(live(&serving, kept)),
        gateways: Some(gateways(&serving)),
        mode: written.map(|_| PipelinePlan::MODE.to_owned()),
        steps: written.map(steps),
        revision: serving.first().map(|serving| serving.digest.to_owned()),
        tool_name: written.map(PipelinePlan::tool_name),
        conditions: Some(set.finish()),
    };
    serde_json::to_value(status).unwrap_or_default()
}

/// Returns why clients do not find the tool of the pipeline: only pods know the names of the tools of servers.
fn unnamed(serving: &[Serving<'_>], object: &LoweredObject) -> Option<Problem> {
    found_by_pods(serving, &object.id).into_iter().find(|problem| problem.reason == Reason::ToolNameConflict)
}

/// Returns why the pipeline is in no gateway's plan.
fn absent(input: &StatusInput, object: &LoweredObject) -> (Reason, &'static str) {
    let found = input.gateways.values().filter_map(|state| state.planned.problems.get(&object.id)).flatten();
    if found.clone().any(|problem| problem.reason == Reason::NameConflict) {
        return (
            Reason::NameConflict,
            "another object has its name, or that of its tool, on every gateway that would take it",
        );
    }
    if found.clone().any(|problem| problem.reason == Reason::NotTaken) {
        return (
            Reason::NotTaken,
            "no gateway takes it: a gateway's spec.pipelines and its own spec.gateways must agree",
        );
    }
    (Reason::NoGateway, "no gateway is there that takes it")
}
