//! Parks a call whose server asks the client for input, and continues it when the client sends it once more.

use std::sync::Arc;

use axum::http::{HeaderMap, Method as HttpMethod};
use axum::response::Response;
use bytes::Bytes;
use serde_json::value::RawValue;
use tokio_util::task::AbortOnDropHandle;

use super::asked::{ended, requests_of, without_answer};
use super::detached::{begin, first_answer, for_replica, is_due};
use super::envelope::{ClientMessage, text};
use super::exchange::RunningMessage;
use super::forward::Forwarding;
use super::listener_context::{ListenerContext, PathEndpoint};
use super::parked::{Binding, PARKED_FOR, ParkedCall, Parking, RunningCall};
use super::replica_client::NotForwarded;
use super::requester::Requester;
use super::response::RpcResponse;
use super::task_ticket::TaskTicket;
use crate::domain::item::ItemKind;
use crate::domain::method::Method;
use crate::domain::question::{INPUT_REQUESTS, INPUT_REQUIRED, REQUEST_STATE, RESULT_TYPE};
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::reason::Reason;
use crate::domain::rpc::{INVALID_PARAMS, RpcError};
use crate::domain::version::Era;
use crate::engine::access::sealed_id::{IdPurpose, NotOpened};
use crate::engine::calls::waiting::denied_waiting;
use crate::engine::exchange::{AskedCall, Continuation};
use crate::engine::{Caller, CheckMirrored, Reply};

/// What the text of a message has that brings a `requestState`.
const STATE_MEMBER: &[u8] = b"\"requestState\"";

/// Runs a message to its end, until its server asks the client something, or until it is to go on as a task. In these cases
/// the message goes on beside, and the response is the question or the task.
pub(super) async fn run_or_park(
    gate: Arc<ListenerContext>,
    mut running: RunningMessage,
    parking: Arc<Parking>,
) -> RpcResponse {
    let asks = tokio::select! {
        biased;
        done = &mut running => return done,
        asks = parking.asked.goes_on() => asks,
        task = due(&gate, &parking) => {
            let reply = begin(&gate, task, &parking.account, || parking.call(beside(&parking, running)));
            return RpcResponse::reply(&task.request, &reply, task.era);
        }
    };
    let Some(ticket) = parking.ticket.get() else { return running.await };
    let call = ParkedCall::new(&parking, ticket.binding, beside(&parking, running));
    RpcResponse::reply(&ticket.id, &reply(&gate, call, asks), Era::Modern)
}

/// Lets a message go on beside the request that it came with.
fn beside(parking: &Parking, running: RunningMessage) -> AbortOnDropHandle<()> {
    let finisher = ParkedCallCloser(Arc::clone(&parking.asked));
    AbortOnDropHandle::new(tokio::spawn(async move { finisher.0.finish(running.await.into_answer()) }))
}

/// Waits until a message is to go on as a task.
async fn due<'a>(gate: &ListenerContext, parking: &'a Parking) -> &'a Arc<TaskTicket> {
    let ticket = parking.task.wait().await;
    is_due(gate, ticket, &parking.account).await;
    ticket
}

/// Ends the waits for a call whose task has ended, even by a panic.
struct ParkedCallCloser(Arc<AskedCall>);

impl Drop for ParkedCallCloser {
    fn drop(&mut self) {
        self.0.abandon();
    }
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
    denied: impl FnOnce() -> Option<Reply>,
) -> Option<Reply> {
    let call = match gate.open_id(IdPurpose::CallState, "", state) {
        Err(NotOpened::Foreign) => return None,
        Ok(id) if id.binding == binding.as_bytes() => gate.parked.take(id.handle, binding, check_mirrored),
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
    call.call.asked.give(&answers, caller.whole_identity());
    let outcome = outcome(gate, &call).await;
    if let Some(reply) = denied() {
        return Some(reply);
    }
    Some(match outcome {
        Ok(continued) => reply(gate, call, continued),
        Err(task) => begin(gate, &task, &Arc::clone(&call.call.account), || call.call),
    })
}

/// Waits for what a call comes to. The error is the task as which it is to go on.
async fn outcome(gate: &ListenerContext, parked: &ParkedCall) -> Result<Continuation, Arc<TaskTicket>> {
    let RunningCall { asked, account, .. } = &parked.call;
    let due = async {
        let Some(task) = &parked.task else { return std::future::pending().await };
        is_due(gate, task, account).await;
        Arc::clone(task)
    };
    tokio::select! {
        biased;
        continued = asked.goes_on() => Ok(continued),
        task = due => Err(task),
    }
}

/// Forwards a call of the modern era to the replica at which it waits for the input that it brings. `None` if it does not wait
/// at another replica.
pub(super) async fn forward_to_parked(
    gate: &ListenerContext,
    endpoint: &PathEndpoint,
    headers: &HeaderMap,
    requester: &Requester,
    body: &Bytes,
) -> Option<Response> {
    let ClientMessage::Request { id, method, params } = for_replica(gate, headers, body, STATE_MEMBER)? else {
        return None;
    };
    let waits = gate.open_id(IdPurpose::CallState, "", &text(params.request_state?)?).ok()?;
    let to = gate.elsewhere(waits.replica)?;
    let method = Method::parse(&method)?;
    let (kind, name) = (ItemKind::used_with(method)?, params.text_of(method.item()?)?);
    let binding = Binding::new(requester.identity.key(), endpoint.upstream(), kind, &name, params.arguments);
    if waits.binding != binding.as_bytes() {
        // Another call. It is refused here, as it would be there.
        return None;
    }
    let caller = Caller::without_session(Arc::clone(&requester.identity));
    let input = if kind == ItemKind::Tool { params.arguments } else { params.raw };
    let denied = denied_waiting(&gate.engine.calls, &caller, endpoint.as_engine(), (kind, &name), (input, params.meta));
    if let Some(reply) = denied {
        return Some(RpcResponse::reply(id, &reply, Era::Modern).into_response());
    }
    let forwarding = Forwarding::request(HttpMethod::POST, endpoint, headers, body.clone(), requester);
    let limit = first_answer(gate, headers);
    let forwarded = gate.forward(to, forwarding, limit).await;
    Some(forwarded.unwrap_or_else(|why| RpcResponse::modern_error(id, &not_continued(&why)).into_response()))
}

/// Returns the error for a call that waits at another replica and could not be continued there.
fn not_continued(why: &NotForwarded) -> RpcError {
    let told = |what: &str| format!("the call cannot be continued: {why}; {what}");
    if why.may_be_done() {
        let what = "the call may have gone on: find out what it did before you send it once more";
        RpcError::refused(Reason::OutcomeUnknown, told(what))
    } else if why.is_gone() {
        let what = "it was not sent there. Send the call without `requestState`";
        RpcError::refused(Reason::ReplicaGone, told(what))
    } else {
        let what = "the call did not go on. Send it once more as it is";
        RpcError::busy(why.reason(), told(what))
    }
}

/// Returns the reply for the client of a call that asks or has ended.
fn reply(gate: &Arc<ListenerContext>, call: ParkedCall, continued: Continuation) -> Reply {
    let questions = match continued {
        Continuation::Asks(questions) => questions,
        Continuation::Ended(answer) => return ended(&answer.message),
        Continuation::Abandoned => return without_answer(),
    };
    let binding = call.binding.as_bytes().to_vec();
    let state = gate
        .parked
        .park(&gate.shutdown, call)
        .and_then(|handle| gate.seal_id(IdPurpose::CallState, "", handle, PARKED_FOR, binding));
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
