//! Messages that wait to be written to the stdin of a process, one on each line. Their number and bytes are limited,
//! because a process may stop reading.

use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// How many messages may wait.
const MESSAGES: usize = 64;
/// How many bytes the messages that wait may have together. A message that alone has more waits until no other message
/// is waiting.
const BYTES: usize = 8 << 20;

/// A message, and the permit that accounts for its bytes until it is written.
type Line = (Vec<u8>, OwnedSemaphorePermit);

/// Why a message was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// Too much is waiting.
    Full,
    /// Nothing is written to the process any more.
    Closed,
}

/// The end of the queue that takes messages.
#[derive(Clone, Debug)]
pub struct StdinQueue {
    lines: mpsc::Sender<Line>,
    room: Arc<Semaphore>,
}

/// The end of the queue that writes to the process.
#[derive(Debug)]
pub struct StdinWriter {
    lines: mpsc::Receiver<Line>,
}

/// Creates an empty queue.
pub fn stdin_queue() -> (StdinQueue, StdinWriter) {
    let (sender, receiver) = mpsc::channel(MESSAGES);
    (StdinQueue { lines: sender, room: Arc::new(Semaphore::new(BYTES)) }, StdinWriter { lines: receiver })
}

impl StdinQueue {
    /// Queues a message, and waits while too much is queued.
    ///
    /// # Errors
    /// [`NotSent::Closed`]
    pub async fn send(&self, message: impl Into<Vec<u8>>) -> Result<(), NotSent> {
        let line = one_line(message.into());
        let room = Arc::clone(&self.room).acquire_many_owned(room_of(&line)).await.map_err(|_| NotSent::Closed)?;
        self.lines.send((line, room)).await.map_err(|_| NotSent::Closed)
    }

    /// Queues a message if there is room for it.
    ///
    /// # Errors
    /// Why the message was not queued.
    pub fn offer(&self, message: impl Into<Vec<u8>>) -> Result<(), NotSent> {
        let place = self.lines.try_reserve().map_err(|error| match error {
            mpsc::error::TrySendError::Full(()) => NotSent::Full,
            mpsc::error::TrySendError::Closed(()) => NotSent::Closed,
        })?;
        let line = one_line(message.into());
        let room = Arc::clone(&self.room).try_acquire_many_owned(room_of(&line)).map_err(|_| NotSent::Full)?;
        place.send((line, room));
        Ok(())
    }
}

impl StdinWriter {
    /// Writes messages until `stop` is cancelled or no sender is left, then closes `stdin`. If writing fails, cancels
    /// `broken`: a process that does not read its stdin is useless, even if it is still running.
    pub async fn run(mut self, mut stdin: impl AsyncWrite + Unpin, stop: CancellationToken, broken: CancellationToken) {
        loop {
            let line = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                line = self.lines.recv() => line,
            };
            let Some((line, _room)) = line else { return };
            tokio::select! {
                written = stdin.write_all(&line) => if written.is_err() {
                    return broken.cancel();
                },
                () = stop.cancelled() => return,
            }
        }
    }
}

/// Returns how many bytes of the limit a line takes up.
fn room_of(line: &[u8]) -> u32 {
    u32::try_from(line.len().min(BYTES)).unwrap_or(u32::MAX)
}

/// Puts a message on one line and ends it with a newline. In JSON, newlines occur only between tokens, where a space
/// means the same.
fn one_line(mut message: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'\n', b'\r', &message[at..]) {
        message[at + found] = b' ';
        at += found + 1;
    }
    message.push(b'\n');
    message
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    #[tokio::test]
    async fn what_waits_is_bounded_in_bytes() {
        let (queue, mut writer) = stdin_queue();
        let half = || vec![b'x'; BYTES / 2 - 1];
        for _ in 0..2 {
            queue.send(half()).await.unwrap();
        }
        assert_eq!(queue.offer("small"), Err(NotSent::Full));
        let mut third = std::pin::pin!(queue.send(vec![b'x'; 2 * BYTES]));
        assert!(futures_util::poll!(&mut third).is_pending());
        drop((writer.lines.recv().await, writer.lines.recv().await));
        third.await.unwrap();
        assert!(writer.lines.recv().await.is_some_and(|(line, _)| line.len() > BYTES));
        drop(writer);
        assert_eq!(queue.offer("nobody reads it"), Err(NotSent::Closed));
        assert_eq!(queue.send(half()).await, Err(NotSent::Closed));
    }

    #[tokio::test]
    async fn what_waits_is_bounded_in_number() {
        let (queue, mut writer) = stdin_queue();
        for _ in 0..MESSAGES {
            queue.offer("").unwrap();
        }
        assert_eq!(queue.offer(""), Err(NotSent::Full));
        assert!(writer.lines.recv().await.is_some());
        assert_eq!(queue.offer(""), Ok(()));
    }

    #[tokio::test]
    async fn a_message_is_written_as_one_line() {
        let (queue, writer) = stdin_queue();
        let (stdin, mut other) = duplex(64);
        queue.send("{\"a\":\r\n [1,\n2]}").await.unwrap();
        drop(queue);
        let broken = CancellationToken::new();
        writer.run(stdin, CancellationToken::new(), broken.clone()).await;
        let mut written = String::new();
        other.read_to_string(&mut written).await.unwrap();
        assert_eq!(written, "{\"a\":   [1, 2]}\n");
        assert!(!broken.is_cancelled());
    }

    #[tokio::test]
    async fn a_writer_ends_when_it_is_stopped_or_nobody_reads() {
        let (stop, broken) = (CancellationToken::new(), CancellationToken::new());
        let (queue, writer) = stdin_queue();
        let (stdin, unread) = duplex(1);
        let writing = tokio::spawn(writer.run(stdin, stop.clone(), broken.clone()));
        queue.send("more than fits").await.unwrap();
        stop.cancel();
        writing.await.unwrap();
        assert_eq!((queue.offer("late"), broken.is_cancelled()), (Err(NotSent::Closed), false));
        drop(unread);

        let (queue, writer) = stdin_queue();
        let (stdin, other) = duplex(1);
        drop(other);
        queue.send("nobody reads it").await.unwrap();
        writer.run(stdin, CancellationToken::new(), broken.clone()).await;
        assert!(broken.is_cancelled());
    }
}
