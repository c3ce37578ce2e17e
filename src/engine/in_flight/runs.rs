//! The runs of pipelines that are in progress, and those that ended last. They hold nothing that plugins, tools and models have
//! said, but for a question while it waits for its answer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::domain::method::Method;
use crate::domain::model::TokenUse;
use crate::domain::pipeline::Form;
use crate::domain::question::Question;
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::upstream::Answer;
use crate::engine::in_flight::shown_run::{Run, RunStatus, RunStep};

/// The number of runs that are kept, unless more are in progress.
pub const MAX_KEPT: usize = 500;
/// The maximum number of steps that are kept of a run, the newest ones.
const MAX_STEPS: usize = 256;

/// Why an answer to a question of a run is not taken.
#[derive(Debug, PartialEq, Eq)]
pub enum AnswerError {
    /// The run waits for none.
    NoQuestion,
    /// It does not fit the question, which goes on waiting. The text says why.
    Invalid(String),
}

/// Why a run or a step has failed.
pub(in crate::engine) struct Fault {
    pub(in crate::engine) reason: Reason,
    /// `None` if it can quote content.
    pub(in crate::engine) message: Option<String>,
}

/// A run while it is in progress, and afterwards.
pub(crate) struct RunEntry(Mutex<RunState>);

struct RunState {
    run: Run,
    /// The questions that wait, oldest first.
    waiting: Vec<WaitingQuestion>,
    /// The number of the last question.
    asked: u64,
}

struct WaitingQuestion {
    number: u64,
    params: Box<RawValue>,
    /// What an answer must fit; `None` if a server asks by a schema of another kind.
    form: Option<Form>,
    answer: oneshot::Sender<Box<RawValue>>,
}

impl RunState {
    /// Shows the oldest question that waits, if there is one.
    fn show_question(&mut self) {
        self.run.question = self.waiting.first().map(|waiting| waiting.params.clone());
        match (self.run.status, &self.run.question) {
            (RunStatus::Working, Some(_)) => self.run.status = RunStatus::InputRequired,
            (RunStatus::InputRequired, None) => self.run.status = RunStatus::Working,
            _ => {}
        }
    }
}

impl RunEntry {
    pub(in crate::engine) fn new(run: Run) -> Arc<Self> {
        Arc::new(Self(Mutex::new(RunState { run, waiting: Vec::new(), asked: 0 })))
    }

    pub(in crate::engine) fn begin_step(&self, name: &str, now: u64) {
        let steps = &mut self.state().run.steps;
        if steps.len() >= MAX_STEPS {
            steps.remove(0);
        }
        let name = name.to_owned();
        steps.push(RunStep { name, started_at: now, ended_at: None, reason: None, message: None });
    }

    /// Ends the step that began last.
    pub(in crate::engine) fn end_step(&self, fault: Option<Fault>, now: u64) {
        if let Some(step) = self.state().run.steps.last_mut() {
            step.ended_at = Some(now);
            (step.reason, step.message) = split(fault);
        }
    }

    /// Notes how many tools and models the run has called, with which tokens, and how many sources it has found.
    pub(in crate::engine) fn note_use(&self, (tool_calls, llm_calls): (u32, u32), tokens: TokenUse, sources: usize) {
        let run = &mut self.state().run;
        (run.tool_calls, run.llm_calls, run.sources) = (tool_calls, llm_calls, sources);
        (run.tokens_in, run.tokens_out) = (tokens.prompt_tokens, tokens.completion_tokens);
    }

    /// Notes that the run ends because it reached `maxIterations`.
    pub(in crate::engine) fn limit(&self) {
        self.state().run.limited = true;
    }

    /// Ends the run. If it has ended before, it stays as it is.
    pub(in crate::engine) fn end(&self, status: RunStatus, fault: Option<Fault>, now: u64) {
        let mut state = self.state();
        state.waiting.clear();
        let run = &mut state.run;
        if run.ended_at.is_none() {
            (run.status, run.ended_at, run.question) = (status, Some(now), None);
            (run.reason, run.message) = split(fault);
        }
    }

    /// Adds a question. Returns its number, and what gets the answer of [`Self::answer`].
    fn ask(&self, params: Box<RawValue>) -> (u64, oneshot::Receiver<Box<RawValue>>) {
        let (answer, answered) = oneshot::channel();
        let read: Value = serde_json::from_str(params.get()).unwrap_or_default();
        let form = read.get("requestedSchema").and_then(|schema| Form::parse(schema).ok());
        let mut state = self.state();
        state.asked += 1;
        let number = state.asked;
        state.waiting.push(WaitingQuestion { number, params, form, answer });
        state.show_question();
        (number, answered)
    }

    /// Answers the oldest question that waits.
    fn answer(&self, answer: Box<RawValue>) -> Result<(), AnswerError> {
        let mut state = self.state();
        let oldest = state.waiting.first().ok_or(AnswerError::NoQuestion)?;
        if let Some(form) = &oldest.form {
            form.read(&answer).map_err(AnswerError::Invalid)?;
        }
        let oldest = state.waiting.remove(0);
        state.show_question();
        oldest.answer.send(answer).map_err(|_| AnswerError::NoQuestion)
    }

    fn state(&self) -> MutexGuard<'_, RunState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn split(fault: Option<Fault>) -> (Option<Reason>, Option<String>) {
    fault.map_or((None, None), |Fault { reason, message }| (Some(reason), message))
}

/// A question that waits, until this is dropped.
struct Waiting<'a>(&'a RunEntry, u64);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.waiting.retain(|waiting| waiting.number != self.1);
        state.show_question();
    }
}

/// All runs in progress, and those that ended last, together [`MAX_KEPT`].
#[derive(Default)]
pub struct RunTable(Mutex<VecDeque<Arc<RunEntry>>>);

impl RunTable {
    /// Returns the runs, newest first, without questions.
    pub fn list(&self) -> Vec<Run> {
        let shown = |entry: &Arc<RunEntry>| Run { question: None, ..entry.state().run.clone() };
        self.known().iter().rev().map(shown).collect()
    }

    /// Returns the run with this id.
    pub fn find(&self, id: &str) -> Option<Run> {
        self.entry(id).map(|entry| entry.state().run.clone())
    }

    /// Answers the oldest question for which this run waits.
    ///
    /// # Errors
    /// If it waits for none, or the answer does not fit.
    pub fn answer(&self, id: &str, answer: Box<RawValue>) -> Result<(), AnswerError> {
        self.entry(id).ok_or(AnswerError::NoQuestion)?.answer(answer)
    }

    /// Adds a run. If there are too many, the oldest one that has ended is removed.
    pub(in crate::engine) fn add(&self, entry: Arc<RunEntry>) {
        let mut known = self.known();
        if known.len() >= MAX_KEPT {
            let oldest = known.iter().position(|entry| entry.state().run.ended_at.is_some());
            oldest.and_then(|oldest| known.remove(oldest));
        }
        known.push_back(entry);
    }

    /// Waits for the answer to a question of this call: that of its client, or, if it is a run, one for which
    /// [`Self::answer`] is called before.
    pub(in crate::engine) async fn asked(
        &self,
        call: &str,
        question: &Question,
        client: impl Future<Output = Answer>,
    ) -> Answer {
        // The admin API answers no requests of another kind.
        let entry = self.entry(call).filter(|_| question.method == Method::Elicit);
        let Some(entry) = entry else { return client.await };
        let params = question.params.clone().unwrap_or_else(|| to_raw(&serde_json::json!({})));
        let (number, mut answered) = entry.ask(params);
        let _waiting = Waiting(&entry, number);
        let mut client = std::pin::pin!(client);
        tokio::select! {
            answer = &mut client => answer,
            Ok(answer) = &mut answered => Answer::Result(answer),
        }
    }

    fn entry(&self, id: &str) -> Option<Arc<RunEntry>> {
        self.known().iter().rev().find(|entry| entry.state().run.id == id).cloned()
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<Arc<RunEntry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::identity::User;

    fn run(id: usize) -> Run {
        Run {
            id: id.to_string(),
            pipeline: "default/p".into(),
            status: RunStatus::Working,
            principal: String::new(),
            user: User::default(),
            session: String::new(),
            started_at: 1,
            ended_at: None,
            steps: Vec::new(),
            tool_calls: 0,
            llm_calls: 0,
            tokens_in: 0,
            tokens_out: 0,
            sources: 0,
            limited: false,
            reason: None,
            message: None,
            question: None,
        }
    }

    #[test]
    fn questions_at_the_same_time_are_shown_and_answered_in_their_order() {
        let entry = RunEntry::new(run(1));
        let shown = || {
            let run = entry.state().run.clone();
            (run.status, run.question.map(|question| question.get().to_owned()))
        };
        let text = |text: &str| to_raw(&text);
        let waits = |question: &str| (RunStatus::InputRequired, Some(format!("{question:?}")));
        let (first, mut first_answer) = entry.ask(text("a"));
        let (second, mut second_answer) = entry.ask(text("b"));
        let (third, _third_answer) = entry.ask(text("c"));
        let waiting = [first, second, third].map(|number| Waiting(&entry, number));
        assert_eq!(shown(), waits("a"));
        assert!(entry.answer(text("to a")).is_ok() && first_answer.try_recv().is_ok());
        assert_eq!(shown(), waits("b"));
        let [first, second, third] = waiting;
        drop(first);
        assert_eq!(shown(), waits("b"), "one that is over takes no other with it");
        drop(second);
        assert_eq!(shown(), waits("c"));
        assert!(second_answer.try_recv().is_err());
        drop(third);
        assert_eq!(shown(), (RunStatus::Working, None));
        assert_eq!(entry.answer(text("to nobody")), Err(AnswerError::NoQuestion));
    }

    #[test]
    fn a_question_goes_on_waiting_after_an_answer_that_does_not_fit() {
        let entry = RunEntry::new(run(1));
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let (_, mut answered) = entry.ask(to_raw(&json!({"message": "m", "requestedSchema": schema})));
        let answer = |content: Value| entry.answer(to_raw(&json!({"action": "accept", "content": content})));
        for content in [json!({"n": "1"}), json!({"m": 1}), json!(1)] {
            assert!(matches!(answer(content), Err(AnswerError::Invalid(_))));
        }
        assert!(answered.try_recv().is_err());
        assert_eq!(answer(json!({"n": 1})), Ok(()));
        assert!(answered.try_recv().is_ok());
    }

    #[test]
    fn the_oldest_run_that_has_ended_makes_room() {
        let table = RunTable::default();
        let entries: Vec<_> = (0..MAX_KEPT + 2).map(|id| RunEntry::new(run(id))).collect();
        entries[..=MAX_KEPT].iter().for_each(|entry| table.add(Arc::clone(entry)));
        assert!(table.find("0").is_some(), "runs in progress are kept");
        entries[1..=MAX_KEPT].iter().for_each(|entry| entry.end(RunStatus::Completed, None, 2));
        table.add(Arc::clone(&entries[MAX_KEPT + 1]));
        assert!(table.find("1").is_none() && table.find("0").is_some() && table.find("2").is_some());
    }
}
