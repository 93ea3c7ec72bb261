//! The one gate that all connections of this process are opened through. What may pass is decided by
//! [`gate::Gate`]; here is who waits for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use steadfast_core::Mono;
use steadfast_core::gate::{Answer, Claim, Gate, Policy, Ticket};
use tokio::sync::{Notify, oneshot};

use crate::clock;

/// The gate, and who waits.
#[derive(Debug)]
pub(crate) struct Fleet {
    inner: Mutex<Inner>,
    /// Somebody came or went.
    changed: Notify,
}

#[derive(Debug)]
struct Inner {
    gate: Gate,
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
}

impl Fleet {
    pub(crate) fn new(policy: Policy) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                gate: Gate::new(policy),
                waiting: BTreeMap::new(),
            }),
            changed: Notify::new(),
        })
    }

    /// One more connection leads to the server at this address, until the member is dropped.
    pub(crate) fn join(self: &Arc<Self>, address: &str) -> Member {
        let server: Arc<str> = Arc::from(address);
        self.inner.lock().gate.join(&server);
        Member {
            fleet: Arc::clone(self),
            server,
        }
    }

    /// Gives places away as they become free. Runs for as long as the keeper does.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            let next = self.admit();
            tokio::select! {
                () = clock::wait_until(next) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    fn admit(&self) -> Option<Mono> {
        let mut inner = self.inner.lock();
        for number in inner.gate.admit(clock::mono()) {
            if let Some(waiting) = inner.waiting.remove(&number) {
                // An attempt that was given up a moment ago gives its place back itself.
                let _ = waiting.send(());
            }
        }
        inner.gate.deadline()
    }
}

/// One of the connections to a server.
#[derive(Debug)]
pub(crate) struct Member {
    fleet: Arc<Fleet>,
    server: Arc<str>,
}

impl Member {
    /// A position in the queue for a place; or when to come again, where the server is being connected
    /// to too often.
    pub(crate) fn ask(&self, claim: Claim) -> Result<Place, Mono> {
        let mut inner = self.fleet.inner.lock();
        let now = clock::mono();
        match inner.gate.ask(&self.server, claim, now, clock::jitter()) {
            Answer::Held { until } => Err(until),
            Answer::Queued(ticket) => {
                let (admit, admitted) = oneshot::channel();
                inner.waiting.insert(ticket.number(), admit);
                drop(inner);
                self.fleet.changed.notify_one();
                Ok(Place {
                    fleet: Arc::clone(&self.fleet),
                    ticket,
                    admitted: Some(admitted),
                })
            }
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.fleet.inner.lock().gate.part(&self.server);
    }
}

/// A place of an attempt, or its position in the queue. Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    fleet: Arc<Fleet>,
    ticket: Ticket,
    admitted: Option<oneshot::Receiver<()>>,
}

impl Place {
    /// Waits until the attempt may begin.
    pub(crate) async fn admitted(&mut self) {
        if let Some(admitted) = self.admitted.take() {
            let _ = admitted.await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.fleet.inner.lock();
        inner.waiting.remove(&self.ticket.number());
        inner.gate.done(&self.ticket);
        drop(inner);
        self.fleet.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use steadfast_core::Millis;

    use super::*;

    fn fleet(places: usize) -> Arc<Fleet> {
        let fleet = Fleet::new(Policy {
            hold: Millis::mins(1),
            ..Policy::new(Millis::secs(1), places)
        });
        tokio::spawn(Arc::clone(&fleet).run());
        fleet
    }

    async fn is_admitted(place: &mut Place) -> bool {
        // Long enough for a task that has nothing else to wait for.
        let within = Duration::from_millis(50);
        tokio::time::timeout(within, place.admitted()).await.is_ok()
    }

    #[tokio::test]
    async fn a_place_that_is_given_back_is_given_on() {
        let fleet = fleet(1);
        let member = fleet.join("http://a/");
        let mut first = member.ask(Claim::First).unwrap();
        first.admitted().await;
        let mut second = member.ask(Claim::First).unwrap();
        let given_up = member.ask(Claim::First).unwrap();
        assert!(!is_admitted(&mut second).await);
        drop((given_up, first));
        let mut third = member.ask(Claim::First).unwrap();
        assert!(!is_admitted(&mut third).await, "the second one has it");
        drop(second);
        third.admitted = None;
        drop(third);
        assert!(fleet.inner.lock().waiting.is_empty());
    }
}
