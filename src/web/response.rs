//! HTTP responses: whole JSON bodies, and streams of events.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;

use crate::domain::budget::{NoRoom, Reservation};
use crate::domain::raw::to_raw;
use crate::domain::reason::Reason;
use crate::domain::rpc::{
    CAPABILITY_REQUIRED, HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND,
    PARSE_ERROR, RpcError, UNSUPPORTED_VERSION, code_of, failure, success,
};
use crate::domain::version::Era;
use crate::engine::in_flight::pending_call::HeldAnswer;
use crate::engine::{Reply, dropped};
use crate::transport::mcp_headers::SESSION_HEADER;
use crate::transport::sse::{event, written};

/// The answer to one message, as an HTTP response or as the last event of a stream.
#[derive(Debug)]
pub(super) struct RpcResponse {
    status: StatusCode,
    /// A message as JSON; empty if there is nothing to send.
    body: String,
    /// The id of the session that the request began, if it began one.
    session: Option<String>,
    /// The scopes without which the request is refused.
    scopes: Vec<String>,
    /// Reserves the memory of the body until the body is written.
    reservation: Option<Arc<Reservation>>,
}

impl RpcResponse {
    /// Creates the response 202, for a notification or an answer.
    pub(super) fn accepted() -> Self {
        Self { status: StatusCode::ACCEPTED, body: String::new(), session: None, scopes: Vec::new(), reservation: None }
    }

    /// Creates the reply to the request with the raw `id`. In the legacy era every JSON-RPC response has status 200, unless
    /// scopes are missing.
    pub(super) fn reply(id: &str, reply: &Reply, era: Era) -> Self {
        let (code, body) = match reply {
            Reply::Result(result) => (None, success(id, result)),
            // The code is about the request to the upstream, so it does not determine the HTTP status here. A capability
            // that lacks is the exception: it is the client's, whose capabilities that request carried.
            Reply::UpstreamError(error) => {
                (code_of(error).filter(|code| *code == CAPABILITY_REQUIRED), failure(id, error))
            }
            Reply::Error(error) => (Some(error.code), failure(id, &to_raw(error))),
        };
        let scopes = if let Reply::Error(error) = reply { error.scopes.clone() } else { Vec::new() };
        let status = match (code, era) {
            _ if !scopes.is_empty() => StatusCode::FORBIDDEN,
            (Some(code), Era::Modern) => status_of(code),
            _ => StatusCode::OK,
        };
        Self { status, body, session: None, scopes, reservation: None }
    }

    /// Creates an error response with this HTTP status. `id` is the raw id of the message; `null` if none could be
    /// read.
    pub(super) fn error(status: StatusCode, id: &str, error: &RpcError) -> Self {
        Self { status, body: failure(id, &to_raw(error)), session: None, scopes: Vec::new(), reservation: None }
    }

    /// Creates the error for a panic while a message was handled. `id` is the message's raw id, or `None` if there is
    /// none or it was not read yet.
    pub(super) fn panicked(id: Option<&str>, era: Era) -> Self {
        let error = RpcError::new(INTERNAL_ERROR, "the gateway failed on this message; its log says where");
        match id {
            Some(id) => Self::reply(id, &Reply::Error(error), era),
            None => Self::error(StatusCode::INTERNAL_SERVER_ERROR, "null", &error),
        }
    }

    /// Creates the error for a message that does not fit into the memory budget.
    pub(super) fn no_room(id: &str) -> Self {
        Self::error(StatusCode::SERVICE_UNAVAILABLE, id, &RpcError::busy(Reason::NoRoom, NoRoom.to_string()))
    }

    /// Returns the response with memory reserved for its body until the body is written, because the client may read
    /// slowly. If the budget has no room for the body, returns an error response instead.
    pub(super) fn held_in(self, reservation: &Arc<Reservation>, id: Option<&str>, era: Era) -> Self {
        match reservation.resize(self.body.len() as u64) {
            Ok(()) => Self { reservation: Some(Arc::clone(reservation)), ..self },
            Err(NoRoom) => Self::reply(id.unwrap_or("null"), &Reply::Error(dropped()), era),
        }
    }

    /// Creates a modern error, with the HTTP status that the specification assigns to its code.
    pub(super) fn modern_error(id: &str, error: &RpcError) -> Self {
        Self::error(status_of(error.code), id, error)
    }

    /// Returns the response with the id of the session that the request began.
    pub(super) fn with_session(self, id: String) -> Self {
        Self { session: Some(id), ..self }
    }

    /// Returns the message as JSON, with the memory that is reserved for it.
    pub(super) fn into_answer(self) -> HeldAnswer {
        HeldAnswer { message: Arc::new(self.body), reservation: self.reservation }
    }

    /// Returns the answer as the last event of a stream.
    pub(super) fn into_event(self) -> Bytes {
        if self.body.is_empty() { Bytes::new() } else { event(&self.body) }
    }

    pub(super) fn into_response(self) -> Response {
        let empty = self.body.is_empty();
        let mut response = Response::new(Body::from(written(self.body.into(), self.reservation)));
        *response.status_mut() = self.status;
        if !self.scopes.is_empty() {
            response.extensions_mut().insert(MissingScopes(self.scopes.join(" ")));
        }
        let headers = response.headers_mut();
        if !empty {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(id) = self.session.and_then(|id| HeaderValue::try_from(id).ok()) {
            headers.insert(SESSION_HEADER, id);
        }
        response
    }
}

/// The scopes that the client of a response lacks, separated by spaces.
#[derive(Clone)]
pub(super) struct MissingScopes(pub(super) String);

/// Returns a response without a body.
pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Refuses a request before any message was read, with this HTTP status and an error without an id.
pub(super) fn refuse(status: StatusCode, message: impl Into<String>) -> Response {
    RpcResponse::error(status, "null", &RpcError::new(INVALID_REQUEST, message)).into_response()
}

/// Returns the response 405, with the methods that the endpoint serves.
pub(super) fn method_not_allowed(allow: &'static str) -> Response {
    let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, format!("this endpoint serves {allow}"));
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

/// Returns the HTTP status of a modern error response (MCP 2026-07-28, Streamable HTTP).
fn status_of(code: i64) -> StatusCode {
    match code {
        PARSE_ERROR | INVALID_REQUEST | INVALID_PARAMS | HEADER_MISMATCH | CAPABILITY_REQUIRED
        | UNSUPPORTED_VERSION => StatusCode::BAD_REQUEST,
        METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::budget::{ByteBudget, Category};

    #[test]
    fn an_upstream_s_error_is_no_status_of_ours() {
        for code in [METHOD_NOT_FOUND, INVALID_PARAMS, UNSUPPORTED_VERSION] {
            let error = RpcError::new(code, "m");
            let theirs = RpcResponse::reply("1", &Reply::UpstreamError(to_raw(&error)), Era::Modern);
            assert_eq!(theirs.status, StatusCode::OK, "{code}");
            assert_ne!(RpcResponse::reply("1", &Reply::Error(error), Era::Modern).status, StatusCode::OK, "{code}");
        }
        let wanted = Reply::UpstreamError(to_raw(&RpcError::new(CAPABILITY_REQUIRED, "m")));
        assert_eq!(RpcResponse::reply("1", &wanted, Era::Modern).status, StatusCode::BAD_REQUEST);
        assert_eq!(RpcResponse::reply("1", &wanted, Era::Legacy).status, StatusCode::OK);
    }

    #[test]
    fn who_gets_no_answer_because_there_is_no_room_is_not_told_to_try_again() {
        let budget = Arc::new(ByteBudget::new(1 << 20));
        let (reservation, others) =
            (Arc::new(budget.reservation(Category::Answer)), budget.reservation(Category::Answer));
        others.resize(768 << 10).unwrap();
        for era in [Era::Modern, Era::Legacy] {
            let result = to_raw(&"x".repeat(64 << 10));
            let answer = RpcResponse::reply("7", &Reply::Result(result), era).held_in(&reservation, Some("7"), era);
            assert_eq!(answer.status, StatusCode::OK);
            let body: serde_json::Value = serde_json::from_str(&answer.into_answer().message).unwrap();
            assert_eq!((&body["id"], &body["error"]["data"]), (&json!(7), &json!({"reason": Reason::NoRoom})));
            assert!(body["error"]["message"].as_str().unwrap().ends_with("what was asked may be done"));
        }
    }
}
