//! One run of a pipeline, while it is in progress and afterwards. It holds nothing that plugins, tools and models have said, but
//! for a question while it waits for its answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::open_questions::OpenQuestions;
use super::run_view::{Run, RunStatus, RunStep};
use super::table::Entry;
use crate::domain::method::Method;
use crate::domain::model::TokenUse;
use crate::domain::pipeline::Form;
use crate::domain::question::Question;
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::upstream::Answer;

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
pub struct RunEntry(Mutex<RunState>);

struct RunState {
    /// The run without its question.
    run: Run,
    questions: OpenQuestions,
}

impl RunEntry {
    pub(in crate::engine) fn new(run: Run) -> Arc<Self> {
        Arc::new(Self(Mutex::new(RunState { run, questions: OpenQuestions::default() })))
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
        state.questions.clear();
        let run = &mut state.run;
        if run.ended_at.is_none() {
            // A step whose run is cancelled has no end of its own.
            if let Some(step) = run.steps.last_mut().filter(|step| step.ended_at.is_none()) {
                (step.ended_at, step.reason) = (Some(now), Some(Reason::Cancelled));
            }
            (run.status, run.ended_at) = (status, Some(now));
            (run.reason, run.message) = split(fault);
        }
    }

    /// Whether it is a run of this pipeline that is in progress.
    pub fn is_in_progress_of(&self, pipeline: &str) -> bool {
        let state = self.state();
        state.run.pipeline == pipeline && state.run.ended_at.is_none()
    }

    /// Returns the run as it is now, with the oldest question that waits for its answer.
    pub fn view(&self) -> Run {
        let mut state = self.state();
        let is_ended = state.run.ended_at.is_some();
        let oldest = state.questions.open().first().filter(|_| !is_ended);
        let question = oldest.map(|oldest| params_of(&oldest.question));
        let status = if question.is_some() { RunStatus::InputRequired } else { state.run.status };
        Run { status, question, ..state.run.clone() }
    }

    /// Adds a question, and returns the receiver of the answer that [`Self::answer`] gives. `None` for requests of other kinds, which only
    /// clients answer. Dropping the receiver withdraws the question.
    pub(super) fn ask(&self, question: &Question) -> Option<oneshot::Receiver<Answer>> {
        (question.method == Method::Elicit).then(|| self.state().questions.add(question.clone()))
    }

    /// Answers the oldest question that waits.
    ///
    /// # Errors
    /// If none waits, or the answer does not fit.
    pub fn answer(&self, answer: Box<RawValue>) -> Result<(), AnswerError> {
        let mut state = self.state();
        let oldest = state.questions.open().first().ok_or(AnswerError::NoQuestion)?;
        let (number, params) = (oldest.number, params_of(&oldest.question));
        let params: Value = serde_json::from_str(params.get()).unwrap_or_default();
        // A server can ask by a schema of another kind, which the client checks.
        if let Some(form) = params.get("requestedSchema").and_then(|schema| Form::parse(schema).ok()) {
            form.read(&answer).map_err(AnswerError::Invalid)?;
        }
        let oldest = state.questions.take(number).ok_or(AnswerError::NoQuestion)?;
        if oldest.answer(Answer::Result(answer)) { Ok(()) } else { Err(AnswerError::NoQuestion) }
    }

    fn state(&self) -> MutexGuard<'_, RunState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn split(fault: Option<Fault>) -> (Option<Reason>, Option<String>) {
    fault.map_or((None, None), |Fault { reason, message }| (Some(reason), message))
}

/// Returns the parameters of a question, as the client gets them.
fn params_of(question: &Question) -> Box<RawValue> {
    question.params.clone().unwrap_or_else(|| to_raw(&serde_json::json!({})))
}

impl Entry for RunEntry {
    fn ended_size(&self) -> Option<u64> {
        self.state().run.ended_at.map(|_| 0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::identity::User;
    use crate::engine::in_flight::InFlight;

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
    fn the_last_step_of_a_run_that_is_cancelled_has_an_end() {
        for (ends_step, reason) in [(false, Some(Reason::Cancelled)), (true, None)] {
            let entry = RunEntry::new(run(1));
            entry.begin_step("a", 2);
            if ends_step {
                entry.end_step(None, 3);
            }
            entry.end(RunStatus::Cancelled, None, 4);
            let step = &entry.view().steps[0];
            assert_eq!((step.ended_at, step.reason), (Some(if ends_step { 3 } else { 4 }), reason));
        }
    }

    fn ask(entry: &RunEntry, params: &Value) -> oneshot::Receiver<Answer> {
        entry.ask(&Question { method: Method::Elicit, params: Some(to_raw(params)) }).unwrap()
    }

    #[test]
    fn questions_at_the_same_time_are_shown_and_answered_in_their_order() {
        let entry = RunEntry::new(run(1));
        let shown = || {
            let run = entry.view();
            (run.status, run.question.map(|question| question.get().to_owned()))
        };
        let waits = |question: &str| (RunStatus::InputRequired, Some(format!("{question:?}")));
        let [mut first, mut second, third] = ["a", "b", "c"].map(|params| ask(&entry, &json!(params)));
        assert_eq!(shown(), waits("a"));
        assert!(entry.answer(to_raw(&"to a")).is_ok() && first.try_recv().is_ok());
        assert_eq!(shown(), waits("b"));
        drop(first);
        assert_eq!(shown(), waits("b"), "one that is over takes no other with it");
        assert!(second.try_recv().is_err());
        drop(second);
        assert_eq!(shown(), waits("c"));
        drop(third);
        assert_eq!(shown(), (RunStatus::Working, None));
        assert_eq!(entry.answer(to_raw(&"too late")), Err(AnswerError::NoQuestion));
        let _ended = ask(&entry, &json!("d"));
        entry.end(RunStatus::Failed, None, 2);
        assert_eq!(shown(), (RunStatus::Failed, None));
    }

    #[test]
    fn a_question_goes_on_waiting_after_an_answer_that_does_not_fit() {
        let entry = RunEntry::new(run(1));
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let mut answered = ask(&entry, &json!({"message": "m", "requestedSchema": schema}));
        let answer = |content: Value| entry.answer(to_raw(&json!({"action": "accept", "content": content})));
        for content in [json!({"n": "1"}), json!({"m": 1}), json!(1)] {
            assert!(matches!(answer(content), Err(AnswerError::Invalid(_))));
        }
        assert!(answered.try_recv().is_err());
        assert_eq!(answer(json!({"n": 1})), Ok(()));
        assert!(answered.try_recv().is_ok());
    }

    #[tokio::test]
    async fn a_question_gets_the_first_answer_of_its_client_or_of_the_admin_api() {
        let (in_flight, entry) = (InFlight::default(), RunEntry::new(run(1)));
        in_flight.runs.add("1".to_owned(), &entry, u64::MAX).unwrap();
        let question = Question { method: Method::Elicit, params: None };
        let text =
            |answer: Answer| if let Answer::Result(text) = answer { text.get().to_owned() } else { String::new() };
        let asked = in_flight.asked("1", &question, std::future::pending());
        let (answer, answered) = tokio::join!(asked, async { entry.answer(to_raw(&"admin")) });
        assert_eq!((text(answer), answered), ("\"admin\"".to_owned(), Ok(())));
        let client = || std::future::ready(Answer::Result(to_raw(&"client")));
        assert_eq!(text(in_flight.asked("1", &question, client()).await), "\"client\"");
        assert_eq!(entry.view().status, RunStatus::Working, "the question is withdrawn");
        assert_eq!(text(in_flight.asked("of no run", &question, client()).await), "\"client\"");
        assert!(entry.ask(&Question { method: Method::ListRoots, params: None }).is_none(), "only clients answer it");
    }
}
