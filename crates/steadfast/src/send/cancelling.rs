//! The agent cancels a call that is on its way: the server is told in its own way, and a write is read to its end where
//! that can still be done.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use steadfast_core::Era;

use super::once::Attempt;

/// What follows once the server is told that the call is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterCancelling {
    /// Its answer is waited for all the same, to learn the outcome.
    ReadOn,
    /// Nothing more is read of it.
    Leave,
}

impl Attempt<'_> {
    /// What `work` comes to; `None` where the agent cancels the call, and nothing more is waited for.
    pub(super) async fn unless_cancelled<F: Future>(
        &self,
        mut work: Pin<&mut F>,
    ) -> Option<F::Output> {
        let mut cancelled = pin!(self.job.handle.inner.cancelled.notified());
        let mut reads_on = false;
        // By hand: what it comes to is large, and `select!` would keep room for it in every call.
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            if !reads_on && cancelled.as_mut().poll(cx).is_ready() {
                reads_on = self.cancelled() == AfterCancelling::ReadOn;
                if !reads_on {
                    return Poll::Ready(None);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The agent cancels the call: the server is told. A write at a legacy server is read on: the server "MAY ignore" the
    /// cancellation, and may be done already (2025-11-25 cancellation, "Behavior Requirements" and "Timing
    /// Considerations"), so that its answer, where there is one, is the only word on what happened. Its agent gets none
    /// of it.
    pub(super) fn cancelled(&self) -> AfterCancelling {
        self.tell_cancelled();
        match &self.job.tracked {
            // In the modern era it is the end of the stream that says it.
            Some(tracked) if self.route.era() == Era::Legacy => {
                tracked.agent_left();
                self.job.handle.release();
                AfterCancelling::ReadOn
            }
            Some(_) | None => AfterCancelling::Leave,
        }
    }

    /// Tells the server that nobody waits any more, unless it was told that the call is cancelled.
    pub(super) fn tell_given_up(&self) {
        if !self.job.handle.is_cancelled() {
            self.tell_cancelled();
        }
    }

    /// Tells the server that the call is cancelled, in its own way: in the legacy era by a notification
    /// with our id; in the modern era closing the stream says it, and the caller closes it.
    fn tell_cancelled(&self) {
        if self.route.era() == Era::Modern {
            return;
        }
        let message = self.job.handle.cancellation(self.id);
        let (link, route) = (Arc::clone(self.link), Arc::clone(self.route));
        tokio::spawn(async move {
            super::post_quietly(&link, &route, message).await;
        });
    }
}
