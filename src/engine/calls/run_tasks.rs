//! Runs that go on as tasks: which tools can have them, and who may still use them (SEP-2663; MCP 2025-11-25, tasks).

use std::time::Duration;

use super::Calls;
use crate::domain::item::ItemKind;
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

impl Calls {
    /// Returns the tool that a client calls by this name; `None` if no pipeline serves it, or the client may not see it.
    pub async fn pipeline_tool(&self, caller: &Caller, endpoint: Endpoint<'_>, name: &str) -> Option<RunTool> {
        let item = ItemName { endpoint, kind: ItemKind::Tool, name };
        let (snapshot, found) = self.find_unguarded(self.in_force.snapshot(), item).await.ok()?;
        let Lookup::Found(found) = snapshot.usable(found, false) else { return None };
        let plan = &snapshot.linked.upstreams[found.route.upstream].target.plan;
        let longest = Duration::from_secs(plan.pipeline()?.budgets.timeout_seconds.into());
        let tool = RunTool { pipeline: plan.key.name.clone(), tool: found.route.item.name.clone(), longest };
        snapshot.may_see(caller, &found.route).then_some(tool)
    }
}
