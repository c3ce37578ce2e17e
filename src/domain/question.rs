//! What a server asks of a client during a request of that client (MCP: sampling, elicitation and roots).

use serde_json::value::RawValue;

use super::method::Method;
use super::raw::to_raw;
use super::rpc::{METHOD_NOT_FOUND, RpcError};
use super::upstream::Answer;

/// A request of a server to the client of a running call.
#[derive(Clone, Debug)]
pub struct Question {
    /// What is asked: a method that [is a question](Method::is_question).
    pub method: Method,
    /// The parameters, as the server sent them.
    pub params: Option<Box<RawValue>>,
}

impl Question {
    /// Returns the answer to the server that nobody answers this question, for the reason `why`.
    pub fn refused(&self, why: &str) -> Answer {
        Answer::Error(to_raw(&RpcError::new(METHOD_NOT_FOUND, format!("{}: {why}", self.method))))
    }
}
