//! Changes of a pipeline for one run by its plugins: those of type pipeline-customizer (document 002, `PipelineCustomizer` and
//! `PhaseProvider`), and then the one that defines its output.

use serde::de::DeserializeOwned;

use super::context::RunContext;
use super::output::RunFailure;
use crate::config::expr::Expression;
use crate::config::variables::OF_LOOPS;
use crate::domain::pipeline::{Customizable, CustomizerResult, PhaseOfPlugin, Step, StepRole};
use crate::domain::plan::{PhasePluginPlan, PipelinePlan};
use crate::domain::plugin::Failure;
use crate::domain::reason::Reason;
use crate::engine::plan::linked_pipeline::LinkedPipeline;

/// The functions of such a plugin.
pub(super) const GET_CONFIG: &str = "getPipelineConfig";
pub(super) const GET_CHANGES: &str = "getPipelineCustomizations";
pub(super) const GET_PHASES: &str = "getPhases";

impl RunContext<'_> {
    /// Returns the pipeline as its plugins change it for this run; `None` if it has no such plugin.
    ///
    /// # Errors
    /// If one of them fails, or returns what breaks a rule.
    pub(super) async fn changed(&self) -> Result<Option<LinkedPipeline>, RunFailure> {
        if self.plan.customizers.is_empty() && self.plan.output_type.is_none() {
            return Ok(None);
        }
        let mut plan = self.plan.clone();
        // They are applied already.
        plan.customizations.clear();
        for customizer in &self.plan.customizers {
            plan = self.customized(&plan, customizer).await?;
        }
        if let Some(output) = &self.plan.output_type {
            self.shape_output(&mut plan, output).await?;
        }
        Ok(Some(LinkedPipeline::new(&plan)))
    }

    async fn customized(&self, plan: &PipelinePlan, customizer: &PhasePluginPlan) -> Result<PipelinePlan, RunFailure> {
        let name = format!("customizer/{}", customizer.key.name);
        let step = Step { name: &name, plugin: customizer, role: StepRole::Phase };
        let mut returned = CustomizerResult {
            config: self.call_plugin(step, GET_CONFIG, Vec::new(), parse).await?,
            ..CustomizerResult::default()
        };
        if returned.config.is_none() {
            returned.changes = self.call_plugin(step, GET_CHANGES, Vec::new(), parse).await?;
        }
        let phases: Option<Vec<PhaseOfPlugin>> = self.call_plugin(step, GET_PHASES, Vec::new(), parse).await?;
        returned.phases = phases.unwrap_or_default();
        let namespace = &self.call.plan().key.namespace;
        let pipeline = Customizable { declared: &self.pipeline.plan, namespace };
        let changed = pipeline.apply(plan, returned).and_then(with_valid_loops);
        changed.map_err(|why| RunFailure::of_step(&name, Failure::quoting(Reason::InvalidCustomization, why)))
    }
}

fn with_valid_loops(plan: PipelinePlan) -> Result<PipelinePlan, String> {
    for agent in &plan.agents {
        let Some((condition, _)) = &agent.repeat else { continue };
        Expression::compile(condition, OF_LOOPS)
            .map_err(|why| format!("agents: a loopCondition is not valid: {why}"))?;
    }
    Ok(plan)
}

/// Reads the result of a function, which may be null. The message holds no content.
pub(super) fn parse<T: DeserializeOwned>(json: &str) -> Result<Option<T>, String> {
    serde_json::from_str(json).map_err(|error| {
        let text = error.to_string();
        // The rest of the message has names of the plugin.
        let rest = text
            .strip_prefix("unknown field ")
            .and_then(|rest| rest.rsplit_once(", expected ")?.1.split_once(" at line "));
        match rest {
            Some((expected, _)) => format!("its result has an unknown member: expected {expected}"),
            None => "its result has a member that is missing, or of a wrong type".to_owned(),
        }
    })
}
