//! Responses that are not answers of the server.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;

use crate::domain::raw::to_raw;
use crate::domain::rpc::{INVALID_REQUEST, REFUSED, RpcError, failure};

/// A response with this JSON.
pub(super) fn json_response(status: StatusCode, body: Bytes) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A refusal with this HTTP status. `id` is the raw id of the message; `null` if it has none.
pub(super) fn refuse(status: StatusCode, id: &str, error: &RpcError) -> Response {
    json_response(status, failure(id, &to_raw(error)).into())
}

/// The refusal 503, and after how many seconds to try again.
pub(super) fn unavailable(id: &str, reason: &str, seconds: u64) -> Response {
    let error = RpcError::new(REFUSED, reason).with_retry_after(seconds * 1000);
    let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, id, &error);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// The response to notifications and answers.
pub(super) fn accepted() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// The refusal of a request that has no id, or whose id is not read.
pub(super) fn invalid(status: StatusCode, message: &str) -> Response {
    refuse(status, "null", &RpcError::new(INVALID_REQUEST, message))
}

/// The refusal of a request that names no session.
pub(super) fn missing_session() -> Response {
    invalid(StatusCode::BAD_REQUEST, "the header Mcp-Session-Id is missing: begin a session with `initialize`")
}

/// The refusal of a request whose session has ended, or never was.
pub(super) fn unknown_session() -> Response {
    invalid(StatusCode::NOT_FOUND, "Session not found: begin another with `initialize`")
}
