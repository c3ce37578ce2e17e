//! Lets runs of pipelines go on as tasks, and forwards requests about such a task to the replica that has it.

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
use super::parked::RunningCall;
use super::requester::Requester;
use super::response::RpcResponse;
use super::run_tasks::RunTask;
use super::task_ticket::TaskTicket;
use crate::domain::budget::Account;
use crate::domain::method::Method;
use crate::domain::reason::Reason;
use crate::domain::rpc::RpcError;
use crate::domain::task::TaskFacts;
use crate::domain::version::Era;
use crate::engine::access::sealed_id::IdPurpose;
use crate::engine::access::task_id::TaskOwner;
use crate::engine::calls::tasks::RunTool;
use crate::engine::exchange::handle::new_handle;
use crate::engine::{Caller, Reply};
use crate::transport::Accept;
use crate::transport::mcp_headers::{SESSION_HEADER, mean_modern_era};
use crate::transport::sse::KEEP_ALIVE_EVERY;

/// What the text of a message has that is about a task.
const ID_MEMBER: &[u8] = b"\"taskId\"";
/// How long a replica may take until it answers or begins a stream.
const FIRST_EVENT: Duration = KEEP_ALIVE_EVERY.saturating_mul(2);
/// How long a client of the modern era waits for the answer of a run before the run goes on as a task.
const DETACHED_AFTER: Duration = Duration::from_secs(10);
/// How long a task is kept after the longest time that its run may take.
const KEPT: Duration = Duration::from_secs(60 * 60);

/// Makes the ticket with which the request `request` can go on as a task. `None` if the id of the task cannot be sealed.
pub(super) fn new_ticket(
    gate: &ListenerContext,
    caller: &Caller,
    endpoint: &PathEndpoint,
    request: &str,
    tool: RunTool,
) -> Option<TaskTicket> {
    let (handle, lives) = (new_handle(), tool.longest + KEPT);
    let own = gate.seal_id(IdPurpose::Task, "", handle, lives, Vec::new())?;
    let facts = TaskFacts { upstream: tool.pipeline, tool: tool.tool, id: own };
    let id = gate.engine.gate.seal_task(caller, &endpoint.as_engine(), &facts).ok()?;
    Some(TaskTicket { request: request.to_owned(), handle, id, era: caller.era, created_at: gate.engine.now(), lives })
}

/// Waits until a call with this ticket is to go on as a task: at once if its client of the legacy era wants that, and later in
/// the modern era, if there is room.
pub(super) async fn is_due(gate: &ListenerContext, ticket: &TaskTicket, account: &Arc<Account>) {
    if ticket.era == Era::Modern {
        tokio::time::sleep(DETACHED_AFTER).await;
        if !gate.run_tasks.has_room(account) {
            std::future::pending().await
        }
    }
}

/// Lets a call go on as a task, and returns the reply for its client, which has this account. `call` starts it beside its
/// request.
pub(super) fn begin(
    gate: &ListenerContext,
    ticket: &Arc<TaskTicket>,
    account: &Arc<Account>,
    call: impl FnOnce() -> RunningCall,
) -> Reply {
    if !gate.run_tasks.has_room(account) {
        let message = "as many calls go on as tasks as may. Call the tool without `task`";
        return Reply::Error(gate.engine.gate.busy(Reason::ParkedCalls, message));
    }
    let task = RunTask::new(Arc::clone(ticket), call());
    task.asked().leave();
    gate.run_tasks.keep(&gate.shutdown, task);
    ticket.begun()
}

/// Returns how long a replica may take until it answers a request with these headers. A client that takes events gets the head
/// of a response before its call has ended.
pub(super) fn first_answer(gate: &ListenerContext, headers: &HeaderMap) -> Duration {
    if Accept::read(headers).events { FIRST_EVENT } else { gate.longest_call() }
}

/// Parses a message that another replica may have to answer: one with this member in its text. Most messages have none, and are
/// not parsed here.
pub(super) fn for_replica<'a>(
    gate: &ListenerContext,
    headers: &HeaderMap,
    body: &'a Bytes,
    member: &[u8],
) -> Option<ClientMessage<'a>> {
    let may_be_elsewhere = !is_forwarded(headers) && gate.engine.gate.sessions().is_shared();
    let is_asked_about = may_be_elsewhere && memmem::find(body, member).is_some();
    is_asked_about.then(|| ClientMessage::parse(body).ok()).flatten()
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
