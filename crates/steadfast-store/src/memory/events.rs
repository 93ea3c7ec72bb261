use std::collections::{BTreeMap, VecDeque};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use steadfast_core::Wall;
use steadfast_core::replay::{Requirement, Resource, Until};

use crate::error::{Error, Problem};
use crate::events::{EventLog, EventStream, EventStreamRecord, EventWrite, StreamName};

/// An event log that lasts as long as the process.
#[derive(Debug, Default)]
pub struct MemoryEvents(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    closed: bool,
    streams: BTreeMap<StreamName, Entry>,
}

#[derive(Debug)]
struct Entry {
    record: EventStreamRecord,
    horizon: u64,
    events: VecDeque<(Wall, Bytes)>,
    ended: bool,
    left_at: Option<Wall>,
    requirements: BTreeMap<Resource, Until>,
}

impl Entry {
    fn end(&self) -> u64 {
        self.horizon + self.events.len() as u64
    }

    fn size(&self) -> u64 {
        let sizes = self.events.iter().map(|(_, data)| data.len() as u64);
        sizes.sum()
    }
}

impl MemoryEvents {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> Result<T, Error> {
        let mut state = self.0.lock();
        if state.closed {
            let detail = "the store has been closed";
            return Err(Error::new(Problem::Closed, "memory", detail));
        }
        Ok(work(&mut state))
    }
}

impl State {
    fn apply(&mut self, write: EventWrite) {
        match write {
            EventWrite::Open(record) => {
                let entry = Entry {
                    record: *record,
                    horizon: 1,
                    events: VecDeque::new(),
                    ended: false,
                    left_at: None,
                    requirements: BTreeMap::new(),
                };
                self.streams.insert(entry.record.name, entry);
            }
            EventWrite::Append {
                stream, at, data, ..
            } => self.change(stream, |entry| entry.events.push_back((at, data))),
            EventWrite::Require {
                stream,
                resource,
                until,
            } => self.change(stream, |entry| {
                entry.requirements.insert(resource, until);
            }),
            EventWrite::End { stream, at } => self.change(stream, |entry| {
                entry.ended = true;
                entry.left_at = Some(at);
            }),
            EventWrite::About { stream, about } => {
                self.change(stream, |entry| entry.record.about = about);
            }
            EventWrite::Leave { stream, at } => {
                self.change(stream, |entry| entry.left_at = Some(at));
            }
            EventWrite::Forget { stream } => {
                self.streams.remove(&stream);
            }
            EventWrite::ForgetSession { session } => {
                self.streams
                    .retain(|_, entry| entry.record.session != session);
            }
        }
    }

    fn change(&mut self, name: StreamName, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.streams.get_mut(&name) {
            change(entry);
        }
    }

    fn forget_old(&mut self, before: Wall) {
        self.streams
            .retain(|_, entry| entry.left_at.is_none_or(|at| at >= before));
        for entry in self.streams.values_mut().filter(|it| !it.ended) {
            while entry.events.front().is_some_and(|(at, _)| *at < before) {
                entry.events.pop_front();
                entry.horizon += 1;
            }
        }
    }

    /// Of those that are left the oldest, then the first events of the others, which keep their last.
    fn forget_surplus(&mut self, budget: u64) {
        while self.streams.values().map(Entry::size).sum::<u64>() > budget {
            let left = self.streams.values().filter(|it| it.left_at.is_some());
            let oldest = left.min_by_key(|it| (it.left_at, it.record.name));
            if let Some(name) = oldest.map(|it| it.record.name) {
                self.streams.remove(&name);
                continue;
            }
            let Some(open) = self.streams.values_mut().find(|it| it.events.len() > 1) else {
                return;
            };
            open.events.pop_front();
            open.horizon += 1;
        }
    }
}

#[async_trait]
impl EventLog for MemoryEvents {
    async fn write(&self, writes: Vec<EventWrite>) -> Result<(), Error> {
        self.with(|state| writes.into_iter().for_each(|write| state.apply(write)))
    }

    async fn stream(&self, name: StreamName) -> Result<Option<EventStream>, Error> {
        self.with(|state| {
            let entry = state.streams.get(&name)?;
            let requirements = entry.requirements.iter();
            Some(EventStream {
                record: entry.record.clone(),
                kept: entry.horizon..entry.end(),
                ended: entry.ended,
                requirements: requirements
                    .map(|(resource, until)| Requirement {
                        resource: resource.clone(),
                        until: *until,
                    })
                    .collect(),
            })
        })
    }

    async fn read(&self, name: StreamName, from: u64, bytes: usize) -> Result<Vec<Bytes>, Error> {
        self.with(|state| {
            let entry = state.streams.get(&name)?;
            let at = usize::try_from(from.checked_sub(entry.horizon)?).ok()?;
            let mut room = Some(bytes);
            let events = entry.events.iter().skip(at).map(|(_, data)| data.clone());
            let some = events.take_while(|data| {
                let fits = room.is_some();
                room = room.and_then(|room| room.checked_sub(data.len()));
                fits
            });
            Some(some.collect())
        })
        .map(Option::unwrap_or_default)
    }

    async fn adopt(&self, name: StreamName, from: &str, by: &str) -> Result<bool, Error> {
        self.with(|state| {
            let entry = state.streams.get_mut(&name);
            let Some(entry) = entry.filter(|it| !it.ended && it.record.owner == from) else {
                return false;
            };
            by.clone_into(&mut entry.record.owner);
            entry.left_at = None;
            true
        })
    }

    async fn owners(&self) -> Result<Vec<String>, Error> {
        self.with(|state| {
            let held = state.streams.values().filter(|it| it.left_at.is_none());
            let mut owners: Vec<_> = held.map(|it| it.record.owner.clone()).collect();
            owners.sort_unstable();
            owners.dedup();
            owners
        })
    }

    async fn abandon(&self, owner: &str, at: Wall) -> Result<(), Error> {
        self.with(|state| {
            let streams = state.streams.values_mut();
            for entry in streams.filter(|it| it.record.owner == owner) {
                entry.left_at.get_or_insert(at);
            }
        })
    }

    async fn trim(&self, before: Wall, budget: u64) -> Result<bool, Error> {
        self.with(|state| {
            state.forget_old(before);
            state.forget_surplus(budget);
            false
        })
    }

    async fn close(&self) {
        self.0.lock().closed = true;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::SharedEvents;

    async fn fresh() -> (SharedEvents, ()) {
        (Arc::new(MemoryEvents::new()), ())
    }

    crate::instantiate_events!(fresh);
}
