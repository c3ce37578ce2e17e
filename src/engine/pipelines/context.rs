//! What all steps of a run share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::Pipelines;
use super::memory::RunMemory;
use super::output::RunFailure;
use crate::domain::budget::NoRoom;
use crate::domain::json_size::json_size;
use crate::domain::method::Method;
use crate::domain::model::TokenUse;
use crate::domain::pipeline::{InvalidSource, NewSource, RunState, Sources};
use crate::domain::plan::PipelinePlan;
use crate::domain::plugin::Failure;
use crate::domain::ports::ToClient;
use crate::domain::reason::Reason;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::engine::chains::chain::CallContext;
use crate::engine::chains::recheck::{Effect, Sent};
use crate::engine::chains::routed_call::{Routed, timestamp};
use crate::engine::in_flight::run::RunEntry;
use crate::engine::plan::linked_pipeline::LinkedPipeline;

/// The maximum number of pieces of evidence of a run, and the maximum size of one, in bytes.
const MAX_EVIDENCE: usize = 1000;
const MAX_EVIDENCE_SIZE: u64 = 16 << 10;

/// What all steps of a run use.
pub(super) struct RunContext<'a> {
    pub(super) pipelines: &'a Arc<Pipelines>,
    pub(super) call: &'a Routed<'a>,
    pub(super) pipeline: &'a LinkedPipeline,
    /// The pipeline with its customizations for this run. Plugins that change it change `pipeline` too.
    pub(super) plan: &'a PipelinePlan,
    pub(super) client: &'a dyn ToClient,
    /// The pipeline, as `namespace/name`.
    pub(super) name: String,
    pub(super) used: SharedUse,
    /// The run as the admin API shows it.
    pub(super) entry: Arc<RunEntry>,
    pub(super) started: Instant,
    pub(super) arguments: Value,
    pub(super) memory: RunMemory,
    /// The conversation that the run belongs to, a UUID.
    pub(super) conversation: String,
}

/// What the steps of a run have used and found.
#[derive(Default)]
pub(crate) struct RunUse {
    pub(super) tool_calls: u32,
    pub(super) llm_calls: u32,
    pub(super) tokens: TokenUse,
    pub(super) sources: Sources,
    /// The evidence that steps have put there, in their own form.
    pub(super) evidence: Vec<Value>,
    /// The number of bytes of the evidence as JSON.
    evidence_bytes: u64,
    /// The plugins whose partitions the run has used.
    pub(super) stores: BTreeSet<String>,
    /// What prompt providers say of the prompts of agents.
    pub(super) prompts: Map<String, Value>,
    /// The number of the last progress notification.
    pub(super) progress: u64,
    /// Whether the run has ended because it reached `maxIterations`.
    pub(super) is_limited: bool,
}

/// The arguments of the request `sources`: a source to add, or nothing, to list all.
#[derive(Deserialize)]
struct SourcesRequest {
    add: Option<NewSource>,
}

impl RunUse {
    /// Answers a request of a step about what steps have found, made at this time in Unix milliseconds.
    ///
    /// # Errors
    /// If it is another request, or what the step adds is not taken.
    pub(crate) fn answer(&mut self, op: &str, arguments: Option<&RawValue>, now: u64) -> Result<Value, RpcError> {
        let arguments = arguments.map_or("{}", RawValue::get);
        match op {
            "evidence" => self.answer_evidence(arguments),
            "sources" => self.answer_sources(arguments, now),
            _ => Err(RpcError::new(INVALID_PARAMS, format!("{op:.64} is no request that a step can make"))),
        }
    }

    /// Takes a piece of evidence, or returns all of them.
    fn answer_evidence(&mut self, arguments: &str) -> Result<Value, RpcError> {
        let request: Map<String, Value> = serde_json::from_str(arguments).unwrap_or_default();
        let Some(evidence) = request.get("add") else { return Ok(json!({"evidence": self.evidence})) };
        let size = json_size(evidence);
        if size > MAX_EVIDENCE_SIZE {
            let message = format!("evidence: the piece has {size} bytes, {MAX_EVIDENCE_SIZE} are allowed");
            return Err(RpcError::refused(Reason::TooLarge, message));
        }
        if self.evidence.len() >= MAX_EVIDENCE {
            let message = format!("evidence: the run has {MAX_EVIDENCE} pieces, as many as it may");
            return Err(RpcError::refused(Reason::BudgetExhausted, message));
        }
        self.evidence_bytes += size;
        self.evidence.push(evidence.clone());
        Ok(json!({"id": self.evidence.len().to_string()}))
    }

    fn answer_sources(&mut self, arguments: &str, now: u64) -> Result<Value, RpcError> {
        let invalid = |why: String| RpcError::refused(Reason::InvalidSource, why);
        let request: SourcesRequest = serde_json::from_str(arguments).map_err(|_| {
            invalid("the source is not valid: give {url, title, sourceType, sourceMetadata}".to_owned())
        })?;
        match request.add {
            Some(source) => Ok(json!({"id": self.add_source(source, now).map_err(|why| invalid(why.to_string()))?})),
            None => Ok(json!({"sources": self.sources.all()})),
        }
    }

    fn add_source(&mut self, source: NewSource, now: u64) -> Result<String, InvalidSource> {
        self.sources.add(NewSource { fetched_at: Some(timestamp(now)), ..source })
    }
}

/// What the steps of a run have used and found, for all requests of a step at the same time.
#[derive(Default)]
pub(super) struct SharedUse(Mutex<RunUse>);

impl SharedUse {
    pub(super) fn lock(&self) -> MutexGuard<'_, RunUse> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_room(no_room: NoRoom) -> Failure {
    Failure::new(Reason::NoRoom, no_room.to_string())
}

impl RunContext<'_> {
    /// Checks in the newest plan that the gateway is not stopped, that the client may still call the pipeline, that no Guard has
    /// come into force over its calls, that the pipeline is in force and, if a tool is named, that its steps can call it.
    ///
    /// # Errors
    /// The reason, and what to do.
    pub(super) fn check_in_force(&self, tool: Option<&str>) -> Result<(), (Reason, String)> {
        let (snapshot, name) = (self.pipelines.in_force.snapshot(), &self.name);
        self.pipelines
            .gate
            .check_open(&snapshot, self.call.request.caller)
            .map_err(|error| (error.reason, error.message))?;
        let withdrawn = |why: String| Err((Reason::Withdrawn, why));
        let mut upstreams = snapshot.linked.upstreams.iter();
        let newest = upstreams.find(|upstream| upstream.target.plan.key == self.call.plan().key);
        let in_force = newest.filter(|upstream| upstream.target.plan.enabled && upstream.refusing.is_none());
        match (in_force.and_then(|newest| newest.pipeline.as_deref()), tool) {
            (None, _) => withdrawn(format!(
                "ToolPipeline {name} was deleted or disabled, or refuses its calls, since the run began: call its tool \
                 again once `hawsepipe pipelines list` shows it as ready"
            )),
            (Some(pipeline), Some(tool)) if !pipeline.allows(tool) => withdrawn(format!(
                "spec.tools of ToolPipeline {name} was changed since the run began, and does not include {tool:.128} any \
                 more: include it, or do without it"
            )),
            _ if self.pipelines.chains.recheck(self.call, Effect::Send(&[]), Sent::Unchanged).is_err() => {
                withdrawn(format!(
                    "since the run began, the rules of the gateway have changed for this client, or a Guard came into force over \
                 ToolPipeline {name}: call its tool again"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Returns the time limit of the run.
    pub(super) fn limit(&self) -> Duration {
        Duration::from_secs(self.pipeline.plan.budgets.timeout_seconds.into())
    }

    /// Returns the time that is left for the run.
    pub(super) fn remaining(&self) -> Duration {
        self.limit().saturating_sub(self.started.elapsed())
    }

    /// Shows the admin API what the steps have used.
    pub(super) fn note_use(&self) {
        let used = self.used.lock();
        self.entry.note_use((used.tool_calls, used.llm_calls), used.tokens, used.sources.all().len());
    }

    /// Takes a source, found now.
    ///
    /// # Errors
    /// If it is not valid, or there is no room for it.
    pub(super) fn add_source(&self, source: NewSource) -> Result<(), Failure> {
        let (size, now) = (source.size(), self.pipelines.clock.unix_millis());
        let added = self.change_found(size, |used| used.add_source(source, now))?;
        added.map(drop).map_err(|why| Failure::quoting(Reason::InvalidSource, why.to_string()))
    }

    /// Answers a request of a step about what steps have found.
    ///
    /// # Errors
    /// As [`RunUse::answer`], or if there is no room for what the step adds.
    pub(super) fn answer_found(&self, op: &str, arguments: Option<&RawValue>) -> Result<Value, RpcError> {
        let now = self.pipelines.clock.unix_millis();
        let more = arguments.map_or(0, |arguments| arguments.get().len() as u64);
        let answered = self.change_found(more, |used| used.answer(op, arguments, now));
        answered.map_err(|failure| RpcError::refused(failure.reason, failure.message))?
    }

    /// Makes a change that adds at most so many bytes to what steps have found. What is not added is not reserved any more.
    fn change_found<T>(&self, more: u64, change: impl FnOnce(&mut RunUse) -> T) -> Result<T, Failure> {
        let mut used = self.used.lock();
        self.hold_found(&used, more)?;
        let changed = change(&mut used);
        // Less always has room.
        let _ = self.hold_found(&used, 0);
        Ok(changed)
    }

    /// Reserves the memory of what steps have found, and of so many bytes more.
    fn hold_found(&self, used: &RunUse, more: u64) -> Result<(), Failure> {
        let found = used.sources.size() + used.evidence_bytes + more;
        self.memory.set(|parts| parts.found = found).map_err(no_room)
    }

    /// Reserves the memory of the state after a step.
    ///
    /// # Errors
    /// If there is no room: the run ends.
    pub(super) fn hold_state(&self, state: &RunState) -> Result<(), RunFailure> {
        let held = self.memory.set(|parts| (parts.state, parts.answers) = (state.size(), 0));
        held.map_err(|why| RunFailure::of_no_step(no_room(why)))
    }

    /// The context of calls that steps make.
    pub(super) fn call_context(&self) -> CallContext<'_> {
        CallContext::of(&self.call.facts, self.method(), self.client)
    }

    pub(super) fn method(&self) -> Method {
        Method::CallTool
    }

    /// The name that records of executions have in the place of a chain's.
    pub(super) fn chain_id(&self) -> String {
        format!("pipeline:{}", self.name)
    }

    /// Returns how deep the research is to be: the argument `depth` (document 002, `research_type`).
    pub(super) fn research_type(&self) -> &str {
        research_type(&self.arguments)
    }
}

/// Returns how deep the research of a call with these arguments is to be.
pub(crate) fn research_type(arguments: &Value) -> &str {
    let depth = arguments.get("depth").and_then(Value::as_str);
    depth.filter(|depth| ["light", "medium", "extended"].contains(depth)).unwrap_or("medium")
}
