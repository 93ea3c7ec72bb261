//! One response on its way out, over either HTTP version, with the cuts and drips that a script asks for.

use std::time::Duration;

use bytes::Bytes;

use crate::http1::Link;
use crate::http2::Channel;
use crate::reply::End;

/// Why nothing more of a response is sent, and what becomes of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The response was ended as it should; the connection goes on.
    Done,
    /// The peer went away.
    PeerGone,
    /// Close the connection.
    Close,
    /// Reset the connection.
    Reset,
    /// Refuse the request unread.
    Refuse,
}

/// The outcome of a step that writes.
pub(crate) type Flow<T = ()> = Result<T, Stop>;

/// Where the body's end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// Status and headers.
#[derive(Debug, Default)]
pub(crate) struct Head {
    pub(crate) status: Option<u16>,
    pub(crate) headers: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn status(&self) -> u16 {
        self.status.unwrap_or(200)
    }
}

pub(crate) enum Transport<'a> {
    Http1(&'a mut Link),
    Http2(Channel),
}

/// The response side of one exchange.
pub(crate) struct Wire<'a> {
    pub(crate) transport: Transport<'a>,
    pub(crate) head: Head,
    /// Set once the head has been sent.
    framing: Option<Framing>,
    pub(crate) until_close: bool,
    /// Sent ahead of the behaviour's answer, which is an event stream then.
    pub(crate) before: Option<Bytes>,
    pub(crate) cut: Option<(u64, End)>,
    pub(crate) drip: Option<(usize, Duration)>,
}

impl<'a> Wire<'a> {
    pub(crate) fn new(transport: Transport<'a>) -> Self {
        Self {
            transport,
            head: Head::default(),
            framing: None,
            until_close: false,
            before: None,
            cut: None,
            drip: None,
        }
    }

    pub(crate) fn header(&mut self, name: &str, value: &str) {
        self.head.headers.push((name.to_owned(), value.to_owned()));
    }

    /// Sends status and headers, unless they have left already.
    pub(crate) async fn send_head(&mut self, framing: Framing) -> Flow {
        if self.framing.is_some() {
            return Ok(());
        }
        let framing = if self.until_close {
            Framing::UntilClose
        } else {
            framing
        };
        self.framing = Some(framing);
        match &mut self.transport {
            Transport::Http1(link) => link.send_head(&self.head, framing).await,
            Transport::Http2(channel) => channel.send_head(&self.head),
        }
    }

    /// Sends body bytes, after the head if that has not left; obeys cut and drip.
    pub(crate) async fn body(&mut self, bytes: &[u8]) -> Flow {
        self.send_head(Framing::Chunked).await?;
        let (bytes, end) = self.until_cut(bytes);
        match self.drip {
            None => self.write(bytes).await?,
            Some((size, pause)) => {
                for piece in bytes.chunks(size.max(1)) {
                    self.write(piece).await?;
                    self.pause(pause).await?;
                }
            }
        }
        match end {
            Some(end) => Err(self.end(end).await),
            None => Ok(()),
        }
    }

    fn until_cut<'b>(&mut self, bytes: &'b [u8]) -> (&'b [u8], Option<End>) {
        let Some((left, end)) = &mut self.cut else {
            return (bytes, None);
        };
        match usize::try_from(*left) {
            Ok(left) if left <= bytes.len() => (&bytes[..left], Some(*end)),
            Ok(_) | Err(_) => {
                *left -= bytes.len() as u64;
                (bytes, None)
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> Flow {
        if bytes.is_empty() {
            return Ok(());
        }
        match &mut self.transport {
            Transport::Http1(link) if self.framing == Some(Framing::Chunked) => {
                link.write_chunk(bytes).await
            }
            Transport::Http1(link) => link.write(bytes).await,
            Transport::Http2(channel) => channel.write(bytes).await,
        }
    }

    /// Waits, unless the peer goes away first.
    pub(crate) async fn pause(&mut self, time: Duration) -> Flow {
        // The timer would make a millisecond of nothing.
        if time.is_zero() {
            return Ok(());
        }
        self.until(tokio::time::sleep(time)).await
    }

    /// Waits for something, unless the peer goes away first.
    pub(crate) async fn until<T>(&mut self, future: impl Future<Output = T>) -> Flow<T> {
        tokio::select! {
            value = future => Ok(value),
            () = self.gone() => Err(Stop::PeerGone),
        }
    }

    /// Returns once the peer has closed the connection or given up this response.
    pub(crate) async fn gone(&mut self) {
        match &mut self.transport {
            Transport::Http1(link) => link.peer_gone().await,
            Transport::Http2(channel) => channel.peer_gone().await,
        }
    }

    /// Ends the response one way or the other.
    pub(crate) async fn end(&mut self, end: End) -> Stop {
        let outcome = match end {
            End::Clean => self.finish().await.and(Err(Stop::Done)),
            End::Fin => Err(Stop::Close),
            End::Rst => Err(Stop::Reset),
            End::BlackHole => {
                self.gone().await;
                Err(Stop::PeerGone)
            }
            End::MidChunk => self.mid_chunk().await,
        };
        match outcome {
            Ok(()) => Stop::Close,
            Err(stop) => stop,
        }
    }

    async fn mid_chunk(&mut self) -> Flow {
        self.send_head(Framing::Chunked).await?;
        match &mut self.transport {
            // A chunk of 64 bytes is announced and its first byte sent.
            Transport::Http1(link) => link.write(b"40\r\n:").await,
            Transport::Http2(channel) => channel.reset_stream().await,
        }
    }

    /// Completes the response.
    pub(crate) async fn finish(&mut self) -> Flow {
        self.send_head(Framing::Length(0)).await?;
        match (&mut self.transport, self.framing) {
            (Transport::Http1(link), Some(Framing::Chunked)) => link.write(b"0\r\n\r\n").await,
            (Transport::Http1(_), Some(Framing::UntilClose)) => Err(Stop::Close),
            (Transport::Http1(_), _) => Ok(()),
            (Transport::Http2(channel), _) => {
                channel.finish();
                Ok(())
            }
        }
    }
}
