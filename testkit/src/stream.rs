//! A plain or TLS connection, with the one thing that hides under TLS: the TCP socket's linger time.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// A connection, accepted or made.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref().0,
        }
    }

    /// Makes the coming drop send an RST: closing with a linger time of zero aborts the connection (RFC 9293, 3.9.1.6).
    pub(crate) fn reset_on_drop(&self) {
        reset_on_drop(self.tcp());
    }
}

/// The same for a bare socket. An error means that the peer has already closed it.
pub(crate) fn reset_on_drop(tcp: &TcpStream) {
    let _already_closed = SockRef::from(tcp).set_linger(Some(Duration::ZERO));
}

macro_rules! with_inner {
    ($self:expr, $inner:ident => $call:expr) => {
        match $self.get_mut() {
            Stream::Plain($inner) => $call,
            Stream::Tls($inner) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        with_inner!(self, inner => Pin::new(inner).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        with_inner!(self, inner => Pin::new(inner).poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with_inner!(self, inner => Pin::new(inner).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        with_inner!(self, inner => Pin::new(inner).poll_shutdown(cx))
    }
}
