//! Pipelines of agents in a given order (document 002).

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::shared::ObjectRef;
use crate::api::values::{DNS_LABEL, FreeObject};

/// Agents, where to start, and what is inserted or changed (PipelineConfig).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "self.agents.exists(a, a.name == (has(self.startAgent) ? self.startAgent : 'coordinator'))"
).message(
    "startAgent (default coordinator) must be one of agents"
))]
#[x_kube(validation = Rule::new(
    "self.agents.all(a, (!has(a.nextOnSuccess) || self.agents.exists(b, b.name == a.nextOnSuccess)) && (!has(a.nextOnFailure) || self.agents.exists(b, b.name == a.nextOnFailure)) && (!has(a.loopBackTo) || self.agents.exists(b, b.name == a.loopBackTo)))"
).message(
    "agents: nextOnSuccess, nextOnFailure and loopBackTo must name one of agents"
))]
#[x_kube(validation = Rule::new(
    "!has(self.insertPhases) || self.insertPhases.all(p, self.agents.exists(a, a.name == (has(p.before) ? p.before : p.after)))"
).message(
    "insertPhases: before and after must name one of agents"
))]
#[x_kube(validation = Rule::new(
    "!has(self.customizations) || self.customizations.all(c, (!has(c.disabledAgents) || c.disabledAgents.all(d, self.agents.exists(a, a.name == d))) && (!has(c.agentOverrides) || c.agentOverrides.all(o, self.agents.exists(a, a.name == o.agent))))"
).message(
    "customizations: disabledAgents and agentOverrides must name one of agents"
))]
#[x_kube(validation = Rule::new(
    "!has(self.customizations) || self.customizations.all(c, !has(c.disabledAgents) || !((has(self.startAgent) ? self.startAgent : 'coordinator') in c.disabledAgents))"
).message(
    "customizations: startAgent cannot be disabled"
))]
pub struct Declared {
    /// Where a run begins. Default: coordinator.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub start_agent: Option<String>,
    /// Agents that one run may go through. Default: 15.
    #[schemars(range(min = 1, max = 1000))]
    pub max_iterations: Option<u32>,
    /// The agents.
    #[schemars(length(min = 1, max = 32))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub agents: Vec<Agent>,
    /// Steps of plugins before or after agents. Default: none.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub insert_phases: Option<Vec<InsertedPhase>>,
    /// Changes, in this order, each where its `when` holds. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub customizations: Option<Vec<Customization>>,
    /// Plugins of type pipeline-customizer, asked after the changes above. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub customizers: Option<Vec<ObjectRef>>,
    /// Plugins of type prompt-provider; later ones win. Default: none.
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub prompt_providers: Option<Vec<ObjectRef>>,
    /// How the answer is written. Default: each field's.
    pub synthesizer: Option<Synthesizer>,
}

/// One agent (AgentConfig).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "has(self.plugin) == (self.type == 'custom')"
).message(
    "an agent of type custom needs `plugin` (a Plugin of type phase); the others have none"
))]
#[x_kube(validation = Rule::new(
    "has(self.loopCondition) == has(self.loopBackTo)"
).message(
    "loopCondition and loopBackTo go together"
))]
pub struct Agent {
    /// What others call it.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// What it does.
    pub r#type: AgentType,
    /// Default: true.
    pub enabled: Option<bool>,
    /// A model's role. Default: analytical.
    #[schemars(length(min = 1, max = 63))]
    pub model_tier: Option<String>,
    /// The agent that comes next. Default: none, the run ends.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub next_on_success: Option<String>,
    /// The agent that comes when this one failed. Default: none, the run fails.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub next_on_failure: Option<String>,
    /// CEL; while it holds, the run goes back to `loopBackTo`. Default: none.
    #[schemars(length(min = 1, max = 1024))]
    pub loop_condition: Option<String>,
    /// The agent to go back to. Default: none.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub loop_back_to: Option<String>,
    /// With type custom: a Plugin of type phase. Default: none.
    pub plugin: Option<ObjectRef>,
    /// What it is told. Default: none.
    pub config: Option<FreeObject>,
}

/// What an agent does (AgentType).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentType {
    /// Decides what the question needs.
    Coordinator,
    /// Looks into what is known.
    Background,
    /// Makes a plan.
    Planner,
    /// Gathers.
    Researcher,
    /// Judges whether it suffices.
    Reflector,
    /// Writes the answer.
    Synthesizer,
    /// What its plugin does.
    Custom,
}

/// A plugin's step beside an agent (PhaseInsertion).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "has(self.before) != has(self.after)"
).message(
    "insertPhases: give exactly one of before, after"
))]
pub struct InsertedPhase {
    /// The step's name.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// A Plugin of type phase.
    pub plugin: ObjectRef,
    /// The agent that it precedes. Default: none.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub before: Option<String>,
    /// The agent that it follows. Default: none.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub after: Option<String>,
    /// What it is told. Default: none.
    pub config: Option<FreeObject>,
}

/// A change of the pipeline (PipelineCustomization).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Customization {
    /// Its name.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub name: String,
    /// CEL over the call. Default: always.
    #[schemars(length(min = 1, max = 1024))]
    pub when: Option<String>,
    /// Agents that are passed over. Default: none.
    #[schemars(length(max = 32), inner(length(min = 1, max = 63), regex(pattern = DNS_LABEL)))]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub disabled_agents: Option<Vec<String>>,
    /// What is changed about agents. Default: nothing.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["agent"]))]
    pub agent_overrides: Option<Vec<AgentOverride>>,
    /// Further steps of plugins. Default: none.
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub insert_phases: Option<Vec<InsertedPhase>>,
}

/// What is changed about one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentOverride {
    /// The agent.
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub agent: String,
    /// A model's role. Default: the agent's.
    #[schemars(length(min = 1, max = 63))]
    pub model_tier: Option<String>,
    /// Default: the agent's.
    pub enabled: Option<bool>,
    /// Top-level keys replace the agent's; nothing below them is merged. Default: none.
    pub config: Option<FreeObject>,
}

/// How the answer is written (SynthesizerConfig).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Synthesizer {
    /// The name under `output`. Default: report.
    #[schemars(length(min = 1, max = 63))]
    pub output_type: Option<String>,
    /// A model's role. Default: complex.
    #[schemars(length(min = 1, max = 63))]
    pub model_tier: Option<String>,
    /// Tokens of the answer. Default: 8000.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_tokens: Option<u32>,
    /// From 0 to 2. Default: 0.7.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f64>,
    /// Text after the system prompt. Default: none.
    #[schemars(length(max = 8192))]
    pub system_prompt_addition: Option<String>,
    /// Default: json.
    #[schemars(length(max = 32))]
    pub output_format: Option<String>,
    /// Whether an answer that does not fit the schema fails. Default: true.
    pub validation_strict: Option<bool>,
}
