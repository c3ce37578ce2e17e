//! The questions in a result that asks for input (MCP 2026-07-28, multi-round-trip requests).

use futures_util::future::join_all;
use serde_json::value::RawValue;

use super::asked_client::AskedClient;
use super::outcome::CallEnd;
use super::unchecked::Unchecked;
use crate::domain::budget::{Category, NoRoom};
use crate::domain::method::Method;
use crate::domain::question::{INPUT_REQUESTS, Question, REQUEST_STATE};
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::upstream::{Answer, InputRound};

/// The maximum number of questions in one result.
pub(in crate::engine) const MAX_QUESTIONS: usize = 8;

/// The questions of a result that asks for input, and the state that its server keeps in it.
pub(in crate::engine) struct InputQuestions {
    pub(in crate::engine) questions: Vec<(String, Question)>,
    pub(in crate::engine) state: Option<Box<RawValue>>,
}

impl InputQuestions {
    /// Reads an answer that asks for input. The error says what is wrong with it.
    pub(in crate::engine) fn of(answer: &Unchecked) -> Result<Self, &'static str> {
        let (Answer::Result(text) | Answer::Error(text)) = answer.unseen();
        Self::read(text)
    }

    /// Reads a result whose type is `input_required`. The error says what is wrong with it.
    pub(in crate::engine) fn read(result: &RawValue) -> Result<Self, &'static str> {
        const MISSHAPEN: &str = "its result asks for input in no form that the protocol has";
        let object = |raw: &RawValue| RawObject::parse(raw.get()).map_err(|_| MISSHAPEN);
        let result = object(result)?;
        let asked = result.get(INPUT_REQUESTS).map(object).transpose()?.unwrap_or_default();
        let state = result.get(REQUEST_STATE).map(RawValue::to_owned);
        if state.as_ref().is_some_and(|state| !state.get().starts_with('"')) || (asked.is_empty() && state.is_none()) {
            return Err(MISSHAPEN);
        }
        let read = |(key, question): (&str, &RawValue)| {
            let question = object(question)?;
            let method = question.get_str("method").and_then(|method| Method::parse(&method));
            let method = method.filter(|method| method.is_question()).ok_or(MISSHAPEN)?;
            Ok((key.to_owned(), Question { method, params: question.get("params").map(RawValue::to_owned) }))
        };
        let questions = asked.iter().map(read).collect::<Result<Vec<_>, &'static str>>()?;
        if questions.len() > MAX_QUESTIONS {
            return Err("its result asks for more than 8 things at once");
        }
        Ok(Self { questions, state })
    }

    /// The number of bytes that the questions hold.
    pub(in crate::engine) fn size(&self) -> u64 {
        let of_one = |(key, question): &(String, Question)| key.len() + bytes(question.params.as_deref());
        (self.questions.iter().map(of_one).sum::<usize>() + bytes(self.state.as_deref())) as u64
    }

    /// Asks the client everything at once, and returns what is sent with the call next. What is held meanwhile, for as long
    /// as a client has to answer, counts against the budget.
    pub(in crate::engine) async fn ask(self, client: &AskedClient<'_>) -> Result<InputRound, CallEnd> {
        let reservation = || client.chains.budget.reservation(Category::Answer);
        let asked = reservation();
        asked.resize(self.size()).map_err(|NoRoom| CallEnd::no_room())?;
        let answered = self.questions.into_iter().map(|(key, question)| async {
            let (method, held) = (question.method, reservation());
            let answer = client.put(question).await.map_err(|not_passed| client.end_of(not_passed))?;
            match answer {
                Answer::Result(result) => {
                    held.resize(result.get().len() as u64).map_err(|NoRoom| CallEnd::no_room())?;
                    Ok((key, result, held))
                }
                Answer::Error(error) => Err(CallEnd::not_given(method, &error)),
            }
        });
        let (mut responses, mut held) = (RawObject::default(), Vec::new());
        for answer in join_all(answered).await {
            let (key, result, reservation) = answer?;
            responses.set(&key, result);
            held.push(reservation);
        }
        let responses = (!responses.is_empty()).then(|| to_raw(&responses));
        Ok(InputRound { responses, state: self.state })
    }
}

fn bytes(value: Option<&RawValue>) -> usize {
    value.map_or(0, |value| value.get().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<InputQuestions, &'static str> {
        InputQuestions::read(&RawValue::from_string(text.into()).unwrap())
    }

    #[test]
    fn what_is_asked_is_read() {
        let asked = read(
            r#"{"inputRequests":{"a":{"method":"elicitation/create","params":{"x": 1.0}},"b":{"method":"roots/list"}},"requestState":"s"}"#,
        )
        .unwrap();
        let shown: Vec<_> = asked.questions.iter().map(|(key, question)| (key.as_str(), question.method)).collect();
        assert_eq!(shown, [("a", Method::Elicit), ("b", Method::ListRoots)]);
        assert_eq!(asked.questions[0].1.params.as_ref().unwrap().get(), r#"{"x": 1.0}"#);
        assert_eq!(asked.state.unwrap().get(), "\"s\"");
        assert!(read(r#"{"requestState":"s"}"#).is_ok_and(|asked| asked.questions.is_empty()));
    }

    #[test]
    fn what_cannot_be_asked_is_an_error() {
        let many: Vec<_> = (0..=MAX_QUESTIONS).map(|n| format!(r#""{n}":{{"method":"roots/list"}}"#)).collect();
        for text in [
            "{}",
            r#"{"requestState":1}"#,
            r#"{"inputRequests":[]}"#,
            r#"{"inputRequests":{}}"#,
            r#"{"inputRequests":{"a":{"method":"tools/call"}}}"#,
            r#"{"inputRequests":{"a":{}}}"#,
            &format!(r#"{{"inputRequests":{{{}}}}}"#, many.join(",")),
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
