//! A run of a pipeline: what a call of its tool does in the place of sending it to a server.

use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Pipelines;
use super::arguments::read_arguments;
use super::context::{RunContext, SharedUse};
use super::conversation::conversation;
use super::loops::{counts, customized, holds};
use super::memory::RunMemory;
use super::output::{RunFailure, answer, completed, failure};
use crate::domain::budget::Category;
use crate::domain::pipeline::{PipelineMachine, RunOutput, RunState, Step, StepResult, StepRole};
use crate::domain::plan::{AgentKind, AgentPlan, PipelinePlan};
use crate::domain::plugin::Failure;
use crate::domain::ports::ToClient;
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::engine::chains::routed_call::Routed;
use crate::engine::in_flight::run::{Fault, RunEntry};
use crate::engine::in_flight::run_view::{Run, RunStatus};
use crate::engine::plan::linked_pipeline::LinkedPipeline;

impl Pipelines {
    /// Answers a call whose upstream has no server: it runs the pipeline, or the plugin that makes the tool.
    pub(in crate::engine) async fn run_here(
        self: &Arc<Self>,
        call: &Routed<'_>,
        client: &dyn ToClient,
        arguments: Option<&RawValue>,
    ) -> Box<RawValue> {
        match (&call.upstream.pipeline, call.plan().provider()) {
            (None, Some(provider)) => self.call_provider(call, provider, client, arguments).await,
            (Some(pipeline), _) => self.run_pipeline(call, pipeline, client, arguments).await,
            (None, None) => to_raw(&json!({"content": [], "isError": true})),
        }
    }

    /// Runs a pipeline with these arguments, and returns the result of its tool. A run that fails has a result too, which
    /// says why. Dropping the future cancels the step that runs and the calls that it has made.
    async fn run_pipeline(
        self: &Arc<Self>,
        call: &Routed<'_>,
        pipeline: &LinkedPipeline,
        client: &dyn ToClient,
        arguments: Option<&RawValue>,
    ) -> Box<RawValue> {
        let size = arguments.map_or(0, |text| text.get().len());
        let (arguments, refusal) = read_arguments(arguments).map_or_else(|why| (json!({}), Some(why)), |it| (it, None));
        let plan = customized(pipeline, &arguments);
        let conversation = conversation(self.gate.sessions.seals(), call);
        let (conversation, refusal) = conversation.map_or_else(|why| (String::new(), Some(why)), |it| (it, refusal));
        let run = self.context(call, (pipeline, &plan), client, (arguments, conversation));
        let (mut steps, mut ending) = (Vec::new(), Ending::of(&run));
        let changed = match refusal {
            Some(failure) => Err(RunFailure::of_no_step(failure)),
            None if size as u64 > pipeline.plan.budgets.max_input => Err(run.too_large(size)),
            None => run.within_limit(run.changed()).await,
        };
        let run = match &changed {
            Ok(Some(changed)) => RunContext { pipeline: changed, plan: &changed.plan, ..run },
            _ => run,
        };
        let ended = match &changed {
            Ok(_) => run.within_limit(run.run_steps(&mut steps)).await,
            Err(why) => Err(why.clone()),
        };
        let mut facts = run.facts(&steps);
        run.note_use();
        let used = run.used.lock();
        let ended = ended.and_then(|output| completed(run.pipeline, output, &used.sources, &mut facts));
        ending.set(ended.as_ref().err());
        match ended {
            Ok(output) => answer(run.plan, &output, &used.sources, facts),
            Err(why) => failure(&why, run.pipeline.output.is_some(), facts),
        }
    }

    /// Begins a run with these arguments, of the pipeline with its customizations.
    fn context<'a>(
        self: &'a Arc<Self>,
        call: &'a Routed<'a>,
        (pipeline, plan): (&'a LinkedPipeline, &'a PipelinePlan),
        client: &'a dyn ToClient,
        (arguments, conversation): (Value, String),
    ) -> RunContext<'a> {
        RunContext {
            pipelines: self,
            call,
            pipeline,
            plan,
            client,
            name: call.plan().key.to_string(),
            used: SharedUse::default(),
            entry: self.begin_run(call),
            started: Instant::now(),
            arguments,
            memory: RunMemory::new(self.chains.reservation(Category::Run, &call.facts)),
            conversation,
        }
    }

    /// Adds the run of a call to those that the admin API shows.
    fn begin_run(&self, call: &Routed<'_>) -> Arc<RunEntry> {
        let facts = &call.facts;
        let entry = RunEntry::new(Run {
            id: facts.request_id.clone(),
            pipeline: call.plan().key.to_string(),
            status: RunStatus::Working,
            principal: facts.caller.identity.subject.clone(),
            user: facts.caller.identity.user(),
            session: facts.caller.session_name(),
            started_at: self.clock.unix_millis(),
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
        });
        // A run has a place: it took one before it began.
        let _ = self.gate.in_flight.runs.add(facts.request_id.clone(), &entry, u64::MAX);
        entry
    }
}

/// Ends the entry of a run, and measures the run. One whose future is dropped before it has another outcome is cancelled.
struct Ending<'a> {
    pipelines: &'a Pipelines,
    entry: Arc<RunEntry>,
    upstream: &'a str,
    started: Instant,
    outcome: (RunStatus, Option<Fault>),
}

impl<'a> Ending<'a> {
    fn of(run: &RunContext<'a>) -> Self {
        Self {
            pipelines: run.pipelines,
            entry: Arc::clone(&run.entry),
            upstream: &run.call.facts.upstream,
            started: run.started,
            outcome: (RunStatus::Cancelled, None),
        }
    }

    /// Sets the outcome of a run that has ended, with this failure if it has failed.
    fn set(&mut self, failure: Option<&RunFailure>) {
        self.outcome = match failure {
            None => (RunStatus::Completed, None),
            Some(failure) => (RunStatus::Failed, Some(failure.fault())),
        };
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let (status, fault) = (self.outcome.0, self.outcome.1.take());
        let reason = fault.as_ref().map(|fault| fault.reason);
        self.entry.end(status, fault, self.pipelines.clock.unix_millis());
        self.pipelines.metrics.pipelines.run_ended(self.upstream, status.as_str(), reason, self.started.elapsed());
    }
}

/// Returns what `_meta` says of a step.
fn noted(step: &str, result: &Result<StepResult, RunFailure>) -> Value {
    json!({"name": step, "status": if result.is_ok() { "success" } else { "failed" }})
}

impl RunContext<'_> {
    /// Runs steps until the run is over, and returns its output. `steps` gets the name and the status of each.
    async fn run_steps(&self, steps: &mut Vec<Value>) -> Result<RunOutput, RunFailure> {
        self.read_prompts().await;
        let plan = self.plan;
        let mut machine = PipelineMachine::new(plan);
        let mut state = RunState::new(self.arguments.clone(), &plan.query_argument);
        let mut last_agent = "";
        loop {
            self.hold_state(&state)?;
            let at: Vec<_> = (0..plan.agents.len()).map(|agent| counts(&machine, agent)).collect();
            let Some(step) = machine.next(|agent| self.loop_holds(agent, at[agent], &state)) else { break };
            let is_agent = matches!(step.role, StepRole::Agent(_));
            let shown = state.shown(machine.iterations(), &self.used.lock().sources);
            self.report(step.name);
            let result = self.run_any(step, &shown).await.and_then(|result| self.take_sources(step.name, result));
            steps.push(noted(step.name, &result));
            let goes_on = machine.ended(step, result.is_ok());
            match result {
                Ok(result) => {
                    result.goes_to.as_deref().into_iter().for_each(|agent| machine.goes_to(agent));
                    if result.ends {
                        machine.finish();
                    }
                    state.take(step.name, is_agent, result);
                    last_agent = if is_agent { step.name } else { last_agent };
                }
                Err(why) if !goes_on || [Reason::Withdrawn, Reason::Stopped].contains(&why.reason) => return Err(why),
                Err(why) if is_agent => state.take_failure(step.name, why.reason, &why.message),
                Err(_) => {}
            }
        }
        if machine.is_limited() {
            self.used.lock().is_limited = true;
            self.entry.limit();
        }
        self.write_at_last(&mut state, machine.iterations(), steps).await?;
        state.output(last_agent).ok_or_else(|| {
            let limit = if machine.is_limited() { " before maxIterations was reached" } else { "" };
            RunFailure::new(Reason::NoOutput, format!("no step returned an output{limit}: return {{output: {{..}}}}"))
        })
    }

    /// Returns what `_meta` says of a run that has ended with an output.
    fn facts(&self, steps: &[Value]) -> Value {
        let used = self.used.lock();
        json!({
            "id": self.call.facts.request_id,
            "status": RunStatus::Completed.as_str(),
            "conversation": self.conversation,
            "revision": self.pipeline.revision,
            "limited": used.is_limited,
            "steps": steps,
            "toolCalls": used.tool_calls,
            "llmCalls": used.llm_calls,
            "tokens": {"in": used.tokens.prompt_tokens, "out": used.tokens.completion_tokens},
            "durationMs": u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    async fn run_any(&self, step: Step<'_>, state: &Value) -> Result<StepResult, RunFailure> {
        self.entry.begin_step(step.name, self.pipelines.clock.unix_millis());
        let started = Instant::now();
        // Such a step can have failed for what was taken from the run.
        let result = self.run_one(step, state).await.map_err(|why| self.withdrawn(step.name).unwrap_or(why));
        let (pipeline, took) = (&self.call.facts.upstream, started.elapsed());
        self.pipelines.metrics.pipelines.step_ended(pipeline, step.name, result.is_ok(), took);
        self.note_use();
        self.entry.end_step(result.as_ref().err().map(RunFailure::fault), self.pipelines.clock.unix_millis());
        result
    }

    /// Returns why the run does not go on with a step.
    fn withdrawn(&self, step: &str) -> Option<RunFailure> {
        let (reason, message) = self.check_in_force(None).err()?;
        Some(RunFailure::of_step(step, Failure::new(reason, message)))
    }

    async fn run_one(&self, step: Step<'_>, state: &Value) -> Result<StepResult, RunFailure> {
        if let Some(why) = self.withdrawn(step.name) {
            return Err(why);
        }
        match step.role {
            StepRole::Agent(index) if self.plan.agents[index].kind != AgentKind::Custom => {
                self.run_agent(&self.plan.agents[index], state).await
            }
            StepRole::Agent(_) | StepRole::Phase => self.run_step(step, state).await,
        }
    }

    /// Lets the synthesizer write the output of a run that ended before it.
    async fn write_at_last(
        &self,
        state: &mut RunState,
        iteration: u32,
        steps: &mut Vec<Value>,
    ) -> Result<(), RunFailure> {
        let writes = |agent: &&AgentPlan| agent.enabled && agent.kind == AgentKind::Synthesizer;
        let Some(index) = self.plan.agents.iter().position(|agent| writes(&agent)).filter(|_| !state.has_output())
        else {
            return Ok(());
        };
        let agent = &self.plan.agents[index];
        let shown = state.shown(iteration, &self.used.lock().sources);
        let step = Step { name: &agent.name, plugin: &agent.plugin, role: StepRole::Agent(index) };
        let result = self.run_any(step, &shown).await;
        steps.push(noted(&agent.name, &result));
        state.take(&agent.name, true, result?);
        Ok(())
    }

    fn loop_holds(&self, agent: usize, counts: (u32, u32), state: &RunState) -> bool {
        let used = self.used.lock();
        holds(self.pipeline, agent, counts, state, &used.sources).unwrap_or_else(|why| {
            let (request_id, agent) = (&self.call.facts.request_id, &self.plan.agents[agent].name);
            tracing::warn!(request_id, agent, "loopCondition of agent {agent} of {} does not hold: {why}", self.name);
            false
        })
    }

    /// Takes the sources out of the result of a step. A step fails if one of them is not valid.
    fn take_sources(&self, step: &str, mut result: StepResult) -> Result<StepResult, RunFailure> {
        for (index, source) in std::mem::take(&mut result.sources).into_iter().enumerate() {
            self.add_source(source).map_err(|why| {
                let is_invalid = why.reason == Reason::InvalidSource;
                let message = format!("its `sources[{index}]` is not valid: {}", why.message);
                RunFailure::of_step(step, if is_invalid { Failure { message, ..why } } else { why })
            })?;
        }
        Ok(result)
    }

    fn too_large(&self, size: usize) -> RunFailure {
        let most = self.pipeline.plan.budgets.max_input;
        let message = format!(
            "the arguments have {size} bytes, {most} are allowed (spec.budgets.maxInputSize of ToolPipeline {})",
            self.name
        );
        RunFailure::new(Reason::TooLarge, message)
    }

    /// Awaits a part of the run for the time that is left.
    async fn within_limit<T>(&self, part: impl Future<Output = Result<T, RunFailure>>) -> Result<T, RunFailure> {
        tokio::time::timeout(self.remaining(), part).await.unwrap_or_else(|_| {
            let (limit, name) = (self.limit().as_secs(), &self.name);
            let message =
                format!("the run took longer than {limit} s (spec.budgets.timeoutSeconds of ToolPipeline {name})");
            Err(RunFailure::new(Reason::Timeout, message))
        })
    }
}
