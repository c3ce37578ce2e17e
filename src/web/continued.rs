//! Parks a call whose server asks the client for input, and continues it when the client sends it once more.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, Method as HttpMethod};
use axum::response::Response;
use bytes::Bytes;
use memchr::memmem;
use serde_json::value::RawValue;
use tokio_util::task::AbortOnDropHandle;

use super::envelope::{ClientMessage, text};
use super::exchange::RunningMessage;
use super::forward::Forwarding;
use super::forward_token::is_forwarded;
use super::listener_context::{ListenerContext, PathEndpoint};
use super::parked::{Binding, PARKED_FOR, ParkedCall, Parking};
use super::replica_client::NotForwarded;
use super::requester::Requester;
use super::response::RpcResponse;
use crate::domain::item::ItemKind;
use crate::domain::method::Method;
use crate::domain::question::{INPUT_REQUESTS, INPUT_REQUIRED, REQUEST_STATE, RESULT_TYPE};
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::reason::Reason;
use crate::domain::rpc::{INVALID_PARAMS, REFUSED, RpcError};
use crate::domain::version::Era;
use crate::engine::access::sealed_id::{IdPurpose, NotOpened};
use crate::engine::exchange::{AskedCall, Continuation};
use crate::engine::{CheckMirrored, Reply};
use crate::transport::Accept;
use crate::transport::sse::KEEP_ALIVE_EVERY;

/// What the text of a message has that brings a `requestState`.
const STATE_MEMBER: &[u8] = b"\"requestState\"";
/// How long a replica may take until it answers or begins a stream.
const FIRST_EVENT: Duration = KEEP_ALIVE_EVERY.saturating_mul(2);

/// Runs a message to its end or until its server asks the client something. In that case the message goes on beside, and the
/// response is the question.
pub(super) async fn run_or_park(
    gate: Arc<ListenerContext>,
    mut running: RunningMessage,
    parking: Arc<Parking>,
) -> RpcResponse {
    let asks = tokio::select! {
        biased;
        done = &mut running => return done,
        asks = parking.asked.goes_on() => asks,
    };
    let Some(ticket) = parking.ticket.get() else { return running.await };
    let finisher = ParkedCallCloser(Arc::clone(&parking.asked));
    let task = tokio::spawn(async move { finisher.0.finish(running.await.into_answer()) });
    let call = ParkedCall::new(&parking, ticket.binding, AbortOnDropHandle::new(task));
    RpcResponse::reply(&ticket.id, &reply(&gate, call, asks), Era::Modern)
}

/// Ends the waits for a call whose task has ended, even by a panic.
struct ParkedCallCloser(Arc<AskedCall>);

impl Drop for ParkedCallCloser {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// Continues a parked call with the answers of its client, if its headers pass the check. `None` if `state` is not one of
/// the gateway's own: it may be the server's.
pub(super) async fn go_on(
    gate: &Arc<ListenerContext>,
    state: &str,
    binding: Binding,
    answers: Option<&RawValue>,
    check_mirrored: &CheckMirrored<'_>,
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
    call.asked.give(&answers);
    let continued = call.asked.goes_on().await;
    Some(reply(gate, call, continued))
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
    let may_wait = !is_forwarded(headers) && gate.engine.sessions().is_shared();
    // Most calls bring no state: their messages are not parsed here.
    if !may_wait || memmem::find(body, STATE_MEMBER).is_none() {
        return None;
    }
    let Ok(ClientMessage::Request { id, method, params }) = ClientMessage::parse(body) else { return None };
    let waits = gate.open_id(IdPurpose::CallState, "", &text(params.request_state?)?).ok()?;
    let to = gate.elsewhere(waits.replica)?;
    let method = Method::parse(&method)?;
    let (kind, name) = (ItemKind::used_with(method)?, params.text_of(method.item()?)?);
    let binding = Binding::new(requester.identity.key(), endpoint.upstream(), kind, &name, params.arguments);
    if waits.binding != binding.as_bytes() {
        // Another call. It is refused here, as it would be there.
        return None;
    }
    let events = Accept::read(headers).events;
    // A client that takes events gets the head of a response before its call has ended.
    let limit = if events { FIRST_EVENT } else { gate.longest_call() };
    let forwarding = Forwarding::request(HttpMethod::POST, endpoint, headers, body.clone(), requester);
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
        return Reply::Error(gate.engine.busy(Reason::ParkedCalls, message));
    };
    let mut requests = RawObject::default();
    for (key, question) in questions {
        requests.set(&key, question.into_request());
    }
    let mut result = RawObject::default();
    result.set(RESULT_TYPE, to_raw(&INPUT_REQUIRED));
    result.set(INPUT_REQUESTS, requests.to_raw());
    result.set(REQUEST_STATE, to_raw(&state));
    Reply::Result(result.to_raw())
}

/// Returns the reply in a JSON-RPC message.
fn ended(message: &str) -> Reply {
    let message = RawObject::parse(message).unwrap_or_default();
    match (message.get("result"), message.get("error")) {
        (Some(result), _) => Reply::Result(result.to_owned()),
        (None, Some(error)) => Reply::UpstreamError(error.to_owned()),
        (None, None) => without_answer(),
    }
}

fn without_answer() -> Reply {
    Reply::Error(RpcError::new(REFUSED, "the call has ended without an answer"))
}
