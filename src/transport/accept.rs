//! Parses the `Accept` header of requests.

use axum::http::{HeaderMap, header};

/// The kinds of answer that a client accepts. A client without an `Accept` header accepts all (RFC 9110, 12.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    /// Whether JSON is accepted.
    pub json: bool,
    /// Whether event streams are accepted.
    pub events: bool,
}

impl Accept {
    /// Reads the header.
    pub fn read(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(header::ACCEPT).iter().peekable();
        let mut accept = Self { json: values.peek().is_none(), events: values.peek().is_none() };
        for kind in values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')) {
            let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            let (any, json, text) = (kind == "*/*", kind == "application/*", kind == "text/*");
            accept.json |= any || json || kind == "application/json";
            accept.events |= any || text || kind == "text/event-stream";
        }
        accept
    }
}
