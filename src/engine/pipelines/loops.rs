//! Evaluates the conditions of loops and of customizations.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::config::expr::{Expression, Values};
use crate::domain::pipeline::{PipelineMachine, RunState, Sources, customized as changed};
use crate::domain::plan::{CustomizationPlan, PipelinePlan};
use crate::engine::plan::linked_pipeline::LinkedPipeline;

/// The members of the state that conditions read under their own names.
const MEMBERS: [&str; 6] = ["plan", "observations", "pluginData", "decision", "agents", "arguments"];

/// Whether the loop condition of an agent holds. One that cannot be evaluated does not hold.
///
/// # Errors
/// Why it cannot be evaluated.
pub(super) fn holds(
    pipeline: &LinkedPipeline,
    agent: usize,
    (iteration, of_agent): (u32, u32),
    state: &RunState,
    sources: &Sources,
) -> Result<bool, String> {
    let Some(condition) = &pipeline.loops[agent] else { return Ok(false) };
    let name = &pipeline.plan.agents[agent].name;
    let mut values: Values = vec![("iteration", json!(iteration)), ("agentIteration", json!(of_agent))];
    let mut add = |variable: &'static str, value: &dyn Fn() -> Value| {
        if condition.reads(variable) {
            values.push((variable, value()));
        }
    };
    add("result", &|| state.result_of(name));
    add("sources", &|| json!(sources.all()));
    MEMBERS.into_iter().for_each(|member| add(member, &|| state.member(member)));
    let size = values.iter().map(|(_, value)| value.to_string().len()).sum();
    condition.evaluate(size, || Ok(values))
}

/// Returns for each customization of a pipeline whether it applies to a run with these arguments. A condition that cannot be
/// evaluated does not hold.
pub(in crate::engine) fn applying(pipeline: &LinkedPipeline, arguments: &Value) -> Vec<bool> {
    let holds = |condition: &Expression| {
        let values = || Ok(vec![("call", json!({"arguments": arguments}))]);
        condition.evaluate(arguments.to_string().len(), values).unwrap_or(false)
    };
    let changes = pipeline.plan.customizations.iter().zip(&pipeline.customizations);
    let applies = |(change, condition): (&CustomizationPlan, &Option<Expression>)| match condition {
        Some(condition) => holds(condition),
        None => change.when.is_none(),
    };
    changes.map(applies).collect()
}

/// Returns the pipeline as a run with these arguments has it.
pub(in crate::engine) fn customized<'a>(pipeline: &'a LinkedPipeline, arguments: &Value) -> Cow<'a, PipelinePlan> {
    let changes = pipeline.plan.customizations.iter().zip(applying(pipeline, arguments));
    let changes = changes.filter(|(_, applies)| *applies);
    changes.fold(Cow::Borrowed(&pipeline.plan), |plan, (change, _)| Cow::Owned(changed(plan.into_owned(), change)))
}

/// Returns how often agents were run, and how often this one was.
pub(super) fn counts(machine: &PipelineMachine<'_>, agent: usize) -> (u32, u32) {
    (machine.iterations(), machine.iterations_of(agent))
}
