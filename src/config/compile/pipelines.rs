//! Compiles pipelines: which ones the gateway takes, and which of their forms are in force.

use serde_json::Value;

use super::life_cycle::{Planned, PlannedKind};
use super::references::{accepted, refusal_of};
use super::takes::Consent;
use super::upstreams::{planned, switched};
use super::world::World;
use super::{Faults, FieldFault, bounds, id, values};
use crate::config::expr::Expression;
use crate::config::input::{Inputs, Labels, PipelineInput};
use crate::config::variables::{OF_CUSTOMIZATIONS, OF_LOOPS, OF_WRITERS};
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::pipeline::{check_output_schema, rules};
use crate::domain::plan::{GatewayTakes, PipelinePlan, Plan, Takes, UpstreamPlan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::schema::schema_fault;

/// Pipelines, which become upstreams that the gateway runs itself.
pub(super) struct Pipelines<'a>(pub(super) World<'a>);

impl PlannedKind for Pipelines<'_> {
    type Input = PipelineInput;
    type Plan = UpstreamPlan;
    const KIND: Kind = Kind::ToolPipeline;
    const FIELD: &'static str = "pipelines";
    const WANTED: fn(&GatewayTakes) -> &Takes = |takes| &takes.pipelines;
    const WRITTEN: fn(&Inputs) -> &[PipelineInput] = |inputs| &inputs.pipelines;
    const PLANNED: fn(&Plan) -> Vec<Planned<'_, UpstreamPlan>> = |plan| planned(plan, Kind::ToolPipeline);
    const IS_RENAMED: bool = true;

    fn about(input: &PipelineInput) -> (&ObjectKey, &Labels, Consent<'_>) {
        (&input.plan.key, &input.plan.labels, Consent::Gateways(&input.gateways))
    }

    fn accept(&self, input: &PipelineInput, _: &mut Vec<Problem>) -> Result<UpstreamPlan, Vec<FieldFault>> {
        let plan = &input.plan;
        let Some(pipeline) = plan.pipeline() else { return Ok(plan.clone()) };
        let mut faults = Faults::default();
        faults.0.extend(values::bad_globs("spec.tools.include", &pipeline.include));
        faults.0.extend(values::bad_globs("spec.tools.exclude", &pipeline.exclude));
        if plan.refusing.is_none() {
            if pipeline.agents.iter().all(|agent| !agent.enabled) {
                let message = "none of its agents is enabled".to_owned();
                faults.0.push((Reason::NothingEnabled, "spec.declared.agents".into(), message));
            }
            let rules = rules::check(pipeline).into_iter();
            faults.0.extend(rules.map(|rule| (Reason::InvalidObject, "spec.declared".into(), rule)));
        }
        for (index, agent) in pipeline.agents.iter().enumerate() {
            let Some((condition, _)) = &agent.repeat else { continue };
            let field = format!("spec.declared.agents[{index}].loopCondition");
            faults
                .take(Expression::compile(condition, OF_LOOPS).map_err(|why| (Reason::InvalidExpression, field, why)));
        }
        for (index, change) in pipeline.customizations.iter().enumerate() {
            let Some(when) = &change.when else { continue };
            let field = format!("spec.declared.customizations[{index}].when");
            let compiled = Expression::compile(when, OF_CUSTOMIZATIONS);
            faults.take(compiled.map_err(|why| (Reason::InvalidExpression, field, why)));
        }
        if let Some(writers) = &pipeline.store.writers {
            let field = "spec.store.writers".to_owned();
            let compiled = Expression::compile(writers, OF_WRITERS);
            faults.take(compiled.map_err(|why| (Reason::InvalidExpression, field, why)));
        }
        faults.take(check_input_schema(pipeline));
        let output = pipeline.output_schema.as_deref().map_or(Ok(()), check_output_schema);
        faults.take(output.map_err(|(reason, why)| (reason, "spec.output.schema".to_owned(), why)));
        faults.take(bounds::check(self.0.inputs, &id(Kind::ToolPipeline, &plan.key), plan));
        if faults.0.is_empty() { Ok(plan.clone()) } else { Err(faults.0) }
    }

    fn accepted(before: &UpstreamPlan) -> Option<UpstreamPlan> {
        accepted(before)
    }

    fn kept(&self, form: UpstreamPlan, input: Option<&PipelineInput>) -> UpstreamPlan {
        switched(self.0.inputs, form, input.map(|input| &input.plan))
    }

    fn refusing(&self, input: &PipelineInput, _: Option<&UpstreamPlan>, fault: &FieldFault) -> UpstreamPlan {
        let refusing = input.plan.refusing.clone().or_else(|| Some(refusal_of(fault)));
        UpstreamPlan { refusing, ..input.plan.clone() }
    }

    fn resolve(&self, form: &mut UpstreamPlan) -> Vec<FieldFault> {
        self.0.resolve(form)
    }
}

/// Checks the schema of the tool's arguments as those of servers are checked.
fn check_input_schema(pipeline: &PipelinePlan) -> Result<(), FieldFault> {
    let definition: Value = serde_json::from_str(&pipeline.definition).unwrap_or_default();
    let schema = &definition["inputSchema"];
    let fault = match schema["type"].as_str() {
        Some("object") => schema_fault(&schema.to_string()).map(|fault| format!("inputSchema{fault}")),
        _ => Some(format!("its type is {}, not \"object\": clients send an object", schema["type"])),
    };
    match fault {
        Some(fault) => Err((Reason::InvalidSchema, "spec.tool.inputSchema".to_owned(), fault)),
        None => Ok(()),
    }
}
