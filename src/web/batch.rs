//! Batches: POSTs with an array of messages. Only version 2025-03-26 has them. Each message is handled as if it came
//! alone; the answers to the requests come in one array, or as events of one stream.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::envelope::{ClientMessage, Unreadable};
use super::exchange::SessionOfPost;
use super::gate::{Gate, PathEndpoint};
use super::legacy::{InSession, check_headers, find_session};
use super::response::RpcResponse;
use crate::domain::batch::{self, AT_ONCE, MAX_MESSAGES};
use crate::domain::budget::Category;
use crate::domain::method::Method;
use crate::domain::rpc::{INVALID_REQUEST, REQUEST_CANCELLED, RpcError, too_deep};
use crate::domain::version::{BATCH_VERSION, Era};
use crate::engine::access::session::Session;
use crate::engine::exchange::Exchange;
use crate::transport::mcp_headers::mean_modern_era;

/// Answers a batch.
pub(super) async fn answer(
    gate: &Arc<Gate>,
    endpoint: &PathEndpoint,
    headers: &HeaderMap,
    peer: IpAddr,
    body: &[u8],
    exchange: &Exchange,
    of_post: &SessionOfPost,
) -> RpcResponse {
    let (session, messages) = match read(gate, endpoint, headers, peer, body).await {
        Ok(read) => read,
        Err((status, error)) => return RpcResponse::error(status, "null", &error),
    };
    of_post.get_or_init(|| Arc::clone(&session));
    let reservation = exchange.reservation();
    let within = InSession { gate, endpoint, headers, peer, session: &session, exchange, reservation };
    let (mut answers, mut requests, mut ids) = (Vec::new(), Vec::new(), Vec::new());
    // A notification of the same batch, or one that comes meanwhile, can cancel a request that has not begun.
    let waiting = Waiting::register(&session, &messages);
    for message in messages {
        match message {
            Ok(request @ ClientMessage::Request { id, .. }) => {
                ids.push(id.to_owned());
                requests.push(request);
            }
            Ok(other) => drop(within.handle(other).await),
            Err(Unreadable { id, error }) => {
                ids.push(id.to_owned());
                answers.push(RpcResponse::error(StatusCode::OK, id, &error));
            }
        }
    }
    let (mut requests, mut open) = (requests.into_iter(), FuturesUnordered::new());
    loop {
        while open.len() < AT_ONCE
            && let Some(request) = requests.next()
        {
            open.push(answer_one(within, request, &waiting));
        }
        match open.next().await {
            Some(answer) => answers.push(answer),
            None => break,
        }
    }
    if answers.is_empty() { RpcResponse::accepted() } else { RpcResponse::batch(answers, ids) }
}

/// Returns the errors for a message, or a batch of them, that does not fit into the memory budget.
pub(super) fn no_room(body: &[u8]) -> RpcResponse {
    if !batch::is_batch(body) {
        return RpcResponse::no_room(request_id(body).unwrap_or("null"));
    }
    let messages = if too_deep(body) { Vec::new() } else { batch::split(body, MAX_MESSAGES).unwrap_or_default() };
    let ids: Vec<_> = messages.iter().filter_map(|text| request_id(text.get().as_bytes())).map(str::to_owned).collect();
    if ids.is_empty() { RpcResponse::no_room("null") } else { RpcResponse::no_room_for_batch(ids) }
}

/// Returns the raw id of a request; `None` for other messages.
fn request_id(message: &[u8]) -> Option<&str> {
    if let Ok(ClientMessage::Request { id, .. }) = ClientMessage::parse(message) { Some(id) } else { None }
}

/// A message of a batch; an error if it is none.
type Read<'a> = Result<ClientMessage<'a>, Unreadable<'a>>;

/// Reads the messages, and finds the session. The error refuses the batch as a whole.
async fn read<'a>(
    gate: &Arc<Gate>,
    endpoint: &PathEndpoint,
    headers: &HeaderMap,
    peer: IpAddr,
    body: &'a [u8],
) -> Result<(Arc<Session>, Vec<Read<'a>>), (StatusCode, RpcError)> {
    let bad = |message: &str| (StatusCode::BAD_REQUEST, RpcError::new(INVALID_REQUEST, message));
    if mean_modern_era(headers) {
        return Err(bad("JSON-RPC batches are not spoken in this version: send one message in each request"));
    }
    if too_deep(body) {
        return Err(bad("the request nests deeper than 128 levels"));
    }
    let messages = batch::split(body, MAX_MESSAGES).map_err(|fault| (StatusCode::BAD_REQUEST, fault.into()))?;
    let messages: Vec<_> =
        messages.into_iter().map(|text| ClientMessage::parse(RawValue::get(text).as_bytes())).collect();
    if messages.iter().flatten().any(is_initialize) {
        return Err(bad("`initialize` must not be part of a batch: send it alone"));
    }
    let session = find_session(gate, endpoint, headers, peer).await;
    let session = session.map_err(|(status, message)| (status, RpcError::new(INVALID_REQUEST, message)))?;
    if session.version != BATCH_VERSION {
        let version = &session.version;
        return Err(bad(&format!(
            "only version {BATCH_VERSION} has JSON-RPC batches, and this session has {version}: send one message in each request"
        )));
    }
    for message in messages.iter().flatten() {
        check_headers(headers, message).map_err(|(_, error)| (StatusCode::BAD_REQUEST, error))?;
    }
    Ok((session, messages))
}

/// Whether a message begins a session.
pub(super) fn is_initialize(message: &ClientMessage<'_>) -> bool {
    matches!(message, ClientMessage::Request { method, .. } if Method::parse(method) == Some(Method::Initialize))
}

/// The requests of a batch that can be cancelled, by their ids as raw JSON.
struct Waiting<'a> {
    session: &'a Session,
    tokens: HashMap<String, CancellationToken>,
}

impl<'a> Waiting<'a> {
    fn register(session: &'a Session, messages: &[Read<'_>]) -> Self {
        let ids = messages.iter().flatten().filter_map(|message| match message {
            ClientMessage::Request { id, .. } => Some(*id),
            _ => None,
        });
        Self { session, tokens: ids.map(|id| (id.to_owned(), session.begin(id))).collect() }
    }

    /// Why a request is not begun; `None` if it is.
    fn refusal(&self, id: &str) -> Option<RpcError> {
        if self.session.ended.is_cancelled() {
            return Some(RpcError::new(INVALID_REQUEST, "the session has ended"));
        }
        let is_cancelled = self.tokens.get(id).is_some_and(CancellationToken::is_cancelled);
        is_cancelled.then(|| RpcError::new(REQUEST_CANCELLED, "Request cancelled"))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.tokens.keys().for_each(|id| self.session.finish(id));
    }
}

/// Answers one request. Its answer has memory of its own until the whole batch is answered.
async fn answer_one(within: InSession<'_>, request: ClientMessage<'_>, waiting: &Waiting<'_>) -> RpcResponse {
    let id = if let ClientMessage::Request { id, .. } = &request { *id } else { "null" };
    if let Some(refusal) = waiting.refusal(id) {
        return RpcResponse::error(StatusCode::OK, id, &refusal);
    }
    let reservation = Arc::new(within.reservation.another(Category::Answer));
    let answer = InSession { reservation: &reservation, ..within }.handle(request).await;
    answer.held_in(&reservation, Some(id), Era::Legacy)
}
