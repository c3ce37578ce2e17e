//! A socket that wakes the gateway only when there is something to read.
//!
//! Tokio's own `UnixStream` also registers for write events, and a Unix socket raises one for each buffer that the
//! other side has read: two or three needless wake-ups for each call while the plugin is working. Here, a write that
//! does not fit into the buffer waits on a second descriptor, which is created only when needed.

use std::io::{self, IoSlice, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use bytes::BufMut;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// One end of a stream socket.
#[derive(Debug)]
pub struct Socket {
    /// The incoming direction.
    pub reader: SocketReader,
    /// The outgoing direction.
    pub writer: SocketWriter,
}

/// The incoming direction of a socket.
#[derive(Debug)]
pub struct SocketReader(
    /// Tokio's reader for pipes. It also works with the descriptor of a socket.
    pipe::Receiver,
);

/// The outgoing direction of a socket.
#[derive(Debug)]
pub struct SocketWriter(UnixStream);

impl Socket {
    /// Takes ownership of `stream`.
    ///
    /// # Errors
    /// If the socket cannot be registered with the runtime.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let reader = pipe::Receiver::from_owned_fd_unchecked(OwnedFd::from(stream.try_clone()?))?;
        Ok(Self { reader: SocketReader(reader), writer: SocketWriter(stream) })
    }
}

impl SocketReader {
    /// Appends what can be read, up to the free capacity of `buffer`. Returns 0 at the end of the stream.
    pub async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.0.read_buf(&mut buffer.limit(buffer.capacity() - buffer.len())).await
    }
}

impl SocketWriter {
    /// Writes all slices. Does not wait if they fit in the socket's buffer.
    pub async fn write_all(&mut self, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        let mut room: Option<pipe::Sender> = None;
        while !slices.is_empty() {
            let write = || (&self.0).write_vectored(slices);
            let written = match &room {
                None => write(),
                Some(room) => room.try_io(write),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut slices, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let room = match &room {
                        Some(room) => room,
                        None => room.insert(self.watch_for_room()?),
                    };
                    room.writable().await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn watch_for_room(&self) -> io::Result<pipe::Sender> {
        pipe::Sender::from_owned_fd_unchecked(OwnedFd::from(self.0.try_clone()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_does_not_fit_waits_for_room() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (Socket { mut writer, .. }, mut theirs) = (Socket::new(ours).unwrap(), Socket::new(theirs).unwrap());
        let (head, body) = (vec![1; 10], vec![2; 5 << 20]);
        let writing = tokio::spawn(async move {
            let mut slices = [IoSlice::new(&head), IoSlice::new(&body)];
            writer.write_all(&mut slices).await.unwrap();
        });
        let mut got = Vec::with_capacity(1 << 16);
        while theirs.reader.read(&mut got).await.unwrap() > 0 {
            got.reserve(1 << 16);
        }
        writing.await.unwrap();
        assert_eq!(got.len(), 10 + (5 << 20));
        assert_eq!((got.first(), got.last()), (Some(&1), Some(&2)));
    }

    #[tokio::test]
    async fn a_lost_reader_is_an_error() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let mut ours = Socket::new(ours).unwrap();
        assert!(ours.writer.write_all(&mut [IoSlice::new(b"x")]).await.is_err());
        assert_eq!(ours.reader.read(&mut Vec::with_capacity(1)).await.unwrap(), 0);
    }
}
