//! Ids of tasks as clients know them: sealed, so that any replica finds the server that runs the task, and no other client,
//! endpoint or gateway can use them.

use serde_json::json;

use super::admission::AdmissionError;
use super::gate::Gate;
use crate::domain::identity::{Identity, IdentityMethod};
use crate::domain::ids::ObjectKey;
use crate::domain::rpc::RpcError;
use crate::domain::task::TaskFacts;
use crate::domain::version::Era;
use crate::engine::plan::snapshot::Lookup;
use crate::engine::request::{Caller, Endpoint};

/// The purpose of the seal and the version of what is sealed. Both are authenticated.
const PURPOSE: &str = "hawsepipe task 2";
/// Maximum length of a server's own id of a task, in bytes.
const MAX_OWN: usize = 1024;
/// Maximum length of an id that clients get, in bytes.
const MAX_SEALED: usize = 4096;

/// The client that uses a task.
#[derive(Clone, Copy)]
pub struct TaskOwner<'a> {
    /// The identity that its credentials prove.
    pub identity: &'a Identity,
    /// The era of its protocol version.
    pub era: Era,
    /// The id of its session; empty if it has none.
    pub session: &'a str,
}

impl<'a> From<&'a Caller> for TaskOwner<'a> {
    fn from(caller: &'a Caller) -> Self {
        Self { identity: &caller.identity, era: caller.era, session: &caller.session }
    }
}

impl Gate {
    /// Returns the id of a task for this client. The error says what is wrong with the task.
    pub fn seal_task(
        &self,
        caller: &Caller,
        endpoint: &Endpoint<'_>,
        task: &TaskFacts,
    ) -> Result<String, &'static str> {
        if task.id.is_empty() || task.id.len() > MAX_OWN {
            return Err("the id of its task is empty, or longer than 1024 bytes");
        }
        let (scope, text) = (self.task_scope(caller.into(), endpoint), serde_json::to_vec(task).unwrap_or_default());
        let sealed = self.sessions().seals().seal(&scope, text).ok_or("the id of its task cannot be sealed")?;
        match sealed.len() {
            0..=MAX_SEALED => Ok(sealed),
            _ => Err(
                "the id of its task is too long: with the names of upstream and tool, sealed, it has more than 4096 bytes",
            ),
        }
    }

    /// Returns the task that this client knows by this id; `None` if it is not an id of this client at this endpoint.
    pub fn open_task<'a>(
        &self,
        client: impl Into<TaskOwner<'a>>,
        endpoint: &Endpoint<'_>,
        id: &str,
    ) -> Option<TaskFacts> {
        let id = Some(id).filter(|id| id.len() <= MAX_SEALED)?;
        let text = self.sessions().seals().open(&self.task_scope(client.into(), endpoint), id)?;
        serde_json::from_slice(&text).ok()
    }

    fn task_scope(&self, client: TaskOwner<'_>, endpoint: &Endpoint<'_>) -> String {
        let snapshot = self.in_force.snapshot();
        let ObjectKey { namespace, name } = &snapshot.plan().gateway.key;
        let upstream = match endpoint {
            Endpoint::All => None,
            Endpoint::One(upstream) => Some(upstream),
        };
        // Tasks of the two eras have different forms. Who is anonymous is known by the session alone, if there is one.
        let TaskOwner { identity, era, session } = client;
        let session = Some(session).filter(|session| identity.is_anonymous() && !session.is_empty());
        json!([PURPOSE, namespace, name, identity.key(), era.as_str(), upstream, session]).to_string()
    }

    /// Checks whether a client, with its identity and the id of its session, may still use the task of a run. Of a request that
    /// another replica forwards, that replica has asked the rules, because only it knows the whole identity.
    ///
    /// # Errors
    /// If the gateway refuses every request, or does not offer the tool to this client any more.
    pub fn check_task(&self, client: (&Identity, &str), task: &TaskFacts) -> Result<(), RpcError> {
        let snapshot = self.in_force.snapshot();
        self.check(&snapshot).map_err(|refused: AdmissionError| {
            self.metrics.refused(refused.reason);
            refused.to_error()
        })?;
        let found = snapshot.tool_of(&task.upstream, &task.tool).map_or(Lookup::Unknown, Lookup::Found);
        let is_asked_there = client.0.method == IdentityMethod::Replica;
        match snapshot.usable(found, false) {
            Lookup::Found(found) if is_asked_there || snapshot.shows(client, &found.route) => Ok(()),
            _ => Err(task.gone()),
        }
    }
}
