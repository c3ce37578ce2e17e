//! Runs that go on as tasks: which tools can have them, and who may still use them (SEP-2663; MCP 2025-11-25, tasks).

use std::time::Duration;

use crate::domain::identity::{Identity, IdentityMethod};
use crate::domain::item::ItemKind;
use crate::domain::rpc::RpcError;
use crate::domain::task::TaskFacts;
use crate::engine::Engine;
use crate::engine::access::admission::AdmissionError;
use crate::engine::plan::snapshot::Lookup;
use crate::engine::request::{Caller, Endpoint, ItemName};

/// A tool whose calls are runs of a pipeline.
pub struct RunTool {
    /// The name of the pipeline.
    pub pipeline: String,
    /// The name of the tool.
    pub tool: String,
    /// How long a run may take.
    pub longest: Duration,
}

impl Engine {
    /// Returns the tool that a client calls by this name; `None` if no pipeline serves it, or the client may not see it.
    pub async fn pipeline_tool(&self, caller: &Caller, endpoint: Endpoint<'_>, name: &str) -> Option<RunTool> {
        let item = ItemName { endpoint, kind: ItemKind::Tool, name };
        let (snapshot, found) = self.find_unguarded(self.snapshot(), item).await.ok()?;
        let Lookup::Found(found) = snapshot.usable(found, false) else { return None };
        let plan = &snapshot.linked.upstreams[found.route.upstream].target.plan;
        let longest = Duration::from_secs(plan.pipeline()?.budgets.timeout_seconds.into());
        let tool = RunTool { pipeline: plan.key.name.clone(), tool: found.route.item.name.clone(), longest };
        snapshot.may_see(caller, &found.route).then_some(tool)
    }

    /// Checks whether a client, with its identity and the id of its session, may still use the task of a run. Of a request that
    /// another replica forwards, that replica has asked the rules, because only it knows the whole identity.
    ///
    /// # Errors
    /// If the gateway refuses every request, or does not offer the tool to this client any more.
    pub fn check_task(&self, client: (&Identity, &str), task: &TaskFacts) -> Result<(), RpcError> {
        let snapshot = self.snapshot();
        self.gate(&snapshot).map_err(|refused: AdmissionError| {
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
