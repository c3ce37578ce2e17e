//! Batches: POSTs with an array of messages. Only version 2025-03-26 has them. Each message is handled as if it came
//! alone; the answers to the requests come in one array, or as events of one stream.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;

use super::envelope::{ClientMessage, Unreadable};
use super::exchange::SessionOfPost;
use super::gate::{Gate, PathEndpoint};
use super::legacy::{InSession, check_headers, find_session};
use super::response::RpcResponse;
use crate::domain::batch;
use crate::domain::budget::Category;
use crate::domain::method::Method;
use crate::domain::rpc::{INVALID_REQUEST, RpcError, too_deep};
use crate::domain::version::{BATCH_VERSION, Era};
use crate::engine::access::session::Session;
use crate::engine::exchange::Exchange;
use crate::transport::mcp_headers::mean_modern_era;

/// The maximum number of messages of a batch.
const MAX_MESSAGES: usize = 100;
/// How many requests of a batch are under way at the same time: less than a session may have by default.
const AT_ONCE: usize = 8;

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
    let (mut answers, mut requests) = (Vec::new(), Vec::new());
    for message in messages {
        match message {
            Ok(request @ ClientMessage::Request { .. }) => requests.push(request),
            Ok(other) => drop(within.handle(other).await),
            Err(Unreadable { id, error }) => answers.push(RpcResponse::error(StatusCode::OK, id, &error)),
        }
    }
    let (mut waiting, mut open) = (requests.into_iter(), FuturesUnordered::new());
    loop {
        while open.len() < AT_ONCE
            && let Some(request) = waiting.next()
        {
            open.push(answer_one(within, request));
        }
        match open.next().await {
            Some(answer) => answers.push(answer),
            None => break,
        }
    }
    if answers.is_empty() { RpcResponse::accepted() } else { RpcResponse::batch(answers) }
}

/// A message of a batch; an error if it is none.
type Read<'a> = Result<ClientMessage<'a>, Unreadable<'a>>;

/// Reads the messages, and finds the session. The error refuses the batch as a whole.
async fn read<'a>(
    gate: &Gate,
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

fn is_initialize(message: &ClientMessage<'_>) -> bool {
    matches!(message, ClientMessage::Request { method, .. } if Method::parse(method) == Some(Method::Initialize))
}

/// Answers one request. Its answer has memory of its own until the whole batch is answered.
async fn answer_one(within: InSession<'_>, request: ClientMessage<'_>) -> RpcResponse {
    let id = if let ClientMessage::Request { id, .. } = &request { *id } else { "null" };
    let reservation = Arc::new(within.reservation.another(Category::Answer));
    let answer = InSession { reservation: &reservation, ..within }.handle(request).await;
    answer.held_in(&reservation, Some(id), Era::Legacy)
}
