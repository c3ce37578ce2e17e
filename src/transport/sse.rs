//! Server-sent events, and bytes that hold a reservation of memory until they are written.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;

use crate::domain::budget::Reservation;

/// An SSE comment that keeps a silent stream open through proxies.
pub const KEEP_ALIVE: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// How long a stream is silent before a keep-alive comment is sent, and how long a call may take before its answer
/// becomes a stream.
pub const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);

/// Renders one message as a server-sent event. If the JSON has several lines, each becomes a `data` field.
pub fn event(message: &str) -> Bytes {
    rendered(String::with_capacity(message.len() + 24), message)
}

/// Like [`event`], with an id, which has no newlines.
pub fn event_with_id(id: &str, message: &str) -> Bytes {
    let mut text = String::with_capacity(message.len() + id.len() + 30);
    text.push_str("id: ");
    text.push_str(id);
    text.push('\n');
    rendered(text, message)
}

/// Renders an event without data. It tells the client the id to come back with, and after what time (MCP 2025-11-25,
/// Streamable HTTP).
pub fn priming_event(id: &str, retry: Duration) -> Bytes {
    format!("id: {id}\nretry: {}\ndata: \n\n", retry.as_millis()).into()
}

fn rendered(mut text: String, message: &str) -> Bytes {
    text.push_str("event: message\n");
    // Lines without anything are white space between the tokens of the message. Each would take the room of its name.
    for line in message.split(['\n', '\r']).filter(|line| !line.trim_ascii().is_empty()) {
        text.push_str("data: ");
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
    text.into()
}

/// Returns a response whose body is a stream of events.
pub fn event_stream(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// Returns `bytes` in a form that keeps the reservation until they are written.
pub fn written(bytes: Bytes, reservation: Option<Arc<Reservation>>) -> Bytes {
    struct BudgetedBytes {
        bytes: Bytes,
        _reservation: Arc<Reservation>,
    }
    impl AsRef<[u8]> for BudgetedBytes {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }
    match reservation {
        Some(reservation) => Bytes::from_owner(BudgetedBytes { bytes, _reservation: reservation }),
        None => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_over_lines_is_one_event() {
        assert_eq!(&event("{\n\"a\":1}")[..], b"event: message\ndata: {\ndata: \"a\":1}\n\n");
        assert_eq!(
            &event(&format!("{}{{\r\n}}\n \n", "\n".repeat(1_000)))[..],
            b"event: message\ndata: {\ndata: }\n\n"
        );
        assert_eq!(&priming_event("a.0", Duration::from_secs(2))[..], b"id: a.0\nretry: 2000\ndata: \n\n");
        assert_eq!(&event_with_id("a.1", "{}")[..], b"id: a.1\nevent: message\ndata: {}\n\n");
    }
}
