//! The pipes of a process, and the limits on messages that wait to be written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use prometheus::IntCounter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::open_requests::OpenRequests;
use crate::domain::ids::ObjectKey;
use crate::domain::upstream::UpstreamError;
use crate::upstream::request_failure::RequestFailure;

/// How many messages may wait to be written to a process.
pub(super) const OUTGOING: usize = 64;

/// How many bytes the messages that wait to be written may have together. A message that alone has more waits until no
/// other message is waiting.
pub(super) const OUTGOING_BYTES: usize = 8 << 20;

/// A message, and the permit that accounts for its bytes until it is written.
pub(super) type Outgoing = (Vec<u8>, OwnedSemaphorePermit);

/// The pipes of a process, and the state that their readers and writers share.
#[derive(Clone, Debug)]
pub(super) struct ProcessPipes {
    pub(super) calls: Arc<OpenRequests>,
    pub(super) outgoing: mpsc::Sender<Outgoing>,
    /// Limits the bytes of messages that wait to be written, because a process may stop reading.
    pub(super) room: Arc<Semaphore>,
    /// The upstream that the process serves.
    pub(super) key: ObjectKey,
    /// Counts messages that were not sent to the process.
    pub(super) unsent: IntCounter,
    /// The number of lines on the process's stdout that were not usable messages.
    pub(super) strays: Arc<AtomicU64>,
    /// Whether the negotiated version of the protocol has batches.
    pub(super) batches: Arc<AtomicBool>,
    /// Cancelled to make the process end.
    pub(super) stop: CancellationToken,
    /// Cancelled when the process no longer reads or writes its pipes properly.
    pub(super) ended: CancellationToken,
}

impl ProcessPipes {
    /// Queues one message. Fails if the process no longer reads; the message was then not sent.
    pub(super) async fn send(&self, mut text: Vec<u8>) -> Result<(), RequestFailure> {
        one_line(&mut text);
        let gone = || RequestFailure::Stale(UpstreamError::Lost("it reads no more".into()));
        let room = Arc::clone(&self.room).acquire_many_owned(room_of(&text)).await.map_err(|_| gone())?;
        self.outgoing.send((text, room)).await.map_err(|_| gone())
    }

    /// Queues one message, or drops it if too many are waiting.
    pub(super) fn offer(&self, text: String) {
        let mut text = text.into_bytes();
        one_line(&mut text);
        let room = Arc::clone(&self.room).try_acquire_many_owned(room_of(&text)).ok();
        let sent = room.is_some_and(|room| self.outgoing.try_send((text, room)).is_ok());
        if !sent && !self.outgoing.is_closed() {
            self.unsent.inc();
            tracing::debug!("a message to an upstream was dropped: it reads too slowly");
        }
    }
}

/// Returns how many bytes of the limit a message takes up.
fn room_of(text: &[u8]) -> u32 {
    u32::try_from(text.len().min(OUTGOING_BYTES)).unwrap_or(u32::MAX)
}

/// Puts a message on one line and ends it with a newline. In JSON, newlines occur only between tokens, where a space
/// means the same.
fn one_line(text: &mut Vec<u8>) {
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'\n', b'\r', &text[at..]) {
        text[at + found] = b' ';
        at += found + 1;
    }
    text.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_waits_for_a_process_is_bounded_in_bytes() {
        let (outgoing, mut queue) = mpsc::channel(OUTGOING);
        let room = Arc::new(Semaphore::new(OUTGOING_BYTES));
        let unsent = IntCounter::new("unsent", "unsent").unwrap();
        let (calls, batches, strays) = (Arc::new(OpenRequests::new()), Arc::default(), Arc::default());
        let key = ObjectKey::new("default", "up");
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let wire = ProcessPipes { calls, outgoing, room, key, unsent: unsent.clone(), strays, batches, stop, ended };
        let half = || vec![b'x'; OUTGOING_BYTES / 2 - 1];
        for _ in 0..2 {
            wire.send(half()).await.unwrap();
        }
        wire.offer("small".into());
        assert_eq!(unsent.get(), 1);
        let mut third = std::pin::pin!(wire.send(vec![b'x'; 2 * OUTGOING_BYTES]));
        assert!(futures_util::poll!(&mut third).is_pending());
        drop((queue.recv().await, queue.recv().await));
        third.await.unwrap();
        assert!(queue.recv().await.is_some_and(|(text, _)| text.len() > OUTGOING_BYTES));
        drop(queue);
        wire.offer("nobody reads it".into());
        assert!(wire.send(half()).await.is_err() && unsent.get() == 1);
    }

    #[test]
    fn a_message_is_one_line() {
        let mut text = b"{\"a\":\r\n [1,\n2]}".to_vec();
        one_line(&mut text);
        assert_eq!(text, b"{\"a\":   [1, 2]}\n");
    }
}
