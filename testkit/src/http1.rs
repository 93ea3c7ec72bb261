//! HTTP/1.1 by hand, so that every byte and every way to break off is under control.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::exchange::Exchange;
use crate::shared::Shared;
use crate::stream::Stream;
use crate::wire::{Flow, Framing, Head, Stop, Transport, Wire};

/// One accepted connection.
pub(crate) struct Link {
    pub(crate) stream: Stream,
    pub(crate) number: u64,
    /// Read and not yet consumed.
    buffer: BytesMut,
    /// Close when idle for so long.
    pub(crate) idle_limit: Option<Duration>,
}

/// A request as parsed from the connection.
struct Incoming {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl Incoming {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    fn wants_close(&self) -> bool {
        self.header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

impl Link {
    pub(crate) fn new(stream: Stream, number: u64) -> Self {
        Self {
            stream,
            number,
            buffer: BytesMut::new(),
            idle_limit: None,
        }
    }

    /// Serves requests until the connection is to end, and says how.
    pub(crate) async fn serve(&mut self, shared: &Arc<Shared>) -> Stop {
        self.idle_limit = shared.behaviour().keep_alive;
        loop {
            let incoming = match self.read_request().await {
                Ok(incoming) => incoming,
                Err(stop) => return stop,
            };
            let close = incoming.wants_close();
            let number = self.number;
            let request = shared.log.request(|index, at| crate::log::Request {
                index,
                at,
                connection: number,
                http2: false,
                method: incoming.method,
                path: incoming.path,
                headers: incoming.headers,
                json: serde_json::from_slice(&incoming.body).ok(),
                body: incoming.body,
            });
            let exchange = Exchange::new(
                request,
                Wire::new(Transport::Http1(self)),
                Arc::clone(shared),
            );
            match exchange.play().await {
                Ok(()) | Err(Stop::Done) if close => return Stop::Close,
                Ok(()) | Err(Stop::Done) => {}
                Err(stop) => return stop,
            }
        }
    }

    async fn read_request(&mut self) -> Flow<Incoming> {
        let (mut incoming, head_length) = loop {
            if let Some(parsed) = parse_head(&self.buffer)? {
                break parsed;
            }
            let limit = if self.buffer.is_empty() {
                self.idle_limit
            } else {
                None
            };
            match limit {
                Some(limit) => {
                    tokio::time::timeout(limit, self.read_more())
                        .await
                        .map_err(|_| Stop::Close)??;
                }
                None => self.read_more().await?,
            }
        };
        self.buffer.advance(head_length);
        let chunked = incoming
            .header("transfer-encoding")
            .is_some_and(|value| value.contains("chunked"));
        incoming.body = if chunked {
            self.read_chunks().await?
        } else {
            let length = incoming
                .header("content-length")
                .and_then(|value| value.parse().ok())
                .unwrap_or(0);
            self.read_exact(length).await?
        };
        Ok(incoming)
    }

    async fn read_exact(&mut self, length: usize) -> Flow<Bytes> {
        while self.buffer.len() < length {
            self.read_more().await?;
        }
        Ok(self.buffer.split_to(length).freeze())
    }

    async fn read_chunks(&mut self) -> Flow<Bytes> {
        let mut body = BytesMut::new();
        loop {
            let (start, size) = loop {
                match httparse::parse_chunk_size(&self.buffer) {
                    Ok(httparse::Status::Complete(found)) => break found,
                    Ok(httparse::Status::Partial) => self.read_more().await?,
                    Err(_) => return Err(Stop::Close),
                }
            };
            self.buffer.advance(start);
            let size = usize::try_from(size).map_err(|_| Stop::Close)?;
            let chunk = self.read_exact(size + 2).await?;
            if size == 0 {
                return Ok(body.freeze());
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }

    async fn read_more(&mut self) -> Flow {
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => Err(Stop::PeerGone),
            Ok(_) => Ok(()),
        }
    }

    /// Returns once the peer has closed; what it sends before that is kept as the next request. Safe to cancel.
    pub(crate) async fn peer_gone(&mut self) {
        while self.read_more().await.is_ok() {}
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Flow {
        self.stream
            .write_all(bytes)
            .await
            .map_err(|_| Stop::PeerGone)?;
        self.stream.flush().await.map_err(|_| Stop::PeerGone)
    }

    pub(crate) async fn write_chunk(&mut self, bytes: &[u8]) -> Flow {
        // One write, so that a chunk is one segment where it fits.
        let mut chunk = Vec::with_capacity(bytes.len() + 16);
        chunk.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.write(&chunk).await
    }

    pub(crate) async fn send_head(&mut self, head: &Head, framing: Framing) -> Flow {
        let status = head.status();
        let reason = http::StatusCode::from_u16(status)
            .ok()
            .and_then(|code| code.canonical_reason());
        let mut text = format!("HTTP/1.1 {status} {}\r\n", reason.unwrap_or("Unknown"));
        for (name, value) in &head.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        let given = |name: &str| {
            head.headers
                .iter()
                .any(|(key, _)| key.eq_ignore_ascii_case(name))
        };
        match framing {
            // RFC 9110, 8.6: neither 1xx nor 204 has a Content-Length.
            Framing::Length(_) if status == 204 || status < 200 || given("content-length") => {}
            Framing::Length(length) => text.push_str(&format!("content-length: {length}\r\n")),
            Framing::Chunked if given("transfer-encoding") => {}
            Framing::Chunked => text.push_str("transfer-encoding: chunked\r\n"),
            Framing::UntilClose => text.push_str("connection: close\r\n"),
        }
        text.push_str("\r\n");
        self.write(text.as_bytes()).await
    }
}

fn parse_head(buffer: &[u8]) -> Flow<Option<(Incoming, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 100];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(buffer) {
        Ok(httparse::Status::Complete(length)) => {
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            let incoming = Incoming {
                method: parsed.method.unwrap_or_default().to_owned(),
                path: parsed.path.unwrap_or_default().to_owned(),
                headers: parsed
                    .headers
                    .iter()
                    .map(|h| (h.name.to_ascii_lowercase(), text(h.value)))
                    .collect(),
                body: Bytes::new(),
            };
            Ok(Some((incoming, length)))
        }
        Ok(httparse::Status::Partial) => Ok(None),
        Err(_) => Err(Stop::Close),
    }
}
