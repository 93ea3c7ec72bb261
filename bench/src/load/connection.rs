//! One keep-alive connection, with one request in flight.

use std::net::SocketAddr;
use std::time::Instant;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::decode::{Body, Head, has_event};
use crate::Outcome;

#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    chunks: Vec<u8>,
}

/// An answer that has been read to its end.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) head: Head,
    pub(super) body: &'a [u8],
    /// When the first event with a message had been read, in a stream.
    pub(super) first_event: Option<Instant>,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> Outcome<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
            chunks: Vec::new(),
        })
    }

    /// Sends a request and reads its answer.
    pub(super) async fn exchange(&mut self, request: &[u8]) -> Outcome<Answer<'_>> {
        let head = self.begin(request).await?;
        let mut first_event = None;
        match head.body()? {
            Body::Whole(range) => {
                while self.buffer.len() < range.end {
                    self.read().await?;
                }
                let body = &self.buffer[range];
                Ok(Answer {
                    head,
                    body,
                    first_event,
                })
            }
            Body::Chunked(mut chunks) => {
                self.chunks.clear();
                loop {
                    let ended = chunks.take(&self.buffer, &mut self.chunks)?;
                    if first_event.is_none() && head.is_events && has_event(&self.chunks) {
                        first_event = Some(Instant::now());
                    }
                    if ended {
                        break;
                    }
                    self.read().await?;
                }
                let body = &self.chunks;
                Ok(Answer {
                    head,
                    body,
                    first_event,
                })
            }
        }
    }

    /// Sends a request and reads the head of its answer.
    pub(super) async fn begin(&mut self, request: &[u8]) -> Outcome<Head> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            self.read().await?;
            if let Some(head) = Head::read(&self.buffer)? {
                return Ok(head);
            }
        }
    }

    async fn read(&mut self) -> Outcome {
        // Room for a large answer: otherwise the load would measure its own small reads.
        self.buffer.reserve(if self.buffer.is_empty() {
            4 << 10
        } else {
            128 << 10
        });
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err("the connection was closed within an answer".into()),
            _ => Ok(()),
        }
    }
}
