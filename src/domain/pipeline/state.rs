//! The state that the steps of a run share, and the results with which they change it (document 002).

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::source::{NewSource, Sources};
use crate::domain::json_size::json_size;
use crate::domain::reason::Reason;

/// The members of the result of a step.
const RETURNED: [&str; 5] = ["output", "result", "state", "decision", "sources"];
/// The members of the state that a step can change.
const CHANGEABLE: [&str; 4] = ["plan", "observations", "pluginData", "decision"];

/// The state of a run.
#[derive(Clone, Debug)]
pub struct RunState {
    query: String,
    arguments: Value,
    changeable: Map<String, Value>,
    agents: BTreeMap<String, Value>,
    output: Option<RunOutput>,
}

/// The output of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunOutput {
    /// Its members.
    pub members: Map<String, Value>,
    /// The numbers of the sources that it cites, if the gateway has read its citations; empty if it may rest on all.
    pub cited: BTreeSet<usize>,
}

/// The result of a step. Members that it does not name are ignored.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct StepResult {
    /// Any JSON; loop conditions read it.
    #[serde(default)]
    pub result: Value,
    /// A JSON merge patch (RFC 7396) of the state.
    #[serde(default)]
    pub state: Map<String, Value>,
    /// The output of the run, if no other agent follows.
    pub output: Option<Map<String, Value>>,
    /// The decision, for loop conditions.
    pub decision: Option<Value>,
    /// Sources that the step has used.
    #[serde(default)]
    pub sources: Vec<NewSource>,
    /// The numbers of the sources that the output cites. Plugins cannot say so.
    #[serde(skip)]
    pub cited: BTreeSet<usize>,
    /// Whether the run ends after this step. Plugins cannot say so.
    #[serde(skip)]
    pub ends: bool,
    /// The agent that is next, unless a loop goes on. Plugins cannot say so.
    #[serde(skip)]
    pub goes_to: Option<String>,
}

impl StepResult {
    /// Reads the result of a plugin's function. `null` changes nothing.
    ///
    /// # Errors
    /// If it has another shape. The message holds no content.
    pub fn parse(json: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(json).map_err(|_| "its result is not JSON".to_owned())?;
        let members = match value {
            Value::Null => return Ok(Self::default()),
            Value::Object(members) => members,
            _ => return Err("its result is not an object: return {output}, {result} or {state}".to_owned()),
        };
        let is_wrong = |name: &str, fits: fn(&Value) -> bool| {
            members.get(name).is_some_and(|value| !value.is_null() && !fits(value))
        };
        let wrong = [
            (is_wrong("output", Value::is_object), "`output` is not an object"),
            (is_wrong("state", Value::is_object), "`state` is not an object"),
            (is_wrong("sources", Value::is_array), "`sources` is not an array"),
        ];
        if let Some((_, why)) = wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
            return Err(format!("its {why}"));
        }
        if !members.keys().all(|key| RETURNED.contains(&key.as_str())) {
            return Err(format!("its result has a member other than {}", RETURNED.join(", ")));
        }
        let members: Map<_, _> = members.into_iter().filter(|(_, value)| !value.is_null()).collect();
        let result: Self = serde_json::from_value(Value::Object(members))
            .map_err(|_| "its `sources` have a member of a wrong type".to_owned())?;
        match result.state.keys().find(|key| !CHANGEABLE.contains(&key.as_str())) {
            Some(_) => Err(format!("its `state` has a member other than {}", CHANGEABLE.join(", "))),
            None => Ok(result),
        }
    }
}

impl RunState {
    /// Starts the state of a run with these arguments. The query is the argument of this name, or else all arguments as
    /// JSON.
    pub fn new(arguments: Value, query_argument: &str) -> Self {
        let query = arguments.get(query_argument).and_then(Value::as_str).map(str::to_owned);
        let changeable = [("plan", json!({})), ("observations", json!([])), ("pluginData", json!({}))];
        Self {
            query: query.unwrap_or_else(|| arguments.to_string()),
            arguments,
            changeable: changeable.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            agents: BTreeMap::new(),
            output: None,
        }
    }

    /// Returns the state as a step gets it.
    pub fn shown(&self, iteration: u32, sources: &Sources) -> Value {
        json!({
            "query": self.query,
            "arguments": self.arguments,
            "iteration": iteration,
            "plan": self.changeable.get("plan"),
            "decision": self.changeable.get("decision"),
            "observations": self.changeable.get("observations"),
            "agents": self.agents,
            "sources": sources.all(),
            "pluginData": self.changeable.get("pluginData"),
            "output": self.output.as_ref().map(|output| &output.members),
        })
    }

    /// The number of bytes of the state as JSON.
    pub fn size(&self) -> u64 {
        let output = self.output.as_ref().map_or(0, |output| json_size(&output.members));
        let arguments = self.query.len() as u64 + json_size(&self.arguments);
        arguments + json_size(&self.changeable) + json_size(&self.agents) + output
    }

    /// Takes in the result of a step. `is_agent` tells whether the step is an agent, whose result others see.
    pub fn take(&mut self, step: &str, is_agent: bool, result: StepResult) {
        let StepResult { result, state, output, decision, cited, .. } = result;
        let mut changed = Value::Object(std::mem::take(&mut self.changeable));
        merge(&mut changed, Value::Object(state));
        if let Some(decision) = decision {
            changed["decision"] = decision;
        }
        if let Value::Object(changed) = changed {
            self.changeable = changed;
        }
        self.output = output.map(|members| RunOutput { members, cited }).or(self.output.take());
        if is_agent {
            self.agents.insert(step.to_owned(), json!({"status": "success", "result": result}));
        }
    }

    /// Records why an agent has failed.
    pub fn take_failure(&mut self, agent: &str, reason: Reason, message: &str) {
        let error = json!({"reason": reason, "message": message});
        self.agents.insert(agent.to_owned(), json!({"status": "failed", "result": null, "error": error}));
    }

    /// Returns the result of an agent; null if it has none.
    pub fn result_of(&self, agent: &str) -> Value {
        self.agents.get(agent).and_then(|state| state.get("result")).cloned().unwrap_or_default()
    }

    /// Returns a member of the state that steps can change, or `agents` or `arguments`.
    pub fn member(&self, name: &str) -> Value {
        match name {
            "agents" => json!(self.agents),
            "arguments" => self.arguments.clone(),
            _ => self.changeable.get(name).cloned().unwrap_or_default(),
        }
    }

    /// Whether a step has given an output.
    pub fn has_output(&self) -> bool {
        self.output.is_some()
    }

    /// Returns the output of the run: the last one that a step gave, or else the result of the agent that ran `last`, if it
    /// is an object.
    pub fn output(&self, last: &str) -> Option<RunOutput> {
        self.output.clone().or_else(|| match self.result_of(last) {
            Value::Object(members) => Some(RunOutput { members, ..RunOutput::default() }),
            _ => None,
        })
    }
}

/// Applies a JSON merge patch (RFC 7396).
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Value::Object(members) = target else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                members.remove(&key);
            }
            value => merge(members.entry(key).or_insert(Value::Null), value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_changes_what_steps_may_change() {
        let mut state = RunState::new(json!({"prompt": "why"}), "prompt");
        let take = |state: &mut RunState, json: Value| {
            state.take("a", true, StepResult::parse(&json.to_string()).unwrap());
        };
        take(&mut state, json!({"state": {"pluginData": {"n": 1, "m": {"x": 1}}}, "result": {"r": 1}}));
        take(&mut state, json!({"state": {"pluginData": {"n": null, "m": {"y": 2}}}, "decision": "CONTINUE"}));
        let shown = state.shown(2, &Sources::default());
        assert_eq!(shown["pluginData"], json!({"m": {"x": 1, "y": 2}}));
        assert_eq!((&shown["query"], &shown["decision"]), (&json!("why"), &json!("CONTINUE")));
        assert_eq!(state.output("a"), None);
        take(&mut state, json!({"output": {"answer": 1}}));
        assert_eq!(state.output("a").map(|output| Value::Object(output.members)), Some(json!({"answer": 1})));
    }

    #[test]
    fn citations_are_those_of_the_output_that_counts() {
        let output = |cited: &[usize]| {
            let cited = cited.iter().copied().collect();
            StepResult { output: Some(Map::new()), cited, ..StepResult::default() }
        };
        let mut state = RunState::new(json!({}), "prompt");
        state.take("writer", true, output(&[2]));
        state.take("other", true, StepResult::default());
        assert_eq!(state.output("other").unwrap().cited, BTreeSet::from([2]));
        state.take("plugin", true, output(&[]));
        assert_eq!(state.output("plugin").unwrap().cited, BTreeSet::new(), "nobody has read what it cites");
    }

    #[test]
    fn the_agent_after_a_failure_sees_its_reason() {
        let mut state = RunState::new(json!({}), "prompt");
        state.take_failure("a", Reason::ModelUnavailable, "model m of role r: no answer");
        let error = json!({"reason": "ModelUnavailable", "message": "model m of role r: no answer"});
        let shown = state.shown(1, &Sources::default());
        assert_eq!(shown["agents"]["a"], json!({"status": "failed", "result": null, "error": error}));
    }

    #[test]
    fn a_result_of_another_shape_is_an_error() {
        for json in [
            "1",
            "[]",
            r#"{"output":1}"#,
            r#"{"state":[]}"#,
            r#"{"state":{"query":"x"}}"#,
            r#"{"sources":[1]}"#,
            r#"{"more":1}"#,
        ] {
            assert!(StepResult::parse(json).is_err(), "{json}");
        }
        assert!(StepResult::parse("null").is_ok());
    }
}
