//! JSON-RPC 2.0: error codes, functions that format messages without changing the JSON inside them, and a check of the
//! nesting depth.

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::reason::Reason;

/// The text is not valid JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The text is JSON, but not a request of this protocol.
pub const INVALID_REQUEST: i64 = -32600;
/// The method does not exist.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The parameters are not valid for the method.
pub const INVALID_PARAMS: i64 = -32602;
/// The client's user has to open URLs first, which `data` names (MCP 2025-11-25, elicitation).
pub const URL_ELICITATION_REQUIRED: i64 = -32042;
/// The gateway failed because of an internal error.
pub const INTERNAL_ERROR: i64 = -32603;
/// The gateway refuses the request. Usually `data` contains the reason.
pub const REFUSED: i64 = -32000;
/// The client cancelled the request. MCP does not define a code for this; its SDKs use this one.
pub const REQUEST_CANCELLED: i64 = -32800;
/// The request was not answered in time. MCP does not define a code for this; its SDKs use this one.
pub const REQUEST_TIMEOUT: i64 = -32001;
/// MCP before 2026-07-28: there is no such resource.
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// MCP 2026-07-28: a header is missing or does not match the body.
pub const HEADER_MISMATCH: i64 = -32020;
/// MCP 2026-07-28: the request needs a client capability that was not declared.
pub const CAPABILITY_REQUIRED: i64 = -32021;
/// MCP 2026-07-28: the protocol version is not supported.
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// The codes that JSON-RPC 2.0 reserves (section 5.1). A server can choose any other number.
pub const RESERVED: std::ops::RangeInclusive<i64> = -32768..=-32000;

/// After how many milliseconds a client may try again what was refused because too much is under way.
pub const RETRY_AFTER_MS: u64 = 1000;

/// A JSON-RPC error that the gateway itself made.
#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// One of the constants of this module.
    pub code: i64,
    /// The message for people.
    pub message: String,
    /// Details for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
    /// The scopes that the client's token lacks, if that is the only reason; then the HTTP status is 403.
    #[serde(skip)]
    pub scopes: Vec<String>,
}

impl RpcError {
    /// Creates an error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None, scopes: Vec::new() }
    }

    /// Creates a refusal for this reason.
    pub fn refused(reason: Reason, message: impl Into<String>) -> Self {
        Self::new(REFUSED, message).with_data(json!({"reason": reason}))
    }

    /// Creates the refusal, for this reason, of what can be tried again soon.
    pub fn busy(reason: Reason, message: impl Into<String>) -> Self {
        Self::refused(reason, message).with_retry_after(RETRY_AFTER_MS)
    }

    /// Returns the error with `data` as its details for programs.
    pub fn with_data(self, data: serde_json::Value) -> Self {
        Self { data: Some(data), ..self }
    }

    /// Returns the error with the milliseconds after which the request may be tried again.
    pub fn with_retry_after(mut self, ms: u64) -> Self {
        if let Some(data) = self.data.get_or_insert_with(|| json!({})).as_object_mut() {
            data.insert("retryAfterMs".to_owned(), ms.into());
        }
        self
    }
}

/// Returns the code of an error; `None` if it has none.
pub fn code_of(error: &RawValue) -> Option<i64> {
    #[derive(Deserialize)]
    struct Coded {
        code: i64,
    }
    serde_json::from_str::<Coded>(error.get()).ok().map(|error| error.code)
}

/// Formats a request, or a notification if `id` is `None`. `id` is raw JSON.
pub fn request(id: Option<&str>, method: &str, params: Option<&RawValue>) -> String {
    let mut text = String::with_capacity(64 + method.len() + params.map_or(0, |p| p.get().len()));
    text.push_str(r#"{"jsonrpc":"2.0""#);
    if let Some(id) = id {
        text.push_str(",\"id\":");
        text.push_str(id);
    }
    text.push_str(",\"method\":\"");
    text.push_str(method);
    text.push('"');
    if let Some(params) = params {
        text.push_str(",\"params\":");
        text.push_str(params.get());
    }
    text.push('}');
    text
}

/// Formats a successful answer. `id` is raw JSON.
pub fn success(id: &str, result: &RawValue) -> String {
    let mut text = String::with_capacity(40 + id.len() + result.get().len());
    text.push_str(r#"{"jsonrpc":"2.0","id":"#);
    text.push_str(id);
    text.push_str(",\"result\":");
    text.push_str(result.get());
    text.push('}');
    text
}

/// Formats an error answer. `id` is raw JSON: `null` if the id of the request could not be read.
pub fn failure(id: &str, error: &RawValue) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{}}}"#, error.get())
}

/// How many levels are above the definition of an item, at most: the message, its result, the structured content of
/// `search_tools` and the array.
pub const LEVELS_ABOVE_ITEM: usize = 4;

/// How many levels are above the parameters of a question, at most: the message, its result, `inputRequests` and the request
/// (MCP 2026-07-28, multi-round-trip requests).
pub const LEVELS_ABOVE_QUESTION: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_keeps_its_result_as_it_came() {
        let text = r#"{"jsonrpc":"2.0","id":"a","result":{"n": 1.0, "big":12345678901234567890123}}"#;
        let message: std::collections::HashMap<&str, &RawValue> = serde_json::from_str(text).unwrap();
        assert_eq!(success("7", message["result"]), text.replace("\"a\"", "7"));
    }
}
