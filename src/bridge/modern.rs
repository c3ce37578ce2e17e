//! Requests of the modern era, which belong to no session: one process serves them all.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::ask::ask_within;
use super::call_state::Closed;
use super::exchange::{Exchange, code_of, is_of_modern_era};
use super::keeper::SharedProcess;
use super::message::ClientRequest;
use super::responses::{refuse, unavailable};
use super::state::Bridge;
use crate::domain::budget::Reservation;
use crate::domain::raw::RawObject;
use crate::domain::rpc::{METHOD_NOT_FOUND, RpcError};
use crate::domain::version::MODERN_VERSION;
use crate::transport::Accept;

/// The longest wait for an answer to `server/discover`. Old servers may never send one.
const DISCOVERY: Duration = Duration::from_secs(30);
/// The method whose answer is an event stream that does not end by itself.
const LISTEN: &str = "subscriptions/listen";

/// Answers a request. `reservation` is for its memory.
pub(super) async fn answer(
    bridge: &Arc<Bridge>,
    request: ClientRequest,
    accept: Accept,
    reservation: Reservation,
) -> Response {
    if bridge.closing.is_cancelled() {
        return unavailable(&request.id, "the bridge is ending", 1);
    }
    let shared = match bridge.sessionless.get().await {
        Ok(shared) => shared,
        Err(none) if none.is_legacy => return legacy(&request, Some(none.why)),
        Err(none) => {
            return unavailable(&request.id, &none.why.told(request.begins()), none.retry_after.as_secs() + 1);
        }
    };
    let in_use = shared.usage.begin();
    if !is_modern(bridge, &shared).await {
        return legacy(&request, shared.process.calls.why_closed());
    }
    let mut exchange = Exchange::new(&bridge.context, &shared.process, in_use);
    exchange.is_modern = true;
    if request.method == LISTEN {
        exchange.until = bridge.draining.clone();
    }
    exchange.send(&request, None, accept.events).await;
    drop((request, reservation));
    exchange.respond(accept.events, false).await
}

/// Whether the server is of the modern era. The bridge itself asks each process once, before it passes on what clients
/// send: so no client can cause a wrong answer, and nothing reaches a server that does not know these requests.
async fn is_modern(bridge: &Arc<Bridge>, shared: &Arc<SharedProcess>) -> bool {
    if shared.is_modern.load(Ordering::Acquire) {
        return true;
    }
    let ask = || {
        let (context, process) = (Arc::clone(&bridge.context), Arc::clone(&shared.process));
        async move { ask_within(DISCOVERY, &context, &process, &discover()).await }
    };
    let is_modern = match shared.asked.outcome(ask).await {
        Ok(result) => RawObject::parse(result.get()).is_ok_and(|result| result.get("supportedVersions").is_some()),
        Err(error) => code_of(&error).is_some_and(is_of_modern_era),
    };
    match is_modern {
        true => shared.is_modern.store(true, Ordering::Release),
        false => bridge.sessionless.refuse(shared).await,
    }
    is_modern
}

/// The bridge's own `server/discover`.
fn discover() -> ClientRequest {
    let params = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "hawsepipe-bridge", "version": env!("CARGO_PKG_VERSION")},
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    ClientRequest::new("server/discover", &params)
}

/// The answer for a server of the legacy era, at which clients use `initialize`. If its process has ended, `closed` says
/// why, since that need not be because of its era.
fn legacy(request: &ClientRequest, closed: Option<Closed>) -> Response {
    let mut message = "the server is of the legacy era: begin a session with `initialize`".to_owned();
    if let Some(closed) = closed.filter(|closed| request.begins() && closed.by_itself) {
        message = format!("{message} ({})", closed.told(true));
    }
    refuse(StatusCode::BAD_REQUEST, &request.id, &RpcError::new(METHOD_NOT_FOUND, message))
}
