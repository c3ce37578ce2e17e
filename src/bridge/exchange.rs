//! The answer to one POST: JSON, or an event stream if something is sent before the answer or the answer takes long.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use serde_json::json;

use super::call_state::SessionKey;
use super::calls::Caller;
use super::message::{self, ClientRequest};
use super::outbox::{Kind, Outbox, Outgoing};
use super::process::ServerProcess;
use super::usage::InUse;
use crate::domain::raw::to_raw;
use crate::domain::rpc::{
    CAPABILITY_REQUIRED, HEADER_MISMATCH, METHOD_NOT_FOUND, REFUSED, RpcError, UNSUPPORTED_VERSION, failure,
};
use crate::transport::sse::{KEEP_ALIVE, KEEP_ALIVE_EVERY, event, event_stream, written};

/// The calls of one POST, and what the client will be sent. If it is dropped before the answer, the client is gone:
/// that cancels calls of the modern era, but not those of the legacy era.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) outbox: Arc<Outbox>,
    pub(super) process: Arc<ServerProcess>,
    /// The ids of the calls at the server.
    pub(super) calls: Vec<u64>,
    pub(super) is_modern: bool,
    pub(super) _in_use: InUse,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        for own in &self.calls {
            if self.process.calls.abandon(*own) && self.is_modern {
                self.process.offer(message::cancelled(*own));
            }
        }
        self.outbox.close();
    }
}

/// A call that waits to be written. If its client is gone before, nobody will answer it.
struct Unsent {
    process: Arc<ServerProcess>,
    own: Option<u64>,
}

impl Drop for Unsent {
    fn drop(&mut self) {
        if let Some(own) = self.own {
            self.process.calls.forget(own);
        }
    }
}

impl Exchange {
    /// Sends a request to the server. Its answer comes into the outbox.
    ///
    /// # Errors
    /// If the process has ended, or too many calls are under way.
    pub(super) async fn send(
        &mut self,
        request: &ClientRequest,
        session: Option<SessionKey>,
        takes_events: bool,
    ) -> Result<(), RpcError> {
        let own = self.process.calls.open(request, &Caller { session, outbox: &self.outbox, takes_events })?;
        let mut unsent = Unsent { process: Arc::clone(&self.process), own: Some(own) };
        self.process.send(request.render(own)).await;
        unsent.own = None;
        self.calls.push(own);
        Ok(())
    }

    /// Waits for the only answer, and passes over what is sent before it.
    pub(super) async fn answer(&self) -> Option<Outgoing> {
        while let Some(message) = self.outbox.next().await {
            if message.kind != Kind::Event {
                return Some(message);
            }
        }
        None
    }

    /// Answers the POST.
    pub(super) async fn respond(self, takes_events: bool, is_batch: bool) -> Response {
        if !takes_events {
            return self.all_as_json(is_batch).await;
        }
        let mut first = None;
        if !is_batch {
            tokio::select! {
                message = self.outbox.next() => first = message,
                () = tokio::time::sleep(KEEP_ALIVE_EVERY) => {}
            }
        }
        match first.take_if(|first| first.kind != Kind::Event) {
            Some(answer) => self.as_json(answer),
            None => {
                let left = self.calls.len();
                event_stream(events(Events { first, exchange: self, left }))
            }
        }
    }

    async fn all_as_json(&self, is_batch: bool) -> Response {
        let mut answers = Vec::new();
        while answers.len() < self.calls.len()
            && let Some(answer) = self.answer().await
        {
            answers.push(answer);
        }
        match answers.pop() {
            Some(answer) if !is_batch => self.as_json(answer),
            last => {
                let texts: Vec<&str> = answers.iter().chain(&last).map(|answer| answer.text.as_str()).collect();
                json_response(StatusCode::OK, format!("[{}]", texts.join(",")).into())
            }
        }
    }

    /// The answer of the modern era shows some errors as HTTP status (MCP 2026-07-28, Streamable HTTP).
    fn as_json(&self, answer: Outgoing) -> Response {
        let status = match code_of(&answer).filter(|_| self.is_modern) {
            Some(METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
            Some(code) if is_of_modern_era(code) => StatusCode::BAD_REQUEST,
            _ => StatusCode::OK,
        };
        json_response(status, written(answer.text.into(), Some(answer.reservation)))
    }
}

/// Returns the code of an error answer.
pub(super) fn code_of(answer: &Outgoing) -> Option<i64> {
    #[derive(Deserialize)]
    struct Answer {
        error: Code,
    }
    #[derive(Deserialize)]
    struct Code {
        code: i64,
    }
    let is_error = answer.kind == Kind::Error;
    serde_json::from_str::<Answer>(&answer.text).ok().filter(|_| is_error).map(|answer| answer.error.code)
}

/// Whether only servers of the modern era answer with this code.
pub(super) fn is_of_modern_era(code: i64) -> bool {
    matches!(code, HEADER_MISMATCH | CAPABILITY_REQUIRED | UNSUPPORTED_VERSION)
}

/// An event stream that ends with the last of `left` answers.
struct Events {
    first: Option<Outgoing>,
    exchange: Exchange,
    left: usize,
}

fn events(events: Events) -> Body {
    Body::from_stream(stream::unfold(events, |mut events| async move {
        if events.left == 0 {
            return None;
        }
        let next = match events.first.take() {
            Some(first) => Some(first),
            None => tokio::select! {
                message = events.exchange.outbox.next() => Some(message?),
                () = tokio::time::sleep(KEEP_ALIVE_EVERY) => None,
            },
        };
        let Some(message) = next else { return Some((Ok::<_, Infallible>(KEEP_ALIVE), events)) };
        events.left -= usize::from(message.kind != Kind::Event);
        Some((Ok(event_of(message)), events))
    }))
}

/// Renders a message as an event that holds its memory until it is written.
pub(super) fn event_of(message: Outgoing) -> Bytes {
    written(event(&message.text), Some(message.reservation))
}

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
    let error = RpcError::new(REFUSED, reason).with_data(json!({"retryAfterMs": seconds * 1000}));
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
