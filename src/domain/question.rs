//! What a server asks of a client during a request of that client (MCP: sampling, elicitation and roots).

use serde_json::value::RawValue;

use super::method::Method;
use super::raw::{RawObject, to_raw};
use super::rpc::{METHOD_NOT_FOUND, RpcError};
use super::upstream::Answer;

/// The member of a result that says what kind of result it is (MCP 2026-07-28). Clients of the legacy era do not know it.
pub const RESULT_TYPE: &str = "resultType";
/// The value of [`RESULT_TYPE`] in a result that is whole.
pub const COMPLETE: &str = "complete";
/// The value of [`RESULT_TYPE`] in a result that asks for input.
pub const INPUT_REQUIRED: &str = "input_required";
/// The member of such a result that has the questions, by key.
pub const INPUT_REQUESTS: &str = "inputRequests";
/// The member of such a result, and of the call that is repeated with the answers, that the client gives back as it is.
pub const REQUEST_STATE: &str = "requestState";
/// The member of the repeated call that has the answers, by the keys of the questions.
pub const INPUT_RESPONSES: &str = "inputResponses";

/// A request of a server to the client of a running call.
#[derive(Clone, Debug)]
pub struct Question {
    /// What is asked: a method that [is a question](Method::is_question).
    pub method: Method,
    /// The parameters, as the server sent them.
    pub params: Option<Box<RawValue>>,
}

impl Question {
    /// Returns the request that a result which asks for input has of this question (MCP 2026-07-28, multi-round-trip
    /// requests).
    pub fn into_request(self) -> Box<RawValue> {
        let mut request = RawObject::default();
        request.set("method", to_raw(&self.method));
        if let Some(params) = self.params {
            request.set("params", params);
        }
        request.to_raw()
    }

    /// Returns the answer to the server that nobody answers this question, for the reason `why`.
    pub fn refused(&self, why: &str) -> Answer {
        Answer::Error(to_raw(&RpcError::new(METHOD_NOT_FOUND, format!("{}: {why}", self.method))))
    }
}
