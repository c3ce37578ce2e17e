//! What a client brings back with the answers to questions of a server of the modern era, if chains run on these: the
//! server's own `requestState`, and which question each answer is for. It is sealed, so that another replica can open it,
//! and so that the server's state passes no Guard in the clear.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::routed_call::Routed;
use crate::domain::digest::sha256_hex;
use crate::domain::method::Method;
use crate::domain::raw::RawObject;
use crate::domain::upstream::InputRound;
use crate::engine::access::gate::Gate;
use crate::engine::access::seal::MAX_BYTES;

/// What the gateway's own values of `requestState` begin with.
const PREFIX: &str = "hawsepipe.input.";
/// The purpose of the seal and the version of what is sealed. Both are authenticated.
const PURPOSE: &str = "hawsepipe input 3";
/// The purpose of the mark with which a gateway knows its own values again.
const MARK: &str = "hawsepipe input mark 1";
/// How long a client has to answer, in milliseconds.
const VALID_MS: u64 = 60 * 60 * 1000;

/// What a client sends with a call that it repeats.
pub(in crate::engine) struct Answered {
    /// What the server gets.
    pub(in crate::engine) round: InputRound,
    /// Answers of which only the server can say what they are for, by the keys that the client gave them.
    pub(in crate::engine) early: Option<RawObject>,
}

impl From<InputRound> for Answered {
    fn from(round: InputRound) -> Self {
        Self { round, early: None }
    }
}

/// A question that was passed on.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct AskedInput {
    /// The server's own key of the question.
    #[serde(rename = "k")]
    pub(in crate::engine) own_key: String,
    /// What was asked.
    #[serde(rename = "m")]
    pub(in crate::engine) method: Method,
}

/// What is sealed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::engine) struct InputState {
    /// The questions, by the keys that the client got.
    #[serde(rename = "q")]
    pub(in crate::engine) questions: BTreeMap<String, AskedInput>,
    /// The server's `requestState`, as it came; `None` if it has none.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub(in crate::engine) state: Option<Box<RawValue>>,
    /// Until when it can be opened, in Unix milliseconds.
    #[serde(rename = "u")]
    until: u64,
}

/// Why a state is not sealed.
#[derive(Debug, thiserror::Error)]
pub(in crate::engine) enum NotSealed {
    /// The server asks to have too much back.
    #[error(
        "its `requestState`, with the keys of what it asks, has {0} bytes; at most {MAX_BYTES} are sealed while chains see \
         what a server asks"
    )]
    TooLarge(usize),
    #[error("the system provides no random numbers")]
    NoRandom,
}

impl InputState {
    pub(in crate::engine) fn new(questions: BTreeMap<String, AskedInput>, state: Option<Box<RawValue>>) -> Self {
        Self { questions, state, until: 0 }
    }

    /// Whether `state` has the mark of this gateway, whatever else is wrong with it. That of another gateway, which can be an
    /// upstream of this one, is a server's.
    pub(in crate::engine) fn is_own(gate: &Gate, state: &str) -> bool {
        let mark = parts(state).map(|(mark, _)| mark);
        mark.is_some_and(|mark| gate.sessions.seals().open(&of_gateway(gate), mark).is_some())
    }

    /// Seals the state for a repetition of this call by the same principal.
    pub(in crate::engine) fn seal(mut self, gate: &Gate, call: &Routed<'_>) -> Result<String, NotSealed> {
        self.until = gate.clock.unix_millis().saturating_add(VALID_MS);
        let bytes = serde_json::to_vec(&self).unwrap_or_default();
        if bytes.len() > MAX_BYTES {
            return Err(NotSealed::TooLarge(bytes.len()));
        }
        let seal = |context: &str, bytes| gate.sessions.seals().seal(context, bytes).ok_or(NotSealed::NoRandom);
        let (mark, sealed) = (seal(&of_gateway(gate), Vec::new())?, seal(&scope(gate, call), bytes)?);
        Ok(format!("{PREFIX}{mark}.{sealed}"))
    }

    /// Opens what was sealed for this call; `None` if it is anything else, or too old.
    pub(in crate::engine) fn open(gate: &Gate, call: &Routed<'_>, state: &str) -> Option<Self> {
        let opened = gate.sessions.seals().open(&scope(gate, call), parts(state)?.1)?;
        let state: Self = serde_json::from_slice(&opened).ok()?;
        (gate.clock.unix_millis() <= state.until).then_some(state)
    }
}

/// Returns the mark in a state, and what is sealed for the call.
fn parts(state: &str) -> Option<(&str, &str)> {
    state.strip_prefix(PREFIX)?.split_once('.')
}

/// Returns what the mark belongs to: this gateway alone.
fn of_gateway(gate: &Gate) -> String {
    let snapshot = gate.in_force.snapshot();
    let gateway = &snapshot.plan().gateway.key;
    json!([MARK, gateway.namespace, gateway.name]).to_string()
}

/// Returns what a state belongs to: the gateway, the principal, the item and the content of the call.
fn scope(gate: &Gate, call: &Routed<'_>) -> String {
    let snapshot = gate.in_force.snapshot();
    let gateway = &snapshot.plan().gateway.key;
    let method = call.request.kind.used_by();
    let content = sha256_hex(call.content.as_bytes());
    let key = &call.plan().key;
    let item = (&key.namespace, &key.name, method, &call.facts.tool);
    json!([PURPOSE, gateway.namespace, gateway.name, call.facts.caller.identity.key(), item, content]).to_string()
}
