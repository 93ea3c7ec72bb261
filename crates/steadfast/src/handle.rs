//! A call from outside: how it is ended, and what came for it elsewhere than on its own stream.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::OperationId;
use steadfast_core::wire::splice::{self, Edit};
use steadfast_store::IdHash;
use tokio::sync::Notify;

use crate::call::Message;
use crate::operations::Tracked;

/// What may wait for a caller that is slow to take it.
const MOST_ASIDES: usize = 64;

/// Give the same handle to [`crate::Link::call`] and keep a clone.
#[derive(Clone, Debug, Default)]
pub struct CallHandle {
    pub(crate) inner: Arc<HandleInner>,
}

#[derive(Debug, Default)]
pub(crate) struct HandleInner {
    pub(crate) cancelled: Notify,
    /// Set once the call is cancelled, with the agent's own words where it used any.
    notice: Mutex<Option<Option<Notice>>>,
    conversation: Option<IdHash>,
    departure: Mutex<Departure>,
    release: Mutex<Release>,
    asides: Mutex<Asides>,
}

/// An agent's `notifications/cancelled`, passed on with nothing but the id replaced.
#[derive(Clone, Debug)]
pub struct Notice {
    /// The message.
    pub message: Bytes,
    /// Where its `params.requestId` is.
    pub id: Range<usize>,
}

/// Whether the caller went away, and from which operation.
#[derive(Debug, Default)]
struct Departure {
    has_left: bool,
    tracked: Weak<Tracked>,
}

/// Whether the caller is let go before the call is over.
#[derive(Debug, Default)]
struct Release {
    is_released: bool,
    waker: Option<Waker>,
}

/// A consequential call goes on without its agent, which may come back for the response.
#[derive(Debug)]
pub struct Receipt(Arc<Tracked>);

impl Receipt {
    /// It came back, and has the response.
    pub fn taken(self) {
        self.0.taken();
    }
}

#[derive(Debug, Default)]
struct Asides {
    is_open: bool,
    queue: VecDeque<Message>,
    waker: Option<Waker>,
}

impl CallHandle {
    /// Of a call that stands alone.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Of a call in this conversation of its agent.
    #[must_use]
    pub fn of(conversation: IdHash) -> Self {
        Self {
            inner: Arc::new(HandleInner {
                conversation: Some(conversation),
                ..HandleInner::default()
            }),
        }
    }

    /// The conversation of the call; `None` where it stands alone.
    #[must_use]
    pub fn conversation(&self) -> Option<IdHash> {
        self.inner.conversation
    }

    /// The agent cancels the call: the server is told in its own way, with the keeper's own id, and
    /// the caller gets [`crate::Failure::Cancelled`].
    pub fn cancel(&self, notice: Option<Notice>) {
        *self.inner.notice.lock() = Some(notice);
        self.inner.cancelled.notify_one();
    }

    /// Whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.inner.notice.lock().is_some()
    }

    /// The agent went away without cancelling the call: a consequential one is read on, so that its outcome is known.
    pub fn agent_left(&self) -> Option<Receipt> {
        let mut departure = self.inner.departure.lock();
        departure.has_left = true;
        let tracked = departure.tracked.upgrade()?;
        tracked.agent_left();
        Some(Receipt(tracked))
    }

    /// The call is this operation.
    pub(crate) fn track(&self, tracked: &Arc<Tracked>) {
        let mut departure = self.inner.departure.lock();
        departure.tracked = Arc::downgrade(tracked);
        if departure.has_left {
            tracked.agent_left();
        }
    }

    /// The operation that the call is, once it is on record and as long as it is under way.
    #[must_use]
    pub fn operation(&self) -> Option<OperationId> {
        let tracked = self.inner.departure.lock().tracked.upgrade()?;
        Some(tracked.id().clone())
    }

    /// The caller gets [`crate::Failure::Cancelled`] now, and nothing more: the call is read on without it.
    pub(crate) fn release(&self) {
        let mut release = self.inner.release.lock();
        release.is_released = true;
        let waker = release.waker.take();
        drop(release);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether the caller was let go.
    pub(crate) fn is_released(&self) -> bool {
        self.inner.release.lock().is_released
    }

    /// Waits until the caller is let go.
    pub(crate) fn poll_released(&self, cx: &Context<'_>) -> Poll<()> {
        let mut release = self.inner.release.lock();
        if release.is_released {
            return Poll::Ready(());
        }
        release.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Whether nothing is done for the call any more: only this handle of it is left.
    #[must_use]
    pub fn is_over(&self) -> bool {
        Arc::strong_count(&self.inner) == 1
    }

    /// The notification for a legacy server that knows the call by this id.
    pub(crate) fn cancellation(&self, id: i64) -> Bytes {
        let id = id.to_string();
        let notice = self.inner.notice.lock().clone().flatten();
        match notice {
            Some(notice) => {
                let mut edits = [Edit {
                    range: notice.id,
                    with: id.as_bytes(),
                }];
                splice::apply(&notice.message, &mut edits).into()
            }
            None => format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
            )
            .into(),
        }
    }

    // What a server sends on its own stream and not on that of the call: many servers send progress
    // there, and some their questions.

    /// Takes such messages from now on. What comes before, or after [`Self::hang_up`], goes nowhere.
    pub fn listen(&self) {
        self.inner.asides.lock().is_open = true;
    }

    /// Takes no more of them. Questions that were not taken are answered as if the agent had gone.
    pub fn hang_up(&self) {
        let mut asides = self.inner.asides.lock();
        asides.is_open = false;
        let left = std::mem::take(&mut asides.queue);
        drop(asides);
        drop(left);
    }

    /// Brings the caller such a message. It comes back where the caller does not take it.
    ///
    /// # Errors
    ///
    /// The message, where nobody listens, or too many wait already.
    pub fn aside(&self, message: Message) -> Result<(), Message> {
        let mut asides = self.inner.asides.lock();
        if !asides.is_open || asides.queue.len() >= MOST_ASIDES {
            return Err(message);
        }
        asides.queue.push_back(message);
        let waker = asides.waker.take();
        drop(asides);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// The next such message.
    pub fn poll_aside(&self, cx: &Context<'_>) -> Poll<Message> {
        let mut asides = self.inner.asides.lock();
        match asides.queue.pop_front() {
            Some(message) => Poll::Ready(message),
            None => {
                asides.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Whether there is one, without taking it.
    pub fn poll_has_aside(&self, cx: &Context<'_>) -> Poll<()> {
        let mut asides = self.inner.asides.lock();
        if asides.queue.is_empty() {
            asides.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}
