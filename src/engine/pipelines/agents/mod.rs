//! The agents that need no plugin (document 002, `AgentType`): each asks a model, and gives what a plugin of type phase gives.

pub(super) mod prompts;
mod research;
mod synthesis;
mod tools;

use serde_json::{Map, Value, json};

use super::completion::Wanted;
use super::context::RunContext;
use super::output::RunFailure;
use crate::domain::model::ModelFailure;
use crate::domain::pipeline::StepResult;
use crate::domain::plan::{AgentKind, AgentPlan};
use crate::domain::plugin::Failure;

/// An agent of a run, with what it works on.
pub(super) struct Agent<'a> {
    run: &'a RunContext<'a>,
    plan: &'a AgentPlan,
    config: Map<String, Value>,
    /// The state of the run.
    state: &'a Value,
}

impl RunContext<'_> {
    /// Runs an agent that needs no plugin.
    ///
    /// # Errors
    /// If the model does not answer as the agent needs it.
    pub(super) async fn run_agent(&self, plan: &AgentPlan, state: &Value) -> Result<StepResult, RunFailure> {
        let config = plan.plugin.config.as_ref().and_then(|config| serde_json::from_str(config).ok());
        let agent = Agent { run: self, plan, config: config.unwrap_or_default(), state };
        let result = match plan.kind {
            AgentKind::Coordinator => agent.coordinate().await,
            AgentKind::Background => agent.background().await,
            AgentKind::Planner => agent.plan().await,
            AgentKind::Researcher => agent.research().await,
            AgentKind::Reflector => agent.reflect().await,
            AgentKind::Synthesizer => agent.synthesize().await,
            AgentKind::Custom => Ok(StepResult::default()),
        };
        result.map_err(|ModelFailure { reason, message }| {
            tracing::warn!(request_id = self.call.facts.request_id, "agent {} of {}: {message}", plan.name, self.name);
            RunFailure::of_step(&plan.name, Failure::new(reason, message))
        })
    }
}

impl Agent<'_> {
    /// Judges the question. A question that needs no research is answered at once.
    async fn coordinate(&self) -> Result<StepResult, ModelFailure> {
        let result = self.ask(prompts::COORDINATOR, prompts::coordinator_schema()).await?;
        let direct = result["directResponse"].as_str().filter(|text| !text.trim().is_empty());
        let may = self.run.pipeline.plan.is_report && self.flag("allowDirect") && result["isSimpleQuery"] == true;
        let report = |text: &str| {
            let query = &self.state["query"];
            let report = json!({"title": query, "executive_summary": text, "sections": [], "key_findings": []});
            report.as_object().cloned()
        };
        let output = direct.filter(|_| may).and_then(report);
        Ok(StepResult { ends: output.is_some(), output, result, ..StepResult::default() })
    }

    /// Makes a plan. Steps that are done stay, and the new ones come after them.
    async fn plan(&self) -> Result<StepResult, ModelFailure> {
        let (least, most) = match self.run.research_type() {
            "light" => (1, 2),
            "extended" => (4, 8),
            _ => (2, 4),
        };
        let (least, most) = (self.number("minSteps", least), self.number("maxSteps", most));
        let system = format!("{} Give {least} to {most} steps.", prompts::PLANNER);
        let mut plan = self.ask(&system, prompts::planner_schema()).await?;
        let new = plan["steps"].as_array().cloned().unwrap_or_default();
        let done = self.steps().filter(|step| step["done"] == true).cloned();
        plan["steps"] = done.chain(new.into_iter().take(usize::try_from(most).unwrap_or(usize::MAX))).collect();
        let state = Map::from_iter([("plan".to_owned(), plan.clone())]);
        Ok(StepResult { result: plan, state, ..StepResult::default() })
    }

    /// Judges whether the observations suffice.
    async fn reflect(&self) -> Result<StepResult, ModelFailure> {
        let mut result = self.ask(prompts::REFLECTOR, prompts::reflector_schema()).await?;
        let decision = result["decision"].as_str().unwrap_or_default().to_ascii_uppercase();
        result["gaps"] = result.get("coverageGaps").cloned().unwrap_or_else(|| json!([]));
        let adjusts = (decision == "ADJUST").then(|| self.config.get("adjustGoesTo")).flatten();
        let goes_to = adjusts.and_then(Value::as_str).map(str::to_owned);
        Ok(StepResult { result, decision: Some(json!(decision)), goes_to, ..StepResult::default() })
    }

    /// Asks the model for JSON of a schema.
    async fn ask(&self, system: &str, schema: Value) -> Result<Value, ModelFailure> {
        let wanted = Wanted { messages: self.messages(system, &[]), schema: Some(schema), ..self.wanted() };
        let completed = self.run.complete(&self.plan.name, None, wanted).await?;
        Ok(completed.json.unwrap_or_default())
    }

    fn wanted(&self) -> Wanted {
        Wanted { role: self.plan.model_role.clone().unwrap_or_default(), ..Wanted::default() }
    }

    /// Returns the messages: the system prompt, and what the agent works on, with more sections after it.
    fn messages(&self, system: &str, more: &[(&str, String)]) -> Vec<Value> {
        let system = self.run.prompt(self.plan.kind.as_str(), system);
        let mut text = prompts::sections(self.state);
        for (title, section) in more {
            text.push_str(&format!("\n\n# {title}\n{section}"));
        }
        vec![json!({"role": "system", "content": system}), json!({"role": "user", "content": text})]
    }

    /// The steps of the plan.
    fn steps(&self) -> impl Iterator<Item = &Value> {
        self.state["plan"]["steps"].as_array().into_iter().flatten()
    }

    /// Returns the observations of the run, and this one.
    fn observed(&self, observation: Value) -> Value {
        let known = self.state["observations"].as_array().cloned().unwrap_or_default();
        known.into_iter().chain([observation]).collect()
    }

    fn flag(&self, name: &str) -> bool {
        self.config.get(name).and_then(Value::as_bool).unwrap_or(true)
    }

    fn number(&self, name: &str, default: u64) -> u64 {
        self.config.get(name).and_then(Value::as_u64).unwrap_or(default)
    }
}
