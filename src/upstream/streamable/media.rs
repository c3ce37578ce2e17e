//! What the headers of a response say of its body.

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

/// The kinds of responses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Media {
    Json,
    Events,
    Other,
}

/// Returns the kind of a response by its `Content-Type`.
pub(super) fn media(headers: &HeaderMap) -> Media {
    let value = headers.get(CONTENT_TYPE).map_or(&b""[..], |v| v.as_bytes());
    let kind = value.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    if kind.eq_ignore_ascii_case(b"application/json") {
        Media::Json
    } else if kind.eq_ignore_ascii_case(b"text/event-stream") {
        Media::Events
    } else {
        Media::Other
    }
}

/// Whether a response is a stream of events.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    media(headers) == Media::Events
}

/// Returns the content coding of a response, or `None` if its body is not encoded.
pub(super) fn encoding(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_ENCODING)?.as_bytes().trim_ascii();
    let named = !value.is_empty() && !value.eq_ignore_ascii_case(b"identity");
    named.then(|| String::from_utf8_lossy(value).chars().filter(|c| c.is_ascii_graphic()).take(20).collect())
}
