//! Tasks: calls of tools that go on after their answer (SEP-2663 in the modern era; MCP 2025-11-25, tasks).

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::method::Method;
use super::reason::Reason;
use super::rpc::{INVALID_PARAMS, RpcError};
use super::upstream::OutTask;

/// A task at its server. The upstream and the tool select the chains for its result, when that is fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFacts {
    /// Name of the upstream.
    #[serde(rename = "u")]
    pub upstream: String,
    /// The server's own name of the tool whose call began the task.
    #[serde(rename = "n")]
    pub tool: String,
    /// The server's own id of the task.
    #[serde(rename = "i")]
    pub id: String,
}

impl TaskFacts {
    /// The error for a request about a task whose server or tool is not offered any more.
    pub fn gone(&self) -> RpcError {
        let Self { upstream, tool, .. } = self;
        self.unreachable(&format!("upstream {upstream} is not there any more, or does not offer the tool {tool:.128}"))
    }

    /// The error for a request about a task whose result is not kept any more.
    pub fn lost(&self) -> RpcError {
        self.unreachable("it ended too long ago, or with the process of the gateway that ran it. Call the tool again")
    }

    fn unreachable(&self, why: &str) -> RpcError {
        let data = json!({"reason": Reason::TaskGone, "upstream": self.upstream});
        RpcError::new(INVALID_PARAMS, format!("the task cannot be reached: {why}")).with_data(data)
    }
}

/// A request about a task.
#[derive(Debug)]
pub struct OpenTask {
    /// The method of the request.
    pub method: Method,
    /// The id that the client knows.
    pub id: String,
    /// The task.
    pub facts: TaskFacts,
    /// What the client answers to questions of the task: `params.inputResponses`.
    pub responses: Option<Box<RawValue>>,
}

impl OpenTask {
    /// Returns the task as its server knows it.
    pub fn out(&self) -> OutTask {
        OutTask { method: self.method, id: self.facts.id.clone() }
    }
}
