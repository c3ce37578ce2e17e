//! The HTTP interface: health, the MCP endpoint, and the streams of sessions.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{any, get};
use axum::{Router, middleware};
use futures_util::stream;

use super::exchange::event_of;
use super::post;
use super::responses::{invalid, json_response, missing_session, unavailable, unknown_session};
use super::state::Bridge;
use crate::transport::Accept;
use crate::transport::mcp_headers::SESSION_HEADER;
use crate::transport::sse::{KEEP_ALIVE, KEEP_ALIVE_EVERY, event_stream};

/// Returns the router of the bridge.
pub(super) fn router(bridge: Arc<Bridge>, path: &str) -> Router {
    Router::new()
        .route(path, any(endpoint))
        .route("/healthz", get(health))
        .layer(middleware::from_fn(no_browsers))
        .layer(middleware::from_fn_with_state(Arc::clone(&bridge), ask_for_new_connections))
        .with_state(bridge)
}

/// Refuses browsers: a page on another site could otherwise reach a bridge of its reader's network.
async fn no_browsers(request: Request, next: middleware::Next) -> Response {
    match request.headers().contains_key(header::ORIGIN) {
        true => invalid(StatusCode::FORBIDDEN, "requests with an Origin header are refused"),
        false => next.run(request).await,
    }
}

/// While the bridge ends, tells clients to use a new connection for their next request: it may then reach another pod.
async fn ask_for_new_connections(
    State(bridge): State<Arc<Bridge>>,
    request: Request,
    next: middleware::Next,
) -> Response {
    let mut response = next.run(request).await;
    if bridge.draining.is_cancelled() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
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
        "POST" => post::answer(&bridge, request).await,
        "GET" => stream_of(&bridge, request.headers()),
        "DELETE" => match request.headers().get(&SESSION_HEADER).and_then(|id| id.to_str().ok()) {
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

/// The stream of what the server sends outside of calls.
fn stream_of(bridge: &Bridge, headers: &HeaderMap) -> Response {
    let Some(id) = headers.get(&SESSION_HEADER) else { return missing_session() };
    if !Accept::read(headers).events {
        return invalid(StatusCode::NOT_ACCEPTABLE, "Accept must name text/event-stream");
    }
    let Some(session) = id.to_str().ok().and_then(|id| bridge.sessions.find(id)) else { return unknown_session() };
    if bridge.draining.is_cancelled() {
        return unavailable("null", "the bridge is ending", 1);
    }
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
