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
use crate::engine::exchange::HeldAnswer;
use crate::engine::{Reply, dropped};
use crate::transport::mcp_headers::SESSION_HEADER;
use crate::transport::sse::{event, written};

/// The answer to one message, as an HTTP response or as the last event of a stream.
#[derive(Debug)]
pub(super) struct RpcResponse {
    status: StatusCode,
    body: AnswerBody,
    /// The id of the session that the request began, if it began one.
    session: Option<String>,
    /// Reserves the memory of the body until the body is written.
    reservation: Option<Arc<Reservation>>,
}

/// What is sent as the answer.
#[derive(Debug)]
enum AnswerBody {
    /// A message as JSON; empty if there is nothing to send.
    One(String),
    /// The messages that answer a batch, at least one, and the raw ids of its requests.
    Batch(Vec<String>, Vec<String>),
}

impl AnswerBody {
    fn len(&self) -> usize {
        match self {
            Self::One(body) => body.len(),
            Self::Batch(bodies, _) => bodies.iter().map(|body| body.len() + 1).sum::<usize>() + 1,
        }
    }

    fn into_json(self) -> String {
        match self {
            Self::One(body) => body,
            Self::Batch(bodies, _) => format!("[{}]", bodies.join(",")),
        }
    }
}

impl RpcResponse {
    /// Creates the response 202, for a notification or an answer.
    pub(super) fn accepted() -> Self {
        Self { status: StatusCode::ACCEPTED, body: AnswerBody::One(String::new()), session: None, reservation: None }
    }

    /// Creates the reply to the request with the raw `id`. In the legacy era every JSON-RPC response has status 200.
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
        let status = match (code, era) {
            (Some(code), Era::Modern) => status_of(code),
            _ => StatusCode::OK,
        };
        Self { status, body: AnswerBody::One(body), session: None, reservation: None }
    }

    /// Creates the answer to a batch from those to its messages, of which there is at least one. `ids` are the raw ids of its
    /// requests.
    pub(super) fn batch(answers: Vec<Self>, ids: Vec<String>) -> Self {
        let bodies = answers.into_iter().map(|answer| answer.body.into_json()).filter(|body| !body.is_empty());
        let body = AnswerBody::Batch(bodies.collect(), ids);
        Self { status: StatusCode::OK, body, session: None, reservation: None }
    }

    /// Creates an error response with this HTTP status. `id` is the raw id of the message; `null` if none could be
    /// read.
    pub(super) fn error(status: StatusCode, id: &str, error: &RpcError) -> Self {
        Self { status, body: AnswerBody::One(failure(id, &to_raw(error))), session: None, reservation: None }
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

    /// Creates the errors for a batch that does not fit into the memory budget: one for each request, by their raw ids.
    pub(super) fn no_room_for_batch(ids: Vec<String>) -> Self {
        let errors = ids.iter().map(|id| Self::no_room(id)).collect();
        Self { status: StatusCode::SERVICE_UNAVAILABLE, ..Self::batch(errors, ids) }
    }

    /// Creates the error for a message that does not fit into the memory budget.
    pub(super) fn no_room(id: &str) -> Self {
        Self::error(StatusCode::SERVICE_UNAVAILABLE, id, &RpcError::busy(Reason::NoRoom, NoRoom.to_string()))
    }

    /// Returns the response with memory reserved for its body until the body is written, because the client may read
    /// slowly. If the budget has no room for the body, returns an error response instead, with an error for each request of a
    /// batch.
    pub(super) fn held_in(self, reservation: &Arc<Reservation>, id: Option<&str>, era: Era) -> Self {
        match reservation.resize(self.body.len() as u64) {
            Ok(()) => Self { reservation: Some(Arc::clone(reservation)), ..self },
            Err(NoRoom) => {
                let error = |id: &str| Self::reply(id, &Reply::Error(dropped()), era);
                match self.body {
                    AnswerBody::Batch(_, ids) if !ids.is_empty() => {
                        Self::batch(ids.iter().map(|id| error(id)).collect(), ids)
                    }
                    _ => error(id.unwrap_or("null")),
                }
            }
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

    /// The id of the session that the request began.
    pub(super) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Returns the message as JSON, with the memory that is reserved for it.
    pub(super) fn into_answer(self) -> HeldAnswer {
        HeldAnswer { message: self.body.into_json(), reservation: self.reservation }
    }

    /// Returns the answer as the last events of a stream: one for each message.
    pub(super) fn into_events(self) -> Bytes {
        match self.body {
            AnswerBody::One(body) if body.is_empty() => Bytes::new(),
            AnswerBody::One(body) => event(&body),
            AnswerBody::Batch(bodies, _) => bodies.iter().map(|body| event(body)).collect::<Vec<_>>().concat().into(),
        }
    }

    pub(super) fn into_response(self) -> Response {
        let body = self.body.into_json();
        let empty = body.is_empty();
        let mut response = Response::new(Body::from(written(body.into(), self.reservation)));
        *response.status_mut() = self.status;
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
        let answers =
            ["1", "2"].map(|id| RpcResponse::reply(id, &Reply::Result(to_raw(&"x".repeat(16 << 10))), Era::Legacy));
        let batch = RpcResponse::batch(answers.into(), vec!["1".into(), "2".into()]);
        let body = batch.held_in(&reservation, None, Era::Legacy).into_answer().message;
        let errors: Vec<serde_json::Value> = serde_json::from_str(&body).unwrap();
        assert_eq!(errors.iter().map(|error| &error["id"]).collect::<Vec<_>>(), [&json!(1), &json!(2)]);
        assert!(errors.iter().all(|error| error["error"]["data"] == json!({"reason": Reason::NoRoom})), "{body}");
    }
}
