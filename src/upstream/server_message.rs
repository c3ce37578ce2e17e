//! Parses the messages of a server, and reports what is wrong with text that is not a message. Does no I/O.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::domain::invalid_message::InvalidMessage;
use crate::domain::item::{ItemKind, MAX_URI};
use crate::domain::members::MessageMembers;
use crate::domain::own_keys::{error_without_own_keys, without_own_keys};
use crate::domain::raw::RawObject;
use crate::domain::skim::Skim;
use crate::domain::tokens::{MAX_DEPTH, deeper_than};
use crate::domain::upstream::{Answer, UpstreamError};

#[derive(Debug)]
pub(super) enum ServerMessage<'a> {
    /// An answer. `id` is raw JSON; it is `None` if the id of the answer is null or absent.
    Answer {
        id: Option<&'a RawValue>,
        answer: Answer,
    },
    /// A request of the server to the gateway.
    Request {
        id: &'a RawValue,
        method: Cow<'a, str>,
        params: Option<Cow<'a, RawValue>>,
    },
    Notification {
        notice: NotificationKind,
        params: Option<Cow<'a, RawValue>>,
    },
}

/// The kinds of notifications that the gateway tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotificationKind {
    /// Reports the progress of a call.
    Progress,
    /// Contains a log message.
    Message,
    /// Withdraws a request of the server.
    Cancelled,
    /// Reports that the server's list of items of this kind has changed. Templates change with resources.
    ListChanged(ItemKind),
    /// Reports that a resource has changed.
    Updated,
    /// Says which notifications a stream of them reports (MCP 2026-07-28).
    Acknowledged,
    /// Anything else, which the gateway ignores.
    Other,
}

impl NotificationKind {
    fn of(method: &str) -> Self {
        match method {
            "notifications/progress" => Self::Progress,
            "notifications/message" => Self::Message,
            "notifications/cancelled" => Self::Cancelled,
            "notifications/tools/list_changed" => Self::ListChanged(ItemKind::Tool),
            "notifications/prompts/list_changed" => Self::ListChanged(ItemKind::Prompt),
            "notifications/resources/list_changed" => Self::ListChanged(ItemKind::Resource),
            "notifications/resources/updated" => Self::Updated,
            "notifications/subscriptions/acknowledged" => Self::Acknowledged,
            _ => Self::Other,
        }
    }
}

impl From<InvalidMessage> for UpstreamError {
    fn from(fault: InvalidMessage) -> Self {
        Self::Protocol(fault.message.into())
    }
}

/// What is wrong with a message that nests deeper than [`MAX_DEPTH`].
pub(super) const TOO_DEEP: &str = "a message nests deeper than 128 levels";

/// Whether the message that has this member nests deeper than [`MAX_DEPTH`]. What is read of messages recursively is only
/// read of those that do not.
pub(super) fn nests_too_deep(member: &RawValue) -> bool {
    deeper_than(MAX_DEPTH - 1, member.get().as_bytes())
}

/// Parses one message from a server. It has no keys of the gateway's own. A request or a result may still nest too deep: a
/// request is to be answered, and of a list only the items that nest too deep are left out ([`within_depth`]).
pub(super) fn read(text: &[u8]) -> Result<ServerMessage<'_>, InvalidMessage> {
    understood(&MessageMembers::read(text)).map_err(|message| InvalidMessage::of(text, message))
}

fn understood<'a>(members: &MessageMembers<'a>) -> Result<ServerMessage<'a>, &'static str> {
    let MessageMembers { jsonrpc, id, method, params, result, error, .. } = *members;
    if !members.whole {
        return Err("a message is not valid JSON-RPC");
    }
    if members.doubled {
        return Err("a member of a message stands twice");
    }
    if jsonrpc.value.is_none_or(|version| version.get() != r#""2.0""#) {
        return Err("a message is not of JSON-RPC 2.0");
    }
    if let Some(method) = method.value {
        if result.seen || error.seen {
            return Err("a message is a request and an answer");
        }
        let method = Skim::from(method).text().ok_or("the method of a message is not a string")?;
        let params = params.value.map(without_own_keys);
        return Ok(match id.value {
            Some(id) => ServerMessage::Request { id, method, params },
            None if params.as_deref().is_some_and(nests_too_deep) => return Err(TOO_DEEP),
            None => ServerMessage::Notification { notice: NotificationKind::of(&method), params },
        });
    }
    let answer = match (result.value, error.value) {
        (Some(result), None) => Answer::Result(without_own_keys(result).into_owned()),
        (None, Some(error)) if nests_too_deep(error) => return Err(TOO_DEEP),
        (None, Some(error)) => Answer::Error(error_without_own_keys(error).into_owned()),
        (Some(_), Some(_)) => return Err("an answer has a result and an error"),
        (None, None) if result.seen => return Err("the result of an answer is null"),
        (None, None) => return Err("a message is neither request nor answer"),
    };
    Ok(ServerMessage::Answer { id: id.value, answer })
}

/// Returns the answer to a request other than that for a list, unless it nests too deep.
pub(super) fn within_depth(answer: Answer) -> Result<Answer, UpstreamError> {
    match &answer {
        Answer::Result(result) if nests_too_deep(result) => Err(UpstreamError::Protocol(TOO_DEEP.into())),
        _ => Ok(answer),
    }
}

/// Returns an answer that clients can read.
pub(super) fn readable(answer: Answer) -> Result<Answer, UpstreamError> {
    match &answer {
        // Clients cannot read a result that is not an object.
        Answer::Result(result) if !result.get().starts_with('{') => {
            Err(UpstreamError::Protocol("its result is not a JSON object".into()))
        }
        Answer::Error(error) if !is_error(error) => {
            Err(UpstreamError::Protocol("its error has no number as its code, or no message".into()))
        }
        _ => Ok(answer),
    }
}

/// Whether `error` is a valid JSON-RPC error object. Clients ignore an answer with an invalid one and keep waiting.
fn is_error(error: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct RpcErrorMembers<'a> {
        #[expect(dead_code, reason = "that it can be read is all")]
        code: serde_json::Number,
        // A text, also one with half a surrogate pair, as servers in JavaScript write that cut texts.
        #[serde(borrow)]
        message: &'a RawValue,
    }
    serde_json::from_str::<RpcErrorMembers<'_>>(error.get()).is_ok_and(|error| error.message.get().starts_with('"'))
}

/// Splits the parameters of `notifications/progress` into the token and an object of the other members. Returns `None`
/// if the token is not a number, because all tokens of the gateway are numbers.
pub(super) fn progress(params: Option<&RawValue>) -> Option<(u64, Box<RawValue>)> {
    let mut object = RawObject::parse(params?.get()).ok()?;
    let token = object.get("progressToken")?.get().parse().ok()?;
    object.remove("progressToken");
    Some((token, object.to_raw()))
}

/// Returns the id of the request that `notifications/cancelled` withdraws, from its parameters.
pub(super) fn cancelled(params: Option<&RawValue>) -> Option<Box<RawValue>> {
    RawObject::parse(params?.get()).ok()?.get("requestId").map(RawValue::to_owned)
}

/// Returns the URI of the resource that `notifications/resources/updated` is about, from its parameters. `None` if there is
/// none, or if it is too long.
pub(super) fn updated(params: Option<&RawValue>) -> Option<String> {
    RawObject::parse(params?.get()).ok()?.get_str("uri").filter(|uri| uri.len() <= MAX_URI)
}

/// Returns what `notifications/subscriptions/acknowledged` says: the id of the request for the stream if that is a number, as
/// all ids of the gateway are, and the resources whose changes the server reports.
pub(super) fn acknowledged(params: Option<&RawValue>) -> Option<(Option<u64>, Vec<String>)> {
    const ID: &str = "io.modelcontextprotocol/subscriptionId";
    let params = RawObject::parse(params?.get()).ok()?;
    let object = |name: &str| params.get(name).and_then(|value| RawObject::parse(value.get()).ok()).unwrap_or_default();
    let id = object("_meta").get(ID).and_then(|id| id.get().parse().ok());
    let notifications = object("notifications");
    let uris = notifications.get("resourceSubscriptions").and_then(|uris| serde_json::from_str(uris.get()).ok());
    Some((id, uris.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::members::AnsweredRequests;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    #[test]
    fn messages_are_told_apart() {
        let read_all = |text: &'static str| read(text.as_bytes());
        assert!(matches!(
            read_all(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            Ok(ServerMessage::Answer { id: Some(_), .. })
        ));
        assert!(matches!(
            read_all(r#"{"jsonrpc":"2.0","id":null,"error":{}}"#),
            Ok(ServerMessage::Answer { id: None, .. })
        ));
        assert!(matches!(read_all(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), Ok(ServerMessage::Request { .. })));
        assert!(matches!(read_all(r#"{"jsonrpc":"2.0","method":"x"}"#), Ok(ServerMessage::Notification { .. })));
        // PHP's encoder escapes slashes.
        let escaped = read_all(r#"{"jsonrpc":"2.0","method":"notifications\/progress"}"#);
        assert!(matches!(escaped, Ok(ServerMessage::Notification { notice: NotificationKind::Progress, .. })));
        assert!(read("[".repeat(10_000).as_bytes()).is_err());
    }

    #[test]
    fn a_message_that_cannot_be_taken_names_its_fault_and_its_call() {
        const ONE: &[u64] = &[1];
        for (text, message, ids) in [
            ("", "not a JSON object", &[][..]),
            ("nonsense", "not a JSON object", &[]),
            (r#"["2.0",1]"#, "not a JSON object", &[]),
            (r#"recv {"jsonrpc":"2.0","id":1,"me..."#, "not a JSON object", &[]),
            (r#"recv {"jsonrpc":"2.0","id":1}"#, "not a JSON object", &[]),
            (r#"{"jsonrpc":"2.0","id":1,"me..."#, "not valid", &[]),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{", "not valid", ONE),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}} {}"#, "not valid", ONE),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}{"jsonrpc":"2.0","id":2,"result":"#, "not valid", ONE),
            (r#"{"id":1,"result":{}}"#, "not of JSON-RPC 2.0", ONE),
            (r#"{"jsonrpc":2.0,"id":1,"result":{}}"#, "not of JSON-RPC 2.0", ONE),
            (r#"{"jsonrpc":"1.0","id":1,"result":{}}"#, "not of JSON-RPC 2.0", ONE),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, "a result and an error", ONE),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#, "twice", ONE),
            (r#"{"jsonrpc":"2.0","id":1,"id":1,"result":{}}"#, "twice", &[1, 1]),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"result":{}}"#, "twice", &[1, 2]),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "null", ONE),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#, "a request and an answer", ONE),
            (r#"{"jsonrpc":"2.0","id":1}"#, "neither", ONE),
            (r#"done {"jsonrpc":"2.0","id":1,"result":{}}"#, "not a JSON object", &[]),
        ] {
            let fault = read(text.as_bytes()).unwrap_err();
            let named = if let AnsweredRequests::Calls(ids) = fault.whose { ids } else { Vec::new() };
            assert!(fault.message.contains(message) && named == ids, "{text}: {} {named:?}", fault.message);
        }
        assert!(read(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\"}").is_err());
    }

    #[test]
    fn what_may_be_an_answer_is_not_shown() {
        for (text, shown) in [
            ("Server ready", true),
            (r#"recv {"jsonrpc":"2.0","id":1,"me..."#, true),
            (r#"sent {"jsonrpc":"2.0","id":1,"result":{"text":"a secret"}}"#, false),
            (r#"sent {"jsonrpc":"2.0","id":1,"error":{"message":"a secret"}}"#, false),
            (r#"{"msg":"sent","data":{"jsonrpc":"2.0","id":1,"result":{"text":"a secret"}}}"#, false),
            (r#"sent {'jsonrpc': '2.0', 'id': 1, 'result': 'a secret'}"#, false),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"text":"a sec"#, false),
        ] {
            assert_eq!(read(text.as_bytes()).unwrap_err().may_be_shown(text.as_bytes()), shown, "{text}");
        }
    }

    #[test]
    fn a_null_beside_the_answer_is_as_if_it_was_not_there() {
        for (text, ok) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#, true),
            (r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{}}"#, false),
        ] {
            let Ok(ServerMessage::Answer { answer, .. }) = read(text.as_bytes()) else { panic!("{text}") };
            assert_eq!(matches!(answer, Answer::Result(_)), ok, "{text}");
        }
    }

    #[test]
    fn a_message_nests_as_deep_as_that_of_a_client_may() {
        let brackets = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let error = |levels| format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"data":{}}}}}"#, brackets(levels));
        let notice = |levels| format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"a":{}}}}}"#, brackets(levels));
        let result = |levels| Answer::Result(raw(&format!(r#"{{"a":{}}}"#, brackets(levels))));
        for (good, bad) in
            [(error(MAX_DEPTH - 2), error(MAX_DEPTH - 1)), (notice(MAX_DEPTH - 2), notice(MAX_DEPTH - 1))]
        {
            assert!(read(good.as_bytes()).is_ok());
            let fault = read(bad.as_bytes()).unwrap_err();
            assert!(fault.message.contains(&format!("deeper than {MAX_DEPTH} levels")), "{}", fault.message);
        }
        assert_eq!(read(error(200).as_bytes()).unwrap_err().whose, AnsweredRequests::Calls(vec![1]));
        assert!(within_depth(result(MAX_DEPTH - 2)).is_ok());
        assert!(within_depth(result(MAX_DEPTH - 1)).unwrap_err().to_string().contains("128 levels"));
    }

    #[test]
    fn what_a_stream_reports_is_read_from_its_acknowledgement() {
        let params = raw(
            r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"resourceSubscriptions":["a:b"]}}"#,
        );
        assert_eq!(acknowledged(Some(&params)), Some((Some(7), vec!["a:b".to_owned()])));
        assert_eq!(acknowledged(Some(&raw(r#"{"notifications":{}}"#))), Some((None, vec![])));
        assert_eq!(updated(Some(&raw(r#"{"uri":"a:b"}"#))).as_deref(), Some("a:b"));
        assert_eq!(updated(Some(&raw(&format!(r#"{{"uri":"{}"}}"#, "x".repeat(MAX_URI + 1))))), None);
    }

    #[test]
    fn an_error_has_a_number_and_a_text() {
        for (error, is_readable) in [
            (r#"{"code": -1, "message": ""}"#, true),
            (r#"{"message": "half a \ud83d", "code": 1.5, "data": null}"#, true),
            (r#"{"code": -1, "message": null}"#, false),
            (r#"{"code": "1", "message": ""}"#, false),
            (r#"{"code": -1}"#, false),
            ("[]", false),
        ] {
            let answer = Answer::Error(RawValue::from_string(error.to_owned()).unwrap());
            assert_eq!(readable(answer).is_ok(), is_readable, "{error}");
        }
    }

    #[test]
    fn progress_loses_its_token_only() {
        let params = raw(r#"{"progressToken":3,"progress":0.50,"total":1}"#);
        let (token, rest) = progress(Some(&params)).unwrap();
        assert_eq!((token, rest.get()), (3, r#"{"progress":0.50,"total":1}"#));
        assert!(progress(Some(&raw(r#"{"progressToken":"x","progress":1}"#))).is_none());
        assert!(progress(None).is_none());
    }
}
