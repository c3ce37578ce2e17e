//! How calls end: what the client gets, what the record says.

use std::time::Duration;

use serde_json::json;

use super::admission::Rejection;
use super::chain::Ending;
use super::link::LinkedUpstream;
use super::meta::Meta;
use super::ready::Refusing;
use super::record::Journal;
use super::replies::{self, Ended, with_meta};
use super::request::{CallRequest, Endpoint, Reply};
use super::routed::Routed;
use super::shape::{self, Shape};
use super::snapshot::Snapshot;
use super::{Engine, Ports};
use crate::domain::budget::{NO_ROOM, NoRoom, Place};
use crate::domain::json::{Pointer, Step};
use crate::domain::limits::Refused;
use crate::domain::raw::to_raw;
use crate::domain::record::CallOutcome;
use crate::domain::rpc::{INTERNAL_ERROR, INVALID_PARAMS, REFUSED, RpcError};
use crate::domain::upstream::{Answer, Era, UpstreamError};

/// Why a call ended whose arguments or answer had a key twice in one object.
const DUPLICATE_KEY: &str = "DuplicateKey";
/// The most characters of a place in arguments that a message quotes.
const MAX_PLACE: usize = 200;
/// Names of members that the protocol itself gives (MCP, CallToolResult and ContentBlock; JSON-RPC 2.0, error object).
const KNOWN_MEMBERS: [&str; 17] = [
    "_meta",
    "annotations",
    "blob",
    "code",
    "content",
    "data",
    "isError",
    "message",
    "mimeType",
    "name",
    "resource",
    "result",
    "resultType",
    "structuredContent",
    "text",
    "type",
    "uri",
];

/// JSON-RPC code of a request that took too long, as the SDKs have it.
const REQUEST_TIMEOUT: i64 = -32001;

/// What a client is told whose answer found no room. It does not say when to try again: what was asked may be done.
pub(crate) fn dropped() -> RpcError {
    RpcError::new(REFUSED, UpstreamError::NoRoom.to_client()).with_data(json!({"reason": NO_ROOM}))
}

/// How a call ended, before it is written down.
pub(super) struct End {
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

    /// With the upstream's answer, which has this shape.
    pub(super) fn answered(answer: Answer, shape: Shape) -> Self {
        let (reply, outcome) = match answer {
            Answer::Result(result) if shape.is_error => (Reply::Result(result), CallOutcome::ToolError),
            Answer::Result(result) => (Reply::Result(result), CallOutcome::Ok),
            Answer::Error(error) => (Reply::UpstreamError(error), CallOutcome::RpcError),
        };
        Self { typed: shape.typed, ..Self::new(reply, outcome, None) }
    }

    /// With an answer that chains made anew.
    pub(super) fn answered_anew(answer: Answer) -> Self {
        let shape = Shape::of(&answer);
        Self::answered(answer, shape)
    }

    /// By a chain.
    pub(super) fn by_chain(ending: Ending) -> Self {
        let (how, culprit, text) = match ending {
            Ending::Entry { how, culprit, text } => (how, culprit, text),
            Ending::NoRoom => return Self::no_room(),
        };
        let outcome = match how {
            Ended::Denied => CallOutcome::Denied,
            Ended::Failed => CallOutcome::Failed,
            Ended::Refused => CallOutcome::Refused,
        };
        let reply = replies::ended(how, &culprit, &text);
        Self::new(Reply::Result(reply), outcome, culprit.reason)
    }

    fn no_room() -> Self {
        Self::new(Reply::Error(dropped()), CallOutcome::RpcError, NO_ROOM.to_owned())
    }

    /// Because something went wrong that should not.
    pub(super) fn internal(message: &str) -> Self {
        let error = RpcError::new(INTERNAL_ERROR, message);
        Self::new(Reply::Error(error), CallOutcome::RpcError, message.to_owned())
    }

    /// The gateway panicked. What it panicked with may hold content, so that it is told to nobody.
    pub(super) fn panicked() -> Self {
        let error = RpcError::new(INTERNAL_ERROR, "the gateway failed on this call; its log says where");
        Self::new(Reply::Error(error), CallOutcome::RpcError, "Panicked".to_owned())
    }

    /// The stop switch ended it, with `stopMode: Cancel`, or a call came while it is on.
    pub(super) fn stopped() -> Self {
        let data = json!({"reason": Refused::Stopped.as_str()});
        let message = "this gateway is stopped, and its calls in flight were ended";
        let error = RpcError::new(REFUSED, message).with_data(data);
        Self::new(Reply::Error(error), CallOutcome::Refused, Refused::Stopped.as_str().to_owned())
    }

    /// It took as long as a call may.
    pub(super) fn ceiling_reached(ceiling: Duration) -> Self {
        let message = format!("the call took longer than {ceiling:?}, the longest that this gateway lets one take");
        let error = RpcError::new(REQUEST_TIMEOUT, message);
        Self::new(Reply::Error(error), CallOutcome::Timeout, "CallCeiling".to_owned())
    }

    fn unknown_tool(name: &str, hint: &str) -> Self {
        let error = RpcError::new(INVALID_PARAMS, format!("Unknown tool: {name}{hint}"));
        Self::new(Reply::Error(error), CallOutcome::RpcError, "UnknownTool".to_owned())
    }

    /// It is not known which tools the upstream has.
    fn upstream_down(name: &str, why: &str) -> Self {
        const REASON: &str = "UpstreamDown";
        let data = json!({"reason": REASON, "upstream": name});
        let message = format!("upstream {name} is down, so that its tools are not known: {why}");
        let reply = Reply::Error(RpcError::new(INTERNAL_ERROR, message).with_data(data));
        Self::new(reply, CallOutcome::RpcError, REASON.to_owned())
    }

    /// The arguments do not fit the tool's schema at these places.
    pub(super) fn invalid_arguments(tool: &str, places: &str) -> Self {
        let text = format!("The arguments do not fit the input schema of {tool}. Nothing was sent.\n{places}");
        Self::new(Reply::Result(replies::error(&text)), CallOutcome::ToolError, "InvalidArguments".to_owned())
    }

    /// The same of arguments that a plugin changed.
    pub(super) fn invalid_changed_arguments(tool: &str, places: &str) -> Self {
        let text = format!(
            "The arguments, as the gateway's plugins changed them, do not fit the input schema of {tool}. Nothing was \
             sent.\n{places}"
        );
        Self::new(Reply::Result(replies::error(&text)), CallOutcome::ToolError, "InvalidArguments".to_owned())
    }

    /// The arguments have a key twice.
    pub(super) fn doubled_argument(steps: &[Step]) -> Self {
        let place: String = Pointer(steps).to_string().chars().take(MAX_PLACE).collect();
        let message = format!(
            "arguments{place}: this key stands twice in its object. Some readers take the first, some the last: send it \
             once"
        );
        let error = RpcError::new(INVALID_PARAMS, message).with_data(json!({"reason": DUPLICATE_KEY}));
        Self::new(Reply::Error(error), CallOutcome::RpcError, DUPLICATE_KEY.to_owned())
    }

    /// What the client's headers say of its arguments is not what they are.
    pub(super) fn header_mismatch(error: RpcError) -> Self {
        Self::new(Reply::Error(error), CallOutcome::RpcError, "HeaderMismatch".to_owned())
    }

    /// The same where its answer finds room until it is sent. What the upstream sent has found it; chains may have made
    /// more of that.
    pub(super) fn in_room(self, room: &Place) -> Self {
        let (Reply::Result(text) | Reply::UpstreamError(text)) = &self.reply else { return self };
        match room.hold(text.get().len() as u64) {
            Ok(()) => self,
            Err(NoRoom) => Self::no_room(),
        }
    }

    /// The upstream's answer has a key twice, and a Guard is on it: it may see another value than the client.
    fn withheld(upstream: &str, place: &str) -> Self {
        let message = format!(
            "upstream {upstream}: its answer is withheld, because a plugin guards it and the key at {place} stands twice in \
             its object: some readers take the first, some the last"
        );
        let data = json!({"reason": DUPLICATE_KEY, "upstream": upstream});
        let error = RpcError::new(INTERNAL_ERROR, message).with_data(data);
        Self::new(Reply::Error(error), CallOutcome::RpcError, DUPLICATE_KEY.to_owned())
    }

    fn upstream_failed(call: &Routed<'_>, error: &UpstreamError) -> Self {
        let name = &call.plan().key.name;
        let (code, outcome, said) = match error {
            UpstreamError::Timeout(_) => {
                let said = format!("{error}; {} sets how long it may take", call.timeout_field());
                (REQUEST_TIMEOUT, CallOutcome::Timeout, said)
            }
            UpstreamError::NoRoom => (REFUSED, CallOutcome::RpcError, error.to_client()),
            _ => (INTERNAL_ERROR, CallOutcome::RpcError, error.to_client()),
        };
        let data = json!({"reason": error.reason(), "upstream": name});
        let reply = Reply::Error(RpcError::new(code, format!("upstream {name}: {said}")).with_data(data));
        Self::new(reply, outcome, error.reason().to_owned())
    }
}

impl<P: Ports> Engine<P> {
    /// It was not let in.
    pub(super) fn rejected(&self, rejection: &Rejection) -> End {
        self.metrics.refused(rejection.reason.as_str());
        let reason = rejection.reason.as_str().to_owned();
        End::new(Reply::Error(rejection.to_error()), CallOutcome::Refused, reason)
    }

    /// It was not sent.
    pub(super) fn refused(&self, refusing: Refusing) -> End {
        self.metrics.refused(&refusing.culprit.reason);
        let reply = replies::ended(Ended::Refused, &refusing.culprit, &refusing.text);
        End::new(Reply::Result(reply), CallOutcome::Refused, refusing.culprit.reason)
    }

    /// Its upstream gave no answer. One that may be gone is probed at once.
    pub(super) fn upstream_failed(&self, call: &Routed<'_>, error: &UpstreamError) -> End {
        let key = &call.plan().key;
        // What the gateway has no room for is not the upstream's fault.
        let own = *error == UpstreamError::NoRoom;
        if !own {
            self.metrics.upstream_failed(&key.name);
        }
        if !own && !matches!(error, UpstreamError::Timeout(_) | UpstreamError::TooLarge(_) | UpstreamError::Cancelled) {
            self.probes.kick(key);
        }
        tracing::warn!(upstream = key.name, reason = error.reason(), "{error}");
        End::upstream_failed(call, error)
    }

    /// There is no tool of that name, or not now.
    pub(super) fn unknown_tool(&self, snapshot: &Snapshot, request: &CallRequest<'_>) -> End {
        let name: String = request.name.chars().take(128).collect();
        let named = match &request.endpoint {
            Endpoint::One(upstream) => Some(*upstream),
            Endpoint::All => name.split_once("__").map(|(upstream, _)| upstream),
        };
        let named = named.and_then(|name| snapshot.upstream(name)).map(|index| &snapshot.linked.upstreams[index]);
        let Some(upstream) = named else {
            let down = snapshot.linked.upstreams.iter().filter(|upstream| self.down(upstream).is_some());
            let down: Vec<_> = down.map(|upstream| upstream.target.plan.key.name.as_str()).collect();
            let hint = if down.is_empty() { String::new() } else { format!(" (upstreams down: {})", down.join(", ")) };
            return End::unknown_tool(&name, &hint);
        };
        let own = &upstream.target.plan.key.name;
        match (&upstream.refusing, self.down(upstream)) {
            (Some(refusal), _) => self.refused(Refusing::gateway(refusal)),
            (None, Some(why)) => End::upstream_down(own, &why),
            (None, None) => End::unknown_tool(&name, &format!(" (upstream {own} lists no such tool now)")),
        }
    }

    /// What clients may be told of an upstream of which no list was ever read, because the last try failed.
    fn down(&self, upstream: &LinkedUpstream) -> Option<String> {
        let state = self.state.upstream(&upstream.target.plan.key);
        state.down.filter(|_| state.tools.is_none() && upstream.target.plan.enabled)
    }

    /// Its upstream's answer has a key twice, and a Guard is on it. No Guard saw the names of its members, so of the place
    /// only those are told that the protocol itself gives.
    pub(super) fn withheld(&self, call: &Routed<'_>, steps: &[Step]) -> End {
        let shown = |step: &Step| match step {
            Step::Member(name) if !KNOWN_MEMBERS.contains(&name.as_str()) => Step::Member("*".to_owned()),
            step => step.clone(),
        };
        let steps: Vec<_> = steps.iter().map(shown).collect();
        let (upstream, place) = (&call.plan().key.name, Pointer(&steps).to_string());
        tracing::warn!(
            upstream,
            tool = call.facts.tool,
            place,
            "an answer was withheld: a key stands twice in an object"
        );
        End::withheld(upstream, &place)
    }

    /// Writes the end down, and makes of it what the client gets.
    pub(super) fn finish(&self, end: End, mut journal: Journal<P>, meta: &Meta, era: Era) -> Reply {
        journal.end(end.outcome, end.reason);
        let mut reply = end.reply;
        if let Reply::Result(result) = &mut reply {
            if meta.trace {
                *result = with_meta(result, "hawsepipe.dev/trace", to_raw(&journal.traces.entries));
            }
            if era == Era::Modern && !end.typed {
                shape::complete(result);
            }
        }
        if journal.traces.unsettled() {
            // The record waits for what runs beside the call; the client does not.
            tokio::spawn(async move { journal.traces.settle().await });
        }
        reply
    }
}
