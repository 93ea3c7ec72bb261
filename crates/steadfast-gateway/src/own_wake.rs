//! Wake-ups that a task gives itself while it is polled.
//!
//! A connection of hyper and the handler of its request talk over channels and share one task, so they
//! wake the task that is running: several times for each request with a body. The runtime takes such a
//! wake-up for a yield: the task goes to the end of the queue, and another thread is woken to look for
//! work. Here the future is polled again at once instead.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// More polls in a row than this would keep other tasks waiting.
const MOST_POLLS: usize = 8;

/// Nobody polls: a wake-up goes to the task.
const WAITING: u8 = 0;
/// It is being polled.
const POLLED: u8 = 1;
/// It is being polled, and is to be polled once more.
const WOKEN: u8 = 2;

/// Polls futures of one task.
#[derive(Debug)]
pub(crate) struct Poller {
    state: Arc<State>,
    /// The waker of `state`: what futures are polled with.
    waker: Waker,
}

#[derive(Debug, Default)]
struct State {
    phase: AtomicU8,
    task: AtomicWaker,
}

impl Wake for State {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let polled =
            self.phase
                .compare_exchange(POLLED, WOKEN, Ordering::AcqRel, Ordering::Acquire);
        // Where it is woken already, whoever polls it sees that.
        if polled == Err(WAITING) {
            self.task.wake();
        }
    }
}

impl Poller {
    pub(crate) fn new() -> Self {
        let state = Arc::<State>::default();
        Self {
            waker: Waker::from(Arc::clone(&state)),
            state,
        }
    }

    /// Polls the future, and again while it woke itself.
    pub(crate) fn poll<F: Future>(
        &self,
        mut future: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<F::Output> {
        let phase = &self.state.phase;
        self.state.task.register(cx.waker());
        for _ in 0..MOST_POLLS {
            phase.store(POLLED, Ordering::Release);
            let polled = future.as_mut().poll(&mut Context::from_waker(&self.waker));
            if polled.is_ready() {
                return polled;
            }
            let waits =
                phase.compare_exchange(POLLED, WAITING, Ordering::AcqRel, Ordering::Acquire);
            if waits.is_ok() {
                return Poll::Pending;
            }
        }
        phase.store(WAITING, Ordering::Release);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A future that wakes itself so often before it is ready, and how often it was polled by then.
    fn wakes_itself(times: usize) -> impl Future<Output = usize> {
        let mut polls = 0;
        poll_fn(move |cx| {
            polls += 1;
            if polls > times {
                return Poll::Ready(polls);
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    }

    #[test]
    fn what_wakes_itself_is_polled_again_and_its_task_hears_nothing() {
        let task = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&task));
        let mut future = pin!(wakes_itself(3));
        let polled = Poller::new().poll(future.as_mut(), &mut Context::from_waker(&waker));
        assert_eq!(polled, Poll::Ready(4));
        assert_eq!(task.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_does_not_stop_waking_itself_lets_others_run() {
        let task = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&task));
        let mut future = pin!(wakes_itself(MOST_POLLS));
        let poller = Poller::new();
        let mut cx = Context::from_waker(&waker);
        assert_eq!(poller.poll(future.as_mut(), &mut cx), Poll::Pending);
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
        let polled = poller.poll(future.as_mut(), &mut cx);
        assert_eq!(polled, Poll::Ready(MOST_POLLS + 1));
    }

    #[test]
    fn what_is_woken_while_it_waits_wakes_its_task() {
        let task = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&task));
        let mut kept = None;
        let mut future = pin!(poll_fn(|cx| {
            kept = Some(cx.waker().clone());
            Poll::<()>::Pending
        }));
        let poller = Poller::new();
        let polled = poller.poll(future.as_mut(), &mut Context::from_waker(&waker));
        assert_eq!(polled, Poll::Pending);
        assert_eq!(task.0.load(Ordering::Relaxed), 0);
        kept.unwrap().wake();
        assert_eq!(task.0.load(Ordering::Relaxed), 1);
    }
}
