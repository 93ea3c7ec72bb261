//! The bare hyper hop: what a proxy on hyper costs that does nothing but give each request an RPC id of its own
//! and put the agent's back into the answer. No parsing, no checks, no limits: a floor, not a product.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt as _, Either, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};

use crate::options::HopOptions;
use crate::protocol::{FIRST_ID, id_in};
use crate::{Outcome, threads};

type Sender = SendRequest<Full<Bytes>>;
type Answer = Response<Either<Spliced, Empty<Bytes>>>;

/// Serves until standard input ends, or for good.
pub(crate) fn run(options: &HopOptions) -> Outcome {
    threads::end_with_standard_input();
    let hop = Arc::new(Hop {
        host: HeaderValue::from_str(&options.upstream.to_string())?,
        upstream: options.upstream,
        idle: Mutex::default(),
        next_id: AtomicU64::new(FIRST_ID),
    });
    tokio::runtime::Runtime::new()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("listening on http://{}", listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let hop = Arc::clone(&hop);
            let service = service_fn(move |request| Arc::clone(&hop).pass(request));
            tokio::spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service),
            );
        }
    })
}

#[derive(Debug)]
struct Hop {
    upstream: std::net::SocketAddr,
    host: HeaderValue,
    idle: Mutex<Vec<Sender>>,
    next_id: AtomicU64,
}

impl Hop {
    async fn pass(self: Arc<Self>, request: Request<Incoming>) -> Outcome<Answer> {
        match self.forward(request).await {
            Ok(response) => Ok(response),
            Err(failure) => {
                eprintln!("hop: {failure}");
                let mut response = Response::new(Either::Right(Empty::new()));
                *response.status_mut() = StatusCode::BAD_GATEWAY;
                Ok(response)
            }
        }
    }

    async fn forward(self: Arc<Self>, request: Request<Incoming>) -> Outcome<Answer> {
        let (mut head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let own = self.next_id.fetch_add(1, Ordering::Relaxed).to_string();
        let (body, theirs) = match id_in(&body) {
            Some(at) => (replaced(&body, &at, own.as_bytes()), Some(body.slice(at))),
            None => (body, None),
        };
        without_hop_by_hop(&mut head.headers);
        head.headers.remove(CONTENT_LENGTH);
        head.headers.insert(HOST, self.host.clone());

        let mut sender = self.sender().await?;
        let request = Request::from_parts(head, Full::new(body));
        let (mut head, body) = sender.send_request(request).await?.into_parts();
        without_hop_by_hop(&mut head.headers);
        // The answer repeats the id that was sent, so the difference in length is known ahead of its body.
        if let (Some(theirs), Some(length)) = (&theirs, length(&head.headers)) {
            let length = length + theirs.len() - own.len();
            head.headers.insert(CONTENT_LENGTH, length.into());
        }
        let body = Spliced {
            incoming: body,
            ended: false,
            theirs,
            sender: Some(sender),
            hop: self,
        };
        Ok(Response::from_parts(head, Either::Left(body)))
    }

    /// An idle connection to the upstream, or a new one.
    async fn sender(&self) -> Outcome<Sender> {
        loop {
            let idle = self.idle.lock().pop();
            let Some(mut sender) = idle else { break };
            if sender.ready().await.is_ok() {
                return Ok(sender);
            }
        }
        let stream = TcpStream::connect(self.upstream).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// RFC 9110 section 7.6.1: they are about one connection.
fn without_hop_by_hop(headers: &mut HeaderMap) {
    headers.remove(CONNECTION);
    headers.remove(TRANSFER_ENCODING);
}

fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn replaced(body: &[u8], at: &std::ops::Range<usize>, id: &[u8]) -> Bytes {
    let mut spliced = BytesMut::with_capacity(body.len() + id.len());
    spliced.extend_from_slice(&body[..at.start]);
    spliced.extend_from_slice(id);
    spliced.extend_from_slice(&body[at.end..]);
    spliced.freeze()
}

/// The answer's body with the agent's id in it. Gives the connection back once it has been read to its end.
#[derive(Debug)]
struct Spliced {
    incoming: Incoming,
    ended: bool,
    /// What is still to be put in.
    theirs: Option<Bytes>,
    sender: Option<Sender>,
    hop: Arc<Hop>,
}

impl http_body::Body for Spliced {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(context));
        let Some(Ok(frame)) = frame else {
            self.ended = frame.is_none();
            return Poll::Ready(frame);
        };
        Poll::Ready(Some(Ok(frame.map_data(|data| {
            match (&self.theirs, id_in(&data)) {
                (Some(theirs), Some(at)) => {
                    let spliced = replaced(&data, &at, theirs);
                    self.theirs = None;
                    spliced
                }
                _ => data,
            }
        }))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // Content-Length is in the headers where the upstream said it; its body's own hint is off by the splice.
        SizeHint::default()
    }
}

impl Drop for Spliced {
    fn drop(&mut self) {
        if self.is_end_stream()
            && let Some(sender) = self.sender.take()
        {
            self.hop.idle.lock().push(sender);
        }
    }
}
