//! Renders the messages that are sent to a server. Does no I/O.

use std::sync::LazyLock;

use serde_json::value::RawValue;

use crate::domain::capabilities::ClientCapabilities;
use crate::domain::extensions::TASKS;
use crate::domain::item::ItemKind;
use crate::domain::log_level::LogLevel;
use crate::domain::method::Method;
use crate::domain::question::{INPUT_RESPONSES, REQUEST_STATE};
use crate::domain::rpc::{METHOD_NOT_FOUND, RpcError, failure, success};
use crate::domain::upstream::{Answer, InputRound, OutCall, OutCompletion, OutMembers};
use crate::domain::version::{Era, LEGACY_VERSIONS, MODERN_VERSION};

/// How many bytes a message may have in addition to its result: JSON-RPC members, ids, white space.
pub(super) const ENVELOPE: u64 = 1024;

const CLIENT_INFO: &str = concat!(r#"{"name":"hawsepipe","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// The `_meta` members of every modern request (MCP 2026-07-28, per-request protocol fields), up to the value of the
/// client's capabilities.
static MODERN_META: LazyLock<String> = LazyLock::new(|| {
    let version = format!(r#""io.modelcontextprotocol/protocolVersion":"{MODERN_VERSION}""#);
    let client = format!(r#""io.modelcontextprotocol/clientInfo":{CLIENT_INFO}"#);
    format!(r#"{version},{client},"io.modelcontextprotocol/clientCapabilities":"#)
});

/// Returns the parameters of `initialize`. They offer the newest legacy version, and the capabilities of the client that
/// the connection is for.
fn initialize_params(capabilities: &ClientCapabilities) -> String {
    let capabilities = capabilities.without_extension(TASKS).to_json();
    let version = LEGACY_VERSIONS[0];
    format!(r#""protocolVersion":"{version}","capabilities":{capabilities},"clientInfo":{CLIENT_INFO}"#)
}

/// The notification that ends a legacy handshake.
pub(super) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

#[derive(Clone, Copy, Debug)]
pub(super) enum McpRequest<'a> {
    /// `initialize`, with the capabilities of the client that the connection is for.
    Initialize(&'a ClientCapabilities),
    Discover,
    /// `ping`, which exists only in the legacy era.
    Ping,
    /// A page of the list of a kind of items, with its cursor; `None` for the first page.
    List(ItemKind, Option<&'a str>),
    Use(&'a OutCall),
    Complete(&'a OutCompletion),
    /// Subscribes to the resource with this URI.
    Subscribe(&'a str),
    Unsubscribe(&'a str),
    /// Sets the lowest level of log messages.
    SetLogLevel(LogLevel),
    /// Opens a stream of the notifications that this filter names, which is a JSON object.
    Listen(&'a str),
}

impl McpRequest<'_> {
    pub(super) fn method(&self) -> Method {
        match self {
            Self::Initialize(_) => Method::Initialize,
            Self::Discover => Method::Discover,
            Self::Ping => Method::Ping,
            Self::List(kind, _) => kind.listed_by(),
            Self::Use(call) => call.method(),
            Self::Complete(_) => Method::Complete,
            Self::Subscribe(_) => Method::Subscribe,
            Self::Unsubscribe(_) => Method::Unsubscribe,
            Self::SetLogLevel(_) => Method::SetLogLevel,
            Self::Listen(_) => Method::Listen,
        }
    }

    /// Whether the request brings back the state of a result that asked for input, which only modern servers do. Answers
    /// without a state are to nothing that was asked: the call is a new one.
    pub(super) fn answers_a_result(&self) -> bool {
        matches!(self, Self::Use(call) if call.round.state.is_some())
    }

    /// Whether the request may be cancelled. The requests of a handshake may not be.
    pub(super) fn may_be_cancelled(&self) -> bool {
        !matches!(self, Self::Initialize(_) | Self::Discover)
    }

    /// Whether progress restarts the timeout of the request.
    pub(super) fn extends_on_progress(&self) -> bool {
        matches!(self, Self::Use(call) if call.extend_on_progress)
    }

    /// Renders the request under `id`. Adds no newlines, but keeps those in raw values.
    pub(super) fn render(&self, era: Era, id: u64) -> Vec<u8> {
        let mut text = Vec::with_capacity(512 + self.payload());
        text.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        text.extend_from_slice(id.to_string().as_bytes());
        text.extend_from_slice(br#","method":""#);
        text.extend_from_slice(self.method().as_str().as_bytes());
        text.extend_from_slice(br#"","params":{"#);
        match self {
            Self::Initialize(capabilities) => text.extend_from_slice(initialize_params(capabilities).as_bytes()),
            Self::Discover | Self::Ping | Self::List(_, None) => {}
            Self::List(_, Some(cursor)) => {
                text.extend_from_slice(br#""cursor":"#);
                push_string(&mut text, cursor);
            }
            Self::Use(call) => {
                push_call(&mut text, call);
                match era {
                    Era::Modern => push_round(&mut text, &call.round),
                    Era::Legacy => push_task_wish(&mut text, call.task_wish.as_deref()),
                }
            }
            Self::Complete(completion) => push_members(&mut text, &completion.members),
            Self::Subscribe(uri) | Self::Unsubscribe(uri) => {
                text.extend_from_slice(br#""uri":"#);
                push_string(&mut text, uri);
            }
            Self::SetLogLevel(level) => {
                text.extend_from_slice(br#""level":"#);
                text.extend_from_slice(level.as_json().as_bytes());
            }
            Self::Listen(filter) => {
                text.extend_from_slice(br#""notifications":"#);
                text.extend_from_slice(filter.as_bytes());
            }
        }
        self.push_meta(&mut text, era, id);
        text.extend_from_slice(b"}}");
        text
    }

    fn payload(&self) -> usize {
        let (name, members, meta) = match self {
            Self::Use(call) => (call.name.len(), &call.members, &call.meta),
            Self::Complete(completion) => (0, &completion.members, &completion.meta),
            _ => return 0,
        };
        let meta: usize = meta.iter().map(|(k, v)| k.len() + v.get().len() + 8).sum();
        let members: usize = members.iter().map(|(k, v)| k.len() + v.get().len() + 8).sum();
        name + members + meta
    }

    fn push_meta(&self, text: &mut Vec<u8>, era: Era, id: u64) {
        let modern = era == Era::Modern && !matches!(self, Self::Initialize(_));
        let (progress, log_level, meta): (bool, Option<LogLevel>, &[_]) = match self {
            Self::Use(call) => (call.wants_progress, call.log_level, &call.meta),
            Self::Complete(completion) => (false, None, &completion.meta),
            _ => (false, None, &[]),
        };
        let capabilities = match self {
            Self::Use(call) => Some(&call.client.capabilities),
            _ => None,
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
            text.extend_from_slice(
                capabilities.map_or_else(|| "{}".to_owned(), ClientCapabilities::to_json).as_bytes(),
            );
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

/// Whether a member of `_meta` concerns only the connection that it came over, so that it is not passed on.
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
    let (member, name) = match &call.task {
        Some(task) => ("taskId", &task.id),
        None => (call.kind.name_member(), &call.name),
    };
    push_string(text, member);
    text.push(b':');
    push_string(text, name);
    push_members(text, &call.members);
}

fn push_members(text: &mut Vec<u8>, members: &OutMembers) {
    for (name, value) in members {
        separate(text);
        push_string(text, name);
        text.push(b':');
        text.extend_from_slice(value.get().as_bytes());
    }
}

fn push_round(text: &mut Vec<u8>, round: &InputRound) {
    for (key, value) in [(INPUT_RESPONSES, &round.responses), (REQUEST_STATE, &round.state)] {
        if let Some(value) = value {
            text.push(b',');
            push_string(text, key);
            text.push(b':');
            text.extend_from_slice(value.get().as_bytes());
        }
    }
}

fn push_task_wish(text: &mut Vec<u8>, wish: Option<&RawValue>) {
    if let Some(wish) = wish {
        text.extend_from_slice(br#","task":"#);
        text.extend_from_slice(wish.get().as_bytes());
    }
}

/// Returns the notification that cancels the request `id`.
pub(super) fn cancelled(id: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"the caller gave up"}}}}"#
    )
}

/// Returns the answer to a request that the server sent and that no client is asked: `{}` for a ping, an error for
/// anything else. `id` is raw JSON.
pub(super) fn reply(id: &RawValue, method: &str) -> String {
    if method == Method::Ping.as_str() {
        return format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id.get());
    }
    let error = RpcError::new(METHOD_NOT_FOUND, "this client offers no such method");
    failure(id.get(), &crate::domain::raw::to_raw(&error))
}

/// Returns the answer of a client to a question of the server. `id` is raw JSON.
pub(super) fn answer(id: &RawValue, answer: &Answer) -> String {
    match answer {
        Answer::Result(result) => success(id.get(), result),
        Answer::Error(error) => failure(id.get(), error),
    }
}

#[cfg(test)]
mod tests;
