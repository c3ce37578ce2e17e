//! A pipeline: its tool, its agents and its limits (document 002, `PipelineConfig`).

use serde::{Deserialize, Serialize};

use super::Refusal;
use crate::domain::ids::ObjectKey;

/// A pipeline with all defaults filled in. In a plan it is the transport of an upstream of its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelinePlan {
    /// The definition of the tool that clients call, as JSON.
    pub definition: String,
    /// The argument that is the query of a run.
    pub query_argument: String,
    /// Globs that match the public names of the tools that steps can call. Empty means none.
    pub include: Vec<String>,
    /// Globs that match the public names of tools that steps cannot call, even if `include` matches them.
    pub exclude: Vec<String>,
    /// The limits of one run.
    pub budgets: PipelineBudgets,
    /// The agent that a run begins with.
    pub start_agent: String,
    /// Maximum number of times that one run executes an agent, over all agents.
    pub max_iterations: u32,
    /// The agents, in the order of the manifest.
    pub agents: Vec<AgentPlan>,
    /// Plugins that run before or after agents, in the order of the manifest.
    pub phases: Vec<InsertedPhasePlan>,
    /// JSON Schema of the output; `None` admits any JSON object.
    pub output_schema: Option<String>,
}

/// The limits of one run of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineBudgets {
    /// Seconds that a run can take.
    pub timeout_seconds: u32,
    /// Maximum number of tool calls.
    pub max_tool_calls: u32,
    /// Maximum size of the arguments in bytes.
    pub max_input: u64,
}

/// An agent of a pipeline (document 002, `AgentConfig`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentPlan {
    /// The name by which other fields refer to the agent.
    pub name: String,
    /// Whether the agent runs.
    pub enabled: bool,
    /// The plugin that the agent runs.
    pub plugin: PhasePluginPlan,
    /// The agent that runs after this one has succeeded; `None` ends the run.
    pub next_on_success: Option<String>,
    /// The agent that runs after this one has failed; `None` fails the run.
    pub next_on_failure: Option<String>,
    /// While the condition holds, the run returns to the agent: the CEL text and the name.
    pub repeat: Option<(String, String)>,
}

/// A plugin that runs before or after an agent (document 002, `PhaseInsertion`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InsertedPhasePlan {
    /// The name of the step.
    pub name: String,
    /// The plugin that the step runs.
    pub plugin: PhasePluginPlan,
    /// The agent.
    pub agent: String,
    /// Whether the step runs before the agent; otherwise it runs after it.
    pub is_before: bool,
}

/// A plugin of type phase, as a step of a pipeline uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhasePluginPlan {
    /// The plugin.
    pub key: ObjectKey,
    /// The configuration of the step, whose keys replace those of the plugin's configuration, as JSON.
    pub config: Option<String>,
    /// Why the plugin cannot run.
    pub unavailable: Option<Refusal>,
}

impl PipelinePlan {
    /// The mode of pipelines whose agents run in a declared order, as their status has it.
    pub const MODE: &str = "Declared";

    /// Returns the index of the agent with this name.
    pub fn agent(&self, name: &str) -> Option<usize> {
        self.agents.iter().position(|agent| agent.name == name)
    }

    /// Returns the name of the tool that clients call.
    pub fn tool_name(&self) -> String {
        let definition: serde_json::Value = serde_json::from_str(&self.definition).unwrap_or_default();
        definition["name"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the plugins of all steps.
    pub fn plugins(&self) -> impl Iterator<Item = &PhasePluginPlan> {
        let phases = self.phases.iter().map(|phase| &phase.plugin);
        self.agents.iter().map(|agent| &agent.plugin).chain(phases)
    }

    /// Returns the plugins of all steps, to be changed, with the field of each in the manifest.
    pub fn plugins_mut(&mut self) -> impl Iterator<Item = (String, &mut PhasePluginPlan)> {
        let field = |list: &str, index: usize| format!("spec.declared.{list}[{index}].plugin");
        let agents = self.agents.iter_mut().enumerate();
        let agents = agents.map(move |(index, agent)| (field("agents", index), &mut agent.plugin));
        let phases = self.phases.iter_mut().enumerate();
        agents.chain(phases.map(move |(index, phase)| (field("insertPhases", index), &mut phase.plugin)))
    }
}
