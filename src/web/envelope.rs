//! The JSON-RPC envelope of clients' messages, parsed one level deep. The values in the envelope stay raw JSON.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::domain::batch::{BATCHES_REMOVED, is_batch};
use crate::domain::json::{Pointer, doubled_key};
use crate::domain::log_level::LogLevel;
use crate::domain::method::ItemParam;
use crate::domain::own_keys::{answers_without_own_keys, error_without_own_keys, without_own_keys};
use crate::domain::rpc::{INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, RpcError};
use crate::domain::skim::Skim;
use crate::domain::tokens::too_deep;
use crate::domain::upstream::{Answer, InputRound};

/// The maximum length of a request id, in bytes of JSON without the quotes of a string.
const MAX_ID: usize = 1024;
/// The maximum number of members of `_meta`. They are held one by one, which takes more memory than their text.
const MAX_META: usize = 256;

/// One message with raw values. In a client's message, unlike an upstream's, `id: null` differs from a missing `id`.
#[derive(Debug, Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    fn read(message: Skim<'a>) -> Option<Self> {
        let mut read = Self::default();
        let Self { jsonrpc, id, method, params, result, error } = &mut read;
        let places = [
            ("jsonrpc", jsonrpc),
            ("id", id),
            ("method", method),
            ("params", params),
            ("result", result),
            ("error", error),
        ];
        read_members(message, true, places).map(|()| read)
    }

    /// Reads a message without `method` as an answer. The error says what is wrong with it.
    fn answer(&self) -> Result<Answer, &'static str> {
        match (self.result, self.error) {
            (Some(result), None) => Ok(Answer::Result(without_own_keys(result).into_owned())),
            (None, Some(error)) => Ok(Answer::Error(error_without_own_keys(error).into_owned())),
            (Some(_), Some(_)) => Err("the answer has a `result` and an `error`"),
            (None, None) => Err("the message has no `method`"),
        }
    }
}

/// Reads the members of an object that have a place. Returns `None` if the value is not an object, has one of them twice, or
/// has a name that cannot be decoded. A `null` counts as a value only if it `is_value`.
fn read_members<'a, const N: usize>(
    object: Skim<'a>,
    is_value: bool,
    places: [(&str, &mut Option<&'a RawValue>); N],
) -> Option<()> {
    let mut seen = [false; N];
    for (name, value) in object.members()? {
        let name = name?;
        let Some(index) = places.iter().position(|(known, _)| *known == name) else { continue };
        if std::mem::replace(&mut seen[index], true) {
            return None;
        }
        if is_value || value.get() != "null" {
            *places[index].1 = value.raw();
        }
    }
    Some(())
}

/// A message of a client.
#[derive(Debug)]
pub enum ClientMessage<'a> {
    /// A request.
    Request {
        /// A string or a number as raw JSON. The answer repeats it unchanged.
        id: &'a str,
        /// The method.
        method: Cow<'a, str>,
        /// The parameters; none if the message has none. In a box, because messages are moved into one future after another.
        params: Box<Params<'a>>,
    },
    /// A notification, which gets no answer.
    Notification {
        /// The method.
        method: Cow<'a, str>,
        /// The parameters; none if the message has none.
        params: Box<Params<'a>>,
    },
    /// An answer to a question of a server.
    Answer {
        /// The id of the question as raw JSON; `null` if the answer has none.
        id: &'a str,
        /// What the client answers.
        answer: Answer,
    },
}

/// The members of `params` that the gateway reads, as raw JSON.
#[derive(Debug, Default)]
pub struct Params<'a> {
    pub(super) name: Option<&'a RawValue>,
    pub(super) uri: Option<&'a RawValue>,
    pub(super) arguments: Option<&'a RawValue>,
    pub(super) task_id: Option<&'a RawValue>,
    pub(super) task: Option<&'a RawValue>,
    pub(super) level: Option<&'a RawValue>,
    pub(super) cursor: Option<&'a RawValue>,
    pub(super) meta: Option<&'a RawValue>,
    pub(super) request_id: Option<&'a RawValue>,
    pub(super) protocol_version: Option<&'a RawValue>,
    pub(super) client_info: Option<&'a RawValue>,
    pub(super) capabilities: Option<&'a RawValue>,
    pub(super) input_responses: Option<&'a RawValue>,
    pub(super) request_state: Option<&'a RawValue>,
    /// All of `params`; `None` if the message has none.
    pub raw: Option<&'a RawValue>,
}

/// The members of `_meta` that the gateway reads, as raw JSON.
#[derive(Debug, Default, Deserialize)]
pub struct EnvelopeMeta<'a> {
    #[serde(borrow, default, rename = "progressToken")]
    pub(super) progress_token: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/logLevel")]
    log_level: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    pub(super) protocol_version: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/clientCapabilities")]
    pub(super) client_capabilities: Option<&'a RawValue>,
}

/// What is wrong with a message that cannot be handled, and the id for the error response.
#[derive(Debug)]
pub struct Unreadable<'a> {
    /// The id of the message as raw JSON; `null` if no id could be read.
    pub id: &'a str,
    /// The error for the client.
    pub error: RpcError,
}

impl<'a> ClientMessage<'a> {
    /// Parses one message.
    ///
    /// # Errors
    /// `-32700` if the body is not JSON; `-32600` if it nests too deep or is not a JSON-RPC message; `-32602` if `params` or
    /// `_meta` is not an object or has a duplicate key.
    pub fn parse(body: &'a [u8]) -> Result<Self, Unreadable<'a>> {
        let unreadable = |id, code, message: &str| Unreadable { id, error: RpcError::new(code, message) };
        let invalid = |id, message: &str| unreadable(id, INVALID_REQUEST, message);
        if too_deep(body) {
            return Err(invalid("null", "the request nests deeper than 128 levels"));
        }
        if is_batch(body) {
            return Err(invalid("null", BATCHES_REMOVED));
        }
        let message = Skim::of(body).ok_or_else(|| unreadable("null", PARSE_ERROR, &not_json(body)))?;
        let envelope = Envelope::read(message).ok_or_else(|| {
            let twice = stands_twice("", message.get());
            invalid(
                "null",
                &twice.unwrap_or_else(|| "the request is not a JSON-RPC message: it must be an object".to_owned()),
            )
        })?;
        let id = envelope.id.map(RawValue::get);
        if let Some(id) = id.filter(|id| !is_id(id)) {
            let message = format!("`id` must be a string or a number of at most {MAX_ID} bytes, not {:.20}", id);
            return Err(invalid("null", &message));
        }
        let echo = id.unwrap_or("null");
        if envelope.jsonrpc.map(RawValue::get) != Some(r#""2.0""#) {
            return Err(invalid(echo, "`jsonrpc` must be \"2.0\""));
        }
        let Some(method) = envelope.method else {
            let answer = envelope.answer().map_err(|message| invalid(echo, message))?;
            return Ok(Self::Answer { id: echo, answer });
        };
        let method = text(method).ok_or_else(|| invalid(echo, "`method` must be a string"))?;
        let params = envelope.params.map_or_else(|| Ok(Params::default()), Params::read);
        let params = Box::new(params.map_err(|message| unreadable(echo, INVALID_PARAMS, &message))?);
        Ok(match id {
            Some(id) => Self::Request { id, method, params },
            None => Self::Notification { method, params },
        })
    }
}

impl<'a> Params<'a> {
    /// Parses `params`. The error says what is wrong with it. `arguments` are not checked here, because it is not yet
    /// known whether anything will read them.
    fn read(params: &'a RawValue) -> Result<Self, String> {
        let text = object(params).ok_or("`params` must be an object")?;
        let mut read = Self { raw: Some(params), ..Self::default() };
        let unreadable = || "`params` has a name that is not Unicode".to_owned();
        read.read_members(params).ok_or_else(|| stands_twice("params", text).unwrap_or_else(unreadable))?;
        if let Some(meta) = read.meta {
            let many = Skim::from(meta).members().is_some_and(|members| members.count() > MAX_META);
            let meta = object(meta).ok_or("`params/_meta` must be an object")?;
            if many {
                return Err(format!("`params/_meta` has more than {MAX_META} members"));
            }
            stands_twice("params/_meta", meta).map_or(Ok(()), Err)?;
        }
        Ok(read)
    }

    fn read_members(&mut self, params: &'a RawValue) -> Option<()> {
        let places = [
            ("name", &mut self.name),
            ("uri", &mut self.uri),
            ("arguments", &mut self.arguments),
            ("taskId", &mut self.task_id),
            ("task", &mut self.task),
            ("level", &mut self.level),
            ("cursor", &mut self.cursor),
            ("_meta", &mut self.meta),
            ("requestId", &mut self.request_id),
            ("protocolVersion", &mut self.protocol_version),
            ("clientInfo", &mut self.client_info),
            ("capabilities", &mut self.capabilities),
            ("inputResponses", &mut self.input_responses),
            ("requestState", &mut self.request_state),
        ];
        read_members(params.into(), false, places)
    }

    /// Returns the text that names the item that the request is about.
    pub(super) fn text_of(&self, param: ItemParam) -> Option<Cow<'a, str>> {
        match param {
            ItemParam::Name => self.name,
            ItemParam::Uri => self.uri,
            ItemParam::TaskId => self.task_id,
        }
        .and_then(text)
    }

    /// Returns what the client answers to an earlier result that asked for input. The error says what is wrong with it.
    pub fn round(&self) -> Result<InputRound, &'static str> {
        if self.input_responses.is_some_and(|responses| object(responses).is_none()) {
            return Err("`inputResponses` must be an object");
        }
        if self.request_state.is_some_and(|state| text(state).is_none()) {
            return Err("`requestState` must be a string");
        }
        let responses = self.input_responses.map(|answers| answers_without_own_keys(answers).into_owned());
        Ok(InputRound { responses, state: self.request_state.map(RawValue::to_owned) })
    }

    /// Returns the members of `_meta` that the gateway reads; `None` if there is no `_meta`.
    pub fn read_meta(&self) -> Option<EnvelopeMeta<'a>> {
        serde_json::from_str(object(self.meta?)?).ok()
    }
}

impl<'a> EnvelopeMeta<'a> {
    /// Checks the types of what a modern request asks to be told meanwhile (MCP 2026-07-28, `ProgressToken` and
    /// `LoggingLevel`). The error says what is wrong.
    pub(super) fn check_wanted(&self) -> Result<(), String> {
        if self.progress_token.is_some() && self.progress_token().is_none() {
            return Err(format!("`params/_meta/progressToken` must be a string or a number of at most {MAX_ID} bytes"));
        }
        if self.log_level.is_some() && self.log_level().is_none() {
            let levels = "debug, info, notice, warning, error, critical, alert or emergency";
            return Err(format!("`params/_meta/io.modelcontextprotocol~1logLevel` must be {levels}"));
        }
        Ok(())
    }

    /// Returns the token for progress notifications, if the request has a valid one.
    pub fn progress_token(&self) -> Option<&'a str> {
        self.progress_token.map(RawValue::get).filter(|token| is_id(token))
    }

    /// Returns the lowest level of log messages that the client wants during this request; `None` if it wants none.
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        LogLevel::parse(self.log_level?.get())
    }
}

/// Says where a body is not JSON.
fn not_json(body: &[u8]) -> String {
    let error = serde_json::from_slice::<&RawValue>(body).err();
    let place = error.map(|error| format!(" (line {}, column {})", error.line(), error.column()));
    format!("the request is not valid JSON{}", place.unwrap_or_default())
}

/// Returns a message about the first key that occurs twice in one object, at any depth of `json`; `None` if there is no
/// such key. `path` is the path of `json` in the message.
fn stands_twice(path: &str, json: &str) -> Option<String> {
    let place = Pointer(&doubled_key(json)?).to_string();
    Some(format!("{path}{place:.256}: this key stands twice in its object: send it once"))
}

/// Returns the text of a raw JSON object; `None` for other values. The type is checked here, because serde would also
/// read a struct from an array.
pub(super) fn object(raw: &RawValue) -> Option<&str> {
    Some(raw.get()).filter(|json| json.starts_with('{'))
}

/// Whether raw JSON is a string or a number of at most [`MAX_ID`] bytes.
pub(super) fn is_id(raw: &str) -> bool {
    let inner = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')).unwrap_or(raw);
    inner.len() <= MAX_ID && matches!(raw.as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9'))
}

/// Returns the text of a raw JSON string; `None` for other values.
pub(super) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    Skim::from(raw).text()
}
