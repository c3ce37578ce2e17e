//! A call of a client without a session, during which a server with sessions asks the client something. The client gets the
//! questions as the result of its call, and answers them by sending the call once more (MCP 2026-07-28, multi-round-trip
//! requests). Meanwhile the call goes on.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::domain::ports::Answering;
use crate::domain::question::Question;
use crate::domain::raw::RawObject;
use crate::domain::upstream::Answer;

/// The maximum number of questions that wait for one client.
const MAX_OPEN: usize = 8;

/// The questions of one call, and its answer once there is one.
#[derive(Debug, Default)]
pub struct AskedCall {
    state: Mutex<AskedState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct AskedState {
    /// The number of questions so far.
    asked: u64,
    open: Vec<WaitingQuestion>,
    /// Whether the client was told of questions, and so does not listen to this request any more.
    left: bool,
    answer: Option<String>,
}

#[derive(Debug)]
struct WaitingQuestion {
    key: String,
    question: Question,
    answer: oneshot::Sender<Answer>,
}

/// How a call goes on.
#[derive(Debug)]
pub enum Continued {
    /// The server asks these questions; each has a key.
    Asks(Vec<(String, Question)>),
    /// The call has ended with this JSON-RPC message.
    Ended(String),
}

impl AskedCall {
    /// Puts a question to the client. Dropping the future withdraws the question.
    pub fn ask(&self, question: Question) -> Answering<'static> {
        let (sender, answer) = oneshot::channel();
        let refused = question.refused("too many questions wait for this client");
        let mut state = self.lock();
        state.open.retain(|open| !open.answer.is_closed());
        if state.open.len() >= MAX_OPEN {
            return Box::pin(std::future::ready(refused));
        }
        state.asked += 1;
        let key = format!("input-{}", state.asked);
        state.open.push(WaitingQuestion { key, question, answer: sender });
        drop(state);
        self.changed.notify_waiters();
        Box::pin(async move { answer.await.unwrap_or(refused) })
    }

    /// Whether the client was told of questions, and so does not listen to the request any more that the call came with.
    pub fn is_left(&self) -> bool {
        self.lock().left
    }

    /// Sets the answer of the call.
    pub fn finish(&self, message: String) {
        self.lock().answer = Some(message);
        self.changed.notify_waiters();
    }

    /// Gives the client's answers to the questions with these keys. Others are ignored.
    pub fn give(&self, answers: &RawObject) {
        let mut state = self.lock();
        for waiting in std::mem::take(&mut state.open) {
            match answers.get(&waiting.key) {
                // The server may have withdrawn the question.
                Some(answer) => drop(waiting.answer.send(Answer::Result(answer.to_owned()))),
                None => state.open.push(waiting),
            }
        }
    }

    /// Waits until the server asks something or the call has ended.
    pub async fn goes_on(&self) -> Continued {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registers before the look, so that no change between the look and the wait is missed.
            changed.as_mut().enable();
            if let Some(continued) = self.look() {
                return continued;
            }
            changed.await;
        }
    }

    fn look(&self) -> Option<Continued> {
        let mut state = self.lock();
        if let Some(answer) = state.answer.take() {
            return Some(Continued::Ended(answer));
        }
        state.open.retain(|open| !open.answer.is_closed());
        if state.open.is_empty() {
            return None;
        }
        state.left = true;
        Some(Continued::Asks(state.open.iter().map(|open| (open.key.clone(), open.question.clone())).collect()))
    }

    fn lock(&self) -> MutexGuard<'_, AskedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::method::Method;

    fn question() -> Question {
        Question { method: Method::ListRoots, params: None }
    }

    fn keys(continued: Continued) -> Vec<String> {
        let Continued::Asks(asked) = continued else { panic!("{continued:?}") };
        asked.into_iter().map(|(key, _)| key).collect()
    }

    #[tokio::test]
    async fn answers_go_to_the_questions_with_their_keys() {
        let call = AskedCall::default();
        assert!(!call.is_left());
        let (first, second) = (call.ask(question()), call.ask(question()));
        assert_eq!(keys(call.goes_on().await), ["input-1", "input-2"]);
        assert!(call.is_left());
        call.give(&RawObject::parse(r#"{"input-2":{"b":1},"other":{}}"#).unwrap());
        let Answer::Result(answer) = second.await else { panic!("refused") };
        assert_eq!((answer.get(), keys(call.goes_on().await)), (r#"{"b":1}"#, vec!["input-1".to_owned()]));
        drop(first);
        call.finish("answer".into());
        assert!(matches!(call.goes_on().await, Continued::Ended(answer) if answer == "answer"));
    }

    #[tokio::test]
    async fn a_wait_ends_with_the_next_question() {
        let call = AskedCall::default();
        let asked = async {
            let _ = tokio::time::timeout(std::time::Duration::from_millis(50), call.ask(question())).await;
        };
        let (continued, ()) = tokio::join!(call.goes_on(), asked);
        assert_eq!(keys(continued), ["input-1"]);
    }

    #[tokio::test]
    async fn the_number_of_questions_is_bounded_and_those_withdrawn_do_not_count() {
        let call = AskedCall::default();
        let open: Vec<_> = (0..MAX_OPEN).map(|_| call.ask(question())).collect();
        assert!(matches!(call.ask(question()).await, Answer::Error(_)));
        drop(open);
        let _open = call.ask(question());
        assert_eq!(keys(call.goes_on().await), ["input-9"]);
    }
}
