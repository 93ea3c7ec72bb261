//! A call whose caller may go away, or be let go: it goes on without it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::call::{Answer, Failure};
use crate::handle::CallHandle;
use crate::measure::Timed;

pub(super) type Work = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A future that is finished in the background when it is dropped, or when its caller cancels the call and is let go.
pub(crate) struct Detached {
    work: Option<Work>,
    /// Whether the call is cancelled where its caller goes away before there is an answer.
    cancels: bool,
    /// `None` where nothing is done then.
    handle: Option<CallHandle>,
    timed: Option<Timed>,
}

impl Detached {
    pub(super) fn new(
        work: Work,
        cancels: bool,
        handle: Option<CallHandle>,
        timed: Option<Timed>,
    ) -> Self {
        Self {
            work: Some(work),
            cancels,
            handle,
            timed,
        }
    }

    /// Finishes the work in the background.
    fn go_on_alone(&mut self) {
        let runtime = tokio::runtime::Handle::try_current();
        if let (Some(work), Ok(runtime)) = (self.work.take(), runtime) {
            runtime.spawn(work);
        }
    }
}

impl Future for Detached {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let Some(work) = &mut self.work else {
            return Poll::Pending;
        };
        let mut polled = work.as_mut().poll(cx);
        if polled.is_ready() {
            self.work = None;
        }
        let handle = self.handle.as_ref();
        if handle.is_some_and(|handle| handle.poll_released(cx).is_ready()) {
            self.go_on_alone();
            polled = Poll::Ready(Answer::Failed(Failure::Cancelled));
        }
        if let Poll::Ready(answer) = &mut polled
            && let Some(timed) = self.timed.take()
        {
            timed.answered(answer);
        }
        polled
    }
}

impl Drop for Detached {
    fn drop(&mut self) {
        if self.work.is_none() {
            return;
        }
        if let Some(handle) = &self.handle {
            handle.agent_left();
            if self.cancels {
                handle.cancel(None);
            }
        }
        self.go_on_alone();
    }
}
