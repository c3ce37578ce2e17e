//! The agents that call tools: background and researcher.

use serde_json::{Map, json};

use super::{Agent, prompts};
use crate::domain::model::ModelFailure;
use crate::domain::pipeline::StepResult;

/// The default of `maxToolCalls` of a researcher, and of `maxSearchQueries` of background.
const MAX_CALLS: u64 = 8;
const MAX_QUERIES: u64 = 3;

impl Agent<'_> {
    /// Collects context by one round of calls of tools.
    pub(super) async fn background(&self) -> Result<StepResult, ModelFailure> {
        let most = self.number("maxSearchQueries", MAX_QUERIES);
        let result = self.ask_with_tools(prompts::BACKGROUND, prompts::background_schema(), &[], (1, most)).await?;
        let observation = json!({"step": self.plan.name, "text": result["summary"], "keyPoints": result["keyTerms"]});
        let state = Map::from_iter([("observations".to_owned(), self.observed(observation))]);
        Ok(StepResult { result, state, ..StepResult::default() })
    }

    /// Carries out the next step of the plan, or, with `mode: react` or without a plan, researches the whole question.
    pub(super) async fn research(&self) -> Result<StepResult, ModelFailure> {
        let by_steps =
            self.config.get("mode").is_none_or(|mode| mode != "react") && self.state["plan"]["steps"].is_array();
        let pending = self.steps().position(|step| step["done"] != true);
        if by_steps && pending.is_none() {
            return Ok(StepResult { result: json!({"observation": ""}), ..StepResult::default() });
        }
        let step = pending.filter(|_| by_steps).map(|index| (index, &self.state["plan"]["steps"][index]));
        let section: Vec<_> = step.iter().map(|(_, step)| ("Step", step.to_string())).collect();
        let most = self.number("maxToolCalls", MAX_CALLS);
        let schema = prompts::researcher_schema();
        let result = self.ask_with_tools(prompts::RESEARCHER, schema, &section, (u64::MAX, most)).await?;
        let name = step.map_or_else(|| json!(self.plan.name), |(_, step)| step["id"].clone());
        let observation = json!({"step": name, "text": result["observation"], "keyPoints": result["keyPoints"]});
        let mut state = Map::from_iter([("observations".to_owned(), self.observed(observation))]);
        if let Some((index, _)) = step {
            let mut plan = self.state["plan"].clone();
            plan["steps"][index]["done"] = json!(true);
            state.insert("plan".to_owned(), plan);
        }
        Ok(StepResult { result, state, ..StepResult::default() })
    }
}
