//! A socket that wakes us only when there is something to read.
//!
//! tokio's own `UnixStream` also asks for the events of writing, and a Unix socket raises one for each buffer that the
//! other side has read: two or three needless wake-ups a call, while the plugin works. Here a write
//! that does not fit, which is rare, waits on a descriptor of its own.

use std::io::{self, IoSlice, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use bytes::BufMut;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// One end of a stream socket.
#[derive(Debug)]
pub struct Socket {
    /// What comes in.
    pub reader: SocketReader,
    /// What goes out.
    pub writer: SocketWriter,
}

/// What comes in over a socket.
#[derive(Debug)]
pub struct SocketReader(
    /// tokio's reader of one direction; that the descriptor is a socket is all the same to it.
    pipe::Receiver,
);

/// What goes out over a socket.
#[derive(Debug)]
pub struct SocketWriter(UnixStream);

impl Socket {
    /// Takes ownership of a stream.
    ///
    /// # Errors
    /// Where it cannot be watched.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let reader = pipe::Receiver::from_owned_fd_unchecked(OwnedFd::from(stream.try_clone()?))?;
        Ok(Self { reader: SocketReader(reader), writer: SocketWriter(stream) })
    }
}

impl SocketReader {
    /// Appends what there is to read, at most what `buffer` has room for. 0 is the end.
    pub async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.0.read_buf(&mut buffer.limit(buffer.capacity() - buffer.len())).await
    }
}

impl SocketWriter {
    /// Writes all of it, at once where the socket's buffer takes it.
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
