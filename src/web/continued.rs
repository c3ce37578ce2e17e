//! Parks a call whose server asks the client for input, and continues it when the client sends it once more.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::asked::{ended, requests_of, without_answer};
use super::exchange::RunningMessage;
use super::listener_context::ListenerContext;
use super::parking::Parking;
use super::response::RpcResponse;
use super::task_forms::begun;
use crate::domain::question::{INPUT_REQUESTS, INPUT_REQUIRED, REQUEST_STATE, RESULT_TYPE};
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::reason::Reason;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::domain::version::Era;
use crate::engine::access::sealed_id::{IdPurpose, NotOpened};
use crate::engine::exchange::handle::new_handle;
use crate::engine::in_flight::parked_call::{Binding, PARKED_MS, ParkedCall};
use crate::engine::in_flight::pending_call::{Continuation, RunningCall};
use crate::engine::in_flight::run_task::{RunTask, TaskTicket};
use crate::engine::in_flight::table::Place;
use crate::engine::{Caller, CheckMirrored, Reply};

/// How long a client of the modern era waits for the answer of a run before the run goes on as a task.
const TASK_AFTER: Duration = Duration::from_secs(10);

/// Runs a message to its end, until its server asks the client something, or until it is to go on as a task. In these cases
/// the message goes on beside, and the response is the question or the task.
pub(super) async fn run_or_park(
    gate: Arc<ListenerContext>,
    mut running: RunningMessage,
    parking: Arc<Parking>,
) -> RpcResponse {
    let asks = loop {
        let task = tokio::select! {
            biased;
            done = &mut running => return done,
            asks = parking.pending.goes_on() => break asks,
            task = due(&gate, &parking) => task,
        };
        if let Ok(place) = gate.engine.gate.in_flight.tasks.place(&parking.account) {
            let reply = go_on_as_task(&gate, task, place, parking.beside(running));
            return RpcResponse::reply(&task.request, &reply, task.era);
        }
        // Another call has got the place. Clients of the modern era did not ask for a task, and wait for the answer.
        if task.era == Era::Legacy {
            return RpcResponse::reply(&task.request, &no_place(&gate), task.era);
        }
    };
    let Some(ticket) = parking.ticket.get() else { return running.await };
    let (mirrored, task) = (parking.mirrored.get().cloned().unwrap_or_default(), parking.task.get().cloned());
    let call = ParkedCall { call: parking.beside(running), binding: ticket.binding, task, mirrored };
    RpcResponse::reply(&ticket.id, &reply(&gate, &Arc::new(call), asks), Era::Modern)
}

/// Waits until a message is to go on as a task.
async fn due<'a>(gate: &ListenerContext, parking: &'a Parking) -> &'a Arc<TaskTicket> {
    let ticket = parking.task.wait().await;
    is_due(gate, ticket, &parking.account).await;
    ticket
}

/// Waits until a call with this ticket is to go on as a task: at once if its client of the legacy era wants that, and later in
/// the modern era, if there is room.
async fn is_due(gate: &ListenerContext, ticket: &TaskTicket, account: &Arc<crate::domain::budget::Account>) {
    if ticket.era == Era::Modern {
        tokio::time::sleep(TASK_AFTER).await;
        if !gate.engine.gate.in_flight.tasks.has_place(account) {
            std::future::pending().await
        }
    }
}

/// Lets a call go on as a task, and returns the reply for its client.
fn go_on_as_task(
    gate: &ListenerContext,
    ticket: &Arc<TaskTicket>,
    place: Place<'_, u64, RunTask>,
    call: Arc<RunningCall>,
) -> Reply {
    let expires_at = gate.engine.now().saturating_add(ticket.lives_ms);
    place.add(ticket.handle, &Arc::new(RunTask::new(Arc::clone(ticket), call)), expires_at);
    begun(ticket)
}

/// Returns the reply for a client whose call cannot go on as a task.
fn no_place(gate: &ListenerContext) -> Reply {
    let message = "as many calls go on as tasks as may. Call the tool without `task`";
    Reply::Error(gate.engine.gate.busy(Reason::ParkedCalls, message))
}

/// Continues a parked call with the answers of its client, which `caller` has sent, if its headers pass the check. `denied` returns
/// the reply if the rules deny the call to the client now: it then gets no answer that waited for it either. `None` if `state` is
/// not one of the gateway's own: it may be the server's.
pub(super) async fn go_on(
    gate: &Arc<ListenerContext>,
    state: &str,
    binding: Binding,
    (answers, caller): (Option<&RawValue>, &Caller),
    check_mirrored: &CheckMirrored<'_>,
    denied: impl Fn() -> Option<Reply>,
) -> Option<Reply> {
    let call = match gate.open_id(IdPurpose::CallState, "", state) {
        Err(NotOpened::Foreign) => return None,
        Ok(id) if id.binding == binding.as_bytes() => {
            gate.engine.gate.in_flight.parked.take(id.handle, binding, check_mirrored)
        }
        Ok(_) | Err(NotOpened::Expired) => Ok(None),
    };
    let call = match call {
        Ok(call) => call,
        Err(mismatch) => return Some(Reply::Error(mismatch)),
    };
    let Some(call) = call else {
        let message = "`requestState` is not that of a call like this one that waits for input: it may have waited for too \
                       long. Send the call without it";
        return Some(Reply::Error(RpcError::new(INVALID_PARAMS, message)));
    };
    let answers = answers.and_then(|answers| RawObject::parse(answers.get()).ok()).unwrap_or_default();
    call.call.pending.give(&answers, caller.whole_identity());
    loop {
        let outcome = outcome(gate, &call).await;
        if let Some(reply) = denied() {
            return Some(reply);
        }
        match outcome {
            Ok(continued) => return Some(reply(gate, &call, continued)),
            Err(task) => {
                // Without a place, the client waits for the answer.
                if let Ok(place) = gate.engine.gate.in_flight.tasks.place(&call.call.account) {
                    return Some(go_on_as_task(gate, &task, place, Arc::clone(&call.call)));
                }
            }
        }
    }
}

/// Waits until a call asks or ends, or returns the ticket of the task as which it is to go on.
async fn outcome(gate: &ListenerContext, parked: &ParkedCall) -> Result<Continuation, Arc<TaskTicket>> {
    let RunningCall { pending, account, .. } = &*parked.call;
    let due = async {
        let Some(task) = &parked.task else { return std::future::pending().await };
        is_due(gate, task, account).await;
        Arc::clone(task)
    };
    tokio::select! {
        biased;
        continued = pending.goes_on() => Ok(continued),
        task = due => Err(task),
    }
}

/// Returns the reply for the client of a call that asks or has ended.
fn reply(gate: &ListenerContext, call: &Arc<ParkedCall>, continued: Continuation) -> Reply {
    let questions = match continued {
        Continuation::Asks(questions) => questions,
        Continuation::Ended(answer) => return ended(&answer.message),
        Continuation::Abandoned => return without_answer(),
    };
    let (handle, binding) = (new_handle(), call.binding.as_bytes().to_vec());
    let expires_at = gate.engine.now().saturating_add(PARKED_MS);
    let parked = gate.engine.gate.in_flight.parked.add(handle, call, expires_at).ok();
    let state =
        parked.and_then(|()| gate.seal_id(IdPurpose::CallState, "", handle, Duration::from_millis(PARKED_MS), binding));
    let Some(state) = state else {
        let message = "the server asks for input, and as many calls as may wait for the input of their clients";
        return Reply::Error(gate.engine.gate.busy(Reason::ParkedCalls, message));
    };
    let mut result = RawObject::default();
    result.set(RESULT_TYPE, to_raw(&INPUT_REQUIRED));
    result.set(INPUT_REQUESTS, requests_of(questions));
    result.set(REQUEST_STATE, to_raw(&state));
    Reply::Result(result.to_raw())
}
