//! Requests about tasks: calls of tools that go on after their answer. They lead back to the server that runs the task, and the
//! chains that select the tool when the result is fetched run on it (SEP-2663; MCP 2025-11-25, tasks).

use std::sync::Arc;
use std::time::Duration;

use super::Calls;
use super::arrived::{Arrived, FoundItem};
use super::recorder::CallRecorder;
use super::route::LookupTarget;
use crate::domain::item::ItemKind;
use crate::domain::method::Method;
use crate::domain::question::INPUT_RESPONSES;
use crate::domain::reason::Reason;
use crate::domain::record::CallOutcome;
use crate::domain::task::OpenTask;
use crate::domain::upstream::{InputRound, OutMembers};
use crate::engine::chains::Chains;
use crate::engine::chains::ends::CallEnds;
use crate::engine::chains::outcome::CallEnd;
use crate::engine::chains::recheck::{Effect, NewGuards, Sent};
use crate::engine::chains::routed_call::Routed;
use crate::engine::chains::task_answers::{TaskClient, past_chains};
use crate::engine::chains::unchecked::{GuardedClient, Unchecked};
use crate::engine::plan::snapshot::Lookup;
use crate::engine::request::{Caller, Endpoint, ItemName, Reply};

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
    /// Finds the tool of a task at its server, unless the rules hide it.
    pub(super) async fn route_task(&self, arrived: &Arrived<'_>, task: &OpenTask) -> Result<FoundItem, CallEnd> {
        let found = self.find_guarded(&arrived.snapshot, LookupTarget::OfTask(&task.facts)).await;
        let (snapshot, found) = found.map_err(|error| self.ends.not_admitted(&error))?;
        match snapshot.usable(found, false) {
            Lookup::Found(found) if snapshot.may_see(arrived.request.caller, &found.route) => {
                Ok(FoundItem { snapshot, found })
            }
            _ => Err(CallEnd::new(Reply::Error(task.facts.gone()), CallOutcome::RpcError, Reason::TaskGone)),
        }
    }

    /// Sends the request to the server.
    pub(super) async fn send_about_task(
        self: &Arc<Self>,
        client: &TaskClient<'_>,
        task: &OpenTask,
        recorder: &mut CallRecorder,
    ) -> Result<Unchecked, CallEnd> {
        let responses = task.responses.clone().filter(|_| task.method == Method::UpdateTask);
        let mut members: OutMembers =
            responses.map(|responses| (INPUT_RESPONSES.into(), responses)).into_iter().collect();
        let (asked, to) = (client.asked(), client as &dyn GuardedClient);
        self.send(asked.call, (to, asked), &mut members, InputRound::default(), recorder).await
    }

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

/// Refuses answers to questions of a task: chains cover what is asked, and have not seen the questions.
pub(super) fn task_input(ends: &CallEnds, call: &Routed<'_>, task: &OpenTask) -> Result<(), CallEnd> {
    let is_refused = task.method == Method::UpdateTask && call.item.watches_questions();
    if is_refused { Err(ends.refused(ItemKind::Tool, past_chains())) } else { Ok(()) }
}

/// Checks a request about a task that has waited. New entries run on the result of the task alone: the next request about its
/// state has the new chains.
pub(super) fn recheck_task(chains: &Chains, call: &Routed<'_>, method: Method) -> Result<NewGuards, CallEnd> {
    let new = chains.recheck(call, Effect::Answer(&[]), Sent::Unchanged);
    if method == Method::TaskResult {
        return new;
    }
    let new = new.map_err(CallEnd::into_error)?;
    let denied = new.denial().map(|denial| chains.ends.refused(ItemKind::Tool, denial).into_error());
    denied.map_or(Ok(new), Err)
}
