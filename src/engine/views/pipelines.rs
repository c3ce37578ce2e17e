//! The pipelines that the admin API shows.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::Views;
use crate::domain::item::ItemKind;
use crate::domain::pipeline::{PipelineMachine, StepRole};
use crate::domain::plan::{AgentKind, AgentPlan, InsertedPhasePlan, PhasePluginPlan, PipelinePlan};
use crate::engine::in_flight::run::RunEntry;
use crate::engine::pipelines::{applying, customized};
use crate::engine::plan::link::{Globs, LinkedUpstream};
use crate::engine::plan::linked_pipeline::LinkedPipeline;
use crate::engine::plan::snapshot::Snapshot;
use crate::engine::request::Endpoint;

/// A pipeline (document 002, `PipelineConfig`).
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineView {
    /// The pipeline, as `namespace/name`.
    pub pipeline: String,
    /// Its name, without the namespace.
    pub name: String,
    /// Whether it is enabled.
    pub enabled: bool,
    /// The name of its tool.
    pub tool: String,
    /// How the agents are run.
    pub mode: &'static str,
    /// Why its calls are refused; absent if they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusing: Option<String>,
    /// The number of its runs in progress.
    pub running: usize,
    /// The agent that a run begins with.
    pub start_agent: String,
    /// The agents and phases, in the order of the manifest; a phase is beside its agent. For given arguments, those that run
    /// if each agent succeeds and no loop goes back, in their order.
    pub steps: Vec<StepView>,
    /// The changes for some of its runs.
    pub customizations: Vec<ChangeView>,
    /// The plugins that change the pipeline for single runs.
    pub customizers: Vec<String>,
    /// The plugins that change prompts of agents.
    pub prompt_providers: Vec<String>,
    /// The plugin that defines the form of the output; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_type: Option<String>,
    /// The language models, by role.
    pub models: Vec<ModelView>,
    /// The tools that steps can call now.
    pub tools: Vec<String>,
    /// Patterns of `spec.tools.include` that match no tool now.
    pub unmatched: Vec<String>,
    /// The limits of one run.
    pub budgets: BudgetsView,
}

/// An agent or a phase of a pipeline.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepView {
    /// Its name.
    pub name: String,
    /// The type of the agent, or `phase`.
    pub r#type: &'static str,
    /// Whether it runs.
    pub enabled: bool,
    /// The plugin that it runs; absent if it needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// The role of its model; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_role: Option<String>,
    /// The agent before which the phase runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The agent after which the phase runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The agent that follows a success; absent if the run then ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_on_success: Option<String>,
    /// The agent that follows a failure; absent if the run then fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_on_failure: Option<String>,
    /// While this condition holds, the run goes back to `loopBackTo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loop_condition: Option<String>,
    /// The agent that the run goes back to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loop_back_to: Option<String>,
}

/// A change for some runs of a pipeline.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ChangeView {
    /// Its name.
    pub name: String,
    /// The condition of the change; absent if it always applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Whether it applies to a run with the given arguments; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applies: Option<bool>,
}

/// A language model of a pipeline.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelView {
    /// The role.
    pub role: String,
    /// The name of the model at its endpoint.
    pub model: String,
    /// Whether it is one of the gateway, and not of the pipeline.
    pub of_gateway: bool,
}

/// The limits of one run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetsView {
    /// Seconds that a run can take.
    pub timeout_seconds: u32,
    /// Maximum number of times that a run executes an agent.
    pub max_iterations: u32,
    /// Maximum number of tool calls.
    pub max_tool_calls: u32,
    /// Maximum number of requests of models.
    #[serde(rename = "maxLLMCalls")]
    pub max_llm_calls: u32,
}

impl Views {
    /// Returns every pipeline of the plan, as a run with these arguments has it. First waits, for at most the list timeout,
    /// until each upstream has been tried once.
    pub async fn pipelines(&self, arguments: Option<&Value>) -> Vec<PipelineView> {
        self.lists.wait_for_lists(&self.in_force.snapshot(), &Endpoint::All, ItemKind::Tool).await;
        let snapshot = self.in_force.snapshot();
        let of = |upstream: &LinkedUpstream| {
            let linked = upstream.pipeline.as_ref()?;
            let view = self.pipeline_view(&snapshot, upstream, linked);
            Some(match arguments {
                Some(arguments) => view.of_run(linked, arguments),
                None => view,
            })
        };
        snapshot.linked.upstreams.iter().filter_map(of).collect()
    }

    fn pipeline_view(&self, snapshot: &Snapshot, upstream: &LinkedUpstream, linked: &LinkedPipeline) -> PipelineView {
        let (key, plan) = (&upstream.target.plan.key, &linked.plan);
        let name = key.to_string();
        let is_running = |run: &Arc<RunEntry>| run.is_in_progress_of(&name);
        let public: Vec<_> = snapshot.routes.tools().filter_map(|route| route.public.as_deref()).collect();
        PipelineView {
            enabled: upstream.target.plan.enabled,
            tool: plan.tool_name(),
            mode: PipelinePlan::MODE,
            refusing: upstream.refusing.as_ref().map(|refusal| refusal.message.clone()),
            running: self.gate.in_flight.runs.newest_first().into_iter().filter(is_running).count(),
            start_agent: plan.start_agent.clone(),
            steps: steps(plan),
            customizations: plan
                .customizations
                .iter()
                .map(|it| ChangeView { name: it.name.clone(), when: it.when.clone(), applies: None })
                .collect(),
            customizers: names(&plan.customizers),
            prompt_providers: names(&plan.prompt_providers),
            output_type: plan.output_type.as_ref().map(|output| output.plugin.key.to_string()),
            models: plan
                .models
                .iter()
                .map(|it| ModelView { role: it.role.clone(), model: it.model.clone(), of_gateway: it.is_of_gateway })
                .collect(),
            tools: public.iter().filter(|tool| linked.allows(tool)).map(|tool| (*tool).to_owned()).collect(),
            unmatched: unmatched(plan, &public),
            budgets: BudgetsView {
                timeout_seconds: plan.budgets.timeout_seconds,
                max_iterations: plan.max_iterations,
                max_tool_calls: plan.budgets.max_tool_calls,
                max_llm_calls: plan.budgets.max_llm_calls,
            },
            name: key.name.clone(),
            pipeline: name,
        }
    }
}

impl PipelineView {
    /// Returns the pipeline as a run with these arguments has it.
    fn of_run(mut self, linked: &LinkedPipeline, arguments: &Value) -> Self {
        for (change, applies) in self.customizations.iter_mut().zip(applying(linked, arguments)) {
            change.applies = Some(applies);
        }
        self.steps = run_steps(&customized(linked, arguments));
        self
    }
}

/// Returns the steps of a run in which each agent succeeds and no loop goes back.
fn run_steps(plan: &PipelinePlan) -> Vec<StepView> {
    let mut machine = PipelineMachine::new(plan);
    let mut steps = Vec::new();
    while let Some(step) = machine.next(|_| false) {
        steps.extend(match step.role {
            StepRole::Agent(index) => Some(of_agent(&plan.agents[index])),
            StepRole::Phase => plan.phases.iter().find(|phase| std::ptr::eq(&phase.plugin, step.plugin)).map(of_phase),
        });
        machine.ended(step, true);
    }
    steps
}

fn names(plugins: &[PhasePluginPlan]) -> Vec<String> {
    plugins.iter().map(|plugin| plugin.key.to_string()).collect()
}

/// Returns the patterns that match none of these tools.
fn unmatched(plan: &PipelinePlan, tools: &[&str]) -> Vec<String> {
    let matches = |pattern: &String| {
        let globs = Globs::new(std::slice::from_ref(pattern));
        tools.iter().any(|tool| globs.names(tool))
    };
    plan.include.iter().filter(|pattern| !matches(pattern)).cloned().collect()
}

/// Returns the agents, each with the phases around it.
fn steps(plan: &PipelinePlan) -> Vec<StepView> {
    let around = |agent: &AgentPlan, is_before: bool| {
        let name = agent.name.clone();
        plan.phases.iter().filter(move |phase| phase.agent == name && phase.is_before == is_before).map(of_phase)
    };
    let with_phases = |agent| around(agent, true).chain([of_agent(agent)]).chain(around(agent, false));
    plan.agents.iter().flat_map(with_phases).collect()
}

fn of_agent(agent: &AgentPlan) -> StepView {
    let (condition, back) = agent.repeat.clone().unzip();
    StepView {
        name: agent.name.clone(),
        r#type: agent.kind.as_str(),
        enabled: agent.enabled,
        plugin: (agent.kind == AgentKind::Custom).then(|| agent.plugin.key.to_string()),
        model_role: agent.model_role.clone(),
        before: None,
        after: None,
        next_on_success: agent.next_on_success.clone(),
        next_on_failure: agent.next_on_failure.clone(),
        loop_condition: condition,
        loop_back_to: back,
    }
}

fn of_phase(phase: &InsertedPhasePlan) -> StepView {
    let agent = Some(phase.agent.clone());
    let (before, after) = if phase.is_before { (agent, None) } else { (None, agent) };
    StepView {
        name: phase.name.clone(),
        r#type: "phase",
        enabled: true,
        plugin: Some(phase.plugin.key.to_string()),
        model_role: None,
        before,
        after,
        next_on_success: None,
        next_on_failure: None,
        loop_condition: None,
        loop_back_to: None,
    }
}
