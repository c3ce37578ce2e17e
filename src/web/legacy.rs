//! The legacy era, that is, the versions with `initialize` (MCP 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25): sessions.
//! A disconnect does not cancel a call; `notifications/cancelled` does.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;

use super::client::Client;
use super::dispatch::{ClientRequest, unknown_method};
use super::envelope::{ClientMessage, Params, object, text};
use super::exchange::SessionOfPost;
use super::forward::OfSession;
use super::forward_token::is_forwarded;
use super::listener_context::{ListenerContext, PathEndpoint};
use super::message_sender::MessageSender;
use super::offer;
use super::parking::Parking;
use super::requester::Requester;
use super::response::{RpcResponse, empty, refuse};
use super::session_replicas::{Deleted, UsedSession};
use crate::domain::capabilities::ClientCapabilities;
use crate::domain::extensions::TASKS;
use crate::domain::method::Method as McpMethod;
use crate::domain::raw::{RawObject, to_raw};
use crate::domain::reason::Reason;
use crate::domain::rpc::{INVALID_PARAMS, INVALID_REQUEST, RpcError};
use crate::domain::version::{Era, LEGACY_VERSIONS, is_to_come};
use crate::engine::access::session::Session;
use crate::engine::access::session_id::{SessionFacts, SessionScope};
use crate::engine::exchange::Exchange;
use crate::engine::{Reply, Snapshot};
use crate::transport::mcp_headers::{Presence, SESSION_HEADER, VERSION_HEADER, check_routing};

/// The maximum number of characters that are kept of a client's name and version together.
const MAX_CLIENT: usize = 128;
/// The error for a message outside of a session.
const NOT_BEGUN: &str = "no session has begun: begin with initialize, and send the Mcp-Session-Id of its response";
/// The error for a session that is not known.
const NO_SESSION: &str = "Session not found: it ended, or was begun elsewhere; initialize again";

/// What a POST has besides its message.
#[derive(Clone, Copy)]
pub(super) struct OfPost<'a> {
    pub(super) exchange: &'a Exchange,
    /// Its session, which is set once it is found.
    pub(super) session: &'a SessionOfPost,
    /// What lets its call go on as a task.
    pub(super) parking: Option<&'a Parking>,
}

pub(super) async fn answer(
    gate: &Arc<ListenerContext>,
    endpoint: &PathEndpoint,
    headers: &HeaderMap,
    requester: &Requester,
    incoming: ClientMessage<'_>,
    of_post: OfPost<'_>,
) -> RpcResponse {
    if let Err((id, error)) = check_headers(headers, &incoming) {
        return RpcResponse::error(StatusCode::BAD_REQUEST, id, &error);
    }
    let id = match &incoming {
        ClientMessage::Request { id, method, params } if McpMethod::parse(method) == Some(McpMethod::Initialize) => {
            return initialize(gate, endpoint, requester, id, params).await;
        }
        ClientMessage::Request { id, method, .. } if is_unknown_outside(headers, method) => {
            return RpcResponse::error(StatusCode::BAD_REQUEST, id, &unknown_method(method));
        }
        ClientMessage::Request { id, .. } => id,
        _ => "null",
    };
    let session = match find_session(gate, endpoint, headers, requester).await {
        Ok(session) => session,
        Err((status, message)) => return RpcResponse::error(status, id, &RpcError::new(INVALID_REQUEST, message)),
    };
    if matches!(incoming, ClientMessage::Request { .. }) {
        of_post.session.get_or_init(|| Arc::clone(&session));
    }
    let used = UsedSession::new(gate, endpoint, headers, &session, requester.address);
    in_session(used, requester, of_post, incoming).await
}

/// Handles a message of a session that is not `initialize`.
async fn in_session(
    used: UsedSession<'_>,
    requester: &Requester,
    OfPost { exchange, parking, .. }: OfPost<'_>,
    incoming: ClientMessage<'_>,
) -> RpcResponse {
    match incoming {
        ClientMessage::Answer { id, answer } => {
            MessageSender { used }.answered(id, answer, &requester.identity).await;
            RpcResponse::accepted()
        }
        ClientMessage::Notification { method, params } => {
            taken(MessageSender { used }.notified(&method, &params).await)
        }
        ClientMessage::Request { id, method, params } => {
            let UsedSession { gate, endpoint, session, .. } = used;
            let (client, method, params) = (Client::Legacy(session), &*method, &*params);
            let request = ClientRequest { gate, endpoint, client, requester, id, method, params, exchange, parking };
            let reply = tokio::select! {
                reply = request.reply() => reply,
                never = used.keep_home_told() => match never {},
            };
            RpcResponse::reply(id, &reply, Era::Legacy)
        }
    }
}

/// Returns the response to a notification, which only another replica sends in a session that has been ended.
fn taken(taken: Result<(), Deleted>) -> RpcResponse {
    match taken {
        Ok(()) => RpcResponse::accepted(),
        Err(Deleted) => RpcResponse::error(StatusCode::GONE, "null", &RpcError::new(INVALID_REQUEST, NO_SESSION)),
    }
}

/// Whether a request outside of a session has a method that this era does not have. Clients that ask with
/// `server/discover` first, and without the envelope of the modern era, continue with `initialize` after this error only.
fn is_unknown_outside(headers: &HeaderMap, method: &str) -> bool {
    let is_known = McpMethod::parse(method).is_some_and(|method| method.is_of(Era::Legacy));
    !is_known && !headers.contains_key(&SESSION_HEADER)
}

/// In this era, headers that repeat the body are optional. Those that are present must match it, because intermediaries
/// may route by them.
fn check_headers<'a>(headers: &HeaderMap, incoming: &ClientMessage<'a>) -> Result<(), (&'a str, RpcError)> {
    let (id, method, params) = match incoming {
        ClientMessage::Request { id, method, params } => (*id, method, params),
        ClientMessage::Notification { method, params } => ("null", method, params),
        ClientMessage::Answer { .. } => return Ok(()),
    };
    check_routing(headers, method, |param| params.text_of(param), Presence::Optional).map_err(|error| (id, error))
}

/// `initialize`: begins a session. Its version is the requested one if that is supported, otherwise the newest.
async fn initialize(
    gate: &ListenerContext,
    endpoint: &PathEndpoint,
    requester: &Requester,
    id: &str,
    params: &Params<'_>,
) -> RpcResponse {
    let Some(asked) = params.protocol_version.and_then(text) else {
        let error = RpcError::new(INVALID_PARAMS, "`protocolVersion` must be a string");
        return RpcResponse::reply(id, &Reply::Error(error), Era::Legacy);
    };
    if let Err(fault) = ClientCapabilities::check(params.capabilities, "capabilities") {
        return RpcResponse::reply(id, &Reply::Error(RpcError::new(INVALID_PARAMS, fault)), Era::Legacy);
    }
    if let Err(error) = gate.engine.gate.admit_session() {
        return RpcResponse::error(StatusCode::SERVICE_UNAVAILABLE, id, &error);
    }
    let version = LEGACY_VERSIONS.into_iter().find(|version| *version == asked).unwrap_or(LEGACY_VERSIONS[0]);
    let said = gate.engine.lists.announcement(endpoint.as_engine(), &requester.identity).await;
    let (snapshot, now) = (gate.engine.in_force.snapshot(), gate.engine.now());
    let scope = scope(&snapshot, endpoint, requester);
    let facts = SessionFacts {
        version: version.to_owned(),
        client: client_of(params),
        capabilities: ClientCapabilities::read(params.capabilities).without_extension(TASKS),
        created_at: now,
        replica: gate.listener.advertised,
    };
    let Some(session) = gate.engine.gate.sessions().open(facts, scope) else {
        let error = gate.engine.gate.busy(Reason::Sessions, "there are as many sessions as this gateway takes");
        return RpcResponse::error(StatusCode::SERVICE_UNAVAILABLE, id, &error);
    };
    session.note_address(requester.address);
    gate.engine.metrics().sessions(gate.engine.gate.sessions().count());
    let mut result = RawObject::default();
    result.set("protocolVersion", to_raw(&version));
    result.set("capabilities", offer::capabilities(version, &said));
    result.set("serverInfo", offer::server_info(&said));
    if let Some(instructions) = &said.instructions {
        result.set("instructions", to_raw(&instructions.as_ref()));
    }
    RpcResponse::reply(id, &Reply::Result(result.to_raw()), Era::Legacy).with_session(session.id.clone())
}

/// Returns the name and version that the client reports about itself, for display.
fn client_of(params: &Params<'_>) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Info {
        name: String,
        version: String,
    }
    let info = params.client_info.and_then(object).and_then(|info| serde_json::from_str(info).ok());
    let Info { name, version } = info.unwrap_or_default();
    format!("{name} {version}").trim().chars().filter(|c| !c.is_control()).take(MAX_CLIENT).collect()
}

/// Finds the session that a request names. The request must arrive at the endpoint at which the session was opened.
pub(super) async fn find_session(
    gate: &Arc<ListenerContext>,
    endpoint: &PathEndpoint,
    headers: &HeaderMap,
    requester: &Requester,
) -> Result<Arc<Session>, (StatusCode, String)> {
    // A session has the version that `initialize` agreed on, whichever newer one its client also knows.
    let serves = |version: &str| LEGACY_VERSIONS.contains(&version) || is_to_come(version);
    if let Some(version) = headers.get(&VERSION_HEADER)
        && !version.to_str().is_ok_and(serves)
    {
        let message = format!("Unsupported protocol version; {} are spoken in sessions", LEGACY_VERSIONS.join(", "));
        return Err((StatusCode::BAD_REQUEST, message));
    }
    let Some(id) = headers.get(&SESSION_HEADER).and_then(|id| id.to_str().ok()) else {
        return Err((StatusCode::BAD_REQUEST, NOT_BEGUN.to_owned()));
    };
    let sessions = gate.engine.gate.sessions();
    let session = sessions.find(id, scope(&gate.engine.in_force.snapshot(), endpoint, requester), gate.engine.now());
    let Some(session) = session else {
        let status =
            if is_forwarded(headers) && sessions.was_deleted(id) { StatusCode::GONE } else { StatusCode::NOT_FOUND };
        return Err((status, NO_SESSION.to_owned()));
    };
    session.note_address(requester.address);
    let told = UsedSession::new(gate, endpoint, headers, &session, requester.address).tell_home().await;
    told.map_err(|Deleted| (StatusCode::NOT_FOUND, NO_SESSION.to_owned()))?;
    Ok(session)
}

/// Returns the scope of a request's session: the gateway, the principal and the endpoint.
fn scope<'a>(snapshot: &'a Snapshot, endpoint: &'a PathEndpoint, requester: &'a Requester) -> SessionScope<'a> {
    let principal = requester.identity.key();
    SessionScope { gateway: &snapshot.plan().gateway.key, principal, upstream: endpoint.upstream() }
}

/// DELETE: ends a session, here and at the other replicas that use it, even if the client does not wait for the answer.
pub(super) async fn end_session(
    gate: &Arc<ListenerContext>,
    endpoint: &PathEndpoint,
    headers: &HeaderMap,
    requester: &Requester,
) -> Response {
    let (own, endpoint, headers, requester) = (Arc::clone(gate), endpoint.clone(), headers.clone(), requester.clone());
    let ending = gate.engine.gate.run_detached(async move {
        let session = find_session(&own, &endpoint, &headers, &requester).await?;
        own.engine.end_session(&session.id);
        let used = UsedSession::new(&own, &endpoint, &headers, &session, requester.address);
        used.pass_to_others(&OfSession::End).await;
        Ok(())
    });
    match ending.await {
        Ok(Some(Ok(()))) => empty(StatusCode::NO_CONTENT),
        Ok(Some(Err((status, message)))) => refuse(status, message),
        Ok(None) => refuse(StatusCode::SERVICE_UNAVAILABLE, "this gateway is about to end"),
        Err(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR, "the gateway failed while it ended the session"),
    }
}
