//! One HTTP exchange: sends a request once, and says exactly how much of its body left.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HOST};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use steadfast_core::identity::GrantGeneration;
use steadfast_core::stream::Break;
use steadfast_core::{Fault, Kind};

use super::dial::plain;
use super::pool::{Lease, Pool};

/// What is sent.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) path: PathAndQuery,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The access token of a grant that the headers carry.
    pub(crate) token: Option<GrantGeneration>,
}

/// How it is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The oldest idle connection it may go out on; any, where `None`.
    pub(crate) max_idle: Option<Duration>,
    /// How long the headers of the answer may take.
    pub(crate) headers_within: Duration,
}

/// No HTTP answer.
#[derive(Clone, Debug)]
pub(crate) struct Unanswered {
    pub(crate) fault: Fault,
    /// How many bytes of the body left, at most.
    pub(crate) bytes_sent: u64,
    /// Whether it is proven that the peer did not act: nothing of the body left, or HTTP/2 says so
    /// (RFC 9113 section 8.7: REFUSED_STREAM; section 6.8: a stream above GOAWAY's last).
    pub(crate) proven_unsent: bool,
    /// The peer refused this request, and goes on with others: the connection is as it was.
    pub(crate) refused: bool,
}

/// An HTTP answer whose body is still to be read.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
    /// How many bytes of the request's body there were.
    pub(crate) bytes_sent: u64,
}

/// The body of an answer, and the connection that it comes on.
#[derive(Debug)]
pub(crate) struct Body {
    incoming: Incoming,
    lease: Option<Lease>,
    pool: Arc<Pool>,
}

/// Why a body could not be read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Broken(Break),
    TooLarge,
}

/// Sends one request. It goes to a second connection only where nothing at all was written to the
/// first: a pooled connection that had died while idle (WR-04 a).
pub(crate) async fn exchange(
    pool: &Arc<Pool>,
    mut outgoing: Outgoing,
    terms: Terms,
) -> Result<Reply, Unanswered> {
    let length = outgoing.body.len() as u64;
    let unsent = |fault| Unanswered {
        fault,
        bytes_sent: 0,
        proven_unsent: true,
        refused: false,
    };
    let mut lease = pool.lease(terms.max_idle).await.map_err(unsent)?;
    for fresh in [false, true] {
        match attempt(&mut lease, outgoing, pool, terms.headers_within).await {
            Ok(response) => {
                let (parts, incoming) = response.into_parts();
                return Ok(Reply {
                    status: parts.status,
                    headers: parts.headers,
                    body: Body {
                        incoming,
                        lease: Some(lease),
                        pool: Arc::clone(pool),
                    },
                    bytes_sent: length,
                });
            }
            Err(Failed::NothingWritten(back)) if !fresh => {
                outgoing = back;
                lease = Box::pin(pool.fresh()).await.map_err(unsent)?;
            }
            Err(Failed::NothingWritten(_)) => break,
            Err(Failed::Unanswered(unanswered)) => return Err(unanswered),
        }
    }
    let fault = "the server closed two connections before anything was sent";
    Err(unsent(Fault::new(Kind::Network, fault)))
}

enum Failed {
    /// Nothing at all left; the request is given back.
    NothingWritten(Outgoing),
    Unanswered(Unanswered),
}

/// The request that a connection gives back unsent.
fn taken_back(request: Request<Full<Bytes>>, body: Bytes) -> Failed {
    let (parts, _) = request.into_parts();
    let path = parts.uri.path_and_query().cloned();
    Failed::NothingWritten(Outgoing {
        method: parts.method,
        path: path.unwrap_or_else(|| PathAndQuery::from_static("/")),
        headers: parts.headers,
        body,
        // Whoever sent it has taken note of it.
        token: None,
    })
}

async fn attempt(
    lease: &mut Lease,
    outgoing: Outgoing,
    pool: &Pool,
    limit: Duration,
) -> Result<Response<Incoming>, Failed> {
    let body = outgoing.body.clone();
    let length = body.len() as u64;
    match lease {
        Lease::Http1(connection) => {
            let before = connection.written();
            let (request, head) = http1_request(outgoing, pool);
            let sent = tokio::time::timeout(limit, connection.sender.try_send_request(request));
            let outcome = sent.await;
            let written = connection.written() - before;
            let bytes_sent = written.saturating_sub(head).min(length);
            let fault = match outcome {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(mut refused)) => {
                    if written == 0
                        && let Some(request) = refused.take_message()
                    {
                        return Err(taken_back(request, body));
                    }
                    network_fault(refused.error())
                }
                Err(_) => late(limit),
            };
            Err(Failed::Unanswered(Unanswered {
                fault,
                bytes_sent,
                proven_unsent: bytes_sent == 0 && length > 0,
                refused: false,
            }))
        }
        Lease::Http2(sender) => Box::pin(attempt_http2(sender, outgoing, pool, limit)).await,
    }
}

async fn attempt_http2(
    sender: &mut http2::SendRequest<Full<Bytes>>,
    outgoing: Outgoing,
    pool: &Pool,
    limit: Duration,
) -> Result<Response<Incoming>, Failed> {
    let body = outgoing.body.clone();
    let length = body.len() as u64;
    let request = http2_request(outgoing, pool);
    match tokio::time::timeout(limit, sender.try_send_request(request)).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(mut refused)) => {
            if let Some(request) = refused.take_message() {
                return Err(taken_back(request, body));
            }
            let by_peer = refused_by_http2(refused.error());
            Err(Failed::Unanswered(Unanswered {
                fault: network_fault(refused.error()),
                bytes_sent: if by_peer { 0 } else { length },
                proven_unsent: by_peer,
                refused: by_peer,
            }))
        }
        Err(_) => Err(Failed::Unanswered(Unanswered {
            fault: late(limit),
            bytes_sent: length,
            proven_unsent: false,
            refused: false,
        })),
    }
}

/// The request for HTTP/1.1, and how long its head will be on the wire.
fn http1_request(outgoing: Outgoing, pool: &Pool) -> (Request<Full<Bytes>>, u64) {
    let Outgoing {
        method,
        path,
        mut headers,
        body,
        token: _,
    } = outgoing;
    if !headers.contains_key(HOST)
        && let Ok(host) = HeaderValue::from_str(&pool.origin().authority())
    {
        headers.insert(HOST, host);
    }
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    // "POST /mcp HTTP/1.1\r\n", "name: value\r\n" each, and the empty line.
    let line = method.as_str().len() + path.as_str().len() + 12;
    let fields: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum();
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = Uri::from(path);
    *request.headers_mut() = headers;
    (request, (line + fields + 2) as u64)
}

fn http2_request(outgoing: Outgoing, pool: &Pool) -> Request<Full<Bytes>> {
    // RFC 9113 section 8.3.1: :authority instead of Host.
    let uri = Uri::builder()
        .scheme("https")
        .authority(pool.origin().authority())
        .path_and_query(outgoing.path.clone())
        .build();
    let length = HeaderValue::from(outgoing.body.len());
    let mut request = Request::new(Full::new(outgoing.body));
    *request.method_mut() = outgoing.method;
    *request.uri_mut() = uri.unwrap_or_else(|_| Uri::from(outgoing.path));
    *request.headers_mut() = outgoing.headers;
    request.headers_mut().remove(HOST);
    request.headers_mut().insert(CONTENT_LENGTH, length);
    request
}

fn late(limit: Duration) -> Fault {
    Fault::new(
        Kind::Timeout,
        format!("no answer within {} ms", limit.as_millis()),
    )
}

fn refused_by_http2(error: &hyper::Error) -> bool {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(h2) = inner.downcast_ref::<h2::Error>() {
            return h2.is_remote() && h2.reason() == Some(h2::Reason::REFUSED_STREAM);
        }
        source = inner.source();
    }
    false
}

fn network_fault(error: &hyper::Error) -> Fault {
    let words = match io_error(error) {
        Some(io) => plain(io),
        None if error.is_incomplete_message() => "connection closed before the answer".to_owned(),
        None if error.is_parse() => {
            return Fault::new(Kind::NotAnMcpAnswer, "the answer is not HTTP");
        }
        None => error.to_string(),
    };
    Fault::new(Kind::Network, words)
}

fn io_error(error: &hyper::Error) -> Option<&std::io::Error> {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            return Some(io);
        }
        source = inner.source();
    }
    None
}

fn break_of(error: &hyper::Error) -> Break {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    match io_error(error).map(std::io::Error::kind) {
        Some(ConnectionReset | BrokenPipe | ConnectionAborted) => Break::Reset,
        _ => Break::CutShort,
    }
}

impl Body {
    /// The next bytes; `None` at the end, after which the connection is free again.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, Break> {
        loop {
            match self.incoming.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => {
                    self.lease = None;
                    return Err(break_of(&error));
                }
                None => {
                    self.give_back();
                    return Ok(None);
                }
            }
        }
    }

    fn give_back(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.pool.give_back(lease);
        }
    }

    /// All of it, up to `max` bytes.
    pub(crate) async fn collect(mut self, max: usize) -> Result<Bytes, Cut> {
        let expected = self.incoming.size_hint().exact();
        let Some(first) = self.chunk().await.map_err(Cut::Broken)? else {
            return Ok(Bytes::new());
        };
        if first.len() > max || expected.is_some_and(|length| length > max as u64) {
            return Err(Cut::TooLarge);
        }
        if expected == Some(first.len() as u64) {
            // The common small answer: one chunk, no copy.
            if self.incoming.is_end_stream() {
                self.give_back();
            } else {
                while self.chunk().await.map_err(Cut::Broken)?.is_some() {}
            }
            return Ok(first);
        }
        let capacity = expected.map_or(first.len() * 2, |length| length as usize);
        let mut whole = BytesMut::with_capacity(capacity);
        whole.extend_from_slice(&first);
        while let Some(chunk) = self.chunk().await.map_err(Cut::Broken)? {
            if whole.len() + chunk.len() > max {
                return Err(Cut::TooLarge);
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.freeze())
    }

    /// Reads what is left of an answer that has given what we wanted, so that its connection can be
    /// used again; a body that does not end within `limit` is closed instead.
    pub(crate) fn drain(mut self, limit: Duration) {
        if self.incoming.is_end_stream() {
            self.give_back();
            return;
        }
        tokio::spawn(async move {
            let to_end = async { while let Ok(Some(_)) = self.chunk().await {} };
            let _ = tokio::time::timeout(limit, to_end).await;
        });
    }
}
