//! The ends of calls: the reply for the client, and the outcome and reason for the record.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::tool_result::{ResultFacts, error_result};
use crate::domain::budget::{NoRoom, Reservation};
use crate::domain::item::ItemKind;
use crate::domain::json::{JsonStep, Pointer};
use crate::domain::method::Method;
use crate::domain::plan::Refusal;
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::record::CallOutcome;
use crate::domain::rpc::{
    INTERNAL_ERROR, INVALID_PARAMS, REFUSED, REQUEST_CANCELLED, REQUEST_TIMEOUT, RESOURCE_NOT_FOUND, RETRY_AFTER_MS,
    RpcError,
};
use crate::domain::upstream::{Answer, UpstreamError};
use crate::domain::version::Era;
use crate::engine::access::admission::AdmissionError;
use crate::engine::request::Reply;

/// The maximum number of characters of a JSON Pointer that a message about arguments quotes.
const MAX_PLACE: usize = 200;

/// Returns the error for a client whose answer does not fit into the memory budget. The error does not suggest a time
/// to retry, because the tool may have done its work.
pub(crate) fn dropped() -> RpcError {
    RpcError::refused(Reason::NoRoom, UpstreamError::NoRoom.to_client())
}

/// The cause of a [`Denial`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DenialKind {
    /// A plugin denied the call, with these words.
    Denied(String),
    /// A plugin failed, and its failure policy is `Fail`.
    Failed(Reason),
    /// This rule of the gateway denies the call; `None` if no rule allows it.
    Unauthorized(Option<String>),
    /// The call was not sent, because the plan refuses it, or because an entry that must run cannot.
    Refused(Reason),
}

impl fmt::Display for DenialKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Denied(words) => words,
            Self::Failed(reason) | Self::Refused(reason) => reason.as_str(),
            Self::Unauthorized(_) => Reason::NotAuthorized.as_str(),
        })
    }
}

/// Why the client gets a message instead of the upstream's answer, and which chain and plugin are the cause.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    pub(crate) kind: DenialKind,
    /// The chain, as `namespace/name`; `None` if the call is refused because of its upstream or tool.
    pub(crate) chain: Option<String>,
    /// The plugin, as `namespace/name`; `None` if no single plugin ended the call.
    pub(crate) plugin: Option<String>,
    /// The text for the client.
    pub(crate) text: String,
}

impl Denial {
    /// Creates the denial for a refusal that the plan contains. `chain` is the refusing chain, or `None` if the refusal
    /// belongs to an upstream or a tool.
    pub(crate) fn refused(chain: Option<&str>, refusal: &Refusal) -> Self {
        let text = format!("This call is refused: {}.", refusal.message);
        Self { chain: chain.map(str::to_owned), ..Self::without_cause(refusal.reason, text) }
    }

    /// Creates the denial for a refusal for which no chain or plugin stands.
    pub(crate) fn without_cause(reason: Reason, text: String) -> Self {
        Self { kind: DenialKind::Refused(reason), chain: None, plugin: None, text }
    }

    /// Creates the denial of a question of this method, because a Guard is on the call and none was on the question.
    pub(crate) fn past_guard(method: Method) -> Self {
        let text = format!(
            "The server asks for input ({method}), and a Guard is on the call that would not see the question. To let it \
             pass, name {method} in spec.methods of a PluginChain of phase Request with a Guard that runs on it."
        );
        Self::without_cause(Reason::GuardedInput, text)
    }

    /// Creates the denial for an entry that denied the call or failed.
    pub(crate) fn by_entry(kind: DenialKind, chain: &str, plugin: &str, text: String) -> Self {
        // Models cannot make anything of an error without a text.
        let text = if text.trim().is_empty() { format!("Denied by {plugin}") } else { text };
        Self { kind, chain: Some(chain.to_owned()), plugin: Some(plugin.to_owned()), text }
    }

    /// Returns the reply to a request that uses an item of this kind: a tool result with `isError: true`, whose `_meta`
    /// names the chain and plugin that ended the call, or an error whose `data` names them.
    fn to_reply(&self, kind: ItemKind) -> Reply {
        let (key, detail) = self.detail();
        if kind == ItemKind::Tool {
            let content = json!([{"type": "text", "text": self.text}]);
            return Reply::Result(to_raw(&json!({"content": content, "isError": true, "_meta": {key: detail}})));
        }
        Reply::Error(RpcError::new(REFUSED, self.text.clone()).with_data(json!({key: detail})))
    }

    fn detail(&self) -> (&'static str, serde_json::Map<String, serde_json::Value>) {
        let (key, word) = match &self.kind {
            DenialKind::Unauthorized(rule) => {
                return ("hawsepipe.dev/denied", [("rule".to_owned(), json!(rule))].into_iter().collect());
            }
            DenialKind::Denied(_) => ("hawsepipe.dev/denied", "error"),
            DenialKind::Failed(_) => ("hawsepipe.dev/failed", "reason"),
            DenialKind::Refused(_) => ("hawsepipe.dev/refused", "reason"),
        };
        let mut detail = serde_json::Map::new();
        let names = [("chain", &self.chain), ("plugin", &self.plugin), (word, &Some(self.kind.to_string()))];
        detail.extend(names.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?)))));
        (key, detail)
    }
}

/// The end of a call, before it is recorded.
pub(crate) struct CallEnd {
    pub(crate) reply: Reply,
    pub(crate) outcome: CallOutcome,
    /// A [`Reason`], or the words of the plugin that denied the call.
    pub(crate) reason: Option<String>,
    /// Whether the result needs no `resultType` added (which the modern era requires): it has one, or none can be added.
    pub(crate) typed: bool,
    pub(in crate::engine) cause: Option<Box<super::cause::Cause>>,
}

impl CallEnd {
    pub(in crate::engine) fn new(reply: Reply, outcome: CallOutcome, reason: impl Into<Option<Reason>>) -> Self {
        let reason = reason.into().map(|reason| reason.to_string());
        Self { reply, outcome, reason, typed: false, cause: None }
    }

    /// The end of a call that the upstream answered. `facts` describes the answer.
    pub(crate) fn answered(answer: Answer, facts: ResultFacts) -> Self {
        let (reply, outcome) = match answer {
            Answer::Result(result) if facts.is_error => (Reply::Result(result), CallOutcome::ToolError),
            Answer::Result(result) => (Reply::Result(result), CallOutcome::Ok),
            Answer::Error(error) => (Reply::UpstreamError(error), CallOutcome::RpcError),
        };
        Self { typed: facts.typed, ..Self::new(reply, outcome, None) }
    }

    /// The end of a call whose server asks a client of the modern era for input. The client sends the call once more.
    pub(crate) fn asks_back(answer: Answer, facts: ResultFacts) -> Self {
        Self { reason: Some(Reason::InputRequired.to_string()), ..Self::answered(answer, facts) }
    }

    /// The end of a call whose server asks for input that the client does not give. `error` is the client's.
    pub(crate) fn not_given(method: Method, error: &RawValue) -> Self {
        #[derive(Deserialize)]
        struct Said {
            message: String,
        }
        let said = serde_json::from_str::<Said>(error.get()).map(|error| error.message).unwrap_or_default();
        let text = format!("The server asks for input ({method}), which the client does not give: {said:.256}");
        Self::new(Reply::Result(error_result(&text)), CallOutcome::ToolError, Reason::InputNotGiven)
    }

    /// The end of a call whose answer was changed by response chains.
    pub(crate) fn answered_anew(answer: Answer) -> Self {
        let facts = ResultFacts::of(&answer);
        Self::answered(answer, facts)
    }

    /// The end of a call that an entry denied, that failed with an entry, or that was refused.
    pub(crate) fn denied(kind: ItemKind, denial: Denial) -> Self {
        let outcome = match denial.kind {
            DenialKind::Denied(_) | DenialKind::Unauthorized(_) => CallOutcome::Denied,
            DenialKind::Failed(_) => CallOutcome::Failed,
            DenialKind::Refused(_) => CallOutcome::Refused,
        };
        Self { reason: Some(denial.kind.to_string()), ..Self::new(denial.to_reply(kind), outcome, None) }
    }

    /// The end of a call that was refused at admission.
    pub(crate) fn not_admitted(error: &AdmissionError) -> Self {
        Self::new(Reply::Error(error.to_error()), CallOutcome::Refused, error.reason)
    }

    /// The end of a call whose answer does not fit into the memory budget.
    pub(crate) fn no_room() -> Self {
        Self::new(Reply::Error(dropped()), CallOutcome::RpcError, Reason::NoRoom)
    }

    /// The end of a request that is no call, with this error.
    pub(crate) fn of_error(error: RpcError) -> Self {
        Self::new(Reply::Error(error), CallOutcome::Refused, None)
    }

    /// The end of a request that is no call and that the server refused.
    pub(crate) fn refused_by_upstream(error: Box<RawValue>) -> Self {
        Self::new(Reply::UpstreamError(error), CallOutcome::RpcError, None)
    }

    pub(crate) fn internal(message: &str) -> Self {
        let error = RpcError::new(INTERNAL_ERROR, message);
        Self::new(Reply::Error(error), CallOutcome::RpcError, Reason::InternalError)
    }

    /// The end of a call on which the gateway panicked. The panic message is not sent to the client, because it can
    /// contain content.
    pub(crate) fn panicked() -> Self {
        let error = RpcError::new(INTERNAL_ERROR, "the gateway failed on this call; its log says where");
        Self::new(Reply::Error(error), CallOutcome::RpcError, Reason::Panicked)
    }

    /// The end of a call that the stop switch cancelled (`stopMode: Cancel`).
    pub(crate) fn stopped() -> Self {
        let reason = Reason::Stopped;
        let error = RpcError::refused(reason, "this gateway is stopped, and its calls in flight were ended");
        Self::new(Reply::Error(error), CallOutcome::Refused, reason)
    }

    /// The end of a call that the admin API cancelled.
    pub(crate) fn cancelled() -> Self {
        let error = RpcError::new(REQUEST_CANCELLED, "the call was cancelled by the gateway's admin API");
        Self::new(Reply::Error(error), CallOutcome::Cancelled, None)
    }

    /// The end of a call that took longer than a process that shuts down waits for running calls.
    pub(crate) fn drained() -> Self {
        let reason = Reason::Draining;
        let message = "this gateway has ended, and the call took longer than it waits for calls in flight: what was \
                       asked may be done";
        Self::new(Reply::Error(RpcError::refused(reason, message)), CallOutcome::RpcError, reason)
    }

    /// The end of a call that exceeded the gateway's limit on the duration of calls.
    pub(crate) fn ceiling_reached(ceiling: Duration) -> Self {
        let message = format!("the call took longer than {ceiling:?}, the longest that this gateway lets one take");
        let error = RpcError::new(REQUEST_TIMEOUT, message);
        Self::new(Reply::Error(error), CallOutcome::Timeout, Reason::CallCeiling)
    }

    /// The end of a call that repeats what its client was asked, where the server is of the legacy era: it never asked
    /// that, and would execute the call as a new one.
    fn never_asked(upstream: &str) -> Self {
        const REASON: Reason = Reason::UnknownRequestState;
        let message = format!(
            "the call was not sent: upstream {upstream} speaks a version of MCP without `requestState` and \
             `inputResponses`, so that it asked for no input. Send the call anew, without them"
        );
        let error = RpcError::new(INVALID_PARAMS, message).with_data(json!({"reason": REASON, "upstream": upstream}));
        Self::new(Reply::Error(error), CallOutcome::RpcError, REASON)
    }

    /// The end of a call whose item no upstream lists. `era` is that of the client.
    pub(crate) fn unknown_item(kind: ItemKind, era: Era, name: &str, hint: &str) -> Self {
        let (reason, code) = match (kind, era) {
            (ItemKind::Tool, _) => (Reason::UnknownTool, INVALID_PARAMS),
            (ItemKind::Prompt, _) => (Reason::UnknownPrompt, INVALID_PARAMS),
            (_, Era::Modern) => (Reason::UnknownResource, INVALID_PARAMS),
            (_, Era::Legacy) => (Reason::UnknownResource, RESOURCE_NOT_FOUND),
        };
        let error = RpcError::new(code, format!("Unknown {kind}: {name}{hint}"));
        let error = if kind.has_name() { error } else { error.with_data(json!({"uri": name})) };
        Self::new(Reply::Error(error), CallOutcome::RpcError, reason)
    }

    /// The end of the reading of a resource that templates of both upstreams fit.
    pub(crate) fn ambiguous_uri(uri: &str, [first, second]: [&str; 2]) -> Self {
        let reason = Reason::ItemConflict;
        let message = format!(
            "{uri} fits templates of the upstreams {first} and {second}: read it at the path of one, /{first}/mcp or \
             /{second}/mcp"
        );
        let data = json!({"reason": reason, "uri": uri, "upstreams": [first, second]});
        Self::new(Reply::Error(RpcError::new(INVALID_PARAMS, message).with_data(data)), CallOutcome::Refused, reason)
    }

    /// The end of a call of an upstream that is down and whose items are therefore unknown.
    pub(crate) fn upstream_down(kind: ItemKind, name: &str, why: &str) -> Self {
        const REASON: Reason = Reason::UpstreamDown;
        let data = json!({"reason": REASON, "upstream": name});
        let message = format!("upstream {name} is down, so that its {kind}s are not known: {why}");
        let error = RpcError::new(INTERNAL_ERROR, message).with_data(data).with_retry_after(RETRY_AFTER_MS);
        Self::new(Reply::Error(error), CallOutcome::RpcError, REASON)
    }

    /// The end of a call whose arguments do not match the tool's schema. `places` lists the mismatches, one per line.
    pub(crate) fn invalid_arguments(tool: &str, places: &str) -> Self {
        let text = format!("The arguments do not fit the input schema of {tool}. Nothing was sent.\n{places}");
        Self::new(Reply::Result(error_result(&text)), CallOutcome::ToolError, Reason::InvalidArguments)
    }

    /// The end of a call whose arguments, as plugins changed them, do not match the tool's schema. `places` lists the
    /// mismatches, one per line.
    pub(crate) fn invalid_changed_arguments(tool: &str, places: &str) -> Self {
        let text = format!(
            "The arguments, as the gateway's plugins changed them, do not fit the input schema of {tool}. Nothing was \
             sent.\n{places}"
        );
        Self::new(Reply::Result(error_result(&text)), CallOutcome::ToolError, Reason::InvalidArguments)
    }

    /// The end of a call whose arguments, with the values that an override adds to them, do not match the tool's schema.
    /// `places` lists the mismatches, one per line.
    pub(crate) fn invalid_completed_arguments(tool: &str, places: &str) -> Self {
        let text = format!(
            "The arguments, with those that the gateway sets, do not fit the input schema of {tool}. Nothing was \
             sent.\n{places}"
        );
        Self::new(Reply::Result(error_result(&text)), CallOutcome::ToolError, Reason::InvalidArguments)
    }

    /// The end of a call whose arguments have a key twice in one object; of other requests than tool calls, whose parameters
    /// do. `steps` is the path of that key.
    pub(crate) fn doubled_argument(kind: ItemKind, steps: &[JsonStep]) -> Self {
        let root = if kind == ItemKind::Tool { "arguments" } else { "params" };
        let place: String = Pointer(steps).to_string().chars().take(MAX_PLACE).collect();
        let message = format!(
            "{root}{place}: this key stands twice in its object. Some readers take the first, some the last: send it \
             once"
        );
        let error = RpcError::new(INVALID_PARAMS, message).with_data(json!({"reason": Reason::DuplicateKey}));
        Self::new(Reply::Error(error), CallOutcome::RpcError, Reason::DuplicateKey)
    }

    /// The end of a call that is repeated with answers to questions that this gateway did not pass on for such a call.
    pub(crate) fn foreign_input(what: &str) -> Self {
        let message = format!("{what}: send the call without `requestState` and `inputResponses`");
        let reason = Reason::ForeignInput;
        let error = RpcError::new(INVALID_PARAMS, message).with_data(json!({"reason": reason}));
        Self::new(Reply::Error(error), CallOutcome::RpcError, reason)
    }

    /// Reserves memory for the answer until it is sent. Returns this end, or [`Self::no_room`] if the answer exceeds
    /// the budget: the upstream's answer did fit, but chains can have made it larger.
    pub(crate) fn held_in(self, reservation: &Reservation) -> Self {
        let (Reply::Result(text) | Reply::UpstreamError(text)) = &self.reply else { return self };
        match reservation.resize(text.get().len() as u64) {
            Ok(()) => self,
            Err(NoRoom) => Self::no_room(),
        }
    }

    /// The end of a call whose answer is checked by a Guard but has a key twice in one object. The Guard might see
    /// another value than the client. `place` is the path of the key.
    pub(crate) fn withheld(upstream: &str, place: &str) -> Self {
        let message = format!(
            "upstream {upstream}: its answer is withheld, because a plugin guards it and the key at {place} stands twice in \
             its object: some readers take the first, some the last"
        );
        let data = json!({"reason": Reason::DuplicateKey, "upstream": upstream});
        let error = RpcError::new(INTERNAL_ERROR, message).with_data(data);
        Self::new(Reply::Error(error), CallOutcome::RpcError, Reason::DuplicateKey)
    }

    /// The end of a call whose upstream, of this name, gave no answer. `timeout_field` names the field that sets how long
    /// that may take.
    pub(crate) fn upstream_failed(name: &str, timeout_field: &str, error: &UpstreamError) -> Self {
        let (code, outcome, said) = match error {
            UpstreamError::NeverAsked => return Self::never_asked(name),
            UpstreamError::Timeout(_) => {
                let said = format!("{error}; {timeout_field} sets how long it may take");
                (REQUEST_TIMEOUT, CallOutcome::Timeout, said)
            }
            UpstreamError::NoRoom | UpstreamError::RateLimited { .. } => {
                (REFUSED, CallOutcome::RpcError, error.to_client())
            }
            error if error.is_refusal() => (REFUSED, CallOutcome::Refused, error.to_client()),
            _ => (INTERNAL_ERROR, CallOutcome::RpcError, error.to_client()),
        };
        let data = json!({"reason": error.reason(), "upstream": name});
        let told = RpcError::new(code, format!("upstream {name}: {said}")).with_data(data);
        let told = error.retry_after_ms().into_iter().fold(told, RpcError::with_retry_after);
        Self::new(Reply::Error(told), outcome, error.reason())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_names_chain_plugin_and_error() {
        let denial = Denial::by_entry(DenialKind::Denied("no".into()), "n/c", "n/p", "text".into());
        let Reply::Result(result) = denial.to_reply(ItemKind::Tool) else { panic!("no result") };
        let value: serde_json::Value = serde_json::from_str(result.get()).unwrap();
        let expected = json!({"chain": "n/c", "plugin": "n/p", "error": "no"});
        assert_eq!(value["_meta"]["hawsepipe.dev/denied"], expected);
        assert_eq!((&value["isError"], &value["content"][0]["text"]), (&json!(true), &json!("text")));
        let Reply::Error(error) = denial.to_reply(ItemKind::Prompt) else { panic!("no error") };
        let error = serde_json::to_value(error).unwrap();
        assert_eq!(error["message"], "text");
        assert_eq!(error["data"]["hawsepipe.dev/denied"]["plugin"], "n/p");
    }
}
