//! The state that the connections of one worker share: the socket, the rules and the byte count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{Semaphore, mpsc};

use super::dial::DialError;
use crate::domain::egress::EgressRule;
use crate::node::log_mask::LogMask;
use crate::node::metrics::{Direction, WorkerMetrics};
use crate::node::protocol::frame::{FrameKind, begin};

/// The maximum number of bytes that the connections of a worker may send and receive, added up, from the start of one
/// call to the start of the next. On a worker with one seat, this is the limit of each call. Calls that overlap share
/// the limit, but each call that begins resets the count.
const MAX_BYTES: u64 = 64 << 20;
/// How many names are resolved at the same time. A resolver can be slow, and a lookup cannot be cancelled.
const LOOKUPS: usize = 4;
/// The maximum number of bytes of a host's name in the log. No valid name is longer.
const MAX_NAME: usize = 253;
/// How many frames may wait for a worker that does not read.
const QUEUED: usize = 8;

#[derive(Debug)]
pub(super) struct WorkerEgress {
    pub(super) rules: Vec<EgressRule>,
    /// Permits to resolve a name.
    pub(super) lookups: Arc<Semaphore>,
    frames: mpsc::Sender<Vec<u8>>,
    /// Bytes sent and received since the worker's latest call began.
    used: AtomicU64,
    /// Whether a denial was already logged since the worker's latest call began. Only the first one is logged.
    denial_logged: AtomicBool,
    log_mask: LogMask,
    metrics: WorkerMetrics,
}

/// The header of a frame that only names its stream.
#[derive(Deserialize, Serialize)]
pub(super) struct StreamHeader {
    pub(super) stream: u32,
}

#[derive(Serialize)]
struct CloseHeader<'a> {
    stream: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl WorkerEgress {
    /// Creates the egress, and the future that writes its frames.
    pub(super) fn new(
        mut socket: OwnedWriteHalf,
        rules: Vec<EgressRule>,
        log_mask: LogMask,
        metrics: WorkerMetrics,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (frames, mut queue) = mpsc::channel::<Vec<u8>>(QUEUED);
        let (used, denial_logged, lookups) =
            (AtomicU64::new(0), AtomicBool::new(false), Arc::new(Semaphore::new(LOOKUPS)));
        let line = Self { rules, lookups, frames, used, denial_logged, log_mask, metrics };
        let writing = async move {
            while let Some(frame) = queue.recv().await {
                if socket.write_all(&frame).await.is_err() {
                    return;
                }
            }
        };
        (line, writing)
    }

    /// Resets the byte count for a new call, even if others are running, and allows one denial to be logged.
    pub(super) fn begin_call(&self) {
        self.used.store(0, Ordering::Relaxed);
        self.denial_logged.store(false, Ordering::Relaxed);
    }

    /// Counts bytes that a connection has sent or received.
    ///
    /// # Errors
    /// If more than [`MAX_BYTES`] were carried since the worker's latest call began.
    pub(super) fn spend(&self, bytes: usize, direction: Direction) -> Result<(), DialError> {
        let bytes = bytes as u64;
        self.metrics.carried(self.log_mask.name(), direction, bytes);
        match self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > MAX_BYTES {
            true => Err(DialError::TooLarge(MAX_BYTES)),
            false => Ok(()),
        }
    }

    pub(super) fn opened(&self) {
        self.metrics.connection(self.log_mask.name(), "opened");
    }

    /// Counts a connection that failed. If the rules do not allow it, and it is the first such connection since the
    /// worker's latest call began, also logs it.
    pub(super) fn refused(&self, host: &str, port: u16, refusal: &DialError) {
        self.metrics.connection(self.log_mask.name(), refusal.as_label());
        if refusal.is_denial() && !self.denial_logged.swap(true, Ordering::Relaxed) {
            let host = &host[..host.floor_char_boundary(MAX_NAME)];
            let (plugin, host) = (self.log_mask.name(), self.log_mask.masked(host));
            tracing::warn!(target: "hawsepipe::plugin", plugin, "may not connect to {host}:{port}: {refusal}");
        }
    }

    /// Gives the worker credit for one more chunk.
    pub(super) async fn credit(&self, stream: u32) {
        self.send(FrameKind::Credit, &StreamHeader { stream }, None).await;
    }

    /// Sends bytes to the worker. An empty slice means that no more follow.
    pub(super) async fn chunk(&self, stream: u32, bytes: &[u8]) {
        self.send(FrameKind::Chunk, &StreamHeader { stream }, Some(bytes)).await;
    }

    /// Tells the worker that the connection has ended, with the reason if it failed.
    pub(super) async fn close(&self, stream: u32, refusal: Option<&DialError>) {
        let (code, message) = (refusal.map(DialError::code), refusal.map(DialError::to_string));
        self.send(FrameKind::Close, &CloseHeader { stream, code, message }, None).await;
    }

    /// Queues a whole frame. If this future is dropped while it waits, nothing of the frame is sent.
    async fn send(&self, kind: FrameKind, header: &impl Serialize, body: Option<&[u8]>) {
        let mut frame = Vec::with_capacity(64 + body.map_or(0, <[u8]>::len));
        if begin(&mut frame, kind, header, body).is_some() {
            frame.extend_from_slice(body.unwrap_or_default());
            // This fails only if the task that writes frames to the worker has ended, and the connections then end too.
            let _ = self.frames.send(frame).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::net::UnixStream;

    use super::*;
    use crate::node::protocol::socket::Socket;
    use crate::node::protocol::wire::FrameReader;

    #[tokio::test]
    async fn each_start_of_a_call_grants_the_bytes_anew_to_all_calls_of_the_worker() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let metrics = WorkerMetrics::new().unwrap();
        let (line, _) = WorkerEgress::new(ours.into_split().1, Vec::new(), LogMask::named("p"), metrics);
        let half = usize::try_from(MAX_BYTES / 2).unwrap();
        for _ in 0..2 {
            line.begin_call();
            for direction in [Direction::In, Direction::Out] {
                line.spend(half, direction).unwrap();
            }
            assert!(matches!(line.spend(1, Direction::In), Err(DialError::TooLarge(MAX_BYTES))));
        }
    }

    #[tokio::test]
    async fn a_worker_is_told_what_it_may_send_what_came_and_how_a_connection_ended() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let metrics = WorkerMetrics::new().unwrap();
        let (line, written) = WorkerEgress::new(ours.into_split().1, Vec::new(), LogMask::named("p"), metrics);
        let refusal = DialError::TooMany(4);
        let expected = [
            (FrameKind::Credit, json!({"stream": 7}), &b""[..]),
            (FrameKind::Chunk, json!({"stream": 7}), b"bytes"),
            (FrameKind::Close, json!({"stream": 7, "code": refusal.code(), "message": refusal.to_string()}), b""),
            (FrameKind::Close, json!({"stream": 8}), b""),
        ];
        let telling = async move {
            line.credit(7).await;
            line.chunk(7, b"bytes").await;
            line.close(7, Some(&refusal)).await;
            line.close(8, None).await;
        };
        tokio::join!(telling, written);
        let mut heard = FrameReader::new(Socket::new(theirs.into_std().unwrap()).unwrap().reader);
        for (kind, header, body) in expected {
            let head = heard.receive(100).await.unwrap();
            let (json, bytes) = head.parts(heard.bytes());
            assert_eq!((head.kind, serde_json::from_slice::<Value>(json).unwrap(), bytes), (kind, header, body));
            heard.take(&head);
        }
    }
}
