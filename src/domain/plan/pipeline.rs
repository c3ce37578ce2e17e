//! A pipeline: its tool, its agents and its limits (document 002, `PipelineConfig`).

use serde::{Deserialize, Serialize};

use super::{CustomizationPlan, InsertedPhasePlan, ModelPlan, OutputTypePlan, PhasePluginPlan, SynthesizerPlan};
use crate::domain::ids::ObjectKey;
use crate::domain::partition::StoreScope;

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
    /// The language models, by role. One of the pipeline precedes one of the gateway.
    #[serde(default)]
    pub models: Vec<ModelPlan>,
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
    /// Changes for runs whose call fits them, in their order.
    #[serde(default)]
    pub customizations: Vec<CustomizationPlan>,
    /// Plugins that change the pipeline for one run, after `customizations`.
    #[serde(default)]
    pub customizers: Vec<PhasePluginPlan>,
    /// Plugins that change the prompts of agents. Later ones take precedence.
    #[serde(default)]
    pub prompt_providers: Vec<PhasePluginPlan>,
    /// Wrappers of the stage types that steps can run (`ctx.externalHelpers`), those of the pipeline's namespace first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub helpers: Vec<PhasePluginPlan>,
    /// Whose values the steps store.
    #[serde(default, skip_serializing_if = "PipelineStorePlan::is_default")]
    pub store: PipelineStorePlan,
    /// JSON Schema of the output; `None` admits any JSON object.
    pub output_schema: Option<String>,
    /// The plugin that defines the form of the output, in the place of `output_schema`.
    #[serde(default)]
    pub output_type: Option<OutputTypePlan>,
    /// Whether the output is a report of the default form.
    #[serde(default)]
    pub is_report: bool,
    /// How the output is written by an agent that is a synthesizer.
    #[serde(default)]
    pub synthesizer: SynthesizerPlan,
}

/// Whose values the steps of a pipeline store (`ctx.store`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineStorePlan {
    /// Whose values a run writes.
    pub scope: StoreScope,
    /// CEL over `identity`: who writes the values of the scope `Shared`.
    pub writers: Option<String>,
}

impl PipelineStorePlan {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The limits of one run of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PipelineBudgets {
    /// Seconds that a run can take.
    pub timeout_seconds: u32,
    /// Maximum number of tool calls.
    pub max_tool_calls: u32,
    /// Maximum number of calls of language models.
    pub max_llm_calls: u32,
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
    /// What the agent does.
    pub kind: AgentKind,
    /// The role of the model that the agent uses; `None` if it may use none, or if the plugin of the output decides.
    pub model_role: Option<String>,
    /// The plugin that a custom agent runs. Others have its configuration alone.
    pub plugin: PhasePluginPlan,
    /// The agent that runs after this one has succeeded; `None` ends the run.
    pub next_on_success: Option<String>,
    /// The agent that runs after this one has failed; `None` fails the run.
    pub next_on_failure: Option<String>,
    /// While the condition holds, the run returns to the agent: the CEL text and the name.
    pub repeat: Option<(String, String)>,
}

/// The type of an agent (document 002, `AgentType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentKind {
    /// Judges the question.
    Coordinator,
    /// Collects context by one round of tool calls.
    Background,
    /// Makes a plan of steps.
    Planner,
    /// Carries out steps of the plan with tools.
    Researcher,
    /// Judges whether the observations suffice.
    Reflector,
    /// Writes the output.
    Synthesizer,
    /// Runs a plugin.
    Custom,
}

impl AgentKind {
    const ALL: [Self; 7] = [
        Self::Coordinator,
        Self::Background,
        Self::Planner,
        Self::Researcher,
        Self::Reflector,
        Self::Synthesizer,
        Self::Custom,
    ];

    /// Returns the type with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Returns the default role of the model of such agents; `None` if they need no model.
    pub fn default_role(self) -> Option<&'static str> {
        match self {
            Self::Custom => None,
            Self::Synthesizer => Some("complex"),
            _ => Some("analytical"),
        }
    }

    /// Returns the name of the type, as manifests have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Background => "background",
            Self::Planner => "planner",
            Self::Researcher => "researcher",
            Self::Reflector => "reflector",
            Self::Synthesizer => "synthesizer",
            Self::Custom => "custom",
        }
    }
}

impl PipelinePlan {
    /// The mode of pipelines whose agents run in a declared order, as their status has it.
    pub const MODE: &str = "Declared";

    /// Returns the model for a role: that of the plugin alone, if there is one, or else that of all. A role with a slash is
    /// that of one plugin, which others cannot name.
    pub fn model(&self, plugin: Option<&str>, role: &str) -> Option<&ModelPlan> {
        let find = |wanted: &str| self.models.iter().find(|model| model.role == wanted);
        plugin
            .and_then(|plugin| find(&format!("{plugin}/{role}")))
            .or_else(|| find(role).filter(|_| plugin.is_none() || !role.contains('/')))
    }

    /// Returns the index of the agent with this name.
    pub fn agent(&self, name: &str) -> Option<usize> {
        self.agents.iter().position(|agent| agent.name == name)
    }

    /// Returns the name of the tool that clients call.
    pub fn tool_name(&self) -> String {
        let definition: serde_json::Value = serde_json::from_str(&self.definition).unwrap_or_default();
        definition["name"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the plugins of all steps, and those that change the pipeline, its prompts or its output.
    pub fn plugins(&self) -> impl Iterator<Item = &PhasePluginPlan> {
        let inserted = self.customizations.iter().flat_map(|change| &change.phases);
        let phases = self.phases.iter().chain(inserted).map(|phase| &phase.plugin);
        let custom = self.agents.iter().filter(|agent| agent.kind == AgentKind::Custom);
        let output = self.output_type.iter().map(|output| &output.plugin);
        let given = self.customizers.iter().chain(&self.prompt_providers).chain(output);
        custom.map(|agent| &agent.plugin).chain(phases).chain(given)
    }

    /// Returns the plugins of agents whose configuration a customization changes.
    pub fn configured_by_customizations(&self) -> impl Iterator<Item = &ObjectKey> {
        let changes = self.customizations.iter().flat_map(|change| &change.overrides);
        let changed = changes.filter(|change| change.config.is_some());
        changed.filter_map(|change| Some(&self.agents[self.agent(&change.agent)?].plugin.key))
    }

    /// Returns the same plugins, to be changed, with the field of each in the manifest.
    pub fn plugins_mut(&mut self) -> impl Iterator<Item = (String, &mut PhasePluginPlan)> {
        let field = |list: &str, index: usize| format!("spec.declared.{list}[{index}].plugin");
        let agents = self.agents.iter_mut().enumerate().filter(|(_, agent)| agent.kind == AgentKind::Custom);
        let agents = agents.map(move |(index, agent)| (field("agents", index), &mut agent.plugin));
        let phases = self.phases.iter_mut().enumerate();
        let inserted = self.customizations.iter_mut().enumerate().flat_map(move |(index, change)| {
            change
                .phases
                .iter_mut()
                .map(move |phase| (format!("spec.declared.customizations[{index}].insertPhases"), &mut phase.plugin))
        });
        let phases = phases.map(move |(index, phase)| (field("insertPhases", index), &mut phase.plugin));
        let providers = self.prompt_providers.iter_mut().enumerate();
        let providers = providers.map(|(index, plugin)| (format!("spec.declared.promptProviders[{index}]"), plugin));
        let customizers = self.customizers.iter_mut().enumerate();
        let customizers = customizers.map(|(index, plugin)| (format!("spec.declared.customizers[{index}]"), plugin));
        let output = self.output_type.iter_mut().map(|output| ("spec.output.plugin".to_owned(), &mut output.plugin));
        agents.chain(phases).chain(inserted).chain(customizers).chain(providers).chain(output)
    }
}
