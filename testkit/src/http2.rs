//! HTTP/2 through hyper, for prior knowledge and for ALPN. Faults below the stream level act on the whole connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{mpsc, oneshot, watch};

use crate::exchange::Exchange;
use crate::log::Request;
use crate::shared::Shared;
use crate::stream::Stream;
use crate::wire::{Flow, Head, Stop, Transport, Wire};

/// How long hyper gets to write what a script sent before the end of the connection.
const FLUSH: Duration = Duration::from_millis(20);

/// The response side of one HTTP/2 stream.
pub(crate) struct Channel {
    head: Option<oneshot::Sender<Result<Response<ChannelBody>, Reason>>>,
    body: Option<mpsc::Sender<Result<Bytes, h2::Error>>>,
    connection: watch::Sender<Option<Stop>>,
}

impl Channel {
    pub(crate) fn send_head(&mut self, head: &Head) -> Flow {
        let (sender, receiver) = mpsc::channel(1);
        let mut response = Response::new(ChannelBody(receiver));
        *response.status_mut() =
            StatusCode::from_u16(head.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in &head.headers {
            // A header that HTTP/2 cannot carry is left out: scripts are written for both versions.
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name), HeaderValue::try_from(value))
            {
                response.headers_mut().append(name, value);
            }
        }
        self.body = Some(sender);
        let head = self.head.take().ok_or(Stop::PeerGone)?;
        head.send(Ok(response)).map_err(|_| Stop::PeerGone)
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Flow {
        let body = self.body.as_ref().ok_or(Stop::PeerGone)?;
        body.send(Ok(Bytes::copy_from_slice(bytes)))
            .await
            .map_err(|_| Stop::PeerGone)
    }

    pub(crate) async fn reset_stream(&mut self) -> Flow {
        let body = self.body.take().ok_or(Stop::PeerGone)?;
        body.send(Err(Reason::INTERNAL_ERROR.into()))
            .await
            .map_err(|_| Stop::PeerGone)?;
        Err(Stop::Done)
    }

    pub(crate) fn finish(&mut self) {
        self.body = None;
    }

    pub(crate) async fn peer_gone(&mut self) {
        match (&mut self.head, &self.body) {
            (Some(head), _) => head.closed().await,
            (None, Some(body)) => body.closed().await,
            (None, None) => {}
        }
    }

    pub(crate) fn refuse(&mut self) {
        if let Some(head) = self.head.take() {
            let _peer_gone = head.send(Err(Reason::REFUSED_STREAM));
        }
    }

    /// Ends the connection under this stream.
    pub(crate) fn end_connection(&self, stop: Stop) {
        self.connection.send_replace(Some(stop));
    }
}

pub(crate) struct ChannelBody(mpsc::Receiver<Result<Bytes, h2::Error>>);

impl Body for ChannelBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        self.0
            .poll_recv(cx)
            .map(|piece| piece.map(|bytes| bytes.map(Frame::data)))
    }
}

/// The connection, held from two sides: hyper drives it, and a script may want to reset it.
#[derive(Clone)]
struct Shareable(Arc<Mutex<Stream>>);

impl AsyncRead for Shareable {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_read(cx, buf)
    }
}

impl AsyncWrite for Shareable {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.lock()).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_shutdown(cx)
    }
}

/// Serves one HTTP/2 connection until it ends, the script ends it, or the server stops.
pub(crate) async fn serve(
    stream: Stream,
    number: u64,
    shared: Arc<Shared>,
    server_stop: impl Future<Output = ()>,
) {
    let stream = Shareable(Arc::new(Mutex::new(stream)));
    let (control, mut controlled) = watch::channel(None);
    let service =
        service_fn(|request| answer(request, number, Arc::clone(&shared), control.clone()));
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder.max_concurrent_streams(None);
    let connection = builder.serve_connection(TokioIo::new(stream.clone()), service);
    tokio::pin!(connection);
    let stop = tokio::select! {
        biased;
        () = server_stop => Stop::Reset,
        stop = controlled.wait_for(Option::is_some) => stop.ok().and_then(|stop| *stop).unwrap_or(Stop::Close),
        _ = &mut connection => Stop::PeerGone,
    };
    // What a script sent before it broke off is still on its way through hyper, which has no way to wait for it.
    let _still_open = tokio::time::timeout(FLUSH, connection).await;
    if stop == Stop::Reset {
        stream.0.lock().reset_on_drop();
    }
}

async fn answer(
    request: http::Request<Incoming>,
    connection: u64,
    shared: Arc<Shared>,
    control: watch::Sender<Option<Stop>>,
) -> Result<Response<ChannelBody>, h2::Error> {
    let (parts, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map_err(|_| h2::Error::from(Reason::CANCEL))?
        .to_bytes();
    let headers = parts.headers.iter();
    let headers = headers.map(|(k, v)| {
        (
            k.as_str().to_owned(),
            String::from_utf8_lossy(v.as_bytes()).into_owned(),
        )
    });
    let headers: Vec<_> = headers.collect();
    let path = parts
        .uri
        .path_and_query()
        .map_or_else(|| "/".to_owned(), ToString::to_string);
    let request = shared.log.request(|index, at| Request {
        index,
        at,
        connection,
        http2: true,
        method: parts.method.to_string(),
        path,
        headers,
        json: serde_json::from_slice(&body).ok(),
        body,
    });
    let (sender, receiver) = oneshot::channel();
    let channel = Channel {
        head: Some(sender),
        body: None,
        connection: control,
    };
    // Not part of this future: the response goes on after its head is here.
    tokio::spawn(Exchange::new(request, Wire::new(Transport::Http2(channel)), shared).play_http2());
    match receiver.await {
        Ok(answer) => answer.map_err(h2::Error::from),
        Err(_) => Err(Reason::INTERNAL_ERROR.into()),
    }
}
