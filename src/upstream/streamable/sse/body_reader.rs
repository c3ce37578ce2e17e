//! The body of an event stream as a stream of bytes.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::Body;
use tokio::io::{AsyncRead, ReadBuf};

use crate::upstream::streamable::paced_body::PacedBody;

/// Reads the data of a body, with a newline in the place of each end of a line: CR, LF, or CR LF (HTML Standard, server-sent
/// events, parsing an event stream). JSON has no CR within a string.
#[derive(Debug)]
pub(super) struct BodyReader<B = PacedBody> {
    body: B,
    /// What was received and not read yet.
    rest: Bytes,
    /// Whether the last byte was a CR, so that an LF belongs to the same end of a line.
    after_cr: bool,
    /// Counts how often something was received.
    heard: Arc<AtomicU64>,
}

impl<B> BodyReader<B> {
    pub(super) fn new(body: B, heard: Arc<AtomicU64>) -> Self {
        Self { body, rest: Bytes::new(), after_cr: false, heard }
    }

    /// Moves what was received to `buffer`, up to the next CR.
    fn copy(&mut self, buffer: &mut ReadBuf<'_>) {
        if std::mem::take(&mut self.after_cr) && self.rest.first() == Some(&b'\n') {
            self.rest.advance(1);
        }
        let most = self.rest.len().min(buffer.remaining());
        let length = memchr::memchr(b'\r', &self.rest[..most]).unwrap_or(most);
        buffer.put_slice(&self.rest[..length]);
        self.rest.advance(length);
        if length < most {
            buffer.put_slice(b"\n");
            self.rest.advance(1);
            self.after_cr = true;
        }
    }
}

impl<B: Body<Data = Bytes, Error: Error + Send + Sync + 'static> + Unpin> AsyncRead for BodyReader<B> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        while buffer.filled().len() == before && buffer.remaining() > 0 {
            if self.rest.is_empty() {
                match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                    None => return Poll::Ready(Ok(())),
                    Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                    Some(Ok(frame)) => self.rest = frame.into_data().unwrap_or_default(),
                }
                self.heard.fetch_add(1, Ordering::Relaxed);
            }
            while !self.rest.is_empty() && buffer.remaining() > 0 {
                self.copy(buffer);
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn each_end_of_a_line_is_a_newline() {
        let text = "data: 1\r\rdata: 2\r\n\r\ndata: 3\n\ndata: 4\n\r\r\r\n";
        let expected = "data: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4\n\n\n\n";
        for size in [1, 2, 3, 100] {
            let pieces = text.as_bytes().chunks(size).map(Bytes::copy_from_slice);
            let frames = futures_util::stream::iter(pieces.map(|piece| Ok::<_, io::Error>(Frame::data(piece))));
            let (mut read, heard) = (String::new(), Arc::default());
            BodyReader::new(StreamBody::new(frames), Arc::clone(&heard)).read_to_string(&mut read).await.unwrap();
            assert_eq!((read.as_str(), heard.load(Ordering::Relaxed)), (expected, text.len().div_ceil(size) as u64));
        }
    }
}
