//! The requests that a plugin can make during its execution: progress reports for the client, and calls of tools.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, json};

use super::Chains;
use super::chain::CallContext;
use super::meta::USER_QUERY;
use super::recheck::current_identity;
use super::routed_call::CallFacts;
use crate::domain::budget::{Account, Category, Reservation};
use crate::domain::identity::Identity;
use crate::domain::item::ItemKind;
use crate::domain::limits::Tracker;
use crate::domain::pipeline::RUN;
use crate::domain::plugin::{MAX_MESSAGE, Mode};
use crate::domain::ports::{Answering, Host, LinkedPlugin, PluginProgress, ToClient};
use crate::domain::question::Question;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::reason::Reason;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::domain::tokens::{MAX_DEPTH, deeper_than};
use crate::domain::upstream::{Answer, InputRound};
use crate::engine::access::admission::{AdmissionError, Counted};
use crate::engine::request::{CallRequest, Caller, Endpoint, Reply, TaskUse, Within};

/// The maximum number of tool calls that one execution can have in flight.
const MAX_CALLS: u32 = 8;

/// Handles the requests that a plugin makes during one execution.
pub(crate) struct CallHost<'a> {
    chains: &'a Arc<Chains>,
    context: CallContext<'a>,
    /// The maximum size of an answer.
    max_input: u64,
    mode: Mode,
    /// The conversation of the run whose step makes the calls; `None` if no step does.
    conversation: Option<&'a str>,
    calls: Arc<Tracker>,
}

impl Chains {
    /// Returns an empty reservation for what is held on behalf of a call, which counts for its client.
    pub(in crate::engine) fn reservation(&self, category: Category, facts: &CallFacts) -> Reservation {
        match &facts.account {
            Some(account) => self.budget.reservation_for(category, account),
            None => self.budget.reservation(category),
        }
    }
}

impl<'a> CallHost<'a> {
    pub(crate) fn new(chains: &'a Arc<Chains>, context: CallContext<'a>, plugin: &LinkedPlugin, mode: Mode) -> Self {
        Self {
            chains,
            context,
            max_input: plugin.plan.limits.max_input,
            mode,
            conversation: None,
            calls: Arc::default(),
        }
    }

    /// The same for a step of a run of this conversation, which takes answers of at most `max_input` bytes.
    pub(crate) fn of_step(
        chains: &'a Arc<Chains>,
        context: CallContext<'a>,
        max_input: u64,
        conversation: &'a str,
    ) -> Self {
        let (mode, calls) = (Mode::Enforce, Arc::default());
        Self { chains, context, max_input, mode, conversation: Some(conversation), calls }
    }

    /// Returns `_meta` of calls: the question of the user, and for pipelines the conversation.
    fn meta(&self) -> Option<Box<RawValue>> {
        let mut meta = Map::new();
        if let Some(query) = &self.context.facts.user_query {
            meta.insert(USER_QUERY.to_owned(), json!(query));
        }
        if let Some(conversation) = self.conversation {
            meta.insert(RUN.to_owned(), json!({"conversation": conversation}));
        }
        (!meta.is_empty()).then(|| to_raw(&meta))
    }

    /// Returns the caller as it is known now, if that is another one than when the call began: the client can have answered a
    /// question of this call with another token, and the plan can have another form of its API key.
    ///
    /// # Errors
    /// If the key is not in the plan any more.
    fn latest_caller(&self) -> Result<Option<Caller>, RpcError> {
        let caller = &self.context.facts.caller;
        let (latest, newest) = (self.context.client.latest_identity(), self.chains.in_force.snapshot());
        let Some(identity) = current_identity(&newest, latest.as_ref().unwrap_or(&caller.identity)) else {
            return Err(RpcError::refused(Reason::NotAuthorized, "the API key of the call is not accepted any more"));
        };
        let is_other = !Arc::ptr_eq(identity, &caller.identity);
        Ok(is_other.then(|| Caller { identity: Arc::clone(identity), ..caller.clone() }))
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// If the gateway refuses the call, or the answer is too large. An error of the server is an answer.
    pub(crate) async fn call(&self, tool: &str, arguments: Option<&RawValue>) -> Result<Answer, RpcError> {
        let _counted = self.admit().map_err(|rejection| {
            self.chains.metrics.refused(rejection.reason);
            rejection.to_error()
        })?;
        if !arguments.is_none_or(may_be_arguments) {
            return Err(RpcError::new(INVALID_PARAMS, "the arguments must be an object that is not too deep"));
        }
        let (facts, latest) = (self.context.facts, self.latest_caller()?);
        let meta = self.meta();
        let request = CallRequest {
            endpoint: Endpoint::All,
            caller: latest.as_ref().unwrap_or(&facts.caller),
            id: None,
            rpc_id: None,
            kind: ItemKind::Tool,
            name: tool,
            input: arguments,
            meta: meta.as_deref(),
            round: InputRound::default(),
            wants_progress: false,
            log_level: None,
            client: &EnclosingClient(self.context.client),
            reservation: &self.chains.reservation(Category::Answer, facts),
            check_mirrored: None,
            within: Some(Within {
                request_id: &facts.request_id,
                depth: facts.depth + 1,
                is_of_pipeline: self.conversation.is_some(),
            }),
            task: TaskUse::None,
        };
        let answer = match self.call_within(request).await {
            Reply::Result(result) => Answer::Result(result),
            Reply::UpstreamError(error) => Answer::Error(error),
            Reply::Error(error) => return Err(error),
        };
        self.fitting(answer)
    }

    async fn call_within(&self, request: CallRequest<'_>) -> Reply {
        match self.chains.inner.upgrade() {
            Some(calls) => calls.call(request).await,
            // An observer in the background can outlive the gateway.
            None => Reply::Error(AdmissionError::draining().to_error()),
        }
    }

    /// Returns an answer that the plugin takes.
    ///
    /// # Errors
    /// If it is too large.
    pub(crate) fn fitting(&self, answer: Answer) -> Result<Answer, RpcError> {
        let (Answer::Result(content) | Answer::Error(content)) = &answer;
        let max_input = self.max_input;
        if content.get().len() as u64 > max_input {
            let message = format!("the answer is larger than the {max_input} bytes that may be taken");
            return Err(RpcError::refused(Reason::TooLarge, message));
        }
        Ok(answer)
    }

    fn admit(&self) -> Result<Counted, AdmissionError> {
        if self.mode == Mode::Shadow {
            return Err(AdmissionError::new(Reason::Shadow, "a shadow changes nothing, so it calls no tool"));
        }
        if ItemKind::listed_with(self.context.method).is_some() {
            let message = "a plugin that runs on a list calls no tool, since no client has called one";
            return Err(AdmissionError::new(Reason::NoCaller, message));
        }
        Counted::enter(&self.calls, Some(MAX_CALLS), None).map_err(|_| {
            let message = format!("{MAX_CALLS} calls of the plugin are in flight, as many as it may wait for");
            AdmissionError::new(Reason::PluginCalls, message)
        })
    }
}

/// The client of the enclosing call, as servers of a call within it reach it: with questions, which pass the chains of both calls.
/// Progress and log messages are not for it.
struct EnclosingClient<'a>(&'a dyn ToClient);

impl ToClient for EnclosingClient<'_> {
    fn progress(&self, _: Box<RawValue>) {}

    fn latest_identity(&self) -> Option<Arc<Identity>> {
        self.0.latest_identity()
    }

    fn ask(&self, question: Question) -> Answering<'_> {
        self.0.ask(question)
    }
}

/// Whether this can be the arguments of a call: two levels of its message are above them.
pub(crate) fn may_be_arguments(raw: &RawValue) -> bool {
    !deeper_than(MAX_DEPTH - 2, raw.get().as_bytes()) && RawObject::parse(raw.get()).is_ok()
}

impl Host for CallHost<'_> {
    fn progress(&self, mut progress: PluginProgress) {
        if let Some(message) = &mut progress.message {
            message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        }
        self.context.client.progress(to_raw(&progress));
    }

    fn call_tool<'a>(&'a self, tool: &'a str, arguments: Option<&'a RawValue>) -> Answering<'a> {
        Box::pin(async move { self.call(tool, arguments).await.unwrap_or_else(|error| Answer::Error(to_raw(&error))) })
    }

    fn account(&self) -> Option<Arc<Account>> {
        self.context.facts.account.clone()
    }
}
