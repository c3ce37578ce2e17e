//! Questions of a server of the modern era to a client of that era, which come in the result of a call, and the answers to
//! them, which come with the call's repetition (MCP 2026-07-28, multi-round-trip requests). Both pass the chains that name
//! their method.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::Chains;
use super::asked_client::AskedClient;
use super::chain::ChainEnd;
use super::input_questions::InputQuestions;
use super::input_state::{Answered, AskedInput, InputState, NotSealed};
use super::outcome::CallEnd;
use super::unchecked::Unchecked;
use crate::domain::budget::{Category, NoRoom};
use crate::domain::json::doubled_key;
use crate::domain::method::Method;
use crate::domain::question::{INPUT_REQUESTS, INPUT_REQUIRED, Question, REQUEST_STATE, RESULT_TYPE};
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::skim::Skim;
use crate::domain::upstream::{Answer, InputRound, UpstreamError};

impl Chains {
    /// Opens what the client answers to an earlier result of this call, and runs the response chains over it.
    pub(in crate::engine) async fn client_answers(&self, client: &AskedClient<'_>) -> Result<Answered, CallEnd> {
        client.answers(client.call.request.round.clone()).await
    }
}

impl AskedClient<'_> {
    /// Returns the end of a call whose result asks the client for input.
    pub(in crate::engine) async fn asks_back(&self, answer: &Unchecked) -> CallEnd {
        let (facts, answer) = (answer.facts(), answer.unseen());
        let Answer::Result(result) = answer else { return CallEnd::asks_back(answer.clone(), facts) };
        if !self.call.item.watches_questions() {
            return CallEnd::asks_back(answer.clone(), facts);
        }
        if let Some(steps) = doubled_key(result.get()) {
            return self.chains.ends.withheld(self.call, &steps);
        }
        match self.checked_result(result).await {
            Ok(result) => CallEnd::asks_back(Answer::Result(result), facts),
            Err(end) => end,
        }
    }

    /// Runs the request chains on each question of a result. Returns the result for the client.
    async fn checked_result(&self, result: &RawValue) -> Result<Box<RawValue>, CallEnd> {
        let asked = InputQuestions::read(result)
            .map_err(|why| self.chains.ends.upstream_failed(self.call, &UpstreamError::Protocol(why.to_owned())))?;
        let (mut requests, mut known) = (RawObject::default(), BTreeMap::new());
        let held = self.chains.budget.reservation(Category::Answer);
        let mut size = asked.size();
        held.resize(size).map_err(|NoRoom| CallEnd::no_room())?;
        for (number, (own_key, question)) in asked.questions.into_iter().enumerate() {
            let method = question.method;
            let key = self.shown_key(number, &own_key);
            known.insert(key.clone(), AskedInput { own_key, method });
            let request = self.checked(question).await.map_err(|end| self.ended_by(end))?.into_request();
            size += request.get().len() as u64;
            held.resize(size).map_err(|NoRoom| CallEnd::no_room())?;
            requests.set(&key, request);
        }
        let state =
            InputState::new(known, asked.state).seal(&self.chains.gate, self.call).map_err(|why| match why {
                NotSealed::TooLarge(_) => {
                    self.chains.ends.upstream_failed(self.call, &UpstreamError::Protocol(why.to_string()))
                }
                NotSealed::NoRandom => CallEnd::internal(&why.to_string()),
            })?;
        // If the call is checked, nothing passes that no plugin has seen.
        let rest = if self.call.item.checks_questions() { None } else { RawObject::parse(result.get()).ok() };
        let mut result = rest.unwrap_or_default();
        result.set(RESULT_TYPE, to_raw(&INPUT_REQUIRED));
        if !requests.is_empty() {
            result.set(INPUT_REQUESTS, requests.to_raw());
        }
        result.set(REQUEST_STATE, to_raw(&state));
        Ok(result.to_raw())
    }

    /// Returns the key under which the client gets a question. If something is checked, it is not the server's own, because
    /// no plugin sees that.
    fn shown_key(&self, number: usize, own_key: &str) -> String {
        if self.call.item.checks_anything() { format!("input-{}", number + 1) } else { own_key.to_owned() }
    }

    pub(in crate::engine) async fn checked(&self, question: Question) -> Result<Question, ChainEnd> {
        let Some(chains) = self.call.item.questions(question.method) else { return Ok(self.unseen(question)) };
        let mut asking = self.begin(question.method, chains, chains.request.iter())?;
        self.check(&mut asking, question).await
    }

    /// Returns what is sent to the server of the round that the client answers: its answers after the response chains, and
    /// the server's own state.
    async fn answers(&self, round: InputRound) -> Result<Answered, CallEnd> {
        let is_watched = self.call.item.watches_questions();
        let state = round.state.as_deref().and_then(|state| Skim::from(state).text());
        let opened = state.as_deref().and_then(|state| InputState::open(&self.chains.gate, self.call, state));
        // What is the gateway's own is never for the server, also if no chain watches any more.
        let is_own = || state.as_deref().is_some_and(|state| InputState::is_own(&self.chains.gate, state));
        if opened.is_none() && round.state.is_some() && (is_watched || is_own()) {
            return Err(CallEnd::foreign_input(
                "`requestState` is not one that was given for such a call, or it is too old",
            ));
        }
        let given = |responses: &RawValue| {
            RawObject::parse(responses.get()).map_err(|_| CallEnd::foreign_input("`inputResponses` is no object"))
        };
        let Some(InputState { questions, state, .. }) = opened else {
            return match round.responses {
                // What each answer is for, and so which chains see it, the server says when it is called anew.
                Some(responses) if is_watched => {
                    Ok(Answered { round: InputRound::default(), early: Some(given(&responses)?) })
                }
                responses => Ok(InputRound { responses, state: round.state }.into()),
            };
        };
        let Some(responses) = round.responses else { return Ok(InputRound { responses: None, state }.into()) };
        let mut answers = RawObject::default();
        // What was not asked is not for the server.
        for (key, answer) in given(&responses)?.iter() {
            let Some(AskedInput { own_key, method }) = questions.get(key) else { continue };
            if answers.get(own_key).is_some() {
                return Err(CallEnd::foreign_input("`inputResponses` answers a question twice"));
            }
            answers.set(own_key, self.checked_answer(*method, answer).await.map_err(|end| self.ended_by(end))?);
        }
        Ok(InputRound { responses: Some(answers.to_raw()), state }.into())
    }

    /// Returns what is sent to the server next, if the client has already answered all that this result asks. The questions
    /// pass the same chains as if the client was asked now.
    pub(in crate::engine) async fn answers_early(
        &self,
        given: &RawObject,
        answer: &Unchecked,
    ) -> Result<Option<InputRound>, CallEnd> {
        let Answer::Result(result) = answer.unseen() else { return Ok(None) };
        let asked = InputQuestions::read(result);
        let Some(asked) = asked.ok().filter(|_| doubled_key(result.get()).is_none()) else { return Ok(None) };
        let held = self.chains.budget.reservation(Category::Answer);
        held.resize(asked.size()).map_err(|NoRoom| CallEnd::no_room())?;
        let answer = |number: usize, own_key: &str| given.get(&self.shown_key(number, own_key));
        let mut keys = asked.questions.iter().enumerate();
        if asked.questions.is_empty() || !keys.all(|(number, (own_key, _))| answer(number, own_key).is_some()) {
            return Ok(None);
        }
        let mut answers = RawObject::default();
        for (number, (own_key, question)) in asked.questions.into_iter().enumerate() {
            let Some(answer) = answer(number, &own_key) else { return Ok(None) };
            let method = question.method;
            self.checked(question).await.map_err(|end| self.ended_by(end))?;
            answers.set(&own_key, self.checked_answer(method, answer).await.map_err(|end| self.ended_by(end))?);
        }
        Ok(Some(InputRound { responses: Some(answers.to_raw()), state: asked.state }))
    }

    async fn checked_answer(&self, method: Method, answer: &RawValue) -> Result<Box<RawValue>, ChainEnd> {
        let Some(chains) = self.call.item.questions(method) else { return Ok(answer.to_owned()) };
        let mut asking = self.begin(method, chains, chains.response.iter())?;
        match self.check_answer(&mut asking, Answer::Result(answer.to_owned())).await? {
            Answer::Result(answer) | Answer::Error(answer) => Ok(answer),
        }
    }
}
