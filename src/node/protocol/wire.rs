//! The carriers of a channel's frames: a socket for one call ([`ExclusiveWire`]), or a share of a socket that several
//! calls use at the same time ([`SharedWire`](super::shared::SharedWire)).

use std::io::{self, IoSlice};

use serde::Serialize;

use super::frame::{self, FrameKind, HEAD, Head, MAX_HEADER, Malformed, Start};
use super::socket::{Socket, SocketReader, SocketWriter};
use super::{closed, too_large};
use crate::domain::plugin::Failure;
use crate::domain::reason::Reason;

/// The maximum number of bytes of a log line.
pub const MAX_LOG: usize = 64 << 10;
/// Buffers that grew larger are shrunk to this size after the call.
const KEPT: usize = 512 << 10;

/// Carries frames to and from a worker, for one call at a time.
pub trait Wire: Send {
    /// Whether other calls can use the worker at the same time.
    const SHARED: bool;

    /// Starts to receive the frames of the call with this id.
    fn enter(&mut self, call: u64);

    /// Ends the call. Later frames for it are dropped.
    fn leave(&mut self);

    /// Sends one frame. If this future is dropped before it completes, the wire becomes [unusable](Wire::is_usable),
    /// unless it is shared.
    ///
    /// # Errors
    /// `InvalidInput` if the header does not fit in a frame; any other error means that the worker has ended.
    fn send(
        &mut self,
        kind: FrameKind,
        header: &(impl Serialize + Sync),
        body: Option<&[u8]>,
    ) -> impl Future<Output = io::Result<()>> + Send;

    /// Waits for a whole frame, which stays in the buffer until [`Wire::take`] is called. Its body may have up to
    /// `max_body` bytes, or [`MAX_LOG`] for a log line.
    ///
    /// # Errors
    /// The reason why there is no further frame.
    fn receive(&mut self, max_body: usize) -> impl Future<Output = Result<Head, WireError>> + Send;

    /// The received bytes. They begin with the frame that [`Wire::receive`] returned.
    fn bytes(&self) -> &[u8];

    /// Removes the frame with this head from the received bytes, to make room for the next one.
    fn take(&mut self, head: &Head);

    /// Whether both sides still agree on where a frame begins.
    fn is_usable(&self) -> bool;
}

/// Why no further frame can be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The worker closed its end.
    Closed,
    /// The worker sent bytes that are not a frame.
    Malformed(Malformed),
}

impl From<WireError> for Failure {
    fn from(broken: WireError) -> Self {
        match broken {
            WireError::Closed => closed(),
            WireError::Malformed(Malformed::Kind) => {
                Self::new(Reason::InvalidOutput, "wrote an unknown kind of frame to its socket")
            }
            WireError::Malformed(Malformed::TooLarge(limit)) => too_large("its answer", limit),
        }
    }
}

/// Reads incoming frames.
#[derive(Debug)]
pub struct FrameReader {
    reader: SocketReader,
    bytes: Vec<u8>,
}

impl FrameReader {
    /// Reads frames from `reader`.
    pub fn new(reader: SocketReader) -> Self {
        Self { reader, bytes: Vec::with_capacity(64 << 10) }
    }

    /// See [`Wire::receive`].
    ///
    /// # Errors
    /// The reason why there is no further frame.
    pub async fn receive(&mut self, max_body: usize) -> Result<Head, WireError> {
        loop {
            let max_body = |kind| if kind == FrameKind::Log { MAX_LOG } else { max_body };
            match Start::of(&self.bytes, max_body).map_err(WireError::Malformed)? {
                Start::Whole(head) => return Ok(head),
                Start::Part(missing) => self.read(missing).await?,
            }
        }
    }

    /// Reads until the header of the next frame is complete, even if its body is too large. Returns `None` if the
    /// worker closes the socket first or the header is not valid.
    pub async fn header(&mut self) -> Option<&[u8]> {
        loop {
            let head = Head::decode(*self.bytes.first_chunk()?).filter(|head| head.header <= MAX_HEADER)?;
            let end = HEAD + head.header;
            match end.saturating_sub(self.bytes.len()) {
                0 => return self.bytes.get(HEAD..end),
                missing => self.read(missing).await.ok()?,
            }
        }
    }

    /// The received bytes. They begin with the frame that [`FrameReader::receive`] returned.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes the frame with this head from the received bytes, to make room for the next one.
    pub fn take(&mut self, head: &Head) {
        self.bytes.drain(..head.length().min(self.bytes.len()));
        if self.bytes.is_empty() {
            self.bytes.shrink_to(KEPT);
        }
    }

    async fn read(&mut self, missing: usize) -> Result<(), WireError> {
        self.bytes.reserve(missing);
        match self.reader.read(&mut self.bytes).await {
            Ok(0) | Err(_) => Err(WireError::Closed),
            Ok(_) => Ok(()),
        }
    }
}

/// A worker's socket for one call at a time.
#[derive(Debug)]
pub struct ExclusiveWire {
    incoming: FrameReader,
    writer: SocketWriter,
    outbox: Vec<u8>,
    /// Whether a frame was only partly written.
    torn: bool,
}

impl ExclusiveWire {
    /// Creates a wire that owns `socket`.
    pub fn new(socket: Socket) -> Self {
        let Socket { reader, writer } = socket;
        Self { incoming: FrameReader::new(reader), writer, outbox: Vec::new(), torn: false }
    }

    /// Returns the reader and the writer. No frame may be partly written.
    pub fn into_parts(self) -> (FrameReader, SocketWriter) {
        (self.incoming, self.writer)
    }
}

impl Wire for ExclusiveWire {
    const SHARED: bool = false;

    fn enter(&mut self, _: u64) {}

    fn leave(&mut self) {}

    /// Writes the whole frame with one system call if it fits in the socket's buffer.
    async fn send(&mut self, kind: FrameKind, header: &(impl Serialize + Sync), body: Option<&[u8]>) -> io::Result<()> {
        frame::begin(&mut self.outbox, kind, header, body).ok_or(io::ErrorKind::InvalidInput)?;
        self.torn = true;
        let mut slices = [IoSlice::new(&self.outbox), IoSlice::new(body.unwrap_or_default())];
        self.writer.write_all(&mut slices).await?;
        self.torn = false;
        Ok(())
    }

    async fn receive(&mut self, max_body: usize) -> Result<Head, WireError> {
        self.incoming.receive(max_body).await
    }

    fn bytes(&self) -> &[u8] {
        self.incoming.bytes()
    }

    fn take(&mut self, head: &Head) {
        self.incoming.take(head);
    }

    fn is_usable(&self) -> bool {
        !self.torn
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use serde_json::json;

    use super::*;

    /// The reading half of one end of a socket, and the writing half of the other end.
    fn pair() -> (FrameReader, SocketWriter) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (FrameReader::new(Socket::new(ours).unwrap().reader), Socket::new(theirs).unwrap().writer)
    }

    #[tokio::test]
    async fn a_header_is_read_without_its_body() {
        let (mut incoming, mut writer) = pair();
        let mut frame = Vec::new();
        frame::begin(&mut frame, FrameKind::Open, &json!({"stream": 7}), Some(b"body")).unwrap();
        let (first, rest) = frame.split_at(HEAD + 1);
        writer.write_all(&mut [IoSlice::new(first)]).await.unwrap();
        incoming.read(HEAD).await.unwrap();
        let mut rest = [IoSlice::new(rest)];
        let (header, written) = tokio::join!(incoming.header(), writer.write_all(&mut rest));
        written.unwrap();
        assert_eq!(header, Some(&b"{\"stream\":7}"[..]));
    }

    #[tokio::test]
    async fn a_header_that_is_too_large_is_not_waited_for() {
        let (mut incoming, mut writer) = pair();
        let head = Head { kind: FrameKind::Open, header: MAX_HEADER + 1, body: 0, content: false, ascii: false };
        writer.write_all(&mut [IoSlice::new(&head.encode().unwrap())]).await.unwrap();
        assert_eq!(incoming.read(HEAD).await, Ok(()));
        assert_eq!(incoming.header().await, None);
    }
}
