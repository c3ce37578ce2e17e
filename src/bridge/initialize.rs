//! How a session begins: with the answer of the server to `initialize`.

use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::exchange::{Exchange, json_response, refuse, unavailable};
use super::keeper::SharedProcess;
use super::message::ClientRequest;
use super::outbox::{Kind, Outbox, Outgoing};
use super::process::ServerProcess;
use super::session::Slot;
use super::state::{Bridge, SESSION};
use super::stderr;
use super::usage::Usage;
use crate::domain::raw::RawObject;
use crate::domain::rpc::{INTERNAL_ERROR, RpcError, success};

/// How many seconds a client should wait before it tries again to begin a session.
const RETRY_AFTER: u64 = 5;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A process whose session has not begun yet. If it does not begin, the process ends, and only then its slot is free.
struct Starting<'a> {
    bridge: &'a Bridge,
    process: Arc<ServerProcess>,
    slot: Option<Slot>,
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
pub(super) async fn answer(bridge: &Arc<Bridge>, request: &ClientRequest) -> Response {
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
async fn on_own(bridge: &Bridge, request: &ClientRequest, slot: Slot) -> Response {
    let process = match ServerProcess::start(&bridge.context, Some(slot.label())) {
        Ok(process) => process,
        Err(error) => {
            stderr::say(&error.to_string()).await;
            return unavailable(&request.id, &error.to_string(), RETRY_AFTER);
        }
    };
    let mut starting = Starting { bridge, process, slot: Some(slot) };
    let answer = match ask(bridge, &starting.process, request).await {
        Ok(answer) => answer,
        Err(error) => return refuse(StatusCode::OK, &request.id, &error),
    };
    let Some(version) = version_of(&answer) else { return json_response(StatusCode::OK, answer.text.into()) };
    match starting.slot.take() {
        Some(slot) => begin(bridge, slot, &starting.process, version, &request.id, answer.text),
        None => refuse(StatusCode::OK, &request.id, &ended()),
    }
}

/// Begins a session on the process that all share. The first one initializes it, even if its client is gone meanwhile.
async fn on_shared(bridge: &Arc<Bridge>, request: &ClientRequest, slot: Slot) -> Response {
    let shared = match bridge.keeper.get().await {
        Ok(shared) => shared,
        Err(none) => return unavailable(&request.id, &none.reason, none.retry_after.as_secs() + 1),
    };
    let first = tokio::spawn(initialized(Arc::clone(bridge), Arc::clone(&shared), request.clone()));
    let result = match first.await {
        Ok(Ok(result)) => result,
        Ok(Err(answer)) => return json_response(StatusCode::OK, answer.into()),
        Err(_) => {
            let error = RpcError::new(INTERNAL_ERROR, "the bridge failed on this message");
            return refuse(StatusCode::INTERNAL_SERVER_ERROR, &request.id, &error);
        }
    };
    let version = version(&result).unwrap_or_default();
    begin(bridge, slot, &shared.process, version, &request.id, success(&request.id, &result))
}

/// Returns the result with which the server answered the first `initialize`, or the error answer to this one.
async fn initialized(
    bridge: Arc<Bridge>,
    shared: Arc<SharedProcess>,
    request: ClientRequest,
) -> Result<Box<RawValue>, String> {
    let mut known = shared.initialized.lock().await;
    if let Some(result) = &*known {
        return Ok(result.clone());
    }
    let answer = match ask(&bridge, &shared.process, &request).await {
        Ok(answer) => answer,
        Err(error) => return Err(super::call_state::refusal(&request.id, error.code, &error.message)),
    };
    let result =
        version_of(&answer).and_then(|_| RawObject::parse(&answer.text).ok()?.get("result").map(ToOwned::to_owned));
    let Some(result) = result else { return Err(answer.text) };
    shared.process.send(INITIALIZED.to_owned()).await;
    *known = Some(result.clone());
    Ok(result)
}

/// Asks the server, and waits for its answer. What it sends before the answer goes to the streams of sessions.
async fn ask(bridge: &Bridge, process: &Arc<ServerProcess>, request: &ClientRequest) -> Result<Outgoing, RpcError> {
    let (outbox, in_use) = (Outbox::new(&bridge.context.budget), Usage::new().begin());
    let process = Arc::clone(process);
    let mut exchange = Exchange { outbox, process, calls: Vec::new(), is_modern: false, _in_use: in_use };
    exchange.send(request, None, false).await?;
    exchange.answer().await.ok_or_else(ended)
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
    slot: Slot,
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
        response.headers_mut().insert(HeaderName::from_static(SESSION), id);
    }
    response
}
