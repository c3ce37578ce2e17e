//! What a call has come to that asked its client for input, as its client gets it.

use serde_json::value::RawValue;

use crate::domain::question::Question;
use crate::domain::raw::RawObject;
use crate::domain::rpc::{REFUSED, RpcError};
use crate::engine::Reply;

/// Returns the questions by their keys (MCP 2026-07-28, `inputRequests`).
pub(super) fn requests_of(questions: Vec<(String, Question)>) -> Box<RawValue> {
    let mut requests = RawObject::default();
    for (key, question) in questions {
        requests.set(&key, question.into_request());
    }
    requests.to_raw()
}

/// Returns the reply in a JSON-RPC message.
pub(super) fn ended(message: &str) -> Reply {
    let message = RawObject::parse(message).unwrap_or_default();
    match (message.get("result"), message.get("error")) {
        (Some(result), _) => Reply::Result(result.to_owned()),
        (None, Some(error)) => Reply::UpstreamError(error.to_owned()),
        (None, None) => without_answer(),
    }
}

/// The reply of a call that has ended without an answer.
pub(super) fn without_answer() -> Reply {
    Reply::Error(RpcError::new(REFUSED, "the call has ended without an answer"))
}
