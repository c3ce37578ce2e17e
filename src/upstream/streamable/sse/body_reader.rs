//! A body as a stream of bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::Body;
use hyper::body::Incoming;
use tokio::io::{AsyncRead, ReadBuf};

/// Reads the data of a body.
#[derive(Debug)]
pub(super) struct BodyReader {
    body: Incoming,
    /// What was received and not read yet.
    rest: Bytes,
}

impl BodyReader {
    pub(super) fn new(body: Incoming) -> Self {
        Self { body, rest: Bytes::new() }
    }
}

impl AsyncRead for BodyReader {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                None => return Poll::Ready(Ok(())),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                Some(Ok(frame)) => self.rest = frame.into_data().unwrap_or_default(),
            }
        }
        let length = self.rest.len().min(buffer.remaining());
        buffer.put_slice(&self.rest[..length]);
        self.rest.advance(length);
        Poll::Ready(Ok(()))
    }
}
