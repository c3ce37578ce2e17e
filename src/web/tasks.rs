//! Requests about tasks, that is, calls that go on after their answer (SEP-2663; MCP 2025-11-25, tasks).

use serde_json::json;

use super::dispatch::{ClientRequest, invalid, unknown_method};
use super::envelope::{object, text};
use crate::domain::announcement::Announcement;
use crate::domain::extensions::TASKS;
use crate::domain::method::Method;
use crate::domain::own_keys::answers_without_own_keys;
use crate::domain::rpc::{CAPABILITY_REQUIRED, INVALID_PARAMS, RpcError};
use crate::domain::task::OpenTask;
use crate::domain::version::Era;
use crate::engine::access::session::Session;
use crate::engine::{CallRequest, Reply, TaskUse};

impl ClientRequest<'_> {
    /// Answers a request about a task.
    pub(super) async fn use_task(&self, method: Method) -> Reply {
        let (engine, endpoint, params) = (&self.gate.engine, self.endpoint.as_engine(), self.params);
        let caller = self.caller();
        let id = params.task_id.and_then(text).unwrap_or_default();
        let knows = caller.era == Era::Legacy || caller.capabilities.has_extension(TASKS);
        let facts = engine.open_task(&caller, &endpoint, &id).filter(|_| knows);
        let Some(facts) = facts else {
            let said = engine.announcement(endpoint).await;
            return Reply::Error(no_task(self.method, caller.era, knows, &said));
        };
        let responses = params.input_responses.map(|answers| answers_without_own_keys(answers).into_owned());
        if method == Method::UpdateTask && responses.as_deref().and_then(object).is_none() {
            return invalid("`inputResponses` must be an object");
        }
        let task = OpenTask { method, id: id.into_owned(), facts, responses };
        let new_question = |session: &Session| self.gate.new_question(session);
        let sender = self.sender(&caller, &new_question);
        engine.call(CallRequest { task: TaskUse::Of(&task), ..self.request(&caller, &sender) }).await
    }
}

/// Returns the error for a request about a task that is none of the client's. `said` is what the servers of the endpoint
/// announce: without tasks there, the method is unknown.
fn no_task(method: &str, era: Era, knows: bool, said: &Announcement) -> RpcError {
    let offered = if era == Era::Legacy { said.tasks.is_some() } else { said.extensions.has(TASKS) };
    if !offered {
        return unknown_method(method);
    }
    if !knows {
        let data = json!({"requiredCapabilities": {"extensions": {TASKS: {}}}});
        let message = "requests about tasks need a client that declares the extension for tasks";
        return RpcError::new(CAPABILITY_REQUIRED, message).with_data(data);
    }
    RpcError::new(INVALID_PARAMS, "`taskId` names no task that this client has at this endpoint")
}
