//! The MCP endpoint: which request goes to which process.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{any, get};
use axum::{Router, middleware};
use futures_util::stream;

use super::exchange::{Exchange, accepted, event_of, json_response, refuse, unavailable};
use super::initialize;
use super::message::{self, ClientMessage};
use super::modern;
use super::outbox::Outbox;
use super::session::Session;
use super::state::{Bridge, SESSION};
use crate::domain::budget::Category;
use crate::domain::members::MOST;
use crate::domain::rpc::{INVALID_REQUEST, RpcError};
use crate::domain::version::{BATCH_VERSION, LEGACY_VERSIONS, MODERN_VERSIONS};
use crate::transport::sse::{KEEP_ALIVE, KEEP_ALIVE_EVERY, event_stream};
use crate::transport::{Accept, BodyError, is_json, read_body};

const VERSION: &str = "mcp-protocol-version";
/// How much memory a message takes up while it is rewritten, in multiples of its size.
const COPIES: u64 = 3;

/// What one POST contains.
struct Post {
    messages: Vec<ClientMessage>,
    is_batch: bool,
    accept: Accept,
}

/// Returns the router of the bridge.
pub(super) fn router(bridge: Arc<Bridge>, path: &str) -> Router {
    Router::new()
        .route(path, any(endpoint))
        .route("/healthz", get(health))
        .layer(middleware::from_fn(no_browsers))
        .with_state(bridge)
}

/// Refuses browsers: a page on another site could otherwise reach a bridge of its reader's network.
async fn no_browsers(request: Request, next: middleware::Next) -> Response {
    match request.headers().contains_key(header::ORIGIN) {
        true => invalid(StatusCode::FORBIDDEN, "requests with an Origin header are refused"),
        false => next.run(request).await,
    }
}

async fn health(State(bridge): State<Arc<Bridge>>) -> Response {
    let serves = if bridge.is_shared { bridge.keeper.runs() } else { bridge.context.find().is_ok() };
    let (status, text) = match (serves, bridge.draining.is_cancelled()) {
        (true, false) => (StatusCode::OK, r#"{"status":"ok"}"#),
        (true, true) => (StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"ending"}"#),
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"the server does not run"}"#),
    };
    json_response(status, text.into())
}

async fn endpoint(State(bridge): State<Arc<Bridge>>, request: Request) -> Response {
    match request.method().as_str() {
        "POST" => post(&bridge, request).await,
        "GET" => stream_of(&bridge, request.headers()),
        "DELETE" => match request.headers().get(SESSION).and_then(|id| id.to_str().ok()) {
            Some(id) if bridge.sessions.end(id) => no_content(),
            Some(_) => unknown_session(),
            None => missing_session(),
        },
        _ => {
            let mut response = invalid(StatusCode::METHOD_NOT_ALLOWED, "this endpoint serves POST, GET and DELETE");
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST, GET, DELETE"));
            response
        }
    }
}

async fn post(bridge: &Arc<Bridge>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let headers = head.headers;
    if !is_json(&headers) {
        return invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json");
    }
    let accept = Accept::read(&headers);
    if !accept.json && !accept.events {
        return invalid(StatusCode::NOT_ACCEPTABLE, "Accept must name application/json and text/event-stream");
    }
    let reservation = bridge.context.budget.reservation(Category::Request);
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let body = match read_body(body, declared, bridge.context.max_message as u64, &reservation).await {
        Ok(body) if reservation.resize(COPIES * body.len() as u64).is_ok() => body,
        Ok(_) | Err(BodyError::NoRoom(_)) => {
            return unavailable("null", "the bridge holds as many bytes as it may: try again later", 1);
        }
        Err(error) => return invalid(error.status(), &error.to_string()),
    };
    let post = match read(&body, accept) {
        Ok(post) => post,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, "null", &error),
    };
    route(bridge, &headers, post).await
}

/// Reads the messages of a POST.
fn read(body: &[u8], accept: Accept) -> Result<Post, RpcError> {
    let text = std::str::from_utf8(body).map_err(|_| RpcError::new(INVALID_REQUEST, "the request is not UTF-8"))?;
    let (is_batch, texts) = message::split(text, MOST)?;
    let messages = texts.into_iter().map(|text| ClientMessage::parse(text.get())).collect::<Result<_, _>>()?;
    Ok(Post { messages, is_batch, accept })
}

async fn route(bridge: &Arc<Bridge>, headers: &HeaderMap, post: Post) -> Response {
    let version = headers.get(VERSION).map(|version| version.to_str().unwrap_or_default());
    if version.is_some_and(|version| !LEGACY_VERSIONS.contains(&version) && !MODERN_VERSIONS.contains(&version)) {
        return invalid(StatusCode::BAD_REQUEST, "MCP-Protocol-Version names a version that is not known here");
    }
    if let Some(id) = headers.get(SESSION) {
        let session = id.to_str().ok().and_then(|id| bridge.sessions.find(id));
        return match session {
            Some(session) => in_session(bridge, &session, post).await,
            None => unknown_session(),
        };
    }
    let is_modern = version.is_some_and(|version| MODERN_VERSIONS.contains(&version));
    match (post.messages.as_slice(), post.is_batch) {
        ([ClientMessage::Request(request)], false) if request.is_modern() || is_modern => {
            modern::answer(bridge, request, post.accept).await
        }
        ([ClientMessage::Request(request)], false) if request.method == "initialize" => {
            initialize::answer(bridge, request).await
        }
        // The modern era cancels by closing a stream, and has no other notification that the server needs.
        ([ClientMessage::Notification { .. }], false) if is_modern => accepted(),
        _ => missing_session(),
    }
}

async fn in_session(bridge: &Bridge, session: &Arc<Session>, post: Post) -> Response {
    if post.is_batch && session.version != BATCH_VERSION {
        return invalid(
            StatusCode::BAD_REQUEST,
            "only version 2025-03-26 has batches: send one message in each request",
        );
    }
    let (outbox, process) = (Outbox::new(&bridge.context.budget), Arc::clone(&session.process));
    let in_use = session.usage.begin();
    let mut exchange = Exchange { outbox, process, calls: Vec::new(), is_modern: false, _in_use: in_use };
    for message in post.messages {
        match message {
            ClientMessage::Request(request) if request.method == "initialize" => {
                return invalid(StatusCode::BAD_REQUEST, "the session is initialized already");
            }
            ClientMessage::Request(request) => {
                if let Err(error) = exchange.send(&request, Some(session.key), post.accept.events).await {
                    return refuse(StatusCode::OK, &request.id, &error);
                }
            }
            other => pass_on(bridge, session, other).await,
        }
    }
    match exchange.calls.is_empty() {
        true => accepted(),
        false => exchange.respond(post.accept.events, post.is_batch).await,
    }
}

/// Passes on a notification, or an answer to a request of the server.
async fn pass_on(bridge: &Bridge, session: &Session, message: ClientMessage) {
    let (process, calls) = (&session.process, &session.process.calls);
    let text = match message {
        ClientMessage::Answer { id, object } if calls.take_asked(session.key, &id) => object.to_raw().get().to_owned(),
        ClientMessage::Notification { method, object } if method == "notifications/cancelled" => {
            let own = message::cancelled_id(&object).and_then(|id| calls.cancel(session.key, &id));
            let Some(own) = own else { return };
            message::with_cancelled(object, own)
        }
        // A shared process is told once, by the bridge.
        ClientMessage::Notification { method, .. } if bridge.is_shared && method == "notifications/initialized" => {
            return;
        }
        ClientMessage::Notification { object, .. } => object.to_raw().get().to_owned(),
        ClientMessage::Answer { .. } | ClientMessage::Request(_) => return,
    };
    process.send(text).await;
}

/// The stream of what the server sends outside of calls.
fn stream_of(bridge: &Bridge, headers: &HeaderMap) -> Response {
    let Some(id) = headers.get(SESSION) else { return missing_session() };
    if !Accept::read(headers).events {
        return invalid(StatusCode::NOT_ACCEPTABLE, "Accept must name text/event-stream");
    }
    let Some(session) = id.to_str().ok().and_then(|id| bridge.sessions.find(id)) else { return unknown_session() };
    let (replaced, in_use) = (session.read_stream(), session.usage.begin());
    let state = (session, replaced, bridge.draining.clone(), in_use);
    event_stream(Body::from_stream(stream::unfold(state, |state| async move {
        let (session, replaced, draining, _) = &state;
        let bytes = tokio::select! {
            biased;
            () = replaced.cancelled() => return None,
            () = draining.cancelled() => return None,
            message = session.stream.next() => event_of(message?),
            () = tokio::time::sleep(KEEP_ALIVE_EVERY) => KEEP_ALIVE,
        };
        Some((Ok::<_, Infallible>(bytes), state))
    })))
}

fn no_content() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

fn invalid(status: StatusCode, message: &str) -> Response {
    refuse(status, "null", &RpcError::new(INVALID_REQUEST, message))
}

fn missing_session() -> Response {
    invalid(StatusCode::BAD_REQUEST, "the header Mcp-Session-Id is missing: begin a session with `initialize`")
}

fn unknown_session() -> Response {
    invalid(StatusCode::NOT_FOUND, "Session not found: begin another with `initialize`")
}
