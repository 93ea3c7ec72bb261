//! Writes what comes together in one transaction, and tells each stream what of it is on disk.

use std::sync::Arc;
use std::time::Duration;

use steadfast_store::{EventWrite, SharedEvents};
use tokio::sync::{mpsc, oneshot};

use super::Stream;

/// How many writes one transaction holds at most.
const TOGETHER: usize = 512;

/// After which pauses a transaction that failed is tried again.
const TRIED_AGAIN: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// Hands writes to the task that makes them. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Scribe(mpsc::UnboundedSender<Job>);

#[derive(Debug)]
enum Job {
    Write {
        writes: Vec<EventWrite>,
        /// Whose they are, and up to which event they go.
        of: Option<(Arc<Stream>, u64)>,
    },
    Finish(oneshot::Sender<()>),
}

impl Scribe {
    pub(super) fn start(log: SharedEvents) -> Self {
        let (sender, inbox) = mpsc::unbounded_channel();
        tokio::spawn(run(log, inbox));
        Self(sender)
    }

    /// Writes what is of no stream in memory.
    pub(super) fn write(&self, writes: Vec<EventWrite>) {
        // Nobody takes it only where the process is ending.
        let _ = self.0.send(Job::Write { writes, of: None });
    }

    /// Writes what is new of a stream, which is told when its events before `end` are on disk.
    pub(super) fn write_of(&self, stream: &Arc<Stream>, writes: Vec<EventWrite>, end: u64) {
        let of = Some((Arc::clone(stream), end));
        let _ = self.0.send(Job::Write { writes, of });
    }

    /// Waits until everything of before is on disk.
    pub(super) async fn finish(&self) {
        let (sender, finished) = oneshot::channel();
        if self.0.send(Job::Finish(sender)).is_ok() {
            // An error means that the process is ending.
            let _ = finished.await;
        }
    }
}

async fn run(log: SharedEvents, mut inbox: mpsc::UnboundedReceiver<Job>) {
    let mut jobs = Vec::with_capacity(TOGETHER);
    while inbox.recv_many(&mut jobs, TOGETHER).await > 0 {
        let (mut writes, mut of, mut finished) = (Vec::new(), Vec::new(), Vec::new());
        for job in jobs.drain(..) {
            match job {
                Job::Write {
                    writes: more,
                    of: stream,
                } => {
                    // What could not be written before would leave a gap.
                    if stream.as_ref().is_some_and(|(it, _)| it.is_volatile()) {
                        of.extend(stream);
                        continue;
                    }
                    writes.extend(more);
                    of.extend(stream);
                }
                Job::Finish(sender) => finished.push(sender),
            }
        }
        let is_on_disk = writes.is_empty() || write(&log, writes).await;
        for (stream, end) in of {
            if !is_on_disk {
                stream.cannot_be_kept();
            }
            stream.is_on_disk(end);
        }
        for sender in finished {
            // Whoever waited may have given up.
            let _ = sender.send(());
        }
    }
}

/// Whether it succeeded. An agent is not made to wait for a disk that is full: its answer matters more than that it could
/// be resumed.
async fn write(log: &SharedEvents, writes: Vec<EventWrite>) -> bool {
    for pause in TRIED_AGAIN {
        match log.write(writes.clone()).await {
            Ok(()) => return true,
            Err(error) => {
                tracing::warn!(%error, "events could not be written, and are tried again")
            }
        }
        tokio::time::sleep(pause).await;
    }
    match log.write(writes).await {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(%error, "events cannot be written: streams that are open now cannot be resumed after a restart");
            false
        }
    }
}
