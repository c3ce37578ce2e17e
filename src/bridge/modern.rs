//! Requests of the modern era, which belong to no session: one process serves them all.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use serde_json::value::RawValue;

use super::ask::{FAILED, Outcome, ask_within};
use super::call_state::Closed;
use super::calls::FULL;
use super::exchange::{PostExchange, is_of_modern_era};
use super::keeper::SharedProcess;
use super::message::BridgedRequest;
use super::responses::{refuse, unavailable};
use super::state::Bridge;
use crate::domain::budget::Reservation;
use crate::domain::raw::RawObject;
use crate::domain::rpc::{INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, REFUSED, RpcError, code_of};
use crate::domain::version::MODERN_VERSION;
use crate::transport::Accept;

/// The longest wait for an answer to `server/discover`. Old servers may never send one.
const DISCOVERY: Duration = Duration::from_secs(30);
/// The method whose answer is an event stream that does not end by itself.
const LISTEN: &str = "subscriptions/listen";

/// Answers a request. `reservation` is for its memory.
pub(super) async fn answer(
    bridge: &Arc<Bridge>,
    request: BridgedRequest,
    accept: Accept,
    reservation: Reservation,
) -> Response {
    if bridge.closing.is_cancelled() {
        return unavailable(&request.id, "the bridge is ending", 1);
    }
    if request.method == LISTEN && !accept.events {
        let error = RpcError::new(INVALID_REQUEST, "Accept must name text/event-stream");
        return refuse(StatusCode::NOT_ACCEPTABLE, &request.id, &error);
    }
    let (shared, in_use) = match bridge.sessionless.get().await {
        Ok(shared) => shared,
        Err(none) if none.is_legacy => return legacy(&request, Some(none.why)),
        Err(none) => {
            return unavailable(&request.id, &none.why.told(request.begins()), none.retry_after.as_secs() + 1);
        }
    };
    match era(bridge, &shared).await {
        Era::Modern => {}
        Era::Legacy => return legacy(&request, shared.process.calls.why_closed()),
        Era::Unknown => return unavailable(&request.id, "the answer to `server/discover` could not be taken", 1),
    }
    let mut exchange = PostExchange::new(&bridge.context, &shared.process, in_use);
    exchange.is_modern = true;
    if request.method == LISTEN {
        exchange.until = bridge.draining.clone();
    }
    exchange.send(&request, None, accept.events).await;
    drop((request, reservation));
    exchange.respond(accept.events).await
}

/// The era of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    Modern,
    Legacy,
    /// The bridge did not take the answer.
    Unknown,
}

/// Finds out the era of the server. The bridge itself asks each process once, before it passes on what clients send: so no
/// client can cause a wrong answer, and nothing reaches a server that does not know these requests.
async fn era(bridge: &Arc<Bridge>, shared: &Arc<SharedProcess>) -> Era {
    if shared.is_modern.load(Ordering::Acquire) {
        return Era::Modern;
    }
    let ask = || {
        let (context, process) = (Arc::clone(&bridge.context), Arc::clone(&shared.process));
        async move { ask_within(DISCOVERY, &context, &process, &discover()).await }
    };
    let era = era_of(&shared.asked.outcome(ask).await);
    match era {
        Era::Modern => shared.is_modern.store(true, Ordering::Release),
        Era::Legacy => bridge.sessionless.refuse(shared).await,
        Era::Unknown => {}
    }
    era
}

/// Returns the era that follows from the outcome of `server/discover`.
fn era_of(outcome: &Outcome) -> Era {
    let is_modern = match outcome {
        Ok(result) => RawObject::parse(result.get()).is_ok_and(|result| result.get("supportedVersions").is_some()),
        Err(error) if is_of_bridge(error) => return Era::Unknown,
        Err(error) => code_of(error).is_some_and(is_of_modern_era),
    };
    if is_modern { Era::Modern } else { Era::Legacy }
}

/// Whether an error is the bridge's own, and says nothing of the server.
fn is_of_bridge(error: &RawValue) -> bool {
    let error = serde_json::from_str::<RpcError>(error.get());
    error.is_ok_and(|error| [(REFUSED, FULL), (INTERNAL_ERROR, FAILED)].contains(&(error.code, error.message.as_str())))
}

/// The bridge's own `server/discover`.
fn discover() -> BridgedRequest {
    let params = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "hawsepipe-bridge", "version": env!("CARGO_PKG_VERSION")},
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    BridgedRequest::new("server/discover", &params)
}

/// The answer for a server of the legacy era, at which clients use `initialize`. If its process has ended, `closed` says
/// why, since that need not be because of its era.
fn legacy(request: &BridgedRequest, closed: Option<Closed>) -> Response {
    let mut message = "the server is of the legacy era: begin a session with `initialize`".to_owned();
    if let Some(closed) = closed.filter(|closed| request.begins() && closed.by_itself) {
        message = format!("{message} ({})", closed.told(true));
    }
    refuse(StatusCode::BAD_REQUEST, &request.id, &RpcError::new(METHOD_NOT_FOUND, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::raw::to_raw;
    use crate::domain::rpc::UNSUPPORTED_VERSION;

    #[test]
    fn what_the_bridge_itself_refuses_says_nothing_of_the_server() {
        let error = |code, message: &str| Err(to_raw(&RpcError::new(code, message)));
        for (outcome, era) in [
            (Ok(to_raw(&json!({"supportedVersions": [MODERN_VERSION]}))), Era::Modern),
            (Ok(to_raw(&json!({}))), Era::Legacy),
            (error(UNSUPPORTED_VERSION, "no"), Era::Modern),
            (error(METHOD_NOT_FOUND, "no"), Era::Legacy),
            (error(REFUSED, "not initialized"), Era::Legacy),
            (error(INTERNAL_ERROR, "its process has ended"), Era::Legacy),
            (error(REFUSED, FULL), Era::Unknown),
            (error(INTERNAL_ERROR, FAILED), Era::Unknown),
        ] {
            assert_eq!(era_of(&outcome), era, "{outcome:?}");
        }
    }
}
