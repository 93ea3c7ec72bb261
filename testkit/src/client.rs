//! A small HTTP/1.1 client: one connection per request, every header and byte as the test gives it.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::PATIENCE;
use crate::sse::{Block, Decoder, Fields};
use crate::stream::Stream;

/// Headers as given: names and values in order.
pub type Headers = Vec<(String, String)>;

/// Opens a connection and sends a request. `Host`, `Content-Length` and `Connection: close` are added where absent.
pub async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Sent> {
    let stream = Stream::Plain(TcpStream::connect(address).await?);
    send_over(stream, &address.to_string(), method, path, headers, body).await
}

/// The same over a connection that is there.
pub(crate) async fn send_over(
    mut stream: Stream,
    host: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Sent> {
    let given = |name: &str| {
        headers
            .iter()
            .any(|(key, _)| key.eq_ignore_ascii_case(name))
    };
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    if !given("host") {
        head.push_str(&format!("Host: {host}\r\n"));
    }
    if !given("connection") {
        head.push_str("Connection: close\r\n");
    }
    if !body.is_empty() && !given("content-length") && !given("transfer-encoding") {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    stream.tcp().set_nodelay(true)?;
    stream.write_all(&bytes).await?;
    stream.flush().await?;
    Ok(Sent {
        stream,
        buffer: BytesMut::new(),
    })
}

/// A request that has left; its answer has not come yet. Dropping it closes the connection.
#[derive(Debug)]
pub struct Sent {
    stream: Stream,
    buffer: BytesMut,
}

impl Sent {
    /// Waits for status and headers.
    pub async fn response(mut self) -> io::Result<Response> {
        let (status, headers, length) = loop {
            if let Some(parsed) = parse_head(&self.buffer)? {
                break parsed;
            }
            if read(&mut self.stream, &mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        self.buffer.advance(length);
        let header = |name: &str| {
            headers
                .iter()
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.clone())
        };
        let body = match (header("transfer-encoding"), header("content-length")) {
            (Some(coding), _) if coding.contains("chunked") => Body::Chunked,
            (_, Some(length)) => Body::Length(length.parse().map_err(io::Error::other)?),
            _ if status == 204 || status == 304 => Body::Length(0),
            _ => Body::UntilClose,
        };
        Ok(Response {
            status,
            headers,
            at: Instant::now(),
            stream: self.stream,
            buffer: self.buffer,
            body,
        })
    }
}

/// Reads once. A peer that is silent beyond all patience fails the test instead of hanging it.
async fn read(stream: &mut Stream, buffer: &mut BytesMut) -> io::Result<usize> {
    tokio::time::timeout(PATIENCE, stream.read_buf(buffer)).await?
}

type ParsedHead = (u16, Headers, usize);

fn parse_head(buffer: &[u8]) -> io::Result<Option<ParsedHead>> {
    let mut headers = [httparse::EMPTY_HEADER; 100];
    let mut parsed = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = parsed.parse(buffer).map_err(io::Error::other)? else {
        return Ok(None);
    };
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let headers = parsed
        .headers
        .iter()
        .map(|h| (h.name.to_ascii_lowercase(), text(h.value)))
        .collect();
    Ok(Some((parsed.code.unwrap_or_default(), headers, length)))
}

#[derive(Debug)]
enum Body {
    Length(u64),
    Chunked,
    UntilClose,
    Ended,
}

/// A response whose body is still to be read. Dropping it closes the connection.
#[derive(Debug)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Headers in order, names in lower case.
    pub headers: Headers,
    /// When the head was complete.
    pub at: Instant,
    stream: Stream,
    buffer: BytesMut,
    body: Body,
}

impl Response {
    /// First value of a header; the name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Whether the body is an event stream.
    #[must_use]
    pub fn is_event_stream(&self) -> bool {
        self.header("content-type")
            .is_some_and(|value| value.starts_with("text/event-stream"))
    }

    /// The next piece of the body; `None` at its proper end, an error where it was cut off.
    pub async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            match &mut self.body {
                Body::Ended | Body::Length(0) => return Ok(None),
                Body::Length(left) if !self.buffer.is_empty() => {
                    let size = usize::try_from(*left)
                        .unwrap_or(usize::MAX)
                        .min(self.buffer.len());
                    *left -= size as u64;
                    return Ok(Some(self.buffer.split_to(size).freeze()));
                }
                Body::UntilClose if !self.buffer.is_empty() => {
                    return Ok(Some(self.buffer.split().freeze()));
                }
                Body::Chunked => {
                    if let Some(chunk) = self.take_chunk()? {
                        return Ok(Some(chunk));
                    }
                    if matches!(self.body, Body::Ended) {
                        return Ok(None);
                    }
                }
                Body::Length(_) | Body::UntilClose => {}
            }
            if read(&mut self.stream, &mut self.buffer).await? == 0 {
                return match self.body {
                    Body::UntilClose => Ok(None),
                    _ => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    fn take_chunk(&mut self) -> io::Result<Option<Bytes>> {
        let parsed = httparse::parse_chunk_size(&self.buffer);
        let httparse::Status::Complete((start, size)) =
            parsed.map_err(|_| io::Error::other("bad chunk size"))?
        else {
            return Ok(None);
        };
        let size = usize::try_from(size).map_err(io::Error::other)?;
        if self.buffer.len() < start + size + 2 {
            return Ok(None);
        }
        self.buffer.advance(start);
        let chunk = self.buffer.split_to(size).freeze();
        self.buffer.advance(2);
        if size == 0 {
            self.body = Body::Ended;
            return Ok(None);
        }
        Ok(Some(chunk))
    }

    /// The whole body.
    pub async fn bytes(&mut self) -> io::Result<Bytes> {
        let mut all = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            all.extend_from_slice(&chunk);
        }
        Ok(all.freeze())
    }

    /// The whole body as JSON; null where it is none.
    pub async fn json(&mut self) -> io::Result<Value> {
        Ok(serde_json::from_slice(&self.bytes().await?).unwrap_or_default())
    }

    /// Reads the body as an event stream.
    #[must_use]
    pub fn events(self) -> EventStream {
        EventStream {
            response: self,
            decoder: Decoder::default(),
            ready: Vec::new(),
            raw: BytesMut::new(),
        }
    }
}

/// An event or comment, and when it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When its last byte was read.
    pub at: Instant,
    /// What it is.
    pub block: Block,
}

impl Seen {
    /// The event's fields; `None` for a comment.
    #[must_use]
    pub fn event(&self) -> Option<&Fields> {
        match &self.block {
            Block::Event(fields) => Some(fields),
            Block::Comment(_) => None,
        }
    }

    /// The JSON-RPC message in the event's data.
    #[must_use]
    pub fn message(&self) -> Option<Value> {
        serde_json::from_str(self.event()?.data.as_deref()?).ok()
    }
}

/// An event stream being read. Dropping it closes the connection.
#[derive(Debug)]
pub struct EventStream {
    /// The response that it is the body of.
    pub response: Response,
    decoder: Decoder,
    ready: Vec<Seen>,
    raw: BytesMut,
}

impl EventStream {
    /// The next event or comment; `None` at the proper end, an error where the stream was cut off.
    pub async fn next(&mut self) -> io::Result<Option<Seen>> {
        while self.ready.is_empty() {
            let Some(chunk) = self.response.chunk().await? else {
                return Ok(None);
            };
            self.raw.extend_from_slice(&chunk);
            let at = Instant::now();
            self.ready.extend(
                self.decoder
                    .feed(&chunk)
                    .into_iter()
                    .map(|block| Seen { at, block }),
            );
        }
        Ok(Some(self.ready.remove(0)))
    }

    /// The next JSON-RPC message, past comments and priming events.
    pub async fn message(&mut self) -> io::Result<Option<Value>> {
        while let Some(seen) = self.next().await? {
            if let Some(message) = seen.message() {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// Every byte of the stream so far.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }
}
