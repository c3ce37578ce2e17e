//! The pipes of a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use prometheus::IntCounter;
use tokio_util::sync::CancellationToken;

use super::open_requests::OpenRequests;
use crate::domain::ids::ObjectKey;
use crate::domain::upstream::UpstreamError;
use crate::transport::{NotSent, StdinQueue};
use crate::upstream::request_failure::RequestFailure;
use crate::upstream::under_way::UnderWay;

/// The pipes of a process, and the state that their readers and writers share.
#[derive(Clone, Debug)]
pub(super) struct ProcessPipes {
    pub(super) calls: Arc<OpenRequests>,
    pub(super) stdin: StdinQueue,
    /// The upstream that the process serves.
    pub(super) key: ObjectKey,
    /// Counts messages that were not sent to the process.
    pub(super) unsent: IntCounter,
    /// The number of lines on the process's stdout that were not usable messages.
    pub(super) strays: Arc<AtomicU64>,
    /// The requests of clients that are under way.
    pub(super) under_way: Arc<UnderWay>,
    /// Whether the negotiated version of the protocol has batches.
    pub(super) batches: Arc<AtomicBool>,
    /// Cancelled to make the process end.
    pub(super) stop: CancellationToken,
    /// Cancelled when the process no longer reads or writes its pipes properly.
    pub(super) ended: CancellationToken,
}

impl ProcessPipes {
    /// Queues one message. Fails if the process no longer reads; the message was then not sent.
    pub(super) async fn send(&self, message: Vec<u8>) -> Result<(), RequestFailure> {
        let sent = self.stdin.send(message).await;
        sent.map_err(|_| RequestFailure::Stale(UpstreamError::Lost("it reads no more".into())))
    }

    /// Queues one message, or drops it if too many are waiting.
    pub(super) fn offer(&self, message: String) {
        if self.stdin.offer(message) == Err(NotSent::Full) {
            self.unsent.inc();
            tracing::debug!("a message to an upstream was dropped: it reads too slowly");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::stdin_queue;

    #[tokio::test]
    async fn messages_that_find_no_room_are_counted() {
        let (stdin, writer) = stdin_queue();
        let unsent = IntCounter::new("unsent", "unsent").unwrap();
        let (calls, batches, strays) = (Arc::new(OpenRequests::new()), Arc::default(), Arc::default());
        let key = ObjectKey::new("default", "up");
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let under_way = Arc::default();
        let wire = ProcessPipes { calls, stdin, key, unsent: unsent.clone(), strays, under_way, batches, stop, ended };
        // More bytes than may wait.
        wire.send(vec![b'x'; 64 << 20]).await.unwrap();
        wire.offer("small".into());
        assert_eq!(unsent.get(), 1);
        drop(writer);
        wire.offer("nobody reads it".into());
        assert!(wire.send(Vec::new()).await.is_err() && unsent.get() == 1);
    }
}
