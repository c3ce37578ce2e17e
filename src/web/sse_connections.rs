//! The streams of clients that speak HTTP+SSE, by the id that the URI has to which they post their messages.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use dashmap::DashMap;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::domain::limits::Tracker;
use crate::engine::access::session::Session;

/// The streams of one listener.
#[derive(Default)]
pub(super) struct SseConnections(DashMap<String, Arc<SseConnection>>);

/// A stream, and what belongs to it.
pub(super) struct SseConnection {
    /// The upstream at whose endpoint it was opened; `None` for that of all upstreams.
    upstream: Option<String>,
    /// Takes what is sent on the stream.
    pub(super) out: mpsc::Sender<Bytes>,
    /// The session, once `initialize` has begun it.
    pub(super) session: OnceLock<Arc<Session>>,
    /// Cancelled when the session has begun.
    pub(super) begun: CancellationToken,
    /// Cancelled when the stream has ended.
    pub(super) closed: CancellationToken,
    /// Counts the messages that are being handled.
    pub(super) posts: Tracker,
}

impl SseConnections {
    /// Adds a stream. Returns its id, which cannot be guessed, the stream, and the receiver of what is sent on it.
    pub(super) fn add(&self, upstream: Option<&str>) -> (String, Arc<SseConnection>, mpsc::Receiver<Bytes>) {
        // What waits is held in the exchanges of the messages, where it is bounded and counted.
        let (out, received) = mpsc::channel(1);
        let connection = Arc::new(SseConnection {
            upstream: upstream.map(ToOwned::to_owned),
            out,
            session: OnceLock::new(),
            begun: CancellationToken::new(),
            closed: CancellationToken::new(),
            posts: Tracker::default(),
        });
        let id = uuid::Uuid::new_v4().simple().to_string();
        self.0.insert(id.clone(), Arc::clone(&connection));
        (id, connection, received)
    }

    /// Returns the stream with this id, if it was opened at the endpoint of this upstream.
    pub(super) fn find(&self, id: &str, upstream: Option<&str>) -> Option<Arc<SseConnection>> {
        let found = self.0.get(id)?;
        (found.upstream.as_deref() == upstream).then(|| Arc::clone(&found))
    }

    pub(super) fn remove(&self, id: &str) {
        self.0.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_found_at_its_own_endpoint_until_it_ends() {
        let streams = SseConnections::default();
        let (id, _, _) = streams.add(Some("up"));
        assert!(streams.find(&id, Some("up")).is_some());
        assert!(streams.find(&id, None).is_none() && streams.find(&id, Some("other")).is_none());
        assert!(streams.find("x", Some("up")).is_none());
        streams.remove(&id);
        assert!(streams.find(&id, Some("up")).is_none());
    }
}
