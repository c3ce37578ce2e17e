//! The POSTs of clients: which message goes to which process.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;

use super::exchange::PostExchange;
use super::initialize;
use super::message::{self, BridgedMessage, BridgedRequest};
use super::modern;
use super::responses::{accepted, invalid, missing_session, refuse, unavailable, unknown_session};
use super::session::BridgeSession;
use super::state::Bridge;
use crate::domain::budget::{Category, Reservation};
use crate::domain::method::ItemParam;
use crate::domain::rpc::{INVALID_REQUEST, RpcError};
use crate::domain::version::LEGACY_VERSIONS;
use crate::transport::mcp_headers::{
    Presence, SESSION_HEADER, VERSION_HEADER, check_routing, check_single, check_supported, header as text_of,
    is_of_modern_era, mismatch,
};
use crate::transport::{Accept, BodyError, is_encoded, is_json, read_body};

/// How much memory a message takes up while it is rewritten, in multiples of its size.
const COPIES: u64 = 3;

/// What one POST contains.
struct PostContent {
    message: BridgedMessage,
    accept: Accept,
    /// The memory of the message, until it is with the server.
    reservation: Reservation,
}

pub(super) async fn answer(bridge: &Arc<Bridge>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let headers = head.headers;
    if !is_json(&headers) {
        return invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json");
    }
    if is_encoded(&headers) {
        let message = "the body is encoded (Content-Encoding), which is not spoken here: send it as plain JSON";
        return invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, message);
    }
    let accept = Accept::read(&headers);
    if !accept.json && !accept.events {
        return invalid(StatusCode::NOT_ACCEPTABLE, "Accept must name application/json and text/event-stream");
    }
    let session = session_of(bridge, &headers);
    // A session does not end for idleness while a request of it arrives.
    let _in_use = session.as_ref().map(|session| session.usage.begin());
    let reservation = match session {
        Some(session) => bridge.context.budget.reservation_for(Category::Request, &session.account),
        None => bridge.context.budget.reservation(Category::Request),
    };
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let limit = bridge.context.max_message as u64;
    let body = match read_body(body, declared, limit, &reservation, &bridge.closing).await {
        Ok(body) if reservation.resize(COPIES * body.len() as u64).is_ok() => body,
        Ok(_) | Err(BodyError::NoRoom(_)) => {
            return unavailable("null", "the bridge holds as many bytes as it may: try again later", 1);
        }
        Err(error) => return invalid(error.status(), &error.to_string()),
    };
    let read = read(&body);
    drop(body);
    match read {
        Ok(message) => route(bridge, &headers, PostContent { message, accept, reservation }).await,
        Err(error) => refuse(StatusCode::BAD_REQUEST, "null", &error),
    }
}

fn session_of(bridge: &Bridge, headers: &HeaderMap) -> Option<Arc<BridgeSession>> {
    bridge.sessions.find(text_of(headers, &SESSION_HEADER)?)
}

/// Reads the message of a POST.
fn read(body: &[u8]) -> Result<BridgedMessage, RpcError> {
    let text = std::str::from_utf8(body).map_err(|_| RpcError::new(INVALID_REQUEST, "the request is not UTF-8"))?;
    BridgedMessage::parse(text)
}

/// Requests of the modern era belong to no session, even if they name one. All others do, but for `initialize`.
async fn route(bridge: &Arc<Bridge>, headers: &HeaderMap, post: PostContent) -> Response {
    let is_modern = is_modern(headers, &post.message);
    if !is_modern && headers.contains_key(&SESSION_HEADER) {
        return match session_of(bridge, headers) {
            Some(session) => in_session(bridge, headers, &session, post).await,
            None => unknown_session(),
        };
    }
    match post.message {
        BridgedMessage::Request(request) if is_modern => {
            if let Err(error) = check_modern(headers, &request) {
                return refuse(StatusCode::BAD_REQUEST, &request.id, &error);
            }
            modern::answer(bridge, request, post.accept, post.reservation).await
        }
        BridgedMessage::Request(request) if request.method == "initialize" => {
            initialize::answer(bridge, &request).await
        }
        // The modern era cancels by closing a stream, and has no other notification that the server needs.
        BridgedMessage::Notification { .. } if is_modern => accepted(),
        _ => missing_session(),
    }
}

fn is_modern(headers: &HeaderMap, message: &BridgedMessage) -> bool {
    match message {
        BridgedMessage::Request(request) => is_of_modern_era(headers, Some(&request.method), request.is_modern()),
        _ => is_of_modern_era(headers, None, false),
    }
}

/// Checks that the headers of a modern request agree with its body, of which the server sees only the body.
fn check_modern(headers: &HeaderMap, request: &BridgedRequest) -> Result<(), RpcError> {
    check_single(headers, &[&VERSION_HEADER])?;
    request.check_members()?;
    let version = request.version();
    if version.is_none() || text_of(headers, &VERSION_HEADER) != version.as_deref() {
        return Err(mismatch(format!("the {VERSION_HEADER} header does not match the body's protocol version")));
    }
    let param = |param: ItemParam| request.text_of(param).map(Into::into);
    check_routing(headers, &request.method, param, Presence::Required)?;
    check_supported(version.as_deref().unwrap_or_default())
}

async fn in_session(bridge: &Bridge, headers: &HeaderMap, session: &Arc<BridgeSession>, post: PostContent) -> Response {
    if let Some(refusal) = refused_in(session, headers, &post.message) {
        return refusal;
    }
    let PostContent { message, accept, reservation } = post;
    let BridgedMessage::Request(request) = message else {
        pass_on(bridge, session, message).await;
        return accepted();
    };
    if bridge.closing.is_cancelled() {
        return unavailable(&request.id, "the bridge is ending", 1);
    }
    let mut exchange = PostExchange::new(&bridge.context, &session.process, session.usage.begin());
    exchange.send(&request, Some(session.key), accept.events).await;
    drop((request, reservation));
    exchange.respond(accept.events).await
}

/// The refusal of a message in a session, before it is sent to the server.
fn refused_in(session: &BridgeSession, headers: &HeaderMap, message: &BridgedMessage) -> Option<Response> {
    let bad = |message: &str| Some(invalid(StatusCode::BAD_REQUEST, message));
    let version = headers.get(&VERSION_HEADER).map(|version| version.to_str().unwrap_or_default());
    if version.is_some_and(|version| version != session.version && !LEGACY_VERSIONS.contains(&version)) {
        return bad("MCP-Protocol-Version names another version than `initialize` agreed on for the session");
    }
    if matches!(message, BridgedMessage::Request(request) if request.method == "initialize") {
        return bad("the session is initialized already");
    }
    None
}

/// Passes on a notification, or an answer to a request of the server.
async fn pass_on(bridge: &Bridge, session: &BridgeSession, message: BridgedMessage) {
    let (process, calls) = (&session.process, &session.process.calls);
    let text = match message {
        BridgedMessage::Answer { id, object } if calls.take_asked(session.key, &id) => object.to_raw().get().to_owned(),
        BridgedMessage::Notification { method, object } if method == "notifications/cancelled" => {
            let own = message::cancelled_id(&object).and_then(|id| calls.cancel(session.key, &id));
            let Some(own) = own else { return };
            message::with_cancelled(object, own)
        }
        // A shared process is told once, by the bridge.
        BridgedMessage::Notification { method, .. } if bridge.is_shared && method == "notifications/initialized" => {
            return;
        }
        BridgedMessage::Notification { object, .. } => object.to_raw().get().to_owned(),
        BridgedMessage::Answer { .. } | BridgedMessage::Request(_) => return,
    };
    process.send(text).await;
}
