//! The text of what is sent to a server, and what a server's text says. No IO.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::value::RawValue;

use crate::domain::log_level::LogLevel;
use crate::domain::raw::RawObject;
use crate::domain::rpc::{METHOD_NOT_FOUND, Message, RpcError, failure};
use crate::domain::upstream::{Answer, Era, OutCall};
use crate::domain::version::{LEGACY_VERSIONS, MODERN_VERSION};

/// What a message may be larger than the result in it: envelope, ids, white space.
pub(super) const ENVELOPE: u64 = 1024;

const CLIENT_INFO: &str = concat!(r#"{"name":"hawsepipe","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// What every modern request says of its client (MCP 2026-07-28, per-request protocol fields). No capability is
/// declared: servers then must not ask anything back.
static MODERN_META: LazyLock<String> = LazyLock::new(|| {
    let version = format!(r#""io.modelcontextprotocol/protocolVersion":"{MODERN_VERSION}""#);
    let client = format!(r#""io.modelcontextprotocol/clientInfo":{CLIENT_INFO}"#);
    format!(r#"{version},{client},"io.modelcontextprotocol/clientCapabilities":{{}}"#)
});

/// The newest version is offered.
static INITIALIZE_PARAMS: LazyLock<String> = LazyLock::new(|| {
    format!(r#""protocolVersion":"{}","capabilities":{{}},"clientInfo":{CLIENT_INFO}"#, LEGACY_VERSIONS[0])
});

/// The notification that ends a legacy handshake.
pub(super) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// What is asked of a server.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request<'a> {
    /// `initialize`.
    Initialize,
    /// `server/discover`.
    Discover,
    /// `ping`, legacy only.
    Ping,
    /// `tools/list`, from a cursor on.
    ListTools(Option<&'a str>),
    /// `tools/call`.
    CallTool(&'a OutCall),
}

impl Request<'_> {
    /// The method's name.
    pub(super) fn method(&self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Discover => "server/discover",
            Self::Ping => "ping",
            Self::ListTools(_) => "tools/list",
            Self::CallTool(_) => "tools/call",
        }
    }

    /// Whether it may be cancelled; the handshake may not.
    pub(super) fn may_be_cancelled(&self) -> bool {
        !matches!(self, Self::Initialize | Self::Discover)
    }

    /// Whether progress gives it as long again as it had.
    pub(super) fn extends_on_progress(&self) -> bool {
        matches!(self, Self::CallTool(call) if call.extend_on_progress)
    }

    /// Its text under `id`, without a newline of its own; one that stood in a raw value stays.
    pub(super) fn render(&self, era: Era, id: u64) -> Vec<u8> {
        let mut text = Vec::with_capacity(512 + self.payload());
        text.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        text.extend_from_slice(id.to_string().as_bytes());
        text.extend_from_slice(br#","method":""#);
        text.extend_from_slice(self.method().as_bytes());
        text.extend_from_slice(br#"","params":{"#);
        match self {
            Self::Initialize => text.extend_from_slice(INITIALIZE_PARAMS.as_bytes()),
            Self::Discover | Self::Ping | Self::ListTools(None) => {}
            Self::ListTools(Some(cursor)) => {
                text.extend_from_slice(br#""cursor":"#);
                push_string(&mut text, cursor);
            }
            Self::CallTool(call) => push_call(&mut text, call),
        }
        self.push_meta(&mut text, era, id);
        text.extend_from_slice(b"}}");
        text
    }

    fn payload(&self) -> usize {
        let Self::CallTool(call) = self else { return 0 };
        let meta: usize = call.meta.iter().map(|(k, v)| k.len() + v.get().len() + 8).sum();
        call.tool.len() + call.arguments.as_ref().map_or(0, |a| a.get().len()) + meta
    }

    fn push_meta(&self, text: &mut Vec<u8>, era: Era, id: u64) {
        let modern = era == Era::Modern && !matches!(self, Self::Initialize);
        let (progress, log_level, meta): (bool, Option<LogLevel>, &[_]) = match self {
            Self::CallTool(call) => (call.wants_progress, call.log_level, &call.meta),
            _ => (false, None, &[]),
        };
        if !modern && !progress && meta.is_empty() {
            return;
        }
        if text.last() != Some(&b'{') {
            text.push(b',');
        }
        text.extend_from_slice(br#""_meta":{"#);
        if modern {
            text.extend_from_slice(MODERN_META.as_bytes());
            if let Some(level) = log_level {
                text.extend_from_slice(br#","io.modelcontextprotocol/logLevel":"#);
                text.extend_from_slice(level.as_json().as_bytes());
            }
        }
        if progress {
            separate(text);
            text.extend_from_slice(br#""progressToken":"#);
            text.extend_from_slice(id.to_string().as_bytes());
        }
        for (key, value) in meta.iter().filter(|(key, _)| !is_ours(key)) {
            separate(text);
            push_string(text, key);
            text.push(b':');
            text.extend_from_slice(value.get().as_bytes());
        }
        text.push(b'}');
    }
}

/// Members of `_meta` that belong to one hop.
fn is_ours(key: &str) -> bool {
    key == "progressToken" || key.starts_with("io.modelcontextprotocol/")
}

fn separate(text: &mut Vec<u8>) {
    if text.last() != Some(&b'{') {
        text.push(b',');
    }
}

fn push_string(text: &mut Vec<u8>, value: &str) {
    let start = text.len();
    if serde_json::to_writer(&mut *text, value).is_err() {
        text.truncate(start);
        text.extend_from_slice(b"\"\"");
    }
}

fn push_call(text: &mut Vec<u8>, call: &OutCall) {
    text.extend_from_slice(br#""name":"#);
    push_string(text, &call.tool);
    if let Some(arguments) = &call.arguments {
        text.extend_from_slice(br#","arguments":"#);
        text.extend_from_slice(arguments.get().as_bytes());
    }
}

/// The notification that takes the request `id` back.
pub(super) fn cancelled(id: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"the caller gave up"}}}}"#
    )
}

/// What a server that asks something gets: `{}` for a ping, a refusal for all else. `id` is raw JSON.
pub(super) fn reply(id: &RawValue, method: &str) -> String {
    if method == "ping" {
        return format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id.get());
    }
    let error = RpcError::new(METHOD_NOT_FOUND, "this client offers no such method");
    failure(id.get(), &crate::domain::raw::to_raw(&error))
}

/// One message of a server.
#[derive(Debug)]
pub(super) enum Incoming<'a> {
    /// An answer; `id` is raw JSON, none where it is null or absent.
    Answer { id: Option<&'a RawValue>, answer: Answer },
    /// A request to us.
    Request { id: &'a RawValue, method: Cow<'a, str> },
    /// A notification.
    Notification { notice: Notice, params: Option<&'a RawValue> },
}

/// What a notification is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// How far a call is.
    Progress,
    /// What the server logs.
    Message,
    /// The tool list is another.
    ToolsChanged,
    /// Nothing that concerns us.
    Other,
}

impl Notice {
    fn of(method: &str) -> Self {
        match method {
            "notifications/progress" => Self::Progress,
            "notifications/message" => Self::Message,
            "notifications/tools/list_changed" => Self::ToolsChanged,
            _ => Self::Other,
        }
    }
}

/// Reads one message. Fails with what is wrong, in words that hold nothing of the text.
pub(super) fn read(text: &[u8]) -> Result<Incoming<'_>, &'static str> {
    if text.trim_ascii_start().first() != Some(&b'{') {
        return Err("a message is no JSON object");
    }
    let message: Message<'_> = serde_json::from_slice(text).map_err(|_| "a message is no valid JSON-RPC")?;
    if message.jsonrpc != Some("2.0") {
        return Err("a message is not of JSON-RPC 2.0");
    }
    match message {
        Message { method: Some(method), id: Some(id), .. } => Ok(Incoming::Request { id, method }),
        Message { method: Some(method), params, .. } => {
            Ok(Incoming::Notification { notice: Notice::of(&method), params })
        }
        Message { id, result: Some(result), error: None, .. } => {
            Ok(Incoming::Answer { id, answer: Answer::Result(result.to_owned()) })
        }
        Message { id, result: None, error: Some(error), .. } => {
            Ok(Incoming::Answer { id, answer: Answer::Error(error.to_owned()) })
        }
        _ => Err("a message is neither request nor answer"),
    }
}

/// The token and the rest of a `notifications/progress`, where the token is one of ours.
pub(super) fn progress(params: Option<&RawValue>) -> Option<(u64, Box<RawValue>)> {
    let mut object = RawObject::parse(params?.get()).ok()?;
    let token = object.get("progressToken")?.get().parse().ok()?;
    object.remove("progressToken");
    Some((token, object.to_raw()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).unwrap()
    }

    fn call() -> OutCall {
        OutCall {
            tool: "echo".into(),
            arguments: Some(raw(r#"{"n": 1.0}"#)),
            meta: vec![("traceparent".into(), raw("\"00-1\"")), ("progressToken".into(), raw("9"))],
            wants_progress: true,
            log_level: Some(LogLevel::Warning),
            timeout: Duration::from_secs(1),
            extend_on_progress: true,
        }
    }

    fn text(request: Request<'_>, era: Era) -> String {
        String::from_utf8(request.render(era, 7)).unwrap()
    }

    #[test]
    fn a_call_carries_its_arguments_as_they_came_and_our_own_token() {
        let call = call();
        assert_eq!(
            text(Request::CallTool(&call), Era::Legacy),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"n": 1.0},"_meta":{"progressToken":7,"traceparent":"00-1"}}}"#
        );
    }

    #[test]
    fn a_modern_request_says_who_asks() {
        let value: serde_json::Value = serde_json::from_str(&text(Request::ListTools(None), Era::Modern)).unwrap();
        let meta = &value["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], MODERN_VERSION);
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "hawsepipe");
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], serde_json::json!({}));
    }

    #[test]
    fn a_modern_call_says_which_log_messages_are_wanted() {
        let value: serde_json::Value = serde_json::from_str(&text(Request::CallTool(&call()), Era::Modern)).unwrap();
        assert_eq!(value["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "warning");
    }

    #[test]
    fn legacy_requests_without_meta_have_none() {
        assert_eq!(text(Request::Ping, Era::Legacy), r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{}}"#);
        assert_eq!(
            text(Request::ListTools(Some("a\"b")), Era::Legacy),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"a\"b"}}"#
        );
        let value: serde_json::Value = serde_json::from_str(&text(Request::Initialize, Era::Legacy)).unwrap();
        assert_eq!(value["params"]["protocolVersion"], LEGACY_VERSIONS[0]);
    }

    #[test]
    fn messages_are_told_apart() {
        let read_all = |text: &'static str| read(text.as_bytes());
        assert!(matches!(
            read_all(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            Ok(Incoming::Answer { id: Some(_), .. })
        ));
        assert!(matches!(read_all(r#"{"jsonrpc":"2.0","id":null,"error":{}}"#), Ok(Incoming::Answer { id: None, .. })));
        assert!(matches!(read_all(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), Ok(Incoming::Request { .. })));
        assert!(matches!(read_all(r#"{"jsonrpc":"2.0","method":"x"}"#), Ok(Incoming::Notification { .. })));
        // PHP's encoder escapes slashes.
        let escaped = read_all(r#"{"jsonrpc":"2.0","method":"notifications\/progress"}"#);
        assert!(matches!(escaped, Ok(Incoming::Notification { notice: Notice::Progress, .. })));
        for bad in [
            "",
            "[]",
            r#"["2.0",1]"#,
            "nonsense",
            r#"{"id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}} {}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
        ] {
            assert!(read_all(bad).is_err(), "{bad}");
        }
        assert!(read(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\"}").is_err());
        assert!(read("[".repeat(10_000).as_bytes()).is_err());
    }

    #[test]
    fn deeply_nested_results_pass_as_text() {
        let deep =
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":{}{}}}}}"#, "[".repeat(10_000), "]".repeat(10_000));
        assert!(matches!(read(deep.as_bytes()), Ok(Incoming::Answer { .. })));
    }

    #[test]
    fn progress_loses_its_token_only() {
        let params = raw(r#"{"progressToken":3,"progress":0.50,"total":1}"#);
        let (token, rest) = progress(Some(&params)).unwrap();
        assert_eq!((token, rest.get()), (3, r#"{"progress":0.50,"total":1}"#));
        assert!(progress(Some(&raw(r#"{"progressToken":"x","progress":1}"#))).is_none());
        assert!(progress(None).is_none());
    }

    #[test]
    fn pings_are_answered_and_all_else_refused() {
        assert_eq!(reply(&raw("\"a\""), "ping"), r#"{"jsonrpc":"2.0","id":"a","result":{}}"#);
        assert!(reply(&raw("1"), "sampling/createMessage").contains("-32601"));
    }
}
