//! Calls that need several rounds: the answer asks the client, which calls again with what it answered.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use rmcp::ErrorData;
use rmcp::model::{ClientCapabilities, ErrorCode, InputRequiredResult, InputResponses};
use serde_json::{Value, json};

use crate::catalogue::{part, typed};

/// The key with which states are signed, for as long as this process lives.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// What becomes of a call in rounds.
pub enum Round {
    /// The client is asked.
    Asks(InputRequiredResult),
    /// It has answered everything: what it said.
    Done(Value),
}

/// The next round of the call `name`; nothing if that needs none.
pub fn next(
    name: &str,
    responses: Option<&InputResponses>,
    state: Option<&str>,
    capabilities: Option<ClientCapabilities>,
) -> Option<Result<Round, ErrorData>> {
    let rounds = part("rounds")[name].as_array()?;
    Some(step(name, rounds, responses, state, &capabilities.unwrap_or_default()))
}

fn step(
    name: &str,
    rounds: &[Value],
    responses: Option<&InputResponses>,
    state: Option<&str>,
    capabilities: &ClientCapabilities,
) -> Result<Round, ErrorData> {
    let stateful = part("stateful").as_array().is_some_and(|names| names.iter().any(|n| n == name));
    let round = match (stateful, state) {
        (true, Some(state)) => opened(name, state)?,
        _ => 0,
    };
    let asked = requests(&rounds[round], capabilities);
    if asked.is_empty() {
        return Err(lacking("elicitation"));
    }
    let known = BTreeMap::new();
    let responses = responses.unwrap_or(&known);
    let may_answer = !stateful || state.is_some();
    let answered = may_answer && asked.iter().all(|(key, asked)| responses.get(key).is_some_and(|a| fits(asked, a)));
    if !answered {
        return ask(name, stateful, round, asked);
    }
    if round + 1 < rounds.len() {
        return ask(name, stateful, round + 1, requests(&rounds[round + 1], capabilities));
    }
    Ok(Round::Done(json!({"state": if stateful { "state-ok" } else { "none" }, "answers": responses})))
}

fn ask(name: &str, stateful: bool, round: usize, requests: BTreeMap<String, Value>) -> Result<Round, ErrorData> {
    let state = stateful.then(|| sealed(name, round));
    Ok(Round::Asks(InputRequiredResult::new(Some(typed(json!(requests))?), state)))
}

/// What this client can be asked of a round.
fn requests(round: &Value, capabilities: &ClientCapabilities) -> BTreeMap<String, Value> {
    let can = json!(capabilities);
    let asks = round.as_object().into_iter().flatten().map(|(key, question)| (key.clone(), request(key, question)));
    asks.filter(|(_, request)| {
        let capability = request["method"].as_str().and_then(|m| m.split('/').next()).unwrap_or_default();
        can.get(capability).is_some()
    })
    .collect()
}

fn request(key: &str, question: &Value) -> Value {
    if let Some(properties) = part("questions")[key].as_object() {
        let required: Vec<_> = properties.keys().collect();
        let schema = json!({"type": "object", "properties": properties, "required": required});
        return json!({"method": "elicitation/create", "params": {"message": question, "requestedSchema": schema}});
    }
    if key == "client_roots" {
        return json!({"method": "roots/list", "params": {}});
    }
    let message = json!({"role": "user", "content": {"type": "text", "text": question}});
    json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 100}})
}

/// Whether an answer can be one to this request.
fn fits(asked: &Value, answer: &Value) -> bool {
    let required = asked.pointer("/params/requestedSchema/required").and_then(Value::as_array);
    match asked["method"].as_str() {
        Some("elicitation/create") if answer["action"] == "accept" => {
            required.into_iter().flatten().filter_map(Value::as_str).all(|key| !answer["content"][key].is_null())
        }
        Some("elicitation/create") => answer["action"] == "decline" || answer["action"] == "cancel",
        Some("roots/list") => answer["roots"].is_array(),
        _ => answer["content"].is_object(),
    }
}

fn sealed(name: &str, round: usize) -> String {
    format!("{round}.{:016x}", KEY.hash_one((name, round)))
}

fn opened(name: &str, state: &str) -> Result<usize, ErrorData> {
    let round = state.split('.').next().and_then(|round| round.parse::<usize>().ok());
    round
        .filter(|round| sealed(name, *round) == state)
        .ok_or_else(|| ErrorData::invalid_params("this requestState is not one of mine", None))
}

/// The error of a client that cannot be asked.
pub fn lacking(capability: &str) -> ErrorData {
    let data = json!({"requiredCapabilities": {capability: {}}});
    ErrorData::new(
        ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY,
        format!("needs a client with {capability}"),
        Some(data),
    )
}
