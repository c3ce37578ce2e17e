//! Changes to a pipeline for one run (document 002, `PipelineCustomization`).

use serde_json::{Map, Value};

use crate::domain::plan::{AgentOverridePlan, CustomizationPlan, PipelinePlan};

/// Returns a pipeline with a change.
#[must_use]
pub fn customized(mut plan: PipelinePlan, change: &CustomizationPlan) -> PipelinePlan {
    for disabled in &change.disabled_agents {
        plan.agents.iter_mut().filter(|agent| agent.name == *disabled).for_each(|agent| agent.enabled = false);
    }
    for AgentOverridePlan { agent, model_role, enabled, config } in &change.overrides {
        for agent in plan.agents.iter_mut().filter(|known| known.name == *agent) {
            agent.model_role = model_role.clone().or(agent.model_role.take());
            agent.enabled = enabled.unwrap_or(agent.enabled);
            agent.plugin.config = replaced(agent.plugin.config.take(), config.as_deref());
        }
    }
    plan.phases.extend(change.phases.iter().cloned());
    plan
}

/// Returns a configuration whose top-level keys are replaced.
fn replaced(config: Option<String>, by: Option<&str>) -> Option<String> {
    let Some(by) = by else { return config };
    let read = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
    let mut members = config.as_deref().map(read).unwrap_or_default();
    members.extend(read(by));
    Some(Value::Object(members).to_string())
}
