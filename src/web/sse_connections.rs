//! The streams of clients that speak HTTP+SSE, by the id that the URI has to which they post their messages.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use dashmap::DashMap;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::domain::limits::Tracker;
use crate::engine::access::session::Session;

/// While more than half of the streams that may be are open, one address has at most this part of them.
const PART_OF_ADDRESS: usize = 4;

/// The streams of one listener.
#[derive(Default)]
pub(super) struct SseConnections(DashMap<String, Arc<SseConnection>>);

/// A stream, and what belongs to it.
pub(super) struct SseConnection {
    /// The upstream at whose endpoint it was opened; `None` for that of all upstreams.
    upstream: Option<String>,
    peer: IpAddr,
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
    /// Adds a stream of a client at `peer`. Returns its id, which cannot be guessed, the stream, and the receiver of what
    /// is sent on it. `None` if there are as many as may be, `most` in all.
    pub(super) fn add(
        &self,
        upstream: Option<&str>,
        peer: IpAddr,
        most: usize,
    ) -> Option<(String, Arc<SseConnection>, mpsc::Receiver<Bytes>)> {
        let open = self.0.len();
        let of_address = || self.0.iter().filter(|connection| connection.peer == peer).count();
        if open >= most || (open >= most / 2 && of_address() >= most / PART_OF_ADDRESS) {
            return None;
        }
        // What waits is held in the exchanges of the messages, where it is bounded and counted.
        let (out, received) = mpsc::channel(1);
        let connection = Arc::new(SseConnection {
            upstream: upstream.map(ToOwned::to_owned),
            peer,
            out,
            session: OnceLock::new(),
            begun: CancellationToken::new(),
            closed: CancellationToken::new(),
            posts: Tracker::default(),
        });
        let id = uuid::Uuid::new_v4().simple().to_string();
        self.0.insert(id.clone(), Arc::clone(&connection));
        Some((id, connection, received))
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

    fn at(last: u8) -> IpAddr {
        [127, 0, 0, last].into()
    }

    #[test]
    fn a_stream_is_found_at_its_own_endpoint_until_it_ends() {
        let streams = SseConnections::default();
        let (id, _, _) = streams.add(Some("up"), at(1), 10).unwrap();
        assert!(streams.find(&id, Some("up")).is_some());
        assert!(streams.find(&id, None).is_none() && streams.find(&id, Some("other")).is_none());
        assert!(streams.find("x", Some("up")).is_none());
        streams.remove(&id);
        assert!(streams.find(&id, Some("up")).is_none());
    }

    #[test]
    fn one_address_does_not_take_all_streams() {
        let streams = SseConnections::default();
        let opened = (0..20).filter(|_| streams.add(None, at(1), 16).is_some()).count();
        assert_eq!(opened, 8, "half of them");
        let others =
            (2..9).flat_map(|last| [at(last); 4]).filter(|peer| streams.add(None, *peer, 16).is_some()).count();
        assert_eq!(others, 8, "the other half");
    }
}
