//! Changes to a pipeline for some of its runs (document 002, `PipelineCustomization`).

use serde::{Deserialize, Serialize};

use super::InsertedPhasePlan;

/// A change to a pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomizationPlan {
    /// Its name.
    pub name: String,
    /// The condition over the call, as CEL; `None` always holds.
    pub when: Option<String>,
    /// Agents that do not run.
    pub disabled_agents: Vec<String>,
    /// Changes to agents.
    pub overrides: Vec<AgentOverridePlan>,
    /// Plugins that run before or after agents, after those of the pipeline.
    pub phases: Vec<InsertedPhasePlan>,
}

/// A change to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentOverridePlan {
    /// The name of the agent.
    pub agent: String,
    /// The role of its model.
    pub model_role: Option<String>,
    /// Whether it runs.
    pub enabled: Option<bool>,
    /// Keys that replace those of its configuration, as JSON.
    pub config: Option<String>,
}
