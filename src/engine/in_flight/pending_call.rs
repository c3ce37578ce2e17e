//! A call that can go on without the request that it came with: because a server asks its client, which has no session,
//! something, or as a task. The client gets the questions as a result, and answers them with another request (MCP 2026-07-28,
//! multi-round-trip requests; SEP-2663). Meanwhile the call goes on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use tokio::sync::{Notify, oneshot};
use tokio_util::task::AbortOnDropHandle;

use super::open_questions::{OpenQuestions, size};
use crate::domain::budget::{Account, Reservation};
use crate::domain::identity::Identity;
use crate::domain::ports::Answering;
use crate::domain::question::Question;
use crate::domain::raw::RawObject;
use crate::domain::rpc::LEVELS_ABOVE_QUESTION;
use crate::domain::tokens::{MAX_DEPTH, deeper_than};
use crate::domain::upstream::Answer;

/// The maximum number of questions that wait for one client.
const MAX_OPEN: usize = 8;

/// The prefix of the keys of questions; the number of the question follows.
const KEY: &str = "input-";

/// The questions of one call, and its answer once there is one.
#[derive(Debug)]
pub struct PendingCall {
    state: Mutex<PendingState>,
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct PendingState {
    questions: OpenQuestions,
    /// Reserves the memory of the open questions.
    reservation: Reservation,
    /// Whether the client has a result with questions, and so does not listen to this request any more.
    left: bool,
    answer: Option<HeldAnswer>,
    /// Whether there will be no answer.
    abandoned: bool,
    /// The identity with which the client has answered last, if that is known whole.
    identity: Option<Arc<Identity>>,
}

/// The JSON-RPC message that ends a call, and the memory that is reserved for it.
#[derive(Clone, Debug)]
pub struct HeldAnswer {
    /// The message.
    pub message: Arc<String>,
    /// `None` if no memory was reserved.
    pub reservation: Option<Arc<Reservation>>,
}

/// Waits for the answer to a question. Dropping it withdraws the question.
struct Waiting {
    // Fields are dropped in their order: whoever is notified finds the question withdrawn.
    answer: oneshot::Receiver<Answer>,
    _withdrawal: Withdrawal,
}

/// Notifies those who wait for a change once it is dropped.
struct Withdrawal(Arc<Notify>);

impl Drop for Withdrawal {
    fn drop(&mut self) {
        self.0.notify_waiters();
    }
}

impl PendingState {
    /// Releases the memory of questions that were removed.
    fn shrink(&self) {
        // Shrinking a reservation always succeeds.
        let _ = self.reservation.resize(self.questions.size());
    }
}

/// A call that goes on beside the request that it came with. Dropping it cancels the call.
pub struct RunningCall {
    /// Its questions, and its answer.
    pub pending: Arc<PendingCall>,
    /// The account of the client's address, which identifies it.
    pub account: Arc<Account>,
    /// The task in which it runs.
    pub running: AbortOnDropHandle<()>,
}

/// How a call goes on.
#[derive(Debug)]
pub enum Continuation {
    /// The server asks these questions; each has a key.
    Asks(Vec<(String, Question)>),
    /// The call has ended with this answer.
    Ended(HeldAnswer),
    /// The call has ended without an answer, because the gateway failed.
    Abandoned,
}

impl PendingCall {
    /// Creates a call without questions. `reservation` is for the memory of the questions.
    pub fn new(reservation: Reservation) -> Self {
        let (questions, answer, identity) = (OpenQuestions::default(), None, None);
        let state = PendingState { questions, reservation, left: false, answer, abandoned: false, identity };
        Self { state: Mutex::new(state), changed: Arc::default() }
    }

    /// Puts a question to the client. Dropping the future withdraws the question.
    ///
    /// # Errors
    /// The answer for the server, if too many questions wait.
    pub fn ask(&self, question: Question) -> Result<Answering<'static>, Answer> {
        let refused = question.refused("too many questions wait for this client");
        let nests_too_deep =
            |params: &RawValue| deeper_than(MAX_DEPTH - LEVELS_ABOVE_QUESTION, params.get().as_bytes());
        if question.params.as_deref().is_some_and(nests_too_deep) {
            let why = format!("the result that asks this client would nest deeper than {MAX_DEPTH} levels");
            return Ok(Box::pin(std::future::ready(question.refused(&why))));
        }
        let mut state = self.lock();
        if state.questions.open().len() >= MAX_OPEN {
            return Err(refused);
        }
        if let Err(no_room) = state.reservation.resize(state.questions.size() + size(&question)) {
            return Ok(Box::pin(std::future::ready(question.refused(&no_room.to_string()))));
        }
        let answer = state.questions.add(question);
        drop(state);
        self.changed.notify_waiters();
        let waiting = Waiting { answer, _withdrawal: Withdrawal(Arc::clone(&self.changed)) };
        Ok(Box::pin(async move {
            // A block that uses only `answer` would own nothing else of `waiting`.
            let mut waiting = waiting;
            (&mut waiting.answer).await.unwrap_or(refused)
        }))
    }

    /// Whether the client has a result with questions, and so does not listen to the request any more that the call came with.
    pub fn is_left(&self) -> bool {
        self.lock().left
    }

    /// Says that the client does not listen to the request any more that the call came with.
    pub fn leave(&self) {
        self.lock().left = true;
    }

    /// Sets the answer of the call, unless it has one.
    pub fn finish(&self, answer: HeldAnswer) {
        self.lock().answer.get_or_insert(answer);
        self.changed.notify_waiters();
    }

    /// Says that the call has ended. Unless it has an answer, there will be none.
    pub fn abandon(&self) {
        self.lock().abandoned = true;
        self.changed.notify_waiters();
    }

    /// The identity with which the client has answered last; see [`Self::give`].
    pub fn identity(&self) -> Option<Arc<Identity>> {
        self.lock().identity.clone()
    }

    /// Gives the client's answers to the questions with these keys. Others are ignored. `identity` is that of the client that
    /// answers, if it is known whole.
    pub fn give(&self, answers: &RawObject, identity: Option<Arc<Identity>>) {
        let mut state = self.lock();
        state.identity = identity.or(state.identity.take());
        let numbers: Vec<_> = state.questions.open().iter().map(|open| open.number).collect();
        for number in numbers {
            let Some(answer) = answers.get(&key(number)) else { continue };
            if let Some(question) = state.questions.take(number) {
                question.answer(Answer::Result(answer.to_owned()));
            }
        }
        state.shrink();
    }

    /// Gives the answer to the question with this key. `identity` is that of the client that answers, if it is known whole.
    pub fn answer(&self, key: &str, answer: Answer, identity: Option<Arc<Identity>>) {
        let mut state = self.lock();
        state.identity = identity.or(state.identity.take());
        if let Some(question) = number(key).and_then(|number| state.questions.take(number)) {
            question.answer(answer);
        }
        state.shrink();
    }

    /// Waits until the question with this key waits for no answer any more.
    pub async fn settled(&self, key: &str) {
        let waits = || self.lock().questions.open().iter().any(|open| number(key) == Some(open.number));
        self.until(|| (!waits()).then_some(())).await;
    }

    /// Waits until the server asks something or the call has ended.
    pub async fn goes_on(&self) -> Continuation {
        self.until(|| self.look()).await
    }

    async fn until<T>(&self, look: impl Fn() -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registers before the look, so that no change between the look and the wait is missed.
            changed.as_mut().enable();
            if let Some(continued) = look() {
                return continued;
            }
            changed.await;
        }
    }

    /// Returns the size of the answer in bytes; `None` while the call is in progress.
    pub fn ended_size(&self) -> Option<u64> {
        let state = self.lock();
        let size = state.answer.as_ref().map(|answer| answer.message.len() as u64);
        size.or_else(|| state.abandoned.then_some(0))
    }

    /// Returns what the call waits for, or how it has ended; `None` while it is under way.
    pub fn look(&self) -> Option<Continuation> {
        let mut state = self.lock();
        if let Some(answer) = &state.answer {
            return Some(Continuation::Ended(answer.clone()));
        }
        if state.abandoned {
            return Some(Continuation::Abandoned);
        }
        let asks: Vec<_> =
            state.questions.open().iter().map(|open| (key(open.number), open.question.clone())).collect();
        state.shrink();
        if asks.is_empty() {
            return None;
        }
        state.left = true;
        Some(Continuation::Asks(asks))
    }

    fn lock(&self) -> MutexGuard<'_, PendingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the key of the question with this number.
fn key(number: u64) -> String {
    format!("{KEY}{number}")
}

/// Returns the number in the key of a question.
fn number(key: &str) -> Option<u64> {
    key.strip_prefix(KEY)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::budget::{ByteBudget, Category, FREE};
    use crate::domain::method::Method;

    fn question() -> Question {
        Question { method: Method::ListRoots, params: None }
    }

    fn pending_call() -> PendingCall {
        PendingCall::new(Arc::new(ByteBudget::new(1 << 20)).reservation(Category::Progress))
    }

    fn keys(continued: Continuation) -> Vec<String> {
        let Continuation::Asks(asked) = continued else { panic!("{continued:?}") };
        asked.into_iter().map(|(key, _)| key).collect()
    }

    #[tokio::test]
    async fn answers_go_to_the_questions_with_their_keys() {
        let call = pending_call();
        assert!(!call.is_left());
        let (first, second) = (call.ask(question()).unwrap(), call.ask(question()).unwrap());
        assert_eq!(keys(call.goes_on().await), ["input-1", "input-2"]);
        assert!(call.is_left());
        call.give(&RawObject::parse(r#"{"input-2":{"b":1},"other":{}}"#).unwrap(), None);
        let Answer::Result(answer) = second.await else { panic!("refused") };
        assert_eq!((answer.get(), keys(call.goes_on().await)), (r#"{"b":1}"#, vec!["input-1".to_owned()]));
        drop(first);
        call.finish(HeldAnswer { message: Arc::new("answer".into()), reservation: None });
        call.abandon();
        assert!(matches!(call.goes_on().await, Continuation::Ended(answer) if *answer.message == "answer"));
    }

    #[tokio::test]
    async fn a_question_is_settled_by_its_answer_or_by_its_withdrawal() {
        let call = pending_call();
        let (first, second) = (call.ask(question()).unwrap(), call.ask(question()).unwrap());
        let answered = async { call.answer("input-1", Answer::Result(RawValue::NULL.to_owned()), None) };
        let ((), (), answer) = tokio::join!(call.settled("input-1"), answered, first);
        assert!(matches!(answer, Answer::Result(_)));
        tokio::join!(call.settled("input-2"), async { drop(second) });
    }

    #[tokio::test]
    async fn a_wait_for_a_call_that_ends_without_an_answer_ends() {
        let call = pending_call();
        let (continued, ()) = tokio::join!(call.goes_on(), async { call.abandon() });
        assert!(matches!(continued, Continuation::Abandoned), "{continued:?}");
    }

    #[tokio::test]
    async fn a_question_nests_as_deep_as_the_result_that_asks_it_may() {
        let (call, room) = (pending_call(), MAX_DEPTH - LEVELS_ABOVE_QUESTION);
        let nested = |levels: usize| {
            let params = RawValue::from_string(format!("{}{}", "[".repeat(levels), "]".repeat(levels))).ok();
            Question { method: Method::ListRoots, params }
        };
        let Answer::Error(refused) = call.ask(nested(room + 1)).unwrap().await else { panic!("it is asked") };
        assert!(refused.get().contains("deeper than 128 levels"), "{refused}");
        let _waits = call.ask(nested(room)).unwrap();
        assert_eq!(keys(call.goes_on().await), ["input-1"]);
    }

    #[tokio::test]
    async fn what_open_questions_hold_is_counted() {
        let budget = Arc::new(ByteBudget::new(1 << 20));
        let call = PendingCall::new(budget.reservation(Category::Progress));
        let large = |bytes: usize| {
            let params = RawValue::from_string(format!("\"{}\"", "x".repeat(bytes))).ok();
            Question { method: Method::ListRoots, params }
        };
        let first = call.ask(large(100 << 10)).unwrap();
        let held = budget.held(Category::Progress);
        assert!(held > (100 << 10) - FREE, "{held}");
        assert!(
            matches!(call.ask(large(100 << 10)).unwrap().await, Answer::Error(_)),
            "an eighth of the budget is for these"
        );
        assert_eq!((budget.held(Category::Progress), budget.refused(Category::Progress)), (held, 1));
        call.give(&RawObject::parse(r#"{"input-1":{}}"#).unwrap(), None);
        assert_eq!(budget.held(Category::Progress), 0);
        assert!(matches!(first.await, Answer::Result(_)));
        let _second = call.ask(large(100 << 10)).unwrap();
        assert_eq!(keys(call.goes_on().await), ["input-2"], "what was refused has no number");
    }

    #[tokio::test]
    async fn a_wait_ends_with_the_next_question() {
        let call = pending_call();
        let asked = async {
            let _ = tokio::time::timeout(std::time::Duration::from_millis(50), call.ask(question()).unwrap()).await;
        };
        let (continued, ()) = tokio::join!(call.goes_on(), asked);
        assert_eq!(keys(continued), ["input-1"]);
    }

    #[tokio::test]
    async fn the_number_of_questions_is_bounded_and_those_withdrawn_do_not_count() {
        let call = pending_call();
        let open: Vec<_> = (0..MAX_OPEN).map(|_| call.ask(question()).unwrap()).collect();
        assert!(matches!(call.ask(question()), Err(Answer::Error(_))));
        drop(open);
        let _open = call.ask(question()).unwrap();
        assert_eq!(keys(call.goes_on().await), ["input-9"]);
    }
}
