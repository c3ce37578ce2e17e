//! Requests of the modern era, which belong to no session: one process serves them all.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::http::StatusCode;
use axum::response::Response;

use super::exchange::{Exchange, code_of, is_of_modern_era, json_response, refuse, unavailable};
use super::message::ClientRequest;
use super::outbox::Outbox;
use super::state::Bridge;
use crate::domain::rpc::{METHOD_NOT_FOUND, RpcError};
use crate::transport::Accept;

/// The method by which clients find out whether a server is of the modern era.
const DISCOVER: &str = "server/discover";

/// Answers a request.
pub(super) async fn answer(bridge: &Arc<Bridge>, request: &ClientRequest, accept: Accept) -> Response {
    if bridge.draining.is_cancelled() {
        return unavailable(&request.id, "the bridge is ending", 1);
    }
    if bridge.keeper.is_legacy.load(Ordering::Acquire) {
        let error =
            RpcError::new(METHOD_NOT_FOUND, "the server is of the legacy era: begin a session with `initialize`");
        return refuse(StatusCode::BAD_REQUEST, &request.id, &error);
    }
    let shared = match bridge.keeper.get().await {
        Ok(shared) => shared,
        Err(none) => return unavailable(&request.id, &none.reason, none.retry_after.as_secs() + 1),
    };
    let (outbox, process) = (Outbox::new(&bridge.context.budget), Arc::clone(&shared.process));
    let in_use = shared.usage.begin();
    let mut exchange = Exchange { outbox, process, calls: Vec::new(), is_modern: true, _in_use: in_use };
    let takes_events = accept.events && request.method != DISCOVER;
    if let Err(error) = exchange.send(request, None, takes_events).await {
        return refuse(StatusCode::OK, &request.id, &error);
    }
    match request.method == DISCOVER {
        true => discovered(bridge, &exchange).await,
        false => exchange.respond(takes_events, false).await,
    }
}

/// Answers `server/discover`. An error has status 400, which makes clients try the legacy era.
async fn discovered(bridge: &Bridge, exchange: &Exchange) -> Response {
    let Some(answer) = exchange.answer().await else {
        let error = RpcError::new(METHOD_NOT_FOUND, "the server has ended instead of answering");
        return refuse(StatusCode::BAD_REQUEST, "null", &error);
    };
    let Some(code) = code_of(&answer) else { return json_response(StatusCode::OK, answer.text.into()) };
    // The server itself refused, so it need not be asked again. If it ended, it may have ended for another reason.
    if !is_of_modern_era(code) && !exchange.process.is_over() {
        bridge.keeper.is_legacy.store(true, Ordering::Release);
        if !bridge.is_shared {
            exchange.process.stop();
        }
    }
    json_response(StatusCode::BAD_REQUEST, answer.text.into())
}
