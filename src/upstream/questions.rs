//! The questions that a server asks the client of a call, until they are answered.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::wire;
use crate::domain::method::Method;
use crate::domain::ports::ToClient;
use crate::domain::question::Question;

/// How many questions of one call may wait for their answers. More are refused.
const MAX_OPEN: usize = 8;
/// The maximum number of bytes of the parameters of a question. A larger one is refused.
const MAX_PARAMS: usize = 1 << 20;

/// A question, with the id that its answer must have.
#[derive(Debug)]
pub(super) struct ServerQuestion {
    id: Box<RawValue>,
    question: Question,
}

impl ServerQuestion {
    /// Reads a request of a server. If it is nothing that a client is asked, returns the answer to the server instead.
    pub(super) fn read(id: &RawValue, method: &str, params: Option<&RawValue>) -> Result<Self, String> {
        let Some(known) = Method::parse(method).filter(|method| method.is_question()) else {
            return Err(wire::reply(id, method));
        };
        if params.is_some_and(|params| params.get().len() > MAX_PARAMS) {
            let question = Question { method: known, params: None };
            let why = format!("its parameters are larger than the {MAX_PARAMS} bytes that a question may have");
            return Err(wire::answer(id, &question.refused(&why)));
        }
        Ok(Self { id: id.to_owned(), question: Question { method: known, params: params.map(RawValue::to_owned) } })
    }

    /// Returns the answer to the server that nobody is asked, for the reason `why`.
    pub(super) fn refused(&self, why: &str) -> String {
        wire::answer(&self.id, &self.question.refused(why))
    }
}

/// The questions of one call that wait for their answers.
pub(super) struct OpenQuestions<'a> {
    client: &'a dyn ToClient,
    open: FuturesUnordered<Pin<Box<dyn Future<Output = ()> + Send + 'a>>>,
}

impl<'a> OpenQuestions<'a> {
    pub(super) fn new(client: &'a dyn ToClient) -> Self {
        Self { client, open: FuturesUnordered::new() }
    }

    /// Puts a question to the client. Its answer is given to `send`, while [`OpenQuestions::run`] is polled.
    pub(super) fn ask<F>(&mut self, asked: ServerQuestion, send: impl FnOnce(String) -> F + Send + 'a)
    where
        F: Future<Output = ()> + Send + 'a,
    {
        let (client, room) = (self.client, self.open.len() < MAX_OPEN);
        self.open.push(Box::pin(async move {
            if !room {
                let why = format!("{MAX_OPEN} questions of the call wait for their answers, as many as may");
                return send(asked.refused(&why)).await;
            }
            let answer = client.ask(asked.question).await;
            send(wire::answer(&asked.id, &answer)).await;
        }));
    }

    /// Drives the questions that are open. Never completes.
    pub(super) async fn run(&mut self) {
        loop {
            if self.open.next().await.is_none() {
                return std::future::pending().await;
            }
        }
    }
}

/// The calls of one connection whose clients can be asked. A server does not always say to which call a question belongs
/// (MCP, stdio; and the stream on which it sends messages outside of requests).
#[derive(Debug, Default)]
pub(super) struct AskableCalls {
    calls: Mutex<AskableState>,
}

#[derive(Debug, Default)]
struct AskableState {
    next: u64,
    /// The oldest first.
    calls: Vec<AskableCall>,
}

#[derive(Debug)]
struct AskableCall {
    number: u64,
    guarded: bool,
    questions: mpsc::Sender<ServerQuestion>,
}

/// A call that can be asked, until this value is dropped.
#[derive(Debug)]
pub(super) struct Askable<'a> {
    calls: &'a AskableCalls,
    number: u64,
    /// The questions that were put to this call.
    pub(super) questions: mpsc::Receiver<ServerQuestion>,
}

impl AskableCalls {
    /// Registers a call. `guarded` tells whether a Guard checks its answer.
    pub(super) fn add(&self, guarded: bool) -> Askable<'_> {
        let (sender, questions) = mpsc::channel(MAX_OPEN);
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.calls.push(AskableCall { number, guarded, questions: sender });
        Askable { calls: self, number, questions }
    }

    /// Puts a question to the newest of the calls that are guarded, or else to the newest of all: a Guard must see what
    /// may belong to its call. If there is no call, or it takes no more questions, returns the answer to the server.
    pub(super) fn put(&self, asked: ServerQuestion) -> Result<(), String> {
        let state = self.lock();
        let guarded = state.calls.iter().rev().find(|call| call.guarded);
        let Some(call) = guarded.or(state.calls.last()) else {
            return Err(asked.refused("no call is under way during which a client could be asked"));
        };
        call.questions.try_send(asked).map_err(|error| error.into_inner().refused("too many questions wait"))
    }

    fn lock(&self) -> MutexGuard<'_, AskableState> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Askable<'_> {
    fn drop(&mut self) {
        self.calls.lock().calls.retain(|call| call.number != self.number);
    }
}
