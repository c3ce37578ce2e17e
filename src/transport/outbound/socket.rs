//! A connection to a host, whichever way it was made.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::upgrade::Upgraded;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::either::Either;

/// A connection to a host: a socket to it or to a proxy, or a tunnel through a proxy.
#[derive(Debug)]
pub struct OutboundSocket {
    stream: Either<TcpStream, TokioIo<Upgraded>>,
    is_forwarded: bool,
}

impl OutboundSocket {
    /// A socket to the host itself.
    pub fn direct(stream: TcpStream) -> Self {
        Self { stream: Either::Left(stream), is_forwarded: false }
    }

    /// A socket to a proxy that forwards each request. Requests name the whole URL (RFC 9112, 3.2.2).
    pub(super) fn forwarded(stream: TcpStream) -> Self {
        Self { stream: Either::Left(stream), is_forwarded: true }
    }

    /// A connection through a proxy that relays bytes.
    pub(super) fn tunnel(stream: Upgraded) -> Self {
        Self { stream: Either::Right(TokioIo::new(stream)), is_forwarded: false }
    }
}

impl Connection for OutboundSocket {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.is_forwarded)
    }
}

impl AsyncRead for OutboundSocket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for OutboundSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
