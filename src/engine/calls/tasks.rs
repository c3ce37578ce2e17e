//! Requests about tasks: calls of tools that go on after their answer. They lead back to the server that runs the task, and the
//! chains that select the tool when the result is fetched run on it (SEP-2663; MCP 2025-11-25, tasks).

use std::sync::Arc;

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
use crate::engine::chains::outcome::CallEnd;
use crate::engine::chains::recheck::{Effect, NewGuards, Sent};
use crate::engine::chains::routed_call::Routed;
use crate::engine::chains::task_answers::{TaskClient, past_chains};
use crate::engine::chains::unchecked::{GuardedClient, Unchecked};
use crate::engine::plan::snapshot::Lookup;
use crate::engine::request::Reply;

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

    /// Refuses answers to questions of a task: chains cover what is asked, and have not seen the questions.
    pub(super) fn task_input(&self, call: &Routed<'_>, task: &OpenTask) -> Result<(), CallEnd> {
        let is_refused = task.method == Method::UpdateTask && call.item.watches_questions();
        if is_refused { Err(self.ends.refused(ItemKind::Tool, past_chains())) } else { Ok(()) }
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

    /// Checks a request about a task that has waited. New entries run on the result of the task alone: the next request about its
    /// state has the new chains.
    pub(super) fn recheck_task(&self, call: &Routed<'_>, method: Method) -> Result<NewGuards, CallEnd> {
        let new = self.chains.recheck(call, Effect::Answer(&[]), Sent::Unchanged);
        if method == Method::TaskResult {
            return new;
        }
        let new = new.map_err(CallEnd::into_error)?;
        let denied = new.denial().map(|denial| self.ends.refused(ItemKind::Tool, denial).into_error());
        denied.map_or(Ok(new), Err)
    }
}
