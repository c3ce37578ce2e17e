//! Compiles pipelines: which ones the gateway takes, and which of their forms are in force.

use serde_json::Value;

use super::kept::{accepted, kept_forms};
use super::names::Candidate;
use super::plugins::Plugins;
use super::takes::{by_both, takes};
use super::{Faults, FieldFault, bounds, id, values};
use crate::config::expr::Expression;
use crate::config::input::{Inputs, PipelineInput};
use crate::config::variables::{OF_CUSTOMIZATIONS, OF_LOOPS};
use crate::domain::ids::{Kind, ObjectKey};
use crate::domain::pipeline::{check_output_schema, rules};
use crate::domain::plan::{GatewayTakes, ModelPlan, PipelinePlan, Plan, UpstreamPlan};
use crate::domain::problem::Problem;
use crate::domain::reason::Reason;
use crate::domain::schema::schema_fault;

/// What pipelines are compiled for.
pub(super) struct PipelineContext<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) previous: Option<&'a Plan>,
    pub(super) gateway: &'a ObjectKey,
    /// The models of the gateway, for roles of which a pipeline has none.
    pub(super) models: &'a [ModelPlan],
    /// What the gateway takes; `None` means everything.
    pub(super) takes: Option<&'a GatewayTakes>,
    pub(super) plugins: &'a Plugins<'a>,
}

/// Returns the pipelines that the gateway takes, as upstreams that the gateway runs itself.
pub(super) fn compile(context: &PipelineContext<'_>, problems: &mut Vec<Problem>) -> Vec<Candidate> {
    let PipelineContext { inputs, previous, gateway, takes, .. } = *context;
    let mut candidates = Vec::new();
    for pipeline in &inputs.pipelines {
        if context.takes_pipeline(pipeline, problems) {
            let written = &pipeline.plan;
            let form = context.form_in_force(written, context.accept_pipeline(written), problems);
            let before = context.before(written).filter(|before| before.pipeline().is_some()).map(|before| {
                let form = accepted(before).unwrap_or_else(|| before.clone());
                context.kept_form(UpstreamPlan { enabled: written.enabled, ..form }, &mut Vec::new())
            });
            candidates.push(Candidate { before, ..Candidate::new(form) });
        }
    }
    let taken = takes.map(|takes| &takes.pipelines);
    for kept in kept_forms(Kind::ToolPipeline, inputs, previous, gateway, taken) {
        candidates.push(Candidate { form: context.kept_form(kept.form, problems), ..kept });
    }
    candidates
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

impl PipelineContext<'_> {
    fn takes_pipeline(&self, pipeline: &PipelineInput, problems: &mut Vec<Problem>) -> bool {
        let (Some(wanted), plan) = (self.takes, &pipeline.plan) else { return true };
        let gateway = self.gateway;
        let taken = takes(&wanted.pipelines, &gateway.namespace, &plan.key.namespace, &plan.labels, self.inputs);
        let object = id(Kind::ToolPipeline, &plan.key);
        by_both((gateway, taken, "spec.pipelines"), object, &pipeline.gateways, problems)
    }

    /// Returns what is wrong with a pipeline as written, apart from what it refers to.
    fn accept_pipeline(&self, plan: &UpstreamPlan) -> Vec<FieldFault> {
        let Some(pipeline) = plan.pipeline() else { return Vec::new() };
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
        faults.take(check_input_schema(pipeline));
        let output = pipeline.output_schema.as_deref().map_or(Ok(()), check_output_schema);
        faults.take(output.map_err(|(reason, why)| (reason, "spec.output.schema".to_owned(), why)));
        faults.take(bounds::check(self.inputs, &id(Kind::ToolPipeline, &plan.key), plan));
        faults.0
    }
}
