//! What carries the frames of a channel: a socket of its own ([`ExclusiveWire`]), or a part in one that other calls use at the
//! same time ([`Shared`](super::shared::Shared)).

use std::io::{self, IoSlice};

use serde::Serialize;

use super::frame::{self, FrameKind, HEAD, Head, MAX_HEADER, Malformed, Start};
use super::socket::{Socket, SocketReader, SocketWriter};
use super::{closed, too_large};
use crate::domain::plugin::Failure;
use crate::domain::reason::Reason;

/// Bytes of a log line.
pub const MAX_LOG: usize = 64 << 10;
/// Buffers that grew beyond this are given back after the call.
const KEPT: usize = 512 << 10;

/// Frames to and from a worker, of one call at a time.
pub trait Wire: Send {
    /// Whether other calls use the worker too.
    const SHARED: bool;

    /// From here on frames of this call are received.
    fn enter(&mut self, call: u64);

    /// The call is over, and what comes of it is lost.
    fn leave(&mut self);

    /// Sends one frame. One that is dropped before its end leaves the wire [unusable](Wire::is_usable), unless it is
    /// shared.
    ///
    /// # Errors
    /// `InvalidInput` where the header does not fit a frame; any other means that the worker is gone.
    fn send(
        &mut self,
        kind: FrameKind,
        header: &(impl Serialize + Sync),
        body: Option<&[u8]>,
    ) -> impl Future<Output = io::Result<()>> + Send;

    /// Waits until there is a whole frame, which stays there until it is taken. Its body has at most `max_body` bytes,
    /// that of a log line [`MAX_LOG`].
    ///
    /// # Errors
    /// Why there is no further frame.
    fn receive(&mut self, max_body: usize) -> impl Future<Output = Result<Head, WireError>> + Send;

    /// The bytes that begin with the frame that was received.
    fn bytes(&self) -> &[u8];

    /// Makes room for the next frame.
    fn take(&mut self, head: &Head);

    /// Whether both sides still agree on where a frame begins.
    fn is_usable(&self) -> bool;
}

/// Why there is no further frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The other side is gone.
    Closed,
    /// It sent bytes that are not a frame.
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

/// Frames as they come in.
#[derive(Debug)]
pub struct FrameReader {
    reader: SocketReader,
    bytes: Vec<u8>,
}

impl FrameReader {
    /// What comes from `reader`.
    pub fn new(reader: SocketReader) -> Self {
        Self { reader, bytes: Vec::with_capacity(64 << 10) }
    }

    /// See [`Wire::receive`].
    ///
    /// # Errors
    /// Why there is no further frame.
    pub async fn receive(&mut self, max_body: usize) -> Result<Head, WireError> {
        loop {
            let max_body = |kind| if kind == FrameKind::Log { MAX_LOG } else { max_body };
            match Start::of(&self.bytes, max_body).map_err(WireError::Malformed)? {
                Start::Whole(head) => return Ok(head),
                Start::Part(missing) => self.read(missing).await?,
            }
        }
    }

    /// Reads until the header of the frame is there, whatever its body; none where that does not come.
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

    /// What is there; it begins with the frame that was received.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Makes room for the next frame.
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
    /// Whether a frame was begun and not written to its end.
    torn: bool,
}

impl ExclusiveWire {
    /// All of `socket`.
    pub fn new(socket: Socket) -> Self {
        let Socket { reader, writer } = socket;
        Self { incoming: FrameReader::new(reader), writer, outbox: Vec::new(), torn: false }
    }

    /// Both directions, apart. For a wire that nobody has torn.
    pub fn into_parts(self) -> (FrameReader, SocketWriter) {
        (self.incoming, self.writer)
    }
}

impl Wire for ExclusiveWire {
    const SHARED: bool = false;

    fn enter(&mut self, _: u64) {}

    fn leave(&mut self) {}

    /// One write for the whole frame where the socket's buffer takes it.
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

    /// Two ends of a socket.
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
