//! How a session begins: with the answer of the server to `initialize`.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::ask::{ask, ask_within};
use super::message::BridgedRequest;
use super::outbox::{Kind, Outgoing};
use super::process::ServerProcess;
use super::responses::{json_response, refuse, unavailable};
use super::session::SessionReservation;
use super::state::Bridge;
use super::stderr;
use crate::domain::raw::RawObject;
use crate::domain::rpc::{INTERNAL_ERROR, RpcError, failure, success};
use crate::transport::mcp_headers::SESSION_HEADER;

/// How many seconds a client should wait before it tries again to begin a session.
const RETRY_AFTER: u64 = 5;
/// The longest wait for the answer to `initialize` of a shared process. A server may fetch what it needs before.
const INITIALIZATION: Duration = Duration::from_secs(180);
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A process whose session has not begun yet. If it does not begin, the process ends, and only then its slot is free.
struct Starting<'a> {
    bridge: &'a Bridge,
    process: Arc<ServerProcess>,
    slot: Option<SessionReservation>,
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            let process = Arc::clone(&self.process);
            process.stop();
            self.bridge.context.tasks.spawn(async move {
                process.ended().await;
                drop(slot);
            });
        }
    }
}

/// Begins a session, and answers `initialize`.
pub(super) async fn answer(bridge: &Arc<Bridge>, request: &BridgedRequest) -> Response {
    if bridge.draining.is_cancelled() {
        return unavailable(&request.id, "the bridge is ending", 1);
    }
    let slot = match bridge.sessions.slot() {
        Ok(Some(slot)) => slot,
        Ok(None) => {
            let reason = "there are as many sessions as there may be (--max-sessions): try again later";
            return unavailable(&request.id, reason, RETRY_AFTER);
        }
        Err(error) => {
            stderr::say(&format!("cannot make the id of a session: {error}")).await;
            let error = RpcError::new(INTERNAL_ERROR, "cannot make the id of a session");
            return refuse(StatusCode::INTERNAL_SERVER_ERROR, &request.id, &error);
        }
    };
    if bridge.is_shared { on_shared(bridge, request, slot).await } else { on_own(bridge, request, slot).await }
}

/// Begins a session on a process of its own.
async fn on_own(bridge: &Bridge, request: &BridgedRequest, slot: SessionReservation) -> Response {
    let process = match ServerProcess::start(&bridge.context, Some(slot.label())) {
        Ok(process) => process,
        Err(error) => {
            stderr::say(&error.to_string()).await;
            return unavailable(&request.id, &error.to_string(), RETRY_AFTER);
        }
    };
    let mut starting = Starting { bridge, process, slot: Some(slot) };
    let answer = match ask(&bridge.context, &starting.process, request).await {
        Ok(answer) => answer,
        Err(error) => return refuse(StatusCode::OK, &request.id, &error),
    };
    let Some(version) = version_of(&answer) else { return json_response(StatusCode::OK, answer.text.into()) };
    match starting.slot.take() {
        Some(slot) => begin(bridge, slot, &starting.process, version, &request.id, answer.text),
        None => refuse(StatusCode::OK, &request.id, &ended()),
    }
}

/// Begins a session on the process that all share. The first `initialize` is the server's, even if its client is gone
/// meanwhile; all others get its outcome.
async fn on_shared(bridge: &Arc<Bridge>, request: &BridgedRequest, slot: SessionReservation) -> Response {
    let (shared, _in_use) = match bridge.keeper.get().await {
        Ok(shared) => shared,
        Err(none) => return unavailable(&request.id, &none.why.told(true), none.retry_after.as_secs() + 1),
    };
    let ask = || {
        let (context, process) = (Arc::clone(&bridge.context), Arc::clone(&shared.process));
        let request = request.clone();
        async move {
            let outcome = ask_within(INITIALIZATION, &context, &process, &request).await;
            if outcome.is_ok() {
                process.send(INITIALIZED.to_owned()).await;
            }
            outcome
        }
    };
    match shared.asked.outcome(ask).await {
        Ok(result) => {
            let version = version(&result).unwrap_or_default();
            begin(bridge, slot, &shared.process, version, &request.id, success(&request.id, &result))
        }
        Err(error) => json_response(StatusCode::OK, failure(&request.id, &error).into()),
    }
}

fn version_of(answer: &Outgoing) -> Option<String> {
    let object = RawObject::parse(&answer.text).ok().filter(|_| answer.kind == Kind::Result)?;
    Some(version(object.get("result")?).unwrap_or_default())
}

fn version(result: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialization {
        protocol_version: String,
    }
    serde_json::from_str::<Initialization>(result.get()).ok().map(|result| result.protocol_version)
}

fn ended() -> RpcError {
    RpcError::new(INTERNAL_ERROR, "the server's process has ended")
}

/// Begins the session, and answers `initialize` with its id.
fn begin(
    bridge: &Bridge,
    slot: SessionReservation,
    process: &Arc<ServerProcess>,
    version: String,
    request: &str,
    answer: String,
) -> Response {
    let id = slot.id.clone();
    if !bridge.sessions.begin(slot, process, version) {
        return refuse(StatusCode::OK, request, &ended());
    }
    let mut response = json_response(StatusCode::OK, answer.into());
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(SESSION_HEADER, id);
    }
    response
}
