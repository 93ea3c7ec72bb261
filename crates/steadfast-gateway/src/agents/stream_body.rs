//! The body of an answer that streams: server-sent events as they come, each sent on at once, and
//! comments while there is nothing to say (ST-07: whatever stands between must not take a quiet
//! stream for a dead one).

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response};
use http_body::Frame;
use tokio::time::{Instant, Sleep};

use crate::body::Body;

/// Events that are ready together go out together, up to about this many bytes.
const FRAME_SIZE: usize = 64 << 10;

const COMMENT: &[u8] = b": keep-alive\n\n";

static ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Where events come from.
pub(crate) trait Source: Send + Unpin + 'static {
    /// Writes what is there to `out`, as server-sent events. `true` where there may be more, `false`
    /// at the end of the stream.
    fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<bool>;
}

/// The answer that streams what `source` gives.
pub(crate) fn response(source: impl Source, keep_alive: Duration) -> Response<Body> {
    let mut response = Response::new(Body::Events(Box::pin(Events {
        source,
        keep_alive: KeepAlive::new(keep_alive),
        ended: false,
    })));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // 2026-07-28 streamable-http, "Receiving Messages": tells reverse proxies not to hold events back.
    headers.insert(ACCEL_BUFFERING.clone(), HeaderValue::from_static("no"));
    response
}

struct Events<S> {
    source: S,
    keep_alive: KeepAlive,
    ended: bool,
}

impl<S: Source> http_body::Body for Events<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let mut out = Vec::new();
        while !this.ended && out.len() < FRAME_SIZE {
            match this.source.poll_write(cx, &mut out) {
                Poll::Ready(more) => this.ended = !more,
                Poll::Pending => break,
            }
        }
        if !out.is_empty() {
            this.keep_alive.sent();
            return Poll::Ready(Some(Ok(Frame::data(out.into()))));
        }
        if this.ended {
            return Poll::Ready(None);
        }
        ready!(this.keep_alive.poll(cx));
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(COMMENT)))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}

/// Says when it is time for a comment. The timer is only made once a stream is quiet.
struct KeepAlive {
    every: Duration,
    last: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl KeepAlive {
    fn new(every: Duration) -> Self {
        Self {
            every,
            last: Instant::now(),
            timer: None,
        }
    }

    fn sent(&mut self) {
        self.last = Instant::now();
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = self.last + self.every;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        loop {
            ready!(timer.as_mut().poll(cx));
            let now = Instant::now();
            // Events have been sent since the timer was set: it is only moved now, not at each event.
            let due = self.last + self.every;
            if due > now {
                timer.as_mut().reset(due);
                continue;
            }
            self.last = now;
            timer.as_mut().reset(now + self.every);
            return Poll::Ready(());
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tokio::sync::mpsc;

    use super::*;

    struct Channel(mpsc::UnboundedReceiver<&'static str>);

    impl Source for Channel {
        fn poll_write(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<bool> {
            let next = ready!(self.0.poll_recv(cx));
            if let Some(text) = next {
                out.extend_from_slice(text.as_bytes());
            }
            Poll::Ready(next.is_some())
        }
    }

    async fn next(body: &mut Body) -> Option<Bytes> {
        let frame = body.frame().await?.unwrap();
        frame.into_data().ok()
    }

    #[tokio::test(start_paused = true)]
    async fn events_leave_at_once_and_comments_fill_the_silence() {
        let (events, receiver) = mpsc::unbounded_channel();
        let mut body = response(Channel(receiver), Duration::from_secs(15)).into_body();
        events.send("a").unwrap();
        events.send("b").unwrap();
        let start = Instant::now();
        assert_eq!(next(&mut body).await.unwrap(), "ab");
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(next(&mut body).await.unwrap(), COMMENT);
        assert_eq!(start.elapsed().as_secs(), 15);
        tokio::time::advance(Duration::from_secs(10)).await;
        events.send("c").unwrap();
        assert_eq!(next(&mut body).await.unwrap(), "c");
        assert_eq!(next(&mut body).await.unwrap(), COMMENT);
        assert_eq!(
            start.elapsed().as_secs(),
            40,
            "15 s after the last event, not after the last comment"
        );
        drop(events);
        assert!(next(&mut body).await.is_none());
    }

    #[tokio::test]
    async fn a_stream_says_that_nobody_may_hold_it_back() {
        let (_events, receiver) = mpsc::unbounded_channel();
        let response = response(Channel(receiver), Duration::from_secs(15));
        assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
    }
}
