//! Messages of clients and of the server, read one level deep. The bridge puts ids and progress tokens of its own in
//! the place of the clients', which may be equal; all else keeps its bytes. Does no IO.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::domain::batch::{BATCHES_REMOVED, is_batch};
use crate::domain::members::number;
use crate::domain::method::ItemParam;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::rpc::{INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, RpcError};

/// The maximum length of an id or of a progress token, in bytes of JSON.
const MAX_ID: usize = 1024;
/// The key of `_meta` that marks requests of the modern era.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The key of `_meta` that names the request that opened a subscription.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A message of a client.
#[derive(Debug)]
pub(super) enum BridgedMessage {
    Request(BridgedRequest),
    Notification {
        method: String,
        object: RawObject,
    },
    /// An answer to a request of the server. `id` is raw JSON.
    Answer {
        id: String,
        object: RawObject,
    },
}

/// A request of a client.
#[derive(Clone, Debug)]
pub(super) struct BridgedRequest {
    /// The id as raw JSON.
    pub(super) id: String,
    pub(super) method: String,
    /// The progress token as raw JSON.
    pub(super) token: Option<String>,
    object: RawObject,
}

impl BridgedRequest {
    /// Whether clients send this request first.
    pub(super) fn begins(&self) -> bool {
        matches!(self.method.as_str(), "initialize" | "server/discover")
    }
}

/// A message of the server.
#[derive(Debug)]
pub(super) enum ProcessMessage {
    /// An answer to the request with this id of the bridge.
    Answer {
        id: u64,
        is_error: bool,
        object: RawObject,
    },
    /// A request of the server. `id` is raw JSON.
    Request {
        id: String,
        method: String,
    },
    Notification {
        method: String,
        object: RawObject,
    },
}

/// Which call of the bridge a notification of the server is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum About {
    /// The progress of the call with this id.
    Progress(u64),
    /// The subscription that the request with this id opened.
    Subscription(u64),
    /// It takes back the server's request with this id, which is raw JSON.
    Cancelled(String),
    Nothing,
}

impl BridgedMessage {
    /// Reads one message.
    ///
    /// # Errors
    /// If it is not a JSON-RPC message, or has a member twice, of which readers could use either.
    pub(super) fn parse(text: &str) -> Result<Self, RpcError> {
        let invalid = |what: &str| RpcError::new(INVALID_REQUEST, what);
        if is_batch(text.as_bytes()) {
            return Err(invalid(BATCHES_REMOVED));
        }
        let object = RawObject::parse(text).map_err(|error| not_an_object(&error))?;
        if has_twice(&object) {
            return Err(invalid("a member of the message stands twice"));
        }
        if object.get_str("jsonrpc").as_deref() != Some("2.0") {
            return Err(invalid("`jsonrpc` must be \"2.0\""));
        }
        let id = object.get("id").map(|id| id.get().to_owned());
        if id.as_deref().is_some_and(|id| !is_id(id)) {
            return Err(invalid(&format!("`id` must be a string or a number of at most {MAX_ID} bytes")));
        }
        let is_answer = object.get("result").is_some() || object.get("error").is_some();
        match (object.get("method").map(|_| object.get_str("method")), id) {
            (Some(None), _) => Err(invalid("`method` must be a string")),
            (Some(Some(_)), _) if is_answer => Err(invalid("a message must not be a request and an answer")),
            (Some(Some(method)), None) => Ok(Self::Notification { method, object }),
            (Some(Some(method)), Some(id)) => {
                let token = meta_of(&object).and_then(|meta| Some(meta.get("progressToken")?.get().to_owned()));
                if token.as_deref().is_some_and(|token| !is_id(token)) {
                    return Err(invalid("`progressToken` must be a string or a number"));
                }
                Ok(Self::Request(BridgedRequest { id, method, token, object }))
            }
            (None, Some(id)) if is_answer => Ok(Self::Answer { id, object }),
            (None, _) => Err(invalid("the message has neither `method` nor `id` with `result` or `error`")),
        }
    }
}

impl BridgedRequest {
    /// A request of the bridge itself.
    pub(super) fn new(method: &str, params: &Value) -> Self {
        let mut object = RawObject::default();
        object.set("jsonrpc", to_raw(&"2.0"));
        object.set("id", to_raw(&0));
        object.set("method", to_raw(&method));
        object.set("params", to_raw(params));
        Self { id: "0".to_owned(), method: method.to_owned(), token: None, object }
    }

    /// Whether it names its version, as requests of the modern era do, which belong to no session.
    pub(super) fn is_modern(&self) -> bool {
        meta_of(&self.object).is_some_and(|meta| meta.get(VERSION).is_some())
    }

    /// The version that it names.
    pub(super) fn version(&self) -> Option<String> {
        meta_of(&self.object)?.get_str(VERSION)
    }

    /// The text that names the item that it is about.
    pub(super) fn text_of(&self, param: ItemParam) -> Option<String> {
        let name = match param {
            ItemParam::Name => "name",
            ItemParam::Uri => "uri",
            ItemParam::TaskId => "taskId",
        };
        RawObject::parse(self.object.get("params")?.get()).ok()?.get_str(name)
    }

    /// Checks that what headers repeat stands once in the body, because the server could use another than was checked.
    ///
    /// # Errors
    /// If a member of the parameters or of their `_meta` stands twice.
    pub(super) fn check_members(&self) -> Result<(), RpcError> {
        let params = self.object.get("params").and_then(|params| RawObject::parse(params.get()).ok());
        match params.iter().chain(&meta_of(&self.object)).any(has_twice) {
            true => Err(RpcError::new(INVALID_PARAMS, "a member of `params` or of `params._meta` stands twice")),
            false => Ok(()),
        }
    }

    /// Renders the request with the bridge's own id, which is also its progress token if it has one.
    pub(super) fn render(&self, own: u64) -> String {
        let mut object = self.object.clone();
        object.set("id", to_raw(&own));
        if self.token.is_some() {
            set_in(&mut object, &["params", "_meta"], "progressToken", to_raw(&own));
        }
        object.to_raw().get().to_owned()
    }
}

impl ProcessMessage {
    /// Reads one message; `None` if the line is not one.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut object = RawObject::parse(line).ok().filter(|object| !has_twice(object))?;
        for key in ["result", "error"] {
            // A null beside the answer is as if it was not there.
            if object.get(key).is_some_and(|value| value.get() == "null") {
                object.remove(key);
            }
        }
        if object.get_str("jsonrpc").as_deref() != Some("2.0") {
            return None;
        }
        let (is_result, is_error) = (object.get("result").is_some(), object.get("error").is_some());
        match (object.get_str("method"), object.get("id")) {
            (Some(method), Some(id)) if is_id(id.get()) => Some(Self::Request { id: id.get().to_owned(), method }),
            (Some(method), None) => Some(Self::Notification { method, object }),
            (None, Some(id)) if is_result != is_error => Some(Self::Answer { id: number(id.get())?, is_error, object }),
            _ => None,
        }
    }
}

/// Returns what a notification of the server is about.
pub(super) fn about(method: &str, object: &RawObject) -> About {
    let params = object.get("params").and_then(|params| RawObject::parse(params.get()).ok());
    let of_params = |name: &str| params.as_ref()?.get(name).map(ToOwned::to_owned);
    let found = match method {
        "notifications/progress" => {
            of_params("progressToken").and_then(|token| number(token.get())).map(About::Progress)
        }
        "notifications/cancelled" => of_params("requestId").map(|id| About::Cancelled(id.get().to_owned())),
        _ => {
            let id = meta_of(object).and_then(|meta| number(meta.get(SUBSCRIPTION)?.get()));
            id.map(About::Subscription)
        }
    };
    found.unwrap_or(About::Nothing)
}

/// Puts the client's own id into an answer.
pub(super) fn with_id(mut object: RawObject, id: &str) -> String {
    object.set("id", raw(id));
    object.to_raw().get().to_owned()
}

/// Puts the client's own token into a notification of progress.
pub(super) fn with_token(mut object: RawObject, token: &str) -> String {
    set_in(&mut object, &["params"], "progressToken", raw(token));
    object.to_raw().get().to_owned()
}

/// Puts the client's own id into a notification for a subscription.
pub(super) fn with_subscription(mut object: RawObject, id: &str) -> String {
    set_in(&mut object, &["params", "_meta"], SUBSCRIPTION, raw(id));
    object.to_raw().get().to_owned()
}

/// The id of the request that a client takes back, as raw JSON.
pub(super) fn cancelled_id(object: &RawObject) -> Option<String> {
    let params = RawObject::parse(object.get("params")?.get()).ok()?;
    Some(params.get("requestId")?.get().to_owned())
}

/// Puts the bridge's id of a request into the notification that takes it back.
pub(super) fn with_cancelled(mut object: RawObject, own: u64) -> String {
    set_in(&mut object, &["params"], "requestId", to_raw(&own));
    object.to_raw().get().to_owned()
}

/// The notification that takes back the bridge's request with this id.
pub(super) fn cancelled(own: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{own}}}}}"#)
}

/// The error for a text that is not a JSON object.
fn not_an_object(error: &serde_json::Error) -> RpcError {
    if error.is_data() {
        return RpcError::new(INVALID_REQUEST, "a message must be a JSON object");
    }
    let at = format!("(line {}, column {})", error.line(), error.column());
    RpcError::new(PARSE_ERROR, format!("the request is not valid JSON {at}"))
}

fn is_id(raw: &str) -> bool {
    raw.len() <= MAX_ID && raw.starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit())
}

fn has_twice(object: &RawObject) -> bool {
    let keys: Vec<&str> = object.iter().map(|(key, _)| key).take(64).collect();
    keys.len() == 64 || keys.iter().enumerate().any(|(at, key)| keys[..at].contains(key))
}

fn meta_of(object: &RawObject) -> Option<RawObject> {
    let params = RawObject::parse(object.get("params")?.get()).ok()?;
    RawObject::parse(params.get("_meta")?.get()).ok()
}

/// Sets a member of a nested object. Does nothing if the path leads to no object.
fn set_in(object: &mut RawObject, path: &[&str], key: &str, value: Box<RawValue>) {
    let Some((first, rest)) = path.split_first() else { return object.set(key, value) };
    if let Some(mut inner) = object.get(first).and_then(|inner| RawObject::parse(inner.get()).ok()) {
        set_in(&mut inner, rest, key, value);
        object.set(first, inner.to_raw());
    }
}

/// `text` is raw JSON that was read before.
fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> BridgedRequest {
        match BridgedMessage::parse(text) {
            Ok(BridgedMessage::Request(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_ids_and_tokens_change() {
        let text = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"n": 1.0,"_meta":{"progressToken":"t","x":12345678901234567890}}}"#;
        let request = request(text);
        assert_eq!(
            (request.id.as_str(), request.token.as_deref(), request.is_modern()),
            ("\"a\"", Some("\"t\""), false)
        );
        assert_eq!(request.render(7), text.replace("\"a\"", "7").replace("\"t\"", "7").replace("\"n\": 1", "\"n\":1"));
        let Some(ProcessMessage::Answer { id: 7, is_error: false, object }) =
            ProcessMessage::parse(r#"{"jsonrpc":"2.0","id":7,"result":{"n": 1.0}}"#)
        else {
            panic!("an answer")
        };
        assert_eq!(with_id(object, "\"a\""), r#"{"jsonrpc":"2.0","id":"a","result":{"n": 1.0}}"#);
    }

    #[test]
    fn notifications_name_their_call() {
        let of = |text: &str| match ProcessMessage::parse(text) {
            Some(ProcessMessage::Notification { method, object }) => (about(&method, &object), object),
            other => panic!("{other:?}"),
        };
        let (found, object) =
            of(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":1.0}}"#);
        assert_eq!(found, About::Progress(3));
        assert!(with_token(object, "\"t\"").ends_with(r#""params":{"progressToken":"t","progress":1.0}}"#));
        let text = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":3}}}"#;
        let (found, object) = of(text);
        assert_eq!((found, with_subscription(object, "9")), (About::Subscription(3), text.replace(":3", ":9")));
        let (found, _) = of(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}"#);
        assert_eq!(found, About::Cancelled("\"s\"".into()));
        assert_eq!(of(r#"{"jsonrpc":"2.0","method":"notifications/message"}"#).0, About::Nothing);
    }

    #[test]
    fn what_is_not_a_message_is_refused_with_its_fault() {
        for (text, fault) in [
            ("7", "JSON object"),
            ("[]", "batch"),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#, "twice"),
            (r#"{"id":1,"method":"x"}"#, "jsonrpc"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, "`id`"),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, "`method`"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#, "a request and an answer"),
            (r#"{"jsonrpc":"2.0","id":1}"#, "neither"),
        ] {
            let error = BridgedMessage::parse(text).unwrap_err();
            assert!(error.message.contains(fault), "{text}: {error}");
        }
        assert_eq!(BridgedMessage::parse("{").unwrap_err().code, PARSE_ERROR);
        for line in ["log", "{}", r#"{"jsonrpc":"2.0","id":"x","result":{}}"#, r#"{"jsonrpc":"2.0","id":1}"#] {
            assert!(ProcessMessage::parse(line).is_none(), "{line}");
        }
    }
}
