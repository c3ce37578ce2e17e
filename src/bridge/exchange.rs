//! The answer to one POST: JSON, or an event stream if something is sent before the answer or the answer takes long.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::call_state::{SessionKey, refusal};
use super::calls::CallOutput;
use super::context::Context;
use super::message::{self, BridgedRequest};
use super::outbox::{Kind, Outbox, Outgoing};
use super::process::ServerProcess;
use super::responses::{invalid, json_response};
use super::usage::InUse;
use crate::domain::raw::RawObject;
use crate::domain::rpc::{CAPABILITY_REQUIRED, HEADER_MISMATCH, METHOD_NOT_FOUND, UNSUPPORTED_VERSION, code_of};
use crate::transport::sse::{KEEP_ALIVE, KEEP_ALIVE_EVERY, event, event_stream, written};

/// The call of one POST, and what the client will be sent. If it is dropped before the answer, the client is gone:
/// that cancels a call of the modern era, but not one of the legacy era.
#[derive(Debug)]
pub(super) struct PostExchange {
    pub(super) outbox: Arc<Outbox>,
    pub(super) process: Arc<ServerProcess>,
    /// The id of the call at the server, once it was sent.
    call: Option<u64>,
    pub(super) is_modern: bool,
    /// Cancelled when an event stream ends even if there are answers to come.
    pub(super) until: CancellationToken,
    _in_use: InUse,
    /// While this exists, a call is in flight.
    _in_flight: TaskTrackerToken,
}

impl Drop for PostExchange {
    fn drop(&mut self) {
        if let Some(own) = self.call
            && self.process.calls.abandon(own)
            && self.is_modern
        {
            self.process.offer(message::cancelled(own));
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

impl PostExchange {
    /// An exchange without a call.
    pub(super) fn new(context: &Context, process: &Arc<ServerProcess>, in_use: InUse) -> Self {
        Self {
            outbox: Outbox::new(&context.budget),
            process: Arc::clone(process),
            call: None,
            is_modern: false,
            until: CancellationToken::new(),
            _in_use: in_use,
            _in_flight: context.in_flight.token(),
        }
    }

    /// Sends a request to the server. Its answer comes into the outbox; it is an error if the process has ended or too
    /// many calls are under way.
    pub(super) async fn send(&mut self, request: &BridgedRequest, session: Option<SessionKey>, takes_events: bool) {
        let caller = CallOutput { session, outbox: &self.outbox, takes_events };
        match self.process.calls.open(request, &caller) {
            Ok(own) => {
                let mut unsent = Unsent { process: Arc::clone(&self.process), own: Some(own) };
                self.process.send(request.render(own)).await;
                unsent.own = None;
                self.call = Some(own);
            }
            Err(error) => {
                self.outbox.answer(refusal(&request.id, error.code, &error.message), Kind::Error);
            }
        }
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
    pub(super) async fn respond(self, takes_events: bool) -> Response {
        if !takes_events {
            return match self.answer().await {
                Some(answer) => self.as_json(answer),
                None => invalid(StatusCode::INTERNAL_SERVER_ERROR, "the call has no answer"),
            };
        }
        let mut first = None;
        tokio::select! {
            message = self.outbox.next() => first = message,
            () = tokio::time::sleep(KEEP_ALIVE_EVERY) => {}
            () = self.until.cancelled() => {}
        }
        match first.take_if(|first| first.kind != Kind::Event) {
            Some(answer) => self.as_json(answer),
            None => event_stream(events(Events { first, exchange: self, is_over: false })),
        }
    }

    /// The answer of the modern era shows some errors as HTTP status (MCP 2026-07-28, Streamable HTTP).
    fn as_json(&self, answer: Outgoing) -> Response {
        let status = match error_code_of(&answer).filter(|_| self.is_modern) {
            Some(METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
            Some(code) if is_of_modern_era(code) => StatusCode::BAD_REQUEST,
            _ => StatusCode::OK,
        };
        json_response(status, written(answer.text.into(), Some(answer.reservation)))
    }
}

fn error_code_of(answer: &Outgoing) -> Option<i64> {
    let error = RawObject::parse(&answer.text).ok().filter(|_| answer.kind == Kind::Error);
    code_of(error?.get("error")?)
}

/// Whether only servers of the modern era answer with this code.
pub(super) fn is_of_modern_era(code: i64) -> bool {
    matches!(code, HEADER_MISMATCH | CAPABILITY_REQUIRED | UNSUPPORTED_VERSION)
}

/// An event stream that ends with the answer.
struct Events {
    first: Option<Outgoing>,
    exchange: PostExchange,
    /// Whether the answer was sent.
    is_over: bool,
}

fn events(events: Events) -> Body {
    Body::from_stream(stream::unfold(events, |mut events| async move {
        if events.is_over {
            return None;
        }
        let next = match events.first.take() {
            Some(first) => Some(first),
            None => tokio::select! {
                () = events.exchange.until.cancelled() => return None,
                message = events.exchange.outbox.next() => Some(message?),
                () = tokio::time::sleep(KEEP_ALIVE_EVERY) => None,
            },
        };
        let Some(message) = next else { return Some((Ok::<_, Infallible>(KEEP_ALIVE), events)) };
        events.is_over = message.kind != Kind::Event;
        Some((Ok(event_of(message)), events))
    }))
}

/// Renders a message as an event that holds its memory until it is written.
pub(super) fn event_of(message: Outgoing) -> Bytes {
    written(event(&message.text), Some(message.reservation))
}
