//! How connections are opened in a fleet: a bounded number at a time, and to one server only so often.
//! Whatever made a hundred connections fail at once, their return must not be the next fault
//! (OP-01, OP-03).
//!
//! There is one gate for the whole process, and it has two limits:
//!
//! - The *cap* of each server, over all agents: so many openings in a row, then one per interval. Who
//!   comes too soon is given a turn, later than those of everybody before, and waits for it as for any
//!   other delay. A server that accepts and drops is so asked a bounded number of times per minute,
//!   however many agents want it.
//! - The *places*: so many attempts at a time. They go to the servers in rotation, so that the queue of
//!   one server holds up no other, and each is lent for a short while only: a server that accepts and
//!   never answers delays nobody (OP-04).
//!
//! A person's reload passes the cap and goes to the head of the queue (architecture, grants 7).

mod cap;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use self::cap::Cap;
use crate::now::{Jitter, Millis, Mono};

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How many attempts are under way at a time (`concurrent_reconnects`).
    pub places: usize,
    /// How long an attempt holds its place at most.
    pub hold: Millis,
    /// How often in a row one server is connected to again; at least once for each of its connections.
    pub burst: u32,
    /// How long until one further time.
    pub interval: Millis,
    /// Those who come back together to one server are spread over this.
    pub spread: Millis,
}

impl Policy {
    /// The limits that go with `retry.first` and `retry.concurrent_reconnects`.
    #[must_use]
    pub fn new(first: Millis, places: usize) -> Self {
        Self {
            places: places.max(1),
            hold: Millis(500),
            burst: 64,
            interval: Millis((first.0 / 2).max(1)),
            spread: Millis(first.0 / 10),
        }
    }
}

/// Why a connection is to be opened, and so what may hold it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Claim {
    /// A person or an API asked for it now: before everybody else, whatever the cap.
    Asked,
    /// It is opened for the first time, or was configured anew: whatever the cap.
    First,
    /// It failed or was lost.
    Again,
    /// It was told to come back now, and has waited for it.
    Turn,
}

/// What an attempt is told when it asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is in the queue for a place.
    Queued(Ticket),
    /// The server is being connected to too often: come back then, with [`Claim::Turn`].
    Held {
        /// When.
        until: Mono,
    },
}

/// A position in the queue, and then a place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    number: u64,
    server: Arc<str>,
    not_before: Mono,
}

/// What is known of one server.
#[derive(Clone, Debug, Default)]
struct Server {
    connections: usize,
    cap: Cap,
    /// Who waits for a place, in the order of their times.
    queue: BTreeSet<(Mono, u64)>,
}

/// The gate.
#[derive(Clone, Debug)]
pub struct Gate {
    policy: Policy,
    servers: BTreeMap<Arc<str>, Server>,
    /// Those whom a person sent.
    asked: VecDeque<u64>,
    /// The servers that somebody waits for, in the order of their turns.
    rotation: VecDeque<Arc<str>>,
    /// Who holds a place, and until when.
    places: BTreeMap<u64, Mono>,
    numbers: u64,
}

impl Gate {
    /// Nobody waits.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            servers: BTreeMap::new(),
            asked: VecDeque::new(),
            rotation: VecDeque::new(),
            places: BTreeMap::new(),
            numbers: 0,
        }
    }

    /// One more connection leads to this server.
    pub fn join(&mut self, server: &Arc<str>) {
        let known = self.servers.entry(Arc::clone(server)).or_default();
        known.connections += 1;
    }

    /// One less does. A server that none leads to is forgotten.
    pub fn part(&mut self, server: &Arc<str>) {
        if let Some(known) = self.servers.get_mut(server) {
            known.connections = known.connections.saturating_sub(1);
        }
        self.forget(server);
    }

    /// An attempt to connect to a server begins.
    pub fn ask(&mut self, server: &Arc<str>, claim: Claim, now: Mono, jitter: Jitter) -> Answer {
        let Policy {
            burst,
            interval,
            spread,
            ..
        } = self.policy;
        let known = self.servers.entry(Arc::clone(server)).or_default();
        let burst = u64::from(burst).max(known.connections as u64);
        let in_company = !known.cap.is_full(now);
        let mut not_before = now;
        match claim {
            Claim::Turn => {}
            Claim::Asked | Claim::First => known.cap.take_if_left(now, burst, interval),
            Claim::Again => {
                let turn = known.cap.take(now, burst, interval);
                if turn > now {
                    return Answer::Held { until: turn };
                }
                if in_company {
                    not_before = now + jitter.of(spread);
                }
            }
        }
        self.numbers += 1;
        let number = self.numbers;
        if claim == Claim::Asked {
            self.asked.push_back(number);
        } else {
            if known.queue.is_empty() {
                self.rotation.push_back(Arc::clone(server));
            }
            known.queue.insert((not_before, number));
        }
        Answer::Queued(Ticket {
            number,
            server: Arc::clone(server),
            not_before,
        })
    }

    /// Gives the free places away: who has one from now on.
    pub fn admit(&mut self, now: Mono) -> Vec<u64> {
        self.places.retain(|_, until| *until > now);
        let mut admitted = Vec::new();
        while self.places.len() < self.policy.places
            && let Some(number) = self.next(now)
        {
            self.places.insert(number, now + self.policy.hold);
            admitted.push(number);
        }
        admitted
    }

    fn next(&mut self, now: Mono) -> Option<u64> {
        if let Some(number) = self.asked.pop_front() {
            return Some(number);
        }
        for _ in 0..self.rotation.len() {
            let server = self.rotation.pop_front()?;
            let Some(known) = self.servers.get_mut(&server) else {
                continue;
            };
            let is_due = known.queue.first().is_some_and(|(at, _)| *at <= now);
            let first = is_due.then(|| known.queue.pop_first()).flatten();
            if !known.queue.is_empty() {
                self.rotation.push_back(server);
            }
            if let Some((_, number)) = first {
                return Some(number);
            }
        }
        None
    }

    /// When to look again, where nothing happens before; `None` while nobody waits.
    #[must_use]
    pub fn deadline(&self) -> Option<Mono> {
        let queues = self
            .rotation
            .iter()
            .filter_map(|server| self.servers.get(server));
        let first = queues.filter_map(|server| server.queue.first());
        let waiting = match self.asked.front() {
            Some(_) => Some(Mono(0)),
            None => first.map(|(at, _)| *at).min(),
        }?;
        if self.places.len() < self.policy.places {
            return Some(waiting);
        }
        let free = self.places.values().min().copied()?;
        Some(waiting.max(free))
    }

    /// An attempt has ended, with or without having had its place.
    pub fn done(&mut self, ticket: &Ticket) {
        if self.places.remove(&ticket.number).is_some() {
            return;
        }
        self.asked.retain(|number| *number != ticket.number);
        let Some(known) = self.servers.get_mut(&ticket.server) else {
            return;
        };
        let was_queued = known.queue.remove(&(ticket.not_before, ticket.number));
        if was_queued && known.queue.is_empty() {
            self.rotation.retain(|server| *server != ticket.server);
        }
        self.forget(&ticket.server);
    }

    fn forget(&mut self, server: &Arc<str>) {
        let is_unused = |known: &Server| known.connections == 0 && known.queue.is_empty();
        if self.servers.get(server).is_some_and(is_unused) {
            self.servers.remove(server);
        }
    }
}

impl Ticket {
    /// Its number, by which it is admitted.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }
}
