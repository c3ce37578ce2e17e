//! Tasks: calls of tools that go on after their answer (SEP-2663 in the modern era; MCP 2025-11-25, tasks).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::method::Method;
use super::skim::Skim;
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

/// Returns the server's own id of the task that a result begins, in the form of either era, unless that has ended already.
pub fn begun_task(result: &RawValue) -> Option<String> {
    let result = Skim::from(result);
    let task = match member(result, "taskId") {
        Some(_) => result,
        None => member(result, "task")?,
    };
    let id = member(task, "taskId").filter(|_| !has_ended(task))?;
    Some(id.text()?.into_owned())
}

/// Whether the answer to a request about a task says that its server works on the task no more. That a task is cancelled says
/// nothing of that (MCP 2025-11-25, tasks, cancellation).
pub fn ends_task(method: Method, result: &RawValue) -> bool {
    method == Method::TaskResult || has_ended(Skim::from(result))
}

fn has_ended(task: Skim<'_>) -> bool {
    member(task, "status").and_then(Skim::text).is_some_and(|status| matches!(&*status, "completed" | "failed"))
}

/// Returns the last member with this name, as most parsers do.
fn member<'a>(object: Skim<'a>, name: &str) -> Option<Skim<'a>> {
    object.members()?.filter(|(key, _)| key.as_deref() == Some(name)).last().map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_known_from_its_beginning_to_its_end() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        for (result, id) in [
            (r#"{"task":{"taskId":"a","status":"working"}}"#, Some("a")),
            (r#"{"resultType":"task","taskId":"b","status":"input_required"}"#, Some("b")),
            (r#"{"task":{"taskId":"a","status":"completed"}}"#, None),
            (r#"{"content":[{"type":"text","text":"taskId"}]}"#, None),
            (r#"{"task":[]}"#, None),
        ] {
            assert_eq!(begun_task(&raw(result)).as_deref(), id, "{result}");
        }
        for (method, result, ends) in [
            (Method::GetTask, r#"{"taskId":"a","status":"working"}"#, false),
            (Method::GetTask, r#"{"taskId":"a","status":"failed"}"#, true),
            (Method::CancelTask, r#"{"taskId":"a","status":"cancelled"}"#, false),
            (Method::TaskResult, r#"{"content":[]}"#, true),
        ] {
            assert_eq!(ends_task(method, &raw(result)), ends, "{result}");
        }
    }
}
