//! The way of one tool call.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;

use super::chain::{Ending, Facts, timestamp};
use super::content::Content;
use super::list::Endpoint;
use super::meta::Meta;
use super::progress::{Progress, guards_response};
use super::ready::Refusing;
use super::record::Journal;
use super::replies::{self, Ended, with_meta};
use super::shape::{self, Shape};
use super::snapshot::{Snapshot, ToolLink};
use super::when::Selection;
use super::{Engine, Ports};
use crate::domain::limits::{Refused, Tracker};
use crate::domain::ports::{CallUpstream, Clock, ToClient};
use crate::domain::raw::to_raw;
use crate::domain::record::CallOutcome;
use crate::domain::route::Route;
use crate::domain::rpc::{INTERNAL_ERROR, INVALID_PARAMS, REFUSED, RpcError};
use crate::domain::upstream::{Answer, Era, OutCall, UpstreamError};

/// JSON-RPC code of a request that took too long, as the SDKs have it.
const REQUEST_TIMEOUT: i64 = -32001;

/// Who calls.
#[derive(Clone)]
pub struct Caller {
    /// The era that the client speaks.
    pub era: Era,
    /// `anonymous`, or who the credentials say.
    pub principal: String,
    /// The session's id; empty in the stateless era.
    pub session: String,
    /// Counts the calls of the session or principal.
    pub tracker: Arc<Tracker>,
}

/// A `tools/call` as a client sent it.
pub struct CallRequest<'a> {
    /// Where it came in.
    pub endpoint: Endpoint<'a>,
    /// Who sent it.
    pub caller: &'a Caller,
    /// `params.name`.
    pub name: &'a str,
    /// `params.arguments`.
    pub arguments: Option<&'a RawValue>,
    /// `params._meta`.
    pub meta: Option<&'a RawValue>,
    /// Whether progress is wanted.
    pub wants_progress: bool,
    /// The way back while the call runs.
    pub client: &'a dyn ToClient,
}

/// What the client gets.
#[derive(Debug)]
pub enum Reply {
    /// `result`.
    Result(Box<RawValue>),
    /// `error`, as the upstream sent it.
    UpstreamError(Box<RawValue>),
    /// `error` of the gateway's own making.
    Error(RpcError),
}

/// How a call ended, before it is written down.
struct End {
    reply: Reply,
    outcome: CallOutcome,
    reason: Option<String>,
    /// Whether a result says what it is, as the modern era wants it.
    typed: bool,
}

impl End {
    fn new(reply: Reply, outcome: CallOutcome, reason: impl Into<Option<String>>) -> Self {
        Self { reply, outcome, reason: reason.into(), typed: false }
    }
}

impl<P: Ports> Engine<P> {
    /// Runs a call from its arrival to its answer. Dropping the future cancels it.
    pub async fn call(self: &Arc<Self>, request: CallRequest<'_>) -> Reply {
        let snapshot = self.snapshot();
        let era = request.caller.era.as_str();
        let gateway = snapshot.plan().gateway.key.to_string();
        let mut journal = Journal::begin(self, gateway, request.name, era, &request.caller.principal);
        let meta = Meta::read(request.meta);
        let ceiling = Duration::from_millis(u64::from(snapshot.plan().gateway.limits.call_ceiling_ms));
        let cut = self.state.cut.load_full();
        let run = self.run(&snapshot, &request, &meta, &mut journal);
        let end = tokio::select! {
            biased;
            end = tokio::time::timeout(ceiling, run) => end.unwrap_or_else(|_| ceiling_reached(ceiling)),
            () = cut.cancelled() => stopped(),
        };
        self.finish(end, journal, &meta, request.caller.era).await
    }

    async fn run(
        self: &Arc<Self>,
        snapshot: &Arc<Snapshot>,
        request: &CallRequest<'_>,
        meta: &Meta,
        journal: &mut Journal<P>,
    ) -> End {
        let mut admitted = match self.admit(snapshot, &request.caller.tracker) {
            Ok(admitted) => admitted,
            Err(rejection) => return self.rejected(&rejection),
        };
        let Some((snapshot, route)) = self.route(snapshot, &request.endpoint, request.name).await else {
            return unknown_tool(snapshot, request);
        };
        let (route, tool) = (&*route, &snapshot.tools[route.index]);
        let upstream = &snapshot.linked.upstreams[route.upstream];
        let plan = &upstream.target.plan;
        journal.routed(&plan.key.name, &route.tool.name);
        if let Err(rejection) = self.admit_upstream(&mut admitted, plan) {
            return self.rejected(&rejection);
        }
        let change = route.change.and_then(|i| plan.overrides.get(i));
        if let Some(refusal) = upstream.refusing.as_ref().or(change.and_then(|c| c.refusing.as_ref())) {
            return self.refused(Refusing::gateway(refusal));
        }
        let facts = Arc::new(self.facts(journal, route, &plan.key.name, request, meta));
        let arguments = request.arguments.map_or("{}", RawValue::get);
        let selection = Selection {
            request,
            route,
            upstream: plan,
            target: &upstream.target,
            meta_query: meta.user_query.as_deref(),
            max_tokens: meta.max_tokens,
        };
        journal.traces.begin(tool);
        if let Some(refusing) = self.cannot_guard(tool, &selection, arguments, &mut journal.traces) {
            return self.refused(refusing);
        }
        if let Err(places) = tool.arguments.check(arguments) {
            let reply = replies::invalid_arguments(request.name, &places);
            return End::new(Reply::Result(reply), CallOutcome::ToolError, "InvalidArguments".to_owned());
        }
        let timeout = change.and_then(|c| c.timeout_ms).or(plan.call_timeout_ms);
        let timeout = timeout.unwrap_or(snapshot.plan().gateway.limits.call_timeout_ms);
        let timeout = Duration::from_millis(u64::from(timeout));
        self.run_guarded(&facts, tool, &selection, arguments, timeout, meta, journal).await
    }

    /// Request chains, the upstream, response chains.
    #[allow(clippy::too_many_arguments)]
    async fn run_guarded(
        self: &Arc<Self>,
        facts: &Arc<Facts>,
        tool: &ToolLink,
        selection: &Selection<'_>,
        arguments: &str,
        timeout: Duration,
        meta: &Meta,
        journal: &mut Journal<P>,
    ) -> End {
        let request = selection.request;
        let sent = match self.arguments_to_send(facts, tool, selection, arguments, journal).await {
            Ok(sent) => sent,
            Err(end) => return end,
        };
        // Only `when`s of the response phase ask for it again.
        let sent_text = if tool.response.is_empty() { None } else { sent.clone() };
        let call = OutCall {
            tool: facts.tool.clone(),
            arguments: sent,
            meta: meta.onward.clone(),
            wants_progress: request.wants_progress,
            timeout,
        };
        let client = Progress { client: request.client, guarded: guards_response(tool) };
        let before = self.clock.monotonic();
        let answer = self.upstreams.call(selection.target, call, &client).await;
        let took = self.clock.monotonic().saturating_sub(before);
        journal.record().upstream_ms = super::record::millis(took);
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return self.upstream_failed(selection, &error),
        };
        let shape = Shape::of(&answer);
        if shape.asks_back {
            return internal("the server asked for input during the call, which this gateway does not pass on");
        }
        if tool.response.is_empty() {
            return answered(answer, shape);
        }
        let when = selection.when(sent_text.as_deref().map_or("{}", RawValue::get));
        let content = Content::Answer(answer);
        let changed = self.run_chains(facts, &tool.response, &when, &content, &mut journal.traces).await;
        match (changed, content) {
            (Ok(None), Content::Answer(answer)) => answered(answer, shape),
            (Ok(Some(Content::Answer(answer))), _) => made(answer),
            (Ok(_), _) => internal("a response chain gave no answer"),
            (Err(ending), _) => ended(ending),
        }
    }

    /// What the request chains make of the arguments; checked again where they changed them.
    async fn arguments_to_send(
        self: &Arc<Self>,
        facts: &Arc<Facts>,
        tool: &ToolLink,
        selection: &Selection<'_>,
        arguments: &str,
        journal: &mut Journal<P>,
    ) -> Result<Option<Box<RawValue>>, End> {
        let request = selection.request;
        let as_they_came = || request.arguments.map(RawValue::to_owned);
        if tool.request.is_empty() {
            return Ok(as_they_came());
        }
        let content = Content::Arguments(arguments.to_owned());
        let when = selection.when(arguments);
        let chains = self.run_chains(facts, &tool.request, &when, &content, &mut journal.traces);
        let text = match chains.await.map_err(ended)? {
            None => return Ok(as_they_came()),
            Some(Content::Arguments(text)) => text,
            Some(Content::Answer(_)) => return Err(internal("a request chain gave no arguments")),
        };
        if let Err(places) = tool.arguments.check(&text) {
            let reply = replies::invalid_arguments(request.name, &places);
            return Err(End::new(Reply::Result(reply), CallOutcome::ToolError, "InvalidArguments".to_owned()));
        }
        Ok(RawValue::from_string(text).ok())
    }

    /// The route of a name. One that is not known yet is waited for while upstreams are tried for the first time.
    async fn route(
        &self,
        snapshot: &Arc<Snapshot>,
        endpoint: &Endpoint<'_>,
        name: &str,
    ) -> Option<(Arc<Snapshot>, Arc<Route>)> {
        let find = |snapshot: &Arc<Snapshot>| {
            let route = endpoint.route(snapshot, name)?;
            Some((Arc::clone(snapshot), Arc::clone(route)))
        };
        if let Some(found) = find(snapshot) {
            return Some(found);
        }
        self.wait_for_tool(snapshot, endpoint, name).await;
        find(&self.snapshot())
    }

    fn facts(
        &self,
        journal: &mut Journal<P>,
        route: &Route,
        upstream: &str,
        request: &CallRequest<'_>,
        meta: &Meta,
    ) -> Facts {
        let record = journal.record();
        Facts {
            request_id: record.request_id.clone(),
            timestamp: timestamp(record.started_at),
            tool_name: format!("{upstream}/{}", route.tool.name),
            upstream: upstream.to_owned(),
            tool: route.tool.name.clone(),
            principal: request.caller.principal.clone(),
            user_query: meta.user_query.clone(),
            max_tokens: meta.max_tokens,
        }
    }

    fn rejected(&self, rejection: &super::admission::Rejection) -> End {
        self.metrics.refused(rejection.reason.as_str());
        let reason = rejection.reason.as_str().to_owned();
        End::new(Reply::Error(rejection.to_error()), CallOutcome::Refused, reason)
    }

    fn refused(&self, refusing: Refusing) -> End {
        self.metrics.refused(&refusing.culprit.reason);
        let reply = replies::ended(Ended::Refused, &refusing.culprit, &refusing.text);
        End::new(Reply::Result(reply), CallOutcome::Refused, refusing.culprit.reason)
    }

    fn upstream_failed(&self, selection: &Selection<'_>, error: &UpstreamError) -> End {
        let name = &selection.upstream.key.name;
        self.metrics.upstream_failed(name);
        if matches!(error, UpstreamError::Connect(_) | UpstreamError::Lost(_)) {
            self.probes.kick(&selection.upstream.key);
        }
        tracing::warn!(upstream = name, reason = error.reason(), "{error}");
        let (code, outcome) = match error {
            UpstreamError::Timeout(_) => (REQUEST_TIMEOUT, CallOutcome::Timeout),
            _ => (INTERNAL_ERROR, CallOutcome::RpcError),
        };
        // What a server says as it ends goes into the log: no Guard has seen it.
        let said = match error {
            UpstreamError::Connect(_) => "it cannot be reached; the gateway's log says why".to_owned(),
            UpstreamError::Lost(_) => "connection lost; the gateway's log says why".to_owned(),
            other => other.to_string(),
        };
        let message = format!("upstream {name}: {said}");
        let error_data = json!({"reason": error.reason(), "upstream": name});
        let reply = Reply::Error(RpcError::new(code, message).with_data(error_data));
        End::new(reply, outcome, error.reason().to_owned())
    }

    async fn finish(&self, end: End, mut journal: Journal<P>, meta: &Meta, era: Era) -> Reply {
        journal.end(end.outcome, end.reason);
        if meta.trace {
            journal.traces.settle().await;
        }
        let mut reply = end.reply;
        if let Reply::Result(result) = &mut reply {
            if meta.trace {
                *result = with_meta(result, "hawsepipe.dev/trace", to_raw(&journal.traces.entries));
            }
            if era == Era::Modern && !end.typed {
                shape::complete(result);
            }
        }
        if !journal.traces.pending.is_empty() {
            // The record waits for what runs beside the call; the client does not.
            tokio::spawn(async move { journal.traces.settle().await });
        }
        reply
    }
}

/// The end of a call whose answer chains may have made anew.
fn made(answer: Answer) -> End {
    let shape = Shape::of(&answer);
    answered(answer, shape)
}

fn answered(answer: Answer, shape: Shape) -> End {
    let (reply, outcome) = match answer {
        Answer::Result(result) if shape.is_error => (Reply::Result(result), CallOutcome::ToolError),
        Answer::Result(result) => (Reply::Result(result), CallOutcome::Ok),
        Answer::Error(error) => (Reply::UpstreamError(error), CallOutcome::RpcError),
    };
    End { typed: shape.typed, ..End::new(reply, outcome, None) }
}

fn ended(ending: Ending) -> End {
    let outcome = match ending.how {
        Ended::Denied => CallOutcome::Denied,
        Ended::Failed => CallOutcome::Failed,
        Ended::Refused => CallOutcome::Refused,
    };
    let reply = replies::ended(ending.how, &ending.culprit, &ending.text);
    End::new(Reply::Result(reply), outcome, ending.culprit.reason)
}

fn internal(message: &str) -> End {
    End::new(Reply::Error(RpcError::new(INTERNAL_ERROR, message)), CallOutcome::RpcError, message.to_owned())
}

/// The stop switch ended it, with `stopMode: Cancel`, or a call came while it is on.
fn stopped() -> End {
    let data = json!({"reason": Refused::Stopped.as_str()});
    let error = RpcError::new(REFUSED, "this gateway is stopped, and its calls in flight were ended").with_data(data);
    End::new(Reply::Error(error), CallOutcome::Refused, Refused::Stopped.as_str().to_owned())
}

fn ceiling_reached(ceiling: Duration) -> End {
    let message = format!("the call took longer than {ceiling:?}, the longest that this gateway lets one take");
    End::new(Reply::Error(RpcError::new(REQUEST_TIMEOUT, message)), CallOutcome::Timeout, "CallCeiling".to_owned())
}

fn unknown_tool(snapshot: &Snapshot, request: &CallRequest<'_>) -> End {
    let name: String = request.name.chars().take(128).collect();
    let upstream = match &request.endpoint {
        Endpoint::One(upstream) => Some(*upstream),
        Endpoint::All => name.split_once("__").map(|(upstream, _)| upstream),
    };
    let hint = upstream.and_then(|name| snapshot.upstream(name)).map_or(String::new(), |index| {
        format!(" (upstream {} lists no such tool now)", snapshot.linked.upstreams[index].target.plan.key.name)
    });
    let error = RpcError::new(INVALID_PARAMS, format!("Unknown tool: {name}{hint}"));
    End::new(Reply::Error(error), CallOutcome::RpcError, "UnknownTool".to_owned())
}
