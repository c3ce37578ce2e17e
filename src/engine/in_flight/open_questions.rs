//! The questions of one call that wait for their answers.

use tokio::sync::oneshot;

use crate::domain::question::Question;
use crate::domain::upstream::Answer;

/// The open questions of a call, oldest first. A question is withdrawn by dropping the receiver of its answer.
#[derive(Debug, Default)]
pub(super) struct OpenQuestions {
    /// The number of questions so far.
    asked: u64,
    open: Vec<OpenQuestion>,
}

#[derive(Debug)]
pub(super) struct OpenQuestion {
    /// The first question of a call has number 1.
    pub(super) number: u64,
    pub(super) question: Question,
    answer: oneshot::Sender<Answer>,
}

/// Returns the number of bytes that a question holds.
pub(super) fn size(question: &Question) -> u64 {
    question.params.as_ref().map_or(0, |params| params.get().len() as u64)
}

impl OpenQuestion {
    /// Gives the answer. Returns false if the question was withdrawn.
    pub(super) fn answer(self, answer: Answer) -> bool {
        self.answer.send(answer).is_ok()
    }
}

impl OpenQuestions {
    /// Adds a question, and returns the receiver of its answer. Removes those that were withdrawn.
    pub(super) fn add(&mut self, question: Question) -> oneshot::Receiver<Answer> {
        self.open();
        let (answer, answered) = oneshot::channel();
        self.asked += 1;
        self.open.push(OpenQuestion { number: self.asked, question, answer });
        answered
    }

    /// Removes the questions that were withdrawn, and returns the others.
    pub(super) fn open(&mut self) -> &[OpenQuestion] {
        self.open.retain(|open| !open.answer.is_closed());
        &self.open
    }

    /// Removes the question with this number.
    pub(super) fn take(&mut self, number: u64) -> Option<OpenQuestion> {
        let place = self.open.iter().position(|open| open.number == number)?;
        Some(self.open.remove(place))
    }

    /// Removes all questions.
    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    /// The number of bytes that the questions hold.
    pub(super) fn size(&self) -> u64 {
        self.open.iter().map(|open| size(&open.question)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::method::Method;
    use crate::domain::raw::to_raw;

    #[test]
    fn questions_that_were_withdrawn_are_open_no_more() {
        let mut questions = OpenQuestions::default();
        let mut ask = |text: &str| questions.add(Question { method: Method::Elicit, params: Some(to_raw(&text)) });
        let (first, second, mut third) = (ask("a"), ask("bb"), ask("ccc"));
        drop(second);
        let numbers =
            |questions: &mut OpenQuestions| questions.open().iter().map(|open| open.number).collect::<Vec<_>>();
        assert_eq!((questions.size(), numbers(&mut questions), questions.size()), (12, vec![1, 3], 8));
        assert!(questions.take(3).unwrap().answer(Answer::Result(to_raw(&1))));
        assert!(third.try_recv().is_ok() && questions.take(3).is_none());
        questions.clear();
        assert_eq!((numbers(&mut questions), questions.size()), (vec![], 0));
        drop(first);
    }

    #[test]
    fn a_call_that_asks_again_and_again_holds_only_questions_that_wait() {
        let mut questions = OpenQuestions::default();
        for _ in 0..1000 {
            drop(questions.add(Question { method: Method::Elicit, params: Some(to_raw(&"text")) }));
        }
        assert_eq!(questions.size(), 6, "the last one is not known yet to be withdrawn");
        let last = questions.add(Question { method: Method::Elicit, params: None });
        assert_eq!(questions.open.len(), 1);
        let taken = questions.take(1001).unwrap();
        drop(last);
        assert!(!taken.answer(Answer::Result(to_raw(&1))), "its receiver was dropped");
    }
}
