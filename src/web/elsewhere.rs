//! Forwards requests about calls that go on without their first request to the replica that has the call.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, Method as HttpMethod};
use axum::response::Response;
use bytes::Bytes;
use memchr::memmem;

use super::envelope::{ClientMessage, text};
use super::forward::Forwarding;
use super::forward_token::is_forwarded;
use super::listener_context::{ListenerContext, PathEndpoint};
use super::replica_client::NotForwarded;
use super::requester::Requester;
use super::response::RpcResponse;
use crate::domain::item::ItemKind;
use crate::domain::method::Method;
use crate::domain::reason::Reason;
use crate::domain::rpc::RpcError;
use crate::domain::version::Era;
use crate::engine::access::sealed_id::IdPurpose;
use crate::engine::access::task_id::TaskOwner;
use crate::engine::calls::waiting::denied_waiting;
use crate::engine::in_flight::parked_call::Binding;
use crate::engine::{Caller, Reply};
use crate::transport::Accept;
use crate::transport::mcp_headers::{SESSION_HEADER, mean_modern_era};
use crate::transport::sse::KEEP_ALIVE_EVERY;

/// A text in each message that brings a `requestState`.
const STATE_MEMBER: &[u8] = b"\"requestState\"";
/// A text in each message that is about a task.
const ID_MEMBER: &[u8] = b"\"taskId\"";
/// How long a replica may take until it answers or begins a stream.
const FIRST_EVENT: Duration = KEEP_ALIVE_EVERY.saturating_mul(2);

/// Returns how long a replica may take until it answers a request with these headers. A client that takes events gets the head
/// of a response before its call has ended.
fn first_answer(gate: &ListenerContext, headers: &HeaderMap) -> Duration {
    if Accept::read(headers).events { FIRST_EVENT } else { gate.longest_call() }
}

/// Parses a message that another replica may have to answer: one with this member in its text. Most messages have none, and are
/// not parsed here.
fn for_replica<'a>(
    gate: &ListenerContext,
    headers: &HeaderMap,
    body: &'a Bytes,
    member: &[u8],
) -> Option<ClientMessage<'a>> {
    let may_be_elsewhere = !is_forwarded(headers) && gate.engine.gate.sessions().is_shared();
    let is_asked_about = may_be_elsewhere && memmem::find(body, member).is_some();
    is_asked_about.then(|| ClientMessage::parse(body).ok()).flatten()
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
    let message = |what: &str| format!("the call cannot be continued: {why}; {what}");
    if why.may_be_done() {
        let what = "the call may have gone on: find out what it did before you send it once more";
        RpcError::refused(Reason::OutcomeUnknown, message(what))
    } else if why.is_gone() {
        let what = "it was not sent there. Send the call without `requestState`";
        RpcError::refused(Reason::ReplicaGone, message(what))
    } else {
        let what = "the call did not go on. Send it once more as it is";
        RpcError::busy(why.reason(), message(what))
    }
}

/// Forwards a request about the task of a run to the replica that has it. `None` if it is not at another replica.
pub(super) async fn forward_to_task(
    gate: &ListenerContext,
    endpoint: &PathEndpoint,
    headers: &HeaderMap,
    requester: &Requester,
    body: &Bytes,
) -> Option<Response> {
    let ClientMessage::Request { id, method, params } = for_replica(gate, headers, body, ID_MEMBER)? else {
        return None;
    };
    let method = Method::parse(&method).filter(|method| method.is_of_task())?;
    let era = if mean_modern_era(headers) { Era::Modern } else { Era::Legacy };
    let session = headers.get(&SESSION_HEADER).and_then(|id| id.to_str().ok()).unwrap_or_default();
    let owner = TaskOwner { identity: &requester.identity, era, session };
    let task = gate.engine.gate.open_task(owner, &endpoint.as_engine(), &text(params.task_id?)?)?;
    let to = gate.elsewhere(gate.open_id(IdPurpose::Task, "", &task.id).ok()?.replica)?;
    if method != Method::CancelTask
        && let Err(error) = gate.engine.gate.check_task((&requester.identity, session), &task)
    {
        return Some(RpcResponse::reply(id, &Reply::Error(error), era).into_response());
    }
    let forwarding = Forwarding::request(HttpMethod::POST, endpoint, headers, body.clone(), requester);
    let forwarded = gate.forward(to, forwarding, first_answer(gate, headers)).await;
    Some(forwarded.unwrap_or_else(|why| {
        let error = match why.is_gone() {
            true => task.lost(),
            false => RpcError::busy(why.reason(), format!("the task cannot be reached: {why}")),
        };
        RpcResponse::reply(id, &Reply::Error(error), era).into_response()
    }))
}
