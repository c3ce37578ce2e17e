//! The client of a call as the call's server can ask it: the chains whose `methods` name the question run on the question
//! and on the client's answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::Chains;
use super::chain::{CallContext, ChainEnd};
use super::content::Content;
use super::outcome::{CallEnd, Denial, DenialKind};
use super::progress::Progress;
use super::question_traces::{OneQuestion, QuestionTraces};
use super::recheck::{Effect, NewGuards, Sent};
use super::routed_call::Routed;
use super::task_state::task_note;
use super::unchecked::GuardedClient;
use super::when::WhenInput;
use crate::domain::budget::{Category, Reservation};
use crate::domain::identity::Identity;
use crate::domain::method::Method;
use crate::domain::ports::{Answering, ToClient};
use crate::domain::question::Question;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::reason::Reason;
use crate::domain::rpc::{REFUSED, RpcError};
use crate::domain::upstream::Answer;
use crate::engine::plan::linked_item::{MethodChains, Selected};

/// The client of one call.
pub(crate) struct AskedClient<'a> {
    pub(in crate::engine) chains: &'a Arc<Chains>,
    pub(in crate::engine) call: &'a Routed<'a>,
    progress: Progress<'a>,
    traces: Arc<QuestionTraces>,
    /// How the call ends, if it ends while it asks its client or before it is sent.
    early: Mutex<Option<CallEnd>>,
    has_ended: Notify,
    /// The content that request chains made of the call; empty if they made none.
    changed: Mutex<String>,
}

/// The chains over one question, and what they have at hand.
pub(in crate::engine) struct Asking<'a> {
    method: Method,
    chains: &'a MethodChains,
    run: OneQuestion<'a>,
    /// Reserves memory for what chains make of the question and of the answer.
    reservation: Reservation,
}

/// A client's answer to a question, in words.
const ANSWER: &str = "the client's answer";

/// Why a question, or the answer to it, does not pass between a server and a client.
pub(in crate::engine) enum NotPassed {
    /// A chain, or the gateway, does not let `what` pass: the question or the answer, in words.
    Refused { what: &'static str, end: ChainEnd },
    /// The call ends.
    Ended(Box<CallEnd>),
}

impl<'a> AskedClient<'a> {
    pub(crate) fn new(chains: &'a Arc<Chains>, call: &'a Routed<'a>, traces: Arc<QuestionTraces>) -> Self {
        let progress = Progress::of(chains, call);
        let (early, has_ended) = (Mutex::default(), Notify::new());
        Self { chains, call, progress, traces, early, has_ended, changed: Mutex::default() }
    }

    /// The context of the content of the call.
    pub(in crate::engine) fn call_context(&self) -> CallContext<'_> {
        CallContext::of(&self.call.facts, self.call.request.kind.used_by(), self)
    }

    /// Waits until the call ends while it asks its client. Returns its end.
    pub(in crate::engine) async fn ended(&self) -> CallEnd {
        loop {
            // One permit is stored, so that no end between the look and the wait is missed.
            if let Some(end) = self.take_end() {
                return end;
            }
            self.has_ended.notified().await;
        }
    }

    /// Returns the end of a call that has ended before its upstream has answered.
    pub(in crate::engine) fn take_end(&self) -> Option<CallEnd> {
        self.early.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn end(&self, end: CallEnd) {
        self.early.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(end);
        self.has_ended.notify_one();
    }

    /// Returns the end of a call whose question, or the answer to it, did not pass.
    pub(in crate::engine) fn end_of(&self, not_passed: NotPassed) -> CallEnd {
        match not_passed {
            NotPassed::Refused { end, .. } => self.ended_by(end),
            NotPassed::Ended(end) => *end,
        }
    }

    /// Asks the client a question, unless a chain denies it, or a Guard has come into force that does not see it. Returns the
    /// answer for the server. The wait for the client can be long, so the call is checked again after it.
    pub(in crate::engine) async fn put(&self, question: Question) -> Result<Answer, NotPassed> {
        let method = question.method;
        self.may_ask(method)?;
        let answer = self.put_past_chains(question).await?;
        self.recheck(Effect::Send(&[method]))?;
        Ok(answer)
    }

    /// Checks whether a question of this method may be put to the client now.
    fn may_ask(&self, method: Method) -> Result<(), NotPassed> {
        match self.recheck(Effect::Question(method))?.denial() {
            Some(denial) => Err(NotPassed::Refused { what: "the question", end: ChainEnd::Denied(denial) }),
            None => Ok(()),
        }
    }

    /// Remembers the content that request chains made of the call.
    pub(in crate::engine) fn changed_to(&self, content: &str) {
        content.clone_into(&mut self.changed.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn recheck_call(&self, effect: Effect<'_>) -> Result<NewGuards, CallEnd> {
        let changed = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = if changed.is_empty() { Sent::Unchanged } else { Sent::Content(&changed) };
        self.chains.recheck(self.call, effect, sent)
    }

    fn recheck(&self, effect: Effect<'_>) -> Result<NewGuards, NotPassed> {
        self.recheck_call(effect).map_err(|end| {
            if !self.call.plan().is_served_here() {
                return NotPassed::Ended(Box::new(end));
            }
            // The run fails, and has a result that says so.
            let reason = end.reason.as_deref().and_then(Reason::named).unwrap_or(Reason::Withdrawn);
            let text = format!("the call may not go on ({reason})");
            NotPassed::Refused { what: ANSWER, end: refused(reason, text) }
        })
    }

    async fn put_past_chains(&self, question: Question) -> Result<Answer, NotPassed> {
        let Some(chains) = self.call.item.questions(question.method) else {
            return Ok(self.wait(self.unseen(question)).await);
        };
        if !self.call.client_answers(question.method) {
            return Ok(question.refused("this client offers no such method"));
        }
        let not_asked = |end| NotPassed::Refused { what: "the question", end };
        let mut asking = self.begin(question.method, chains, chains.all()).map_err(not_asked)?;
        let method = question.method;
        let question = self.check(&mut asking, question).await.map_err(not_asked)?;
        // The chains can take long, and so can the client.
        self.may_ask(method)?;
        let answer = self.wait(question).await;
        self.recheck(Effect::Send(&[method]))?;
        self.check_answer(&mut asking, answer).await.map_err(|end| NotPassed::Refused { what: ANSWER, end })
    }

    /// Asks the client. A run of a pipeline can get its answer from the admin API instead.
    async fn wait(&self, question: Question) -> Answer {
        let (in_flight, id) = (&self.chains.gate.in_flight, &self.call.facts.request_id);
        in_flight.asked(id, &question, self.call.request.client.ask(question.clone())).await
    }

    /// Begins with a question or an answer on which the chains `of_run` are going to run.
    pub(in crate::engine) fn begin<'s>(
        &'s self,
        method: Method,
        chains: &'s MethodChains,
        of_run: impl Iterator<Item = &'s Selected>,
    ) -> Result<Asking<'s>, ChainEnd> {
        let Some(run) = self.traces.begin(method, of_run) else {
            let text = "The server has asked more during this call than its record has room for.";
            return Err(refused(Reason::TooManyQuestions, text.to_owned()));
        };
        // Either can have come into force since the question was asked.
        if let Some((chain, refusal)) = chains.refusing() {
            return Err(ChainEnd::Denied(Denial::refused(Some(chain), refusal)));
        }
        if self.call.item.checks_questions() && !chains.request.iter().any(Selected::checks) {
            return Err(ChainEnd::Denied(Denial::past_guard(method)));
        }
        Ok(Asking { method, chains, run, reservation: self.chains.budget.reservation(Category::Answer) })
    }

    /// Returns a question that no chain can see. While the call is checked, it has nothing that the server has written.
    pub(in crate::engine) fn unseen(&self, question: Question) -> Question {
        if !self.call.item.checks_questions() {
            return question;
        }
        let meta = question.params.as_deref().and_then(|params| without_meta(Some(params)).ok()?.1);
        let note = meta.and_then(|meta| self.note(&meta));
        let params = note.map(|note| with_meta(&Content::Arguments("{}".to_owned()), Some(note)));
        Question { params, ..question }
    }

    /// Runs the request chains on a question. Returns the question for the client. If it or the call is checked, the
    /// parameters have no `_meta` of the server, because no plugin sees it.
    pub(in crate::engine) async fn check(
        &self,
        asking: &mut Asking<'_>,
        question: Question,
    ) -> Result<Question, ChainEnd> {
        let is_checked = self.call.item.checks_questions();
        if asking.chains.is_empty() && !is_checked {
            return Ok(question);
        }
        let Question { method, params } = question;
        let (text, meta) = without_meta(params.as_deref())?;
        let content = Content::Arguments(text);
        self.check_keys(asking, &content)?;
        let hides_meta = asking.is_checked(self.call);
        let when = WhenInput { method, ..self.call.when(&self.call.content) };
        self.chains.loads.wait_for_entries(asking.chains.all()).await;
        let (chains, traces) = (asking.chains, &mut asking.run.traces);
        if let Some(denial) = self.chains.loads.cannot_guard(chains.all(), &when, || content.clone(), traces) {
            return Err(ChainEnd::Denied(denial));
        }
        hold(&asking.reservation, &content)?;
        let context = self.context(method, hides_meta, &asking.reservation);
        let changed = self.chains.run_chains(context, &chains.request, &when, &content, traces).await?;
        if is_checked && !asking.run.was_checked(&chains.request) {
            return Err(ChainEnd::Denied(Denial::past_guard(method)));
        }
        if changed.is_none() && !(hides_meta && meta.is_some()) {
            return Ok(Question { method, params });
        }
        let meta = if hides_meta { meta.and_then(|meta| self.note(&meta)) } else { meta };
        Ok(Question { method, params: Some(with_meta(&changed.unwrap_or(content), meta)) })
    }

    /// The `_meta` of a question that the gateway answers for: the note to which task it belongs, if it has one.
    fn note(&self, meta: &RawValue) -> Option<Box<RawValue>> {
        self.call.request.open_task().and_then(|task| task_note(meta, &task.id))
    }

    /// Runs the response chains on a client's answer. Returns the answer for the server.
    pub(in crate::engine) async fn check_answer(
        &self,
        asking: &mut Asking<'_>,
        answer: Answer,
    ) -> Result<Answer, ChainEnd> {
        if asking.chains.response.is_empty() {
            return Ok(answer);
        }
        let content = Content::Answer(answer);
        self.check_keys(asking, &content)?;
        hold(&asking.reservation, &content)?;
        let when = WhenInput { method: asking.method, ..self.call.when(&self.call.content) };
        let context = self.context(asking.method, asking.is_checked(self.call), &asking.reservation);
        let (chains, traces) = (&asking.chains.response, &mut asking.run.traces);
        let changed = self.chains.run_chains(context, chains, &when, &content, traces).await?;
        match changed.unwrap_or(content) {
            Content::Answer(answer) => Ok(answer),
            _ => Err(refused(Reason::InternalError, "A chain over an answer gave none.".to_owned())),
        }
    }

    /// Returns the end of a call with a question that did not pass.
    pub(in crate::engine) fn ended_by(&self, end: ChainEnd) -> CallEnd {
        let kind = self.call.request.kind;
        match end {
            ChainEnd::Denied(denial) if matches!(denial.kind, DenialKind::Refused(_)) => {
                self.chains.ends.refused(kind, denial)
            }
            end => end.of_call(kind),
        }
    }

    fn context<'s>(&'s self, method: Method, unique_keys: bool, reservation: &'s Reservation) -> CallContext<'s> {
        let (facts, client) = (&self.call.facts, &self.progress);
        CallContext { unique_keys, reservation: Some(reservation), ..CallContext::of(facts, method, client) }
    }

    /// Refuses what a Guard checks if it has a key twice in one object: the Guard might see another value than the
    /// receiver.
    fn check_keys(&self, asking: &Asking<'_>, content: &Content) -> Result<(), ChainEnd> {
        if asking.is_checked(self.call) && content.doubled_key().is_some() {
            let text = format!("A key stands twice in an object of {}, which a plugin guards.", asking.method);
            return Err(refused(Reason::DuplicateKey, text));
        }
        Ok(())
    }
}

impl Asking<'_> {
    /// Whether the question, its answer, or the call is checked.
    fn is_checked(&self, call: &Routed<'_>) -> bool {
        call.item.checks_questions() || self.chains.all().any(Selected::checks)
    }
}

impl GuardedClient for AskedClient<'_> {}

impl ToClient for AskedClient<'_> {
    fn progress(&self, params: Box<RawValue>) {
        self.progress.progress(params);
    }

    fn message(&self, params: Box<RawValue>) {
        self.progress.message(params);
    }

    fn stream_ended(&self, retry: Option<Duration>) {
        self.progress.stream_ended(retry);
    }

    fn may_be_sent(&self) -> bool {
        self.recheck_call(Effect::Send(&[])).map_err(|end| self.end(end)).is_ok()
    }

    fn latest_identity(&self) -> Option<Arc<Identity>> {
        self.call.request.client.latest_identity()
    }

    fn ask(&self, question: Question) -> Answering<'_> {
        Box::pin(async move {
            let method = question.method;
            match self.put(question).await {
                Ok(answer) => answer,
                Err(NotPassed::Refused { what, end }) => {
                    if let ChainEnd::Denied(Denial { kind: DenialKind::Refused(reason), .. }) = end {
                        self.chains.metrics.refused(reason);
                    }
                    end.to_server(method, what)
                }
                Err(NotPassed::Ended(end)) => {
                    // The server gets no answer: its call is cancelled.
                    self.end(*end);
                    std::future::pending().await
                }
            }
        })
    }
}

impl ChainEnd {
    /// Returns the answer to the server whose question, or the answer to it (`what`), does not pass. A plugin's own text is for
    /// the client.
    fn to_server(&self, method: Method, what: &'static str) -> Answer {
        let why = match self {
            ChainEnd::NoRoom => format!("the gateway has no room for what its plugins made of {what}"),
            ChainEnd::Denied(denial) => match denial.kind {
                DenialKind::Refused(_) | DenialKind::Unauthorized(_) => {
                    return Question { method, params: None }.refused(&denial.text);
                }
                DenialKind::Denied(_) => format!("a plugin of the gateway denied {what}"),
                // In the response phase, an entry that denies counts as failed.
                DenialKind::Failed(Reason::PluginError) if what == ANSWER => {
                    format!("a plugin of the gateway that guards {what} did not let it pass")
                }
                DenialKind::Failed(_) => format!("a plugin of the gateway that guards {what} failed"),
            },
        };
        Answer::Error(to_raw(&RpcError::new(REFUSED, format!("{method}: {why}"))))
    }
}

fn refused(reason: Reason, text: String) -> ChainEnd {
    ChainEnd::Denied(Denial::without_cause(reason, text))
}

fn hold(reservation: &Reservation, content: &Content) -> Result<(), ChainEnd> {
    reservation.resize(content.size()).map_err(|_| ChainEnd::NoRoom)
}

/// Returns the parameters of a question without their `_meta`, and the `_meta`.
fn without_meta(params: Option<&RawValue>) -> Result<(String, Option<Box<RawValue>>), ChainEnd> {
    let Some(params) = params else { return Ok(("{}".to_owned(), None)) };
    let mut object = RawObject::parse(params.get()).map_err(|_| {
        refused(Reason::InvalidQuestion, "The parameters of the server's question are no object.".to_owned())
    })?;
    let Some(meta) = object.get("_meta").map(RawValue::to_owned) else { return Ok((params.get().to_owned(), None)) };
    object.remove("_meta");
    Ok((object.to_raw().get().to_owned(), Some(meta)))
}

/// Returns the parameters of a question with this `_meta`.
fn with_meta(content: &Content, meta: Option<Box<RawValue>>) -> Box<RawValue> {
    let text = if let Content::Arguments(text) = content { text } else { "{}" };
    let mut params = RawObject::parse(text).unwrap_or_default();
    if let Some(meta) = meta {
        params.set("_meta", meta);
    }
    params.to_raw()
}
