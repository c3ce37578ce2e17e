//! The gateway's part of one execution of a plugin's function, with the answers that the command line gives.

use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, bail};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::mock_store::MockStore;
use super::test_input::json_text;
use crate::cli::clock::SystemClock;
use crate::domain::model::ModelAnswer;
use crate::domain::pipeline::Form;
use crate::domain::ports::{Answering, Clock, Host, PluginProgress};
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::rpc::RpcError;
use crate::domain::upstream::Answer;
use crate::engine::pipelines::RunUse;

/// Answers the requests of a function.
pub struct MockHost(Mutex<MockState>);

/// What the function has asked for and found, and the answers that are left.
#[derive(Default)]
pub struct MockState {
    answers: Map<String, Value>,
    found: RunUse,
    store: MockStore,
    llm_calls: u32,
    /// Tools that were called, and other requests with an answer, each with its arguments.
    pub requests: Vec<Value>,
    /// Reports of progress.
    pub progress: Vec<Value>,
}

/// Reads `--mock`: objects, or lists of objects, by the names of tools and requests.
pub fn read_answers(written: &str) -> anyhow::Result<Map<String, Value>> {
    let shape =
        "--mock: it is not an object of results by the names of tools, such as '{\"math__sum\": {\"content\": []}}'";
    let answers: Map<String, Value> = serde_json::from_str(&json_text(written)?).context(shape)?;
    for (name, answer) in &answers {
        let list = answer.as_array().map_or_else(|| std::slice::from_ref(answer), Vec::as_slice);
        if !list.iter().all(Value::is_object) {
            bail!("--mock: {name}: a result is an object such as {{\"content\": []}}, or a list of such objects");
        }
    }
    Ok(answers)
}

impl MockState {
    /// Returns the next answer of this name.
    fn take(&mut self, name: &str, arguments: Option<&RawValue>) -> Option<Value> {
        let arguments = arguments.and_then(|arguments| serde_json::from_str::<Value>(arguments.get()).ok());
        self.requests.push(json!({"name": name, "arguments": arguments}));
        match self.answers.get_mut(name)? {
            Value::Array(list) => (!list.is_empty()).then(|| list.remove(0)),
            answer => Some(answer.clone()),
        }
    }

    /// Returns the answer of a user. The question and the answer are checked, as a gateway does.
    fn asked(&mut self, arguments: Option<&RawValue>) -> Result<Value, RpcError> {
        let refused = |reason: Reason| move |why: String| RpcError::refused(reason, why);
        let question: Value = serde_json::from_str(arguments.map_or("{}", RawValue::get)).unwrap_or_default();
        let form = Form::parse(&question["schema"]).map_err(refused(Reason::InvalidQuestion))?;
        let answer = self.take("ask", arguments).ok_or_else(|| missing("ask", Reason::CannotAsk))?;
        form.read(&to_raw(&answer)).map_err(refused(Reason::InvalidAnswer))
    }

    /// Returns the result of a helper, which `--mock` has by its id, or the list of helpers, which is empty.
    fn helped(&mut self, arguments: Option<&RawValue>) -> Result<Value, RpcError> {
        let request: Value = serde_json::from_str(arguments.map_or("{}", RawValue::get)).unwrap_or_default();
        let Some(id) = request["id"].as_str() else { return Ok(json!({"helpers": []})) };
        self.take(id, arguments).ok_or_else(|| missing(id, Reason::PluginNotFound))
    }

    /// Returns the answer of a model, with the members that `--mock` leaves out.
    fn completed(&mut self, arguments: Option<&RawValue>) -> Option<Value> {
        let mut answer = json!(ModelAnswer::default());
        answer["json"] = Value::Null;
        for (member, value) in self.take("llm", arguments)?.as_object()? {
            answer[member] = value.clone();
        }
        self.llm_calls += 1;
        answer["llmCallsUsed"] = json!(self.llm_calls);
        Some(answer)
    }
}

impl MockHost {
    pub fn new(answers: Map<String, Value>) -> Self {
        Self(Mutex::new(MockState { answers, ..MockState::default() }))
    }

    /// Returns what the function has asked for.
    pub fn into_state(self) -> MockState {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, MockState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the answer to a request, or the error of one that `--mock` does not have, with the reason of a gateway.
fn answering<'a>(name: &str, answer: Option<Value>, reason: Reason) -> Answering<'a> {
    answered(answer.ok_or_else(|| missing(name, reason)))
}

fn missing(name: &str, reason: Reason) -> RpcError {
    RpcError::refused(reason, format!("--mock has no answer of {name:.128}, or no further one"))
}

fn answered<'a>(answered: Result<Value, RpcError>) -> Answering<'a> {
    Box::pin(ready(
        answered.map_or_else(|error| Answer::Error(to_raw(&error)), |answer| Answer::Result(to_raw(&answer))),
    ))
}

impl Host for MockHost {
    fn progress(&self, progress: PluginProgress) {
        self.state().progress.push(json!(progress));
    }

    fn call_tool<'a>(&'a self, tool: &'a str, arguments: Option<&'a RawValue>) -> Answering<'a> {
        answering(tool, self.state().take(tool, arguments), Reason::ToolNotAllowed)
    }

    fn callback<'a>(&'a self, op: &'a str, arguments: Option<&'a RawValue>) -> Answering<'a> {
        let mut state = self.state();
        match op {
            "llm" => answering(op, state.completed(arguments), Reason::ModelUnavailable),
            "ask" => answered(state.asked(arguments)),
            "helper" => answered(state.helped(arguments)),
            "store" => answered(state.store.answer(arguments)),
            _ => answered(state.found.answer(op, arguments, SystemClock::new().unix_millis())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_a_list_are_given_one_after_the_other() {
        let answers = read_answers(r#"{"a": {"n": 1}, "b": [{"n": 1}, {"n": 2}]}"#).unwrap();
        let mut state = MockState { answers, ..MockState::default() };
        let mut numbers = |name: &str| [0; 3].map(|_| state.take(name, None).map(|answer| answer["n"].clone()));
        assert_eq!(numbers("a"), [Some(json!(1)), Some(json!(1)), Some(json!(1))]);
        assert_eq!(numbers("b"), [Some(json!(1)), Some(json!(2)), None]);
        assert_eq!(numbers("c"), [None, None, None]);
        for wrong in ["[]", r#"{"a": "text"}"#, r#"{"a": [1]}"#] {
            assert!(read_answers(wrong).unwrap_err().to_string().starts_with("--mock: "), "{wrong}");
        }
    }
}
