//! The bodies of answers, without a box or a channel where none is needed.

use std::convert::Infallible;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::protocol::LARGE;

/// How long after its progress event a result comes.
const RESULT_AFTER: Duration = Duration::from_millis(20);

/// What follows the beginning of a large result's text.
static LARGE_REST: LazyLock<Bytes> = LazyLock::new(|| {
    let mut rest = "weather ".repeat(LARGE / 8);
    rest.push_str(r#""}],"isError":false}}"#);
    Bytes::from(rest)
});

/// One event with a message.
pub(super) fn event(message: &str) -> Bytes {
    format!("event: message\ndata: {message}\n\n").into()
}

#[derive(Debug)]
pub(super) enum Body {
    /// Its length is known.
    Whole { first: Bytes, rest: Bytes },
    /// Ends after what is there.
    Stream(Bytes),
    /// An event, and another one later.
    Later {
        first: Bytes,
        pause: Option<Pin<Box<Sleep>>>,
        last: Bytes,
    },
    /// Never ends.
    Open(Bytes),
}

impl Body {
    pub(super) fn empty() -> Self {
        Self::whole(Bytes::new())
    }

    pub(super) fn whole(first: Bytes) -> Self {
        let rest = Bytes::new();
        Self::Whole { first, rest }
    }

    /// A large result, of which `first` is the beginning.
    pub(super) fn large(first: Bytes) -> Self {
        let rest = LARGE_REST.clone();
        Self::Whole { first, rest }
    }

    pub(super) fn one_event(message: &str) -> Self {
        Self::Stream(event(message))
    }

    pub(super) fn progress(token: &str, message: &str) -> Self {
        let progress = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
        );
        Self::Later {
            first: event(&progress),
            pause: Some(Box::pin(sleep(RESULT_AFTER))),
            last: event(message),
        }
    }

    pub(super) fn open(first: Bytes) -> Self {
        Self::Open(first)
    }
}

/// The next frame, where there are bytes left.
fn take(bytes: &mut Bytes) -> Option<Result<Frame<Bytes>, Infallible>> {
    (!bytes.is_empty()).then(|| Ok(Frame::data(std::mem::take(bytes))))
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole { first, rest } => Poll::Ready(take(first).or_else(|| take(rest))),
            Self::Stream(event) => Poll::Ready(take(event)),
            Self::Later { first, pause, last } => {
                if let Some(frame) = take(first) {
                    return Poll::Ready(Some(frame));
                }
                if let Some(sleep) = pause {
                    ready!(sleep.as_mut().poll(context));
                    *pause = None;
                }
                Poll::Ready(take(last))
            }
            // Nothing wakes it again: only its connection's end ends it.
            Self::Open(first) => {
                take(first).map_or(Poll::Pending, |frame| Poll::Ready(Some(frame)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole { first, rest } => first.is_empty() && rest.is_empty(),
            Self::Stream(event) => event.is_empty(),
            Self::Later { first, last, .. } => first.is_empty() && last.is_empty(),
            Self::Open(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole { first, rest } => {
                SizeHint::with_exact(first.len() as u64 + rest.len() as u64)
            }
            Self::Stream(_) | Self::Later { .. } | Self::Open(_) => SizeHint::new(),
        }
    }
}
