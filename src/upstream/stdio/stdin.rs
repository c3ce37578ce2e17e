//! The stdin of a process.

use std::time::Duration;

use async_trait::async_trait;
use prometheus::IntCounter;

use crate::domain::upstream::UpstreamError;
use crate::transport::{NotSent, StdinQueue};
use crate::upstream::duplex::Outgoing;
use crate::upstream::request_failure::RequestFailure;

/// The messages to a process.
#[derive(Debug)]
pub(super) struct Stdin {
    pub(super) queue: StdinQueue,
    /// Counts messages that were not sent to the process.
    pub(super) unsent: IntCounter,
}

#[async_trait]
impl Outgoing for Stdin {
    async fn send(&self, message: Vec<u8>) -> Result<(), RequestFailure> {
        let sent = self.queue.send(message).await;
        sent.map_err(|_| RequestFailure::Stale(UpstreamError::Lost("it reads no more".into())))
    }

    fn takes_answers_within(&self) -> Option<Duration> {
        None
    }

    fn arrives_early(&self) -> bool {
        false
    }

    fn offer(&self, message: String) {
        if self.queue.offer(message) == Err(NotSent::Full) {
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
        let (queue, writer) = stdin_queue();
        let unsent = IntCounter::new("unsent", "unsent").unwrap();
        let stdin = Stdin { queue, unsent: unsent.clone() };
        // More bytes than may wait.
        stdin.send(vec![b'x'; 64 << 20]).await.unwrap();
        stdin.offer("small".into());
        assert_eq!(unsent.get(), 1);
        drop(writer);
        stdin.offer("nobody reads it".into());
        assert!(stdin.send(Vec::new()).await.is_err() && unsent.get() == 1);
    }
}
