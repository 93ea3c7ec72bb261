//! The events of every stream of a legacy agent, so that an agent that lost its connection can go on where it was
//! (2025-11-25 transports, "Resumability and Redelivery"), also after the daemon was killed.
//!
//! Every event is on disk before it is sent. An event id is `{stream}.{number}`: nobody can guess the stream's name, and it
//! belongs to one session of one agent. Replay is all or nothing: every event after the named one, to a reader whose
//! credential covers all of them, or a refusal.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`stream`] | a stream that this daemon holds: what is not on disk yet, and what its reader has not taken |
//! | [`state`] | what is known of it |
//! | [`reader`] | an agent that reads one, from the log first and then as it comes |
//! | [`watch`] | whether the reader's credential still covers the stream |
//! | [`scribe`] | writes what comes together in one transaction |
//! | [`about`] | what another daemon needs to know of a stream |
//! | [`adopt`] | going on with a stream that nobody holds |

mod about;
mod adopt;
mod reader;
mod scribe;
mod state;
mod stream;
mod watch;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steadfast_core::replay::{
    Access, Gap, Plan, Requirement, Resource, Until, next_after, owed, plan_replay,
};
use steadfast_core::{Revision, Wall};
use steadfast_store::{
    Error, EventStream, EventWrite, IdHash, Present, SharedEvents, SharedStore, StreamName,
};
use url::Url;

use super::session::Session;
use crate::clock;
use crate::unguessable::Unguessable;

pub(crate) use about::{About, CallOnRecord};
pub(crate) use adopt::Resumed;
pub(crate) use reader::Reader;
use scribe::Scribe;
pub(crate) use stream::Stream;

/// What agents are told to wait before they resume, in milliseconds.
const RETRY: u64 = 1_000;

/// All streams that can be resumed.
#[derive(Debug)]
pub(crate) struct EventLog {
    /// Those that this daemon holds.
    held: Mutex<HashMap<StreamName, Arc<Stream>>>,
    log: SharedEvents,
    scribe: Scribe,
    store: SharedStore,
    /// The name of this daemon among those that hold streams.
    owner: String,
    /// Where our resources are.
    pub(crate) public_url: Url,
    _present: Present,
    retention: Duration,
    budget: u64,
    names: Arc<Unguessable>,
    /// One stream is taken over at a time.
    adopting: tokio::sync::Mutex<()>,
}

/// How a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Priming {
    /// An event with an id and empty data (2025-11-25 transports, "Sending Messages" 6).
    Event,
    /// An id without data, which sets the last event id and dispatches nothing: readers of before
    /// 2025-11-25 take an event with empty data for broken JSON (SP-01).
    IdOnly,
    /// Nothing: the first event brings the first id.
    None,
}

impl Priming {
    /// For the answer to a POST.
    pub(crate) fn of_answer(revision: Revision) -> Self {
        if revision.since(Revision::V2025_11_25) {
            Self::Event
        } else {
            Self::IdOnly
        }
    }

    /// For the stream of a GET.
    pub(crate) fn of_listening(revision: Revision) -> Self {
        if revision.since(Revision::V2025_11_25) {
            Self::Event
        } else {
            Self::None
        }
    }
}

/// Why a stream is not gone on with.
#[derive(Debug)]
pub(crate) enum NotResumed {
    /// The event id is unknown, of another session, or no longer followed by every event that came after it.
    Unknown,
    /// The credential does not cover these.
    NotCovered(Vec<Resource>),
    /// The log cannot be read.
    Store(Error),
}

impl EventLog {
    /// Over a log, from which it takes streams that daemons left which are no more.
    pub(crate) async fn open(
        log: SharedEvents,
        store: SharedStore,
        retention: Duration,
        budget: u64,
        names: Arc<Unguessable>,
        public_url: Url,
    ) -> Result<Arc<Self>, Error> {
        let owner = names.text();
        let present = store.appear(&owner).await?;
        Ok(Arc::new(Self {
            held: Mutex::default(),
            scribe: Scribe::start(Arc::clone(&log)),
            log,
            store,
            owner,
            public_url,
            _present: present,
            retention,
            budget,
            names,
            adopting: tokio::sync::Mutex::default(),
        }))
    }

    /// Opens a stream of a session, whose events require these. Nothing is written before the first event or
    /// reader.
    pub(crate) fn begin(
        self: &Arc<Self>,
        session: &Session,
        about: About,
        requires: impl IntoIterator<Item = Resource>,
    ) -> Arc<Stream> {
        let now = clock::wall();
        let name = StreamName::new(now, self.names.name());
        let stream = Stream::new(self, name, session.key, about);
        let record = stream.record(session.agent.clone(), self.owner.clone(), now);
        stream.opens(record, requires);
        self.held.lock().insert(name, Arc::clone(&stream));
        stream
    }

    /// Goes on after `last_event_id`.
    pub(crate) async fn resume(
        self: &Arc<Self>,
        session: &Arc<Session>,
        last_event_id: &str,
        access: &Access,
    ) -> Result<Resumed, NotResumed> {
        let (name, after) = read_id(last_event_id).ok_or(NotResumed::Unknown)?;
        if let Some(stream) = self.held(name) {
            return self.resume_held(&stream, session, after, access).await;
        }
        let one = self.adopting.lock().await;
        if let Some(stream) = self.held(name) {
            drop(one);
            return self.resume_held(&stream, session, after, access).await;
        }
        let kept = self.log.stream(name).await.map_err(NotResumed::Store)?;
        let kept = kept.ok_or(NotResumed::Unknown)?;
        let record = &kept.record;
        if record.session != session.key || record.agent != session.agent {
            return Err(NotResumed::Unknown);
        }
        let requirements = requirements_of(&kept);
        let next = allowed(after, &kept.kept, &requirements, access)?;
        let resumed = adopt::resume(self, kept, session, next, access).await;
        drop(one);
        resumed.map_err(NotResumed::Store)
    }

    async fn resume_held(
        &self,
        stream: &Arc<Stream>,
        session: &Session,
        after: u64,
        access: &Access,
    ) -> Result<Resumed, NotResumed> {
        if stream.session != session.key {
            return Err(NotResumed::Unknown);
        }
        let (in_memory, requirements) = stream.standing();
        let mut kept = in_memory;
        // What is on disk begins earlier: how much earlier is asked for only where it matters.
        if after + 1 < kept.start && !stream.is_volatile() {
            let on_disk = self.log.stream(stream.name).await;
            let on_disk = on_disk.map_err(NotResumed::Store)?;
            kept.start = on_disk.map_or(kept.start, |it| it.kept.start.min(kept.start));
        }
        let next = allowed(after, &kept, &requirements, access)?;
        Ok(Resumed::Held(stream.reader(next, false, access.clone())))
    }

    fn held(&self, name: StreamName) -> Option<Arc<Stream>> {
        self.held.lock().get(&name).cloned()
    }

    /// Lets go of a stream that has nothing in memory any more.
    fn let_go(&self, name: StreamName) {
        self.held.lock().remove(&name);
    }

    /// A session has ended: its streams end with it, and are forgotten.
    pub(crate) fn forget_session(&self, session: IdHash) {
        let of_session: Vec<_> = {
            let mut held = self.held.lock();
            let gone = held.extract_if(|_, stream| stream.session == session);
            gone.map(|(_, stream)| stream).collect()
        };
        for stream in of_session {
            stream.discard();
        }
        // In its turn, so that nothing of before comes after.
        self.scribe
            .write(vec![EventWrite::ForgetSession { session }]);
    }

    /// Forgets what is older than the retention, and the oldest of what is too much. Streams of daemons that are no more
    /// grow old from now on.
    pub(crate) async fn sweep(&self) {
        if let Err(error) = self.try_sweep().await {
            tracing::warn!(%error, "old events could not be forgotten");
        }
    }

    async fn try_sweep(&self) -> Result<(), Error> {
        let now = clock::wall();
        for owner in self.log.owners().await? {
            if owner != self.owner && !self.store.is_present(&owner).await? {
                self.log.abandon(&owner, now).await?;
            }
        }
        let retention = i64::try_from(self.retention.as_millis()).unwrap_or(i64::MAX);
        let before = Wall(now.0.saturating_sub(retention));
        while self.log.trim(before, self.budget).await? {}
        Ok(())
    }

    /// What was appended is on disk; readers end, and are told when to come back.
    pub(crate) async fn close(&self) {
        let held: Vec<_> = self.held.lock().values().cloned().collect();
        for stream in held {
            stream.part();
        }
        self.scribe.finish().await;
    }
}

/// Whether a reader may go on, and with which event.
fn allowed(
    after: u64,
    kept: &Range<u64>,
    requirements: &[Requirement],
    access: &Access,
) -> Result<u64, NotResumed> {
    let next = next_after(after, kept).map_err(|gap| match gap {
        Gap::Forgotten | Gap::Unsent => NotResumed::Unknown,
    })?;
    match plan_replay(owed(requirements, after), &access.reach) {
        Plan::Full => Ok(next),
        Plan::Refused { missing } => Err(NotResumed::NotCovered(missing)),
    }
}

/// What the events of a stream require: of one that has ended, none that is still to come.
fn requirements_of(kept: &EventStream) -> Vec<Requirement> {
    let last = Until::Event(kept.kept.end.saturating_sub(1));
    let requirements = kept.requirements.iter().cloned();
    requirements
        .map(|it| Requirement {
            until: match it.until {
                Until::Open if kept.ended => last,
                until => until,
            },
            ..it
        })
        .collect()
}

fn read_id(id: &str) -> Option<(StreamName, u64)> {
    let (name, number) = id.split_once('.')?;
    let digits = number.bytes().all(|it| it.is_ascii_digit());
    let number = number.parse().ok().filter(|_| digits)?;
    Some((StreamName::parse(name)?, number))
}

fn write_id(name: StreamName, number: u64) -> String {
    format!("{name}.{number}")
}

#[cfg(test)]
mod tests;
