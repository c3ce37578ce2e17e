//! What a server answered, until the chains over answers have run. Only this folder opens it.

use serde_json::value::RawValue;

use super::tool_result::{ResultFacts, without_members};
use crate::domain::ports::ToClient;
use crate::domain::upstream::{Answer, ServerAnswer};
use crate::domain::version::Era;

/// An answer of a server, a pipeline or an override that no response chain has seen.
pub(in crate::engine) struct Unchecked {
    answer: ServerAnswer,
    facts: ResultFacts,
}

impl Unchecked {
    pub(in crate::engine) fn new(answer: ServerAnswer) -> Self {
        let facts = ResultFacts::of(&answer.answer);
        Self { answer, facts }
    }

    /// The version of MCP that the server speaks.
    pub(in crate::engine) fn era(&self) -> Era {
        self.answer.era
    }

    pub(in crate::engine) fn facts(&self) -> ResultFacts {
        self.facts
    }

    /// The number of bytes of the result or the error.
    pub(in crate::engine) fn size(&self) -> u64 {
        let (Answer::Result(text) | Answer::Error(text)) = &self.answer.answer;
        text.get().len() as u64
    }

    /// The answer of something in the gateway that stands for a server. `era` is that of the client, which can read it as it is.
    pub(in crate::engine) fn of_gateway(era: Era, result: Box<RawValue>) -> Self {
        Self::new(ServerAnswer { era, answer: Answer::Result(result) })
    }

    /// The same answer, which the client is not to take for a question: its server knows none of this kind.
    pub(in crate::engine) fn not_asking_back(mut self) -> Self {
        self.facts.asks_back = false;
        self
    }

    /// Replaces the answer by this error.
    pub(super) fn set_error(&mut self, error: Box<RawValue>) {
        self.answer.answer = Answer::Error(error);
    }

    /// The same answer without these members of its result.
    pub(super) fn without_members(mut self, unwanted: &[&str]) -> Self {
        self.answer.answer = without_members(self.answer.answer, unwanted);
        self
    }

    /// Returns the answer about an item that nothing checks; `None` if something does.
    pub(in crate::engine) fn unless_checked(self, is_checked: bool) -> Option<Answer> {
        if is_checked { None } else { Some(self.answer.answer) }
    }

    /// The text, for the chains over questions and for what is read of its form.
    pub(super) fn unseen(&self) -> &Answer {
        &self.answer.answer
    }

    /// The answer, for its chains.
    pub(super) fn open(self) -> ServerAnswer {
        self.answer
    }
}

/// A client whose questions pass the chains over them. Only such a one is given to servers.
pub(in crate::engine) trait GuardedClient: ToClient {}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(result: &str) -> Unchecked {
        Unchecked::of_gateway(Era::Modern, RawValue::from_string(result.to_owned()).unwrap())
    }

    #[test]
    fn an_answer_about_an_item_that_something_checks_is_not_given() {
        assert!(answer("{}").unless_checked(true).is_none());
        assert!(answer("{}").unless_checked(false).is_some());
    }

    #[test]
    fn facts_follow_the_text_until_its_question_is_none() {
        let asks = answer(r#"{"resultType":"input_required"}"#);
        assert!(asks.facts().asks_back && !asks.not_asking_back().facts().asks_back);
        assert_eq!(answer("{}").size(), 2);
    }
}
