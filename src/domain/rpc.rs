//! JSON-RPC 2.0 envelopes, read and written without touching what they carry.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The text is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// JSON, but no request of this protocol.
pub const INVALID_REQUEST: i64 = -32600;
/// No such method here.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The method's parameters do not fit.
pub const INVALID_PARAMS: i64 = -32602;
/// The gateway's own fault.
pub const INTERNAL_ERROR: i64 = -32603;
/// Refused for now: a limit, the stop switch.
pub const REFUSED: i64 = -32000;
/// MCP 2026-07-28: a header is missing or does not match the body.
pub const HEADER_MISMATCH: i64 = -32020;
/// MCP 2026-07-28: a client capability that the request needs was not declared.
pub const CAPABILITY_REQUIRED: i64 = -32021;
/// MCP 2026-07-28: a protocol version that is not spoken.
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// A JSON-RPC error of the gateway's own making.
#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// See the constants of this module.
    pub code: i64,
    /// For people.
    pub message: String,
    /// For programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same with data.
    pub fn with_data(self, data: serde_json::Value) -> Self {
        Self { data: Some(data), ..self }
    }
}

/// The text of a request or, without `id`, a notification.
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

/// The text of an answer that succeeded. `id` is raw JSON.
pub fn success(id: &str, result: &RawValue) -> String {
    let mut text = String::with_capacity(40 + id.len() + result.get().len());
    text.push_str(r#"{"jsonrpc":"2.0","id":"#);
    text.push_str(id);
    text.push_str(",\"result\":");
    text.push_str(result.get());
    text.push('}');
    text
}

/// The text of an answer that did not. `id` is raw JSON, `null` where the request had none that could be read.
pub fn failure(id: &str, error: &RawValue) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{}}}"#, error.get())
}

/// The greatest depth of JSON that has to be parsed.
pub const MAX_DEPTH: usize = 128;

/// Whether brackets nest deeper than [`MAX_DEPTH`]. Scans bytes once, strings skipped; does not judge the syntax.
pub fn too_deep(json: &[u8]) -> bool {
    deeper_than(MAX_DEPTH, json)
}

/// Whether brackets nest deeper than `most`.
pub fn deeper_than(most: usize, json: &[u8]) -> bool {
    let (mut depth, mut rest) = (0usize, json);
    while let Some((byte, after)) = rest.split_first() {
        rest = match byte {
            // Most bytes of large messages are those of strings, and a search takes many of them at once.
            b'"' => after_string(after),
            _ => after,
        };
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > most {
            return true;
        }
    }
    false
}

/// What follows the string that `rest` is within.
pub(super) fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        let escapes = rest[at] == b'\\';
        rest = rest.get(at + 1 + usize::from(escapes)..).unwrap_or_default();
        if !escapes {
            return rest;
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_keeps_its_result_as_it_came() {
        let text = r#"{"jsonrpc":"2.0","id":"a","result":{"n": 1.0, "big":12345678901234567890123}}"#;
        let message: std::collections::HashMap<&str, &RawValue> = serde_json::from_str(text).unwrap();
        assert_eq!(success("7", message["result"]), text.replace("\"a\"", "7"));
    }

    #[test]
    fn depth_is_counted_outside_strings() {
        assert!(!too_deep(br#"{"a":"[[[[\"[[["}"#));
        assert!(!too_deep("[".repeat(128).as_bytes()));
        assert!(too_deep("[".repeat(129).as_bytes()));
        assert!(too_deep(format!(r#"{{"a\\":{}"#, "[".repeat(128)).as_bytes()));
        assert!(!too_deep(br#"{"a\"#));
    }
}
