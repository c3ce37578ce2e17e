//! Pipelines whose agents run in a declared order (document 002).

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::ObjectRef;
use crate::api::values::{DNS_LABEL, FreeObject};
use crate::domain::pipeline::rules;

/// A pipeline whose agents run in a declared order: its agents, and changes to them (document 002, PipelineConfig).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "self.agents.exists(a, a.name == (has(self.startAgent) ? self.startAgent : 'coordinator'))"
).message(rules::START_AGENT))]
#[x_kube(validation = Rule::new(
    "self.agents.all(a, (!has(a.nextOnSuccess) || self.agents.exists(b, b.name == a.nextOnSuccess)) && (!has(a.nextOnFailure) || self.agents.exists(b, b.name == a.nextOnFailure)) && (!has(a.loopBackTo) || self.agents.exists(b, b.name == a.loopBackTo)))"
).message(rules::TRANSITIONS))]
#[x_kube(validation = Rule::new(
    "!has(self.insertPhases) || self.insertPhases.all(p, self.agents.exists(a, a.name == (has(p.before) ? p.before : p.after)))"
).message(rules::PHASES))]
#[x_kube(validation = Rule::new(
    "!has(self.customizations) || self.customizations.all(c, (!has(c.disabledAgents) || c.disabledAgents.all(d, self.agents.exists(a, a.name == d))) && (!has(c.agentOverrides) || c.agentOverrides.all(o, self.agents.exists(a, a.name == o.agent))))"
).message(rules::CHANGED_AGENTS))]
#[x_kube(validation = Rule::new(
    "!has(self.customizations) || self.customizations.all(c, !has(c.disabledAgents) || !((has(self.startAgent) ? self.startAgent : 'coordinator') in c.disabledAgents))"
).message(rules::START_DISABLED))]
pub struct Declared {
    /// Name of the agent that a run begins with. Default: coordinator.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub start_agent: Option<String>,
    /// Maximum number of times that one run executes an agent, over all agents. Default: 15.
    #[schemars(range(min = 1, max = 1000))]
    pub max_iterations: Option<u32>,
    /// Agents of the pipeline.
    #[schemars(length(min = 1, max = 32))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub agents: Vec<Agent>,
    /// Plugins that run before or after agents. Default: none.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub insert_phases: Option<Vec<InsertedPhase>>,
    /// Changes to the pipeline, applied in the order of this list. A change applies only to runs for which its `when`
    /// holds. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub customizations: Option<Vec<Customization>>,
    /// Plugins of type pipeline-customizer, called after `customizations` are applied. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub customizers: Option<Vec<ObjectRef>>,
    /// Plugins of type prompt-provider; plugins later in the list take precedence. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub prompt_providers: Option<Vec<ObjectRef>>,
    /// How the final answer is written. Default: each field's own default.
    pub synthesizer: Option<Synthesizer>,
}

/// An agent of a pipeline (document 002, AgentConfig).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "has(self.plugin) == (self.type == 'custom')"
).message(rules::AGENT_PLUGIN))]
#[x_kube(validation = Rule::new(
    "has(self.loopCondition) == has(self.loopBackTo)"
).message(rules::LOOP))]
pub struct Agent {
    /// Name by which other fields refer to the agent.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// Type of the agent, which determines what the agent does.
    pub r#type: AgentType,
    /// Whether the agent runs. Default: true.
    pub enabled: Option<bool>,
    /// Role of the model that the agent uses. Default: analytical.
    #[schemars(length(min = 1, max = 63))]
    pub model_tier: Option<String>,
    /// Agent that runs after this one has succeeded. Default: none; the run ends.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub next_on_success: Option<String>,
    /// Agent that runs after this one has failed. Default: none; the run fails.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub next_on_failure: Option<String>,
    /// CEL condition. While it holds, the run returns to the agent in `loopBackTo`. Default: none.
    #[schemars(length(min = 1, max = 1024))]
    pub loop_condition: Option<String>,
    /// Agent to which the run returns while `loopCondition` holds. Default: none.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub loop_back_to: Option<String>,
    /// Plugin of type phase, for an agent of type custom. Default: none.
    pub plugin: Option<ObjectRef>,
    /// Configuration for the agent, any JSON object. Default: none.
    pub config: Option<FreeObject>,
}

/// Type of an agent (document 002, AgentType).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentType {
    /// Decides what the question needs.
    Coordinator,
    /// Collects what is already known.
    Background,
    /// Makes a plan.
    Planner,
    /// Gathers information.
    Researcher,
    /// Judges whether the information suffices.
    Reflector,
    /// Writes the answer.
    Synthesizer,
    /// Runs the agent's plugin.
    Custom,
}

/// A plugin that runs before or after an agent (document 002, PhaseInsertion).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "has(self.before) != has(self.after)"
).message(rules::BEFORE_OR_AFTER))]
pub struct InsertedPhase {
    /// Name of the step.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// Plugin of type phase.
    pub plugin: ObjectRef,
    /// Agent before which the step runs. Default: none.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub before: Option<String>,
    /// Agent after which the step runs. Default: none.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub after: Option<String>,
    /// Configuration for the plugin, any JSON object. Default: none.
    pub config: Option<FreeObject>,
}

/// A change to the pipeline (document 002, PipelineCustomization).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Customization {
    /// Name of the change, unique in the list.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// CEL condition over the call. Default: the change always applies.
    #[schemars(length(min = 1, max = 1024))]
    pub when: Option<String>,
    /// Names of the agents to skip. Default: none.
    #[schemars(length(max = 32), inner(length(min = 1, max = 63), regex(pattern = DNS_LABEL)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub disabled_agents: Option<Vec<String>>,
    /// Changes to individual agents. Default: none.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["agent"]))]
    pub agent_overrides: Option<Vec<AgentOverride>>,
    /// Additional plugins that run before or after agents. Default: none.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub insert_phases: Option<Vec<InsertedPhase>>,
}

/// Changes to one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentOverride {
    /// Name of the agent.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub agent: String,
    /// Role of the model that the agent uses. Default: the agent's own `modelTier`.
    #[schemars(length(min = 1, max = 63))]
    pub model_tier: Option<String>,
    /// Whether the agent runs. Default: the agent's own `enabled`.
    pub enabled: Option<bool>,
    /// Keys that replace top-level keys of the agent's `config`; nested objects are replaced as a whole, not merged.
    /// Default: none.
    pub config: Option<FreeObject>,
}

/// How the final answer is written (document 002, SynthesizerConfig).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Synthesizer {
    /// Name of the output form that the answer has, as set in `output.name`. Default: report.
    #[schemars(length(min = 1, max = 63))]
    pub output_type: Option<String>,
    /// Role of the model that writes the answer. Default: complex.
    #[schemars(length(min = 1, max = 63))]
    pub model_tier: Option<String>,
    /// Maximum number of tokens in the answer. Default: 8000.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_tokens: Option<u32>,
    /// Sampling temperature, from 0 to 2. Default: 0.7.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f64>,
    /// Text that is appended to the system prompt. Default: none.
    #[schemars(length(max = 8192))]
    pub system_prompt_addition: Option<String>,
    /// Format of the answer. Default: json.
    #[schemars(length(max = 32))]
    pub output_format: Option<String>,
    /// Whether the run fails if the answer does not match the schema in `output`. Default: true.
    pub validation_strict: Option<bool>,
}
