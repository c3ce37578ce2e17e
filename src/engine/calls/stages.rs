//! The stages of calls, of requests about tasks, and of completions and subscriptions, each in their order. Each stage is a function
//! in the file of its name or subject, and no other file calls two of them.

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::task::unconstrained;
use tracing::Instrument;

use super::arrived::Arrived;
use super::finish::finish;
use super::own_tool::{NamedCall, own_tool, run_own_tool};
use super::request_beside::{self, RequestBeside, RoutedBeside};
use super::request_chains::request_chains;
use super::tasks::{self, recheck_task};
use super::{Calls, checks, rules, section};
use crate::domain::boxed::boxed;
use crate::domain::task::OpenTask;
use crate::engine::chains::asked_client::AskedClient;
use crate::engine::chains::meta::CallMeta;
use crate::engine::chains::outcome::CallEnd;
use crate::engine::chains::recheck::{Effect, Sent};
use crate::engine::chains::released::Released;
use crate::engine::chains::spans;
use crate::engine::chains::task_answers::TaskClient;
use crate::engine::plan::snapshot::Snapshot;
use crate::engine::request::{CallRequest, InnerCalls, Reply, TaskUse};

/// Runs a stage that can only end the call. A test leaves out one at a time.
macro_rules! stage {
    ($module:ident::$name:ident($($argument:expr),*)) => {
        if is_left_out(stringify!($name)) { Ok(()) } else { $module::$name($($argument),*) }
    };
    ($calls:ident.$($place:ident).+($($argument:expr),*) $($awaited:tt)*) => {
        if is_left_out(stringify!($($place).+)) { Ok(()) } else { $calls.$($place).+($($argument),*) $($awaited)* }
    };
}

impl InnerCalls for Calls {
    fn call<'a>(self: Arc<Self>, request: CallRequest<'a>) -> Pin<Box<dyn Future<Output = Reply> + Send + 'a>> {
        Box::pin(async move { Self::call(&self, request).await })
    }
}

impl Calls {
    /// Runs a call and returns the reply. Dropping the future cancels the call.
    pub async fn call(self: &Arc<Self>, request: CallRequest<'_>) -> Reply {
        let (meta, snapshot) = (CallMeta::read(request.meta), self.in_force.snapshot());
        // Spans come before the futures: one that is made before something else can panic is copied.
        match NamedCall::of(&snapshot, &request) {
            Some(named) => {
                let request = named.request(request);
                let span = spans::call(&request, &meta);
                // In a box, so that other calls have no room for it.
                boxed(|| self.run_to_end(snapshot, &request, &meta).instrument(span)).await
            }
            None => {
                let span = spans::call(&request, &meta);
                self.run_to_end(snapshot, &request, &meta).instrument(span).await
            }
        }
    }

    async fn run_to_end(
        self: &Arc<Self>,
        snapshot: Arc<Snapshot>,
        request: &CallRequest<'_>,
        meta: &CallMeta,
    ) -> Reply {
        let mut arrived = Arrived::begin(self, snapshot, request, meta);
        let end = self.until_ended(&mut arrived).await;
        let end = self.audit_end(end, request.kind, &mut arrived.recorder).await;
        finish(end, arrived)
    }

    /// Runs the stages until one of them ends the call, or until it panics, takes too long, or is stopped or cancelled. Everything
    /// that the call has started is dropped then.
    async fn until_ended(self: &Arc<Self>, arrived: &mut Arrived<'_>) -> CallEnd {
        let ceiling = arrived.request.ceiling(&arrived.snapshot);
        let (cut, cancelled) = (self.gate.cut.load_full(), arrived.recorder.cancelled());
        let end = {
            let stages = AssertUnwindSafe(async {
                let ended = self.stages(arrived).await;
                arrived.release_places();
                arrived.settle().await;
                ended.map_or_else(|end| end, CallEnd::from)
            });
            let mut stages = pin!(stages.catch_unwind());
            tokio::select! {
                biased;
                end = &mut stages => end.unwrap_or_else(|_| CallEnd::panicked()),
                // Also where the call has used up what a task may do at once.
                () = unconstrained(tokio::time::sleep(ceiling)) => CallEnd::ceiling_reached(ceiling),
                () = cut.cancelled() => CallEnd::stopped(),
                () = cancelled.cancelled() => CallEnd::cancelled(),
                () = self.gate.ended.cancelled() => CallEnd::drained(),
            }
        };
        // A slow store must not keep other calls out.
        arrived.release_places();
        end
    }

    async fn stages(self: &Arc<Self>, arrived: &mut Arrived<'_>) -> Result<Released, CallEnd> {
        stage!(section::place(arrived))?;
        match (arrived.request.task, own_tool(&arrived.snapshot, arrived.request)) {
            // In a box, so that calls have no room for it.
            (TaskUse::Of(task), _) => boxed(|| self.task(arrived, task)).await,
            // It answers in words of the gateway, which no chain sees.
            (_, Some(tool)) => {
                stage!(self.admit(arrived))?;
                Err(run_own_tool(&self.lists, arrived, tool).await)
            }
            (_, None) => self.item(arrived).await,
        }
    }

    /// A call of a tool, the use of a prompt, or the reading of a resource.
    async fn item(self: &Arc<Self>, arrived: &mut Arrived<'_>) -> Result<Released, CallEnd> {
        stage!(self.admit(arrived))?;
        // Waits for lists and for plugins that guard the call, and takes the plan that is in force afterwards.
        let found = self.route(arrived).await?;
        let call = arrived.routed(&found);
        // Before anything shows that the item exists.
        stage!(rules::received_rules(&self.ends, &call))?;
        stage!(section::section(&self.ends, &call))?;
        stage!(self.admit_target(arrived, &call).await)?;
        stage!(checks::refusal(&self.ends, &call))?;
        arrived.begin_traces(&call);
        stage!(checks::unique_keys(&call))?;
        stage!(checks::mirrored_headers(&call))?;
        stage!(checks::guards_can_run(&self.chains, arrived, &call))?;
        let checked = call.checked_members().await?;
        // The check can have waited for those of other calls.
        stage!(self.gate_again())?;
        let client = AskedClient::new(&self.chains, &call, Arc::clone(&arrived.recorder.questions));
        let mut sent = request_chains(&self.chains, arrived, &client, checked).await?;
        stage!(rules::changed_rules(&self.ends, &call, &sent))?;
        let mut answered = self.chains.client_answers(&client).await?;
        stage!(self.audit_begin(&call, &mut arrived.recorder).await)?;
        // Nothing is sent above this line.
        let mut answer = self.send_in_rounds(arrived, &client, &mut sent, &mut answered).await?;
        let new = self.chains.recheck(&call, Effect::Answer(&[]), Sent::Members(&sent))?;
        stage!(self.chains.questions(&client, &mut answer, (&sent, &new)).await)?;
        // Nothing is given to the client above this line.
        self.chains.release(&client, answer, (&sent, new), &mut arrived.recorder.traces).await
    }

    /// A request about a task that an earlier call began at its server.
    async fn task(self: &Arc<Self>, arrived: &mut Arrived<'_>, task: &OpenTask) -> Result<Released, CallEnd> {
        stage!(self.admit(arrived))?;
        let found = self.route_task(arrived, task).await?;
        let mut call = arrived.routed(&found);
        call.wait_for_task(task.method);
        stage!(self.admit_target(arrived, &call).await)?;
        stage!(checks::refusal(&self.ends, &call)).map_err(CallEnd::into_error)?;
        arrived.begin_traces(&call);
        stage!(checks::guards_can_run(&self.chains, arrived, &call)).map_err(CallEnd::into_error)?;
        stage!(tasks::task_input(&self.ends, &call, task)).map_err(CallEnd::into_error)?;
        let asked = AskedClient::new(&self.chains, &call, Arc::clone(&arrived.recorder.questions));
        let client = TaskClient::new(&asked, &task.id);
        stage!(self.audit_begin(&call, &mut arrived.recorder).await)?;
        // Nothing is sent above this line.
        let answer = self.send_about_task(&client, task, &mut arrived.recorder).await?;
        let new = recheck_task(&self.chains, &call, task.method)?;
        // Nothing is given to the client above this line.
        Ok(self.chains.task_answer((&client, task.method), answer, new, &mut arrived.recorder.traces).await)
    }

    /// A completion, or a subscription to a resource. No chain runs on these: `complete_argument` and `subscribe_admitted`
    /// answer nothing of an item that a chain checks.
    pub(super) async fn beside(&self, request: RequestBeside<'_>) -> Result<RoutedBeside, CallEnd> {
        let snapshot = self.in_force.snapshot();
        let mut places = self.admit_beside(&request, &snapshot)?;
        // Waits for lists, and finds nothing that the rules hide.
        let found = self.route_beside(&request, snapshot).await?;
        let upstream = &found.snapshot.linked.upstreams[found.found.route.upstream];
        stage!(self.admit_beside_target(&request, &mut places, &upstream.target.plan))?;
        stage!(request_beside::upstream_refusal(&self.ends, request.item.kind, upstream))?;
        Ok(RoutedBeside::new(found, places))
    }
}

/// Whether a test leaves out the stage of this name.
#[cfg(not(test))]
const fn is_left_out(_: &str) -> bool {
    false
}

#[cfg(test)]
pub(in crate::engine) use self::left_out::{LEFT_OUT, is_left_out};

#[cfg(test)]
mod left_out {
    use std::cell::Cell;

    thread_local! {
        /// The stage that the calls of this thread leave out.
        pub(in crate::engine) static LEFT_OUT: Cell<&'static str> = const { Cell::new("") };
    }

    pub(in crate::engine) fn is_left_out(stage: &str) -> bool {
        stage.rsplit('.').next().is_some_and(|name| name.trim() == LEFT_OUT.get())
    }
}
