//! The questions that were sent to the client of one session and that wait for its answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::domain::identity::Identity;
use crate::domain::upstream::Answer;

/// The maximum number of questions that wait for the answers of one client.
const MAX_OPEN: usize = 16;

/// The open questions of one session.
#[derive(Debug, Default)]
pub struct ClientQuestions {
    /// By id, as raw JSON.
    open: Mutex<HashMap<String, oneshot::Sender<ClientAnswer>>>,
}

/// An answer of a client, and the identity with which the client sent it, if that is known whole.
#[derive(Debug)]
pub struct ClientAnswer {
    /// The answer.
    pub answer: Answer,
    /// The identity.
    pub identity: Option<Arc<Identity>>,
}

/// A question that waits for its answer. Dropping it makes a late answer be ignored.
#[derive(Debug)]
pub struct OpenQuestion {
    questions: Arc<ClientQuestions>,
    id: String,
    answer: oneshot::Receiver<ClientAnswer>,
}

impl ClientQuestions {
    /// Registers a question under a new id, which is raw JSON. Returns `None` if too many questions wait.
    pub fn open(self: &Arc<Self>, id: String) -> Option<OpenQuestion> {
        let mut open = self.lock();
        if open.len() >= MAX_OPEN {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        open.insert(id.clone(), sender);
        drop(open);
        Some(OpenQuestion { questions: Arc::clone(self), id, answer })
    }

    /// Delivers the client's answer to the question with this id, which is raw JSON. Returns the answer if no such question
    /// waits.
    pub fn answer(&self, id: &str, answer: ClientAnswer) -> Option<ClientAnswer> {
        match self.lock().remove(id) {
            Some(question) => question.send(answer).err(),
            None => Some(answer),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<ClientAnswer>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenQuestion {
    /// The id of the question, as raw JSON.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Waits for the answer. `None` if there will be none.
    pub async fn answer(&mut self) -> Option<ClientAnswer> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.questions.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn result() -> ClientAnswer {
        ClientAnswer { answer: Answer::Result(RawValue::from_string("{}".into()).unwrap()), identity: None }
    }

    #[tokio::test]
    async fn an_answer_finds_its_question_once() {
        let questions = Arc::new(ClientQuestions::default());
        let (mut first, second) = (questions.open("\"a\"".into()).unwrap(), questions.open("\"b\"".into()).unwrap());
        assert!(questions.answer("1", result()).is_some() && questions.answer("\"x\"", result()).is_some());
        let id = first.id().to_owned();
        assert!(questions.answer(&id, result()).is_none() && questions.answer(&id, result()).is_some());
        assert!(first.answer().await.is_some());
        let id = second.id().to_owned();
        drop(second);
        assert!(questions.answer(&id, result()).is_some(), "the question was withdrawn");
    }

    #[test]
    fn the_number_of_open_questions_is_bounded() {
        let questions = Arc::new(ClientQuestions::default());
        let held: Vec<_> = (0..MAX_OPEN).filter_map(|n| questions.open(n.to_string())).collect();
        assert!(held.len() == MAX_OPEN && questions.open("x".into()).is_none());
        drop(held);
        assert!(questions.open("x".into()).is_some());
    }
}
