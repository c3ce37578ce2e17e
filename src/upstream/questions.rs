//! The questions that a server asks the client of a call, until they are answered.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use futures_util::future::{AbortHandle, Abortable, Aborted};
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::server_message::{TOO_DEEP, nests_too_deep};
use super::wire;
use crate::domain::method::Method;
use crate::domain::ports::ToClient;
use crate::domain::question::Question;
use crate::domain::upstream::QuestionWatch;

/// How many questions of one call may wait for their answers. More are refused.
const MAX_OPEN: usize = 8;
/// The maximum number of bytes of the parameters of a question. A larger one is refused.
const MAX_PARAMS: usize = 1 << 20;

/// Why nobody is asked over a connection that several clients use.
pub(super) const SHARED: &str = "the connection serves several clients, so that nobody is asked";
/// Why a question is left unanswered.
const CALL_ENDED: &str = "the call has ended";

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
        let refused = |why: &str| Err(wire::answer(id, &Question { method: known, params: None }.refused(why)));
        if params.is_some_and(|params| params.get().len() > MAX_PARAMS) {
            return refused(&format!("its parameters are larger than the {MAX_PARAMS} bytes that a question may have"));
        }
        if params.is_some_and(nests_too_deep) {
            return refused(TOO_DEEP);
        }
        Ok(Self { id: id.to_owned(), question: Question { method: known, params: params.map(RawValue::to_owned) } })
    }

    /// Returns the answer to the server that nobody is asked, for the reason `why`.
    pub(super) fn refused(&self, why: &str) -> String {
        wire::answer(&self.id, &self.question.refused(why))
    }
}

/// What a server sends about questions outside of the response to a call.
#[derive(Debug)]
pub(super) enum AboutQuestion {
    Asked(ServerQuestion),
    /// The question with this id is withdrawn.
    Withdrawn(Box<RawValue>),
}

/// The questions of one call that wait for their answers.
pub(super) struct OpenQuestions<'a> {
    client: &'a dyn ToClient,
    open: FuturesUnordered<Abortable<Answered<'a>>>,
    /// The questions that the server waits for, without their parameters, by id.
    waiting: HashMap<String, (ServerQuestion, AbortHandle)>,
}

/// Completes with the id of the question once its answer was sent.
type Answered<'a> = Pin<Box<dyn Future<Output = String> + Send + 'a>>;

impl<'a> OpenQuestions<'a> {
    pub(super) fn new(client: &'a dyn ToClient) -> Self {
        Self { client, open: FuturesUnordered::new(), waiting: HashMap::new() }
    }

    /// Puts a question to the client. Its answer is given to `send`, while [`OpenQuestions::run`] is polled. If too many
    /// questions wait, returns the answer to the server instead.
    pub(super) fn ask<F>(
        &mut self,
        asked: ServerQuestion,
        send: impl FnOnce(String) -> F + Send + 'a,
    ) -> Result<(), String>
    where
        F: Future<Output = ()> + Send + 'a,
    {
        if self.open.len() >= MAX_OPEN {
            let why = format!("{MAX_OPEN} questions of the call wait for their answers, as many as may");
            return Err(asked.refused(&why));
        }
        if self.waiting.contains_key(asked.id.get()) {
            return Err(asked.refused("a question with this id waits already"));
        }
        let (client, ServerQuestion { id, question }) = (self.client, asked);
        let bare = ServerQuestion { id: id.clone(), question: Question { method: question.method, params: None } };
        let (handle, registration) = AbortHandle::new_pair();
        self.waiting.insert(id.get().to_owned(), (bare, handle));
        let answered: Answered<'a> = Box::pin(async move {
            let answer = client.ask(question).await;
            send(wire::answer(&id, &answer)).await;
            id.get().to_owned()
        });
        self.open.push(Abortable::new(answered, registration));
        Ok(())
    }

    /// Withdraws the question with this id, because the server no longer waits for its answer.
    pub(super) fn withdraw(&mut self, id: &RawValue) {
        if let Some((_, handle)) = self.waiting.remove(id.get()) {
            handle.abort();
        }
    }

    /// Drives the questions that are open. Never completes.
    pub(super) async fn run(&mut self) {
        loop {
            match self.open.next().await {
                Some(Ok(id)) => drop(self.waiting.remove(&id)),
                Some(Err(Aborted)) => {}
                None => return std::future::pending().await,
            }
        }
    }

    /// Returns the answers to the server that the questions are left unanswered, because their call has ended.
    pub(super) fn left(&mut self) -> Vec<String> {
        self.waiting.drain().map(|(_, (asked, _))| asked.refused(CALL_ENDED)).collect()
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

impl AskableState {
    /// The newest of the calls at whose questions chains look most closely.
    fn chosen(&self) -> Option<&AskableCall> {
        // Of several, the last one is the newest.
        self.calls.iter().max_by_key(|call| call.watch)
    }
}

#[derive(Debug)]
struct AskableCall {
    number: u64,
    watch: QuestionWatch,
    sender: mpsc::Sender<AboutQuestion>,
}

/// A call that can be asked, until this value is dropped.
#[derive(Debug)]
pub(super) struct Askable<'a> {
    calls: &'a AskableCalls,
    number: u64,
    /// What was put to this call.
    pub(super) received: mpsc::Receiver<AboutQuestion>,
}

impl AskableCalls {
    /// Registers a call. `watch` tells how closely chains look at what it is asked.
    pub(super) fn add(&self, watch: QuestionWatch) -> Askable<'_> {
        let (sender, received) = mpsc::channel(MAX_OPEN);
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.calls.push(AskableCall { number, watch, sender });
        Askable { calls: self, number, received }
    }

    /// Puts a question to the newest of the calls at whose questions chains look most closely: they must see what may belong
    /// to their call. If there is no call, or it takes no more questions, returns the answer to the server.
    pub(super) fn put(&self, asked: ServerQuestion) -> Result<(), String> {
        let state = self.lock();
        let Some(call) = state.chosen() else {
            return Err(asked.refused("no call is under way during which a client could be asked"));
        };
        let asked = AboutQuestion::Asked(asked);
        call.sender.try_send(asked).map_err(|error| match error.into_inner() {
            AboutQuestion::Asked(asked) => asked.refused("too many questions wait"),
            AboutQuestion::Withdrawn(_) => String::new(),
        })
    }

    /// Withdraws the question with this id, whichever call it was put to.
    pub(super) fn withdraw(&self, id: &RawValue) {
        for call in &self.lock().calls {
            // A call that takes no more has its questions refused sooner or later.
            let _ = call.sender.try_send(AboutQuestion::Withdrawn(id.to_owned()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, AskableState> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Askable<'_> {
    /// Returns the answers to the server that the questions which were put to this call, and not taken, are refused.
    pub(super) fn left(&mut self) -> Vec<String> {
        self.received.close();
        let mut left = Vec::new();
        while let Ok(about) = self.received.try_recv() {
            if let AboutQuestion::Asked(asked) = about {
                left.push(asked.refused(CALL_ENDED));
            }
        }
        left
    }
}

impl Drop for Askable<'_> {
    fn drop(&mut self) {
        self.calls.lock().calls.retain(|call| call.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::domain::ports::Answering;

    /// A client that never answers, and counts what it is asked and not told to forget.
    #[derive(Default)]
    struct Silent(AtomicUsize);

    impl ToClient for Silent {
        fn progress(&self, _: Box<RawValue>) {}

        fn ask(&self, _: Question) -> Answering<'_> {
            struct Asked<'a>(&'a AtomicUsize);
            impl Drop for Asked<'_> {
                fn drop(&mut self) {
                    self.0.fetch_sub(1, Ordering::Relaxed);
                }
            }
            self.0.fetch_add(1, Ordering::Relaxed);
            let asked = Asked(&self.0);
            Box::pin(async move {
                let _asked = asked;
                std::future::pending().await
            })
        }
    }

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    fn asked(id: usize) -> ServerQuestion {
        ServerQuestion::read(&raw(&id.to_string()), "roots/list", None).unwrap()
    }

    async fn run(open: &mut OpenQuestions<'_>) {
        let _ = tokio::time::timeout(Duration::from_millis(10), open.run()).await;
    }

    #[tokio::test]
    async fn a_question_is_withdrawn_by_its_id_and_the_rest_is_refused_at_the_end() {
        let client = Silent::default();
        let mut open = OpenQuestions::new(&client);
        for id in 0..MAX_OPEN {
            open.ask(asked(id), async |_| ()).unwrap();
        }
        assert!(open.ask(asked(99), async |_| ()).unwrap_err().contains("as many as may"));
        let mut other = OpenQuestions::new(&client);
        other.ask(asked(1), async |_| ()).unwrap();
        assert!(other.ask(asked(1), async |_| ()).unwrap_err().contains("waits already"));
        run(&mut open).await;
        assert_eq!(client.0.load(Ordering::Relaxed), MAX_OPEN);
        open.withdraw(&raw("3"));
        open.withdraw(&raw("77"));
        run(&mut open).await;
        assert_eq!(client.0.load(Ordering::Relaxed), MAX_OPEN - 1);
        let left = open.left();
        assert!(left.len() == MAX_OPEN - 1 && left.iter().all(|answer| answer.contains(CALL_ENDED)), "{left:?}");
    }

    #[test]
    fn a_question_goes_to_the_newest_call_at_which_chains_look_most_closely() {
        let calls = AskableCalls::default();
        assert!(calls.put(asked(1)).unwrap_err().contains("no call is under way"));
        let (mut first, mut second) = (calls.add(QuestionWatch::None), calls.add(QuestionWatch::None));
        calls.put(asked(2)).unwrap();
        assert!(first.left().is_empty() && second.left().len() == 1);
        drop(second);
        let [mut checked, mut watched, mut newest] =
            [QuestionWatch::Checked, QuestionWatch::Watched, QuestionWatch::None].map(|watch| calls.add(watch));
        calls.put(asked(3)).unwrap();
        assert!(newest.left().is_empty() && watched.left().is_empty() && checked.left().len() == 1);
        drop(checked);
        let mut watched = calls.add(QuestionWatch::Watched);
        calls.put(asked(4)).unwrap();
        assert!(newest.left().is_empty() && watched.left().len() == 1);
    }
}
