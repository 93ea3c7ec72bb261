//! Whether a consequential call is a further one, and what goes on record of it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use steadfast_core::operation::admission::{self, Admission, Earlier};
use steadfast_core::operation::{Event, Evidence, Said, State, Trail};
use steadfast_store::{
    Digest, Error, ExposeSecret as _, OperationRecord, Version, make_operation_id,
};

use super::reading::{Asked, Reading, leg_hash};
use super::{Lasting, Ledger, OperationReport, Tracked, unwritten};
use crate::call::WhyKeptBack;
use crate::clock;
use crate::config::OnRepeat;

/// How many earlier operations an identical call looks at: the newest ones decide.
const EARLIER: usize = 16;

/// How often it looks again, where what it saw has just changed.
const ROUNDS: usize = 8;

/// How long a daemon takes to write down that it gave an answer.
const GIVING: Duration = Duration::from_millis(50);

/// What becomes of it.
#[derive(Debug)]
pub(crate) enum Admitted {
    /// It is sent, as this operation; with this message, where a key was put into it.
    Go(Arc<Tracked>, Option<Bytes>),
    /// It is answered with this response of the server, which is on record.
    Answered(Bytes),
    /// It is not sent.
    KeptBack(Box<WhyKeptBack>),
}

impl Ledger {
    /// Decides whether a call is sent. Nothing of it is on record before it leaves.
    pub(crate) async fn admit(self: &Arc<Self>, asked: Asked<'_>) -> Admitted {
        let reading = match Reading::of(asked) {
            Ok(reading) => reading,
            Err(why) => return Admitted::KeptBack(why),
        };
        let admitted = match leg_hash(asked.call) {
            Some(leg) => self.later_leg(&reading, leg).await,
            None => self.first_leg(&reading).await,
        };
        admitted.unwrap_or_else(|error| {
            tracing::error!(%error, "a call cannot be put on record");
            Admitted::KeptBack(Box::new(WhyKeptBack::StoreUnavailable(unwritten(&error))))
        })
    }

    async fn first_leg(self: &Arc<Self>, reading: &Reading<'_>) -> Result<Admitted, Error> {
        let asked = &reading.asked;
        let same = (
            asked.agent.clone(),
            asked.server.clone(),
            reading.call_digest,
        );
        for round in 0..ROUNDS {
            // Until it has begun, or is kept back: an identical call sees this one.
            let turn = self.live.turn(&same).await;
            let abandoned = self.live.abandoned(&same);
            let mut earlier = Vec::new();
            for id in &abandoned {
                earlier.extend(self.live.unwritten(id).await);
            }
            let similar = self
                .store
                .similar_operations(
                    asked.agent,
                    asked.server,
                    &reading.call_digest,
                    reading.key_hash.as_ref(),
                    EARLIER,
                )
                .await?;
            let is_read = |id| abandoned.contains(&id);
            if !self.live.abandoned(&same).into_iter().all(is_read)
                || self.find_orphans(&similar).await?
            {
                continue;
            }
            earlier.extend(similar);
            let admission = self.look_at(reading, &earlier);
            let concerned = match &admission {
                Admission::Further => return self.begin(reading),
                Admission::Answer { of: id }
                | Admission::Held { duplicate_of: id }
                | Admission::KeyTaken { by: id } => earlier.into_iter().find(|it| it.id == *id),
            };
            let Some(concerned) = concerned else {
                continue;
            };
            if self.has_changed(&concerned).await? {
                continue;
            }
            if concerned.undelivered && concerned.driver.is_some() && round < ROUNDS / 2 {
                drop(turn);
                // Its agent is given it at this moment, here or by another daemon, which is on record soon.
                tokio::time::sleep(GIVING).await;
                continue;
            }
            let report = OperationReport::from(&concerned);
            return Ok(Admitted::KeptBack(Box::new(match admission {
                Admission::Answer { .. } => match self.hand_over(concerned).await? {
                    Some(admitted) => return Ok(admitted),
                    None => continue,
                },
                Admission::KeyTaken { .. } => WhyKeptBack::KeyTaken(report),
                Admission::Held { .. } | Admission::Further => WhyKeptBack::PossibleRepeat(report),
            })));
        }
        // Others change it all the time: nothing is sent that might be a repeat.
        Err(super::contended(&"that is asked for".into()))
    }

    fn look_at(&self, reading: &Reading<'_>, earlier: &[OperationRecord]) -> Admission {
        let asked = admission::Asked {
            has_key: reading.key_hash.is_some(),
            intended: reading.intended,
            send_always: reading
                .asked
                .policy
                .is_some_and(|tool| tool.repeat == Some(OnRepeat::Send)),
            at: clock::wall(),
            suspicion: self.suspicion,
        };
        let states: Vec<Cow<'_, State>> = earlier.iter().map(|it| self.standing(it)).collect();
        let earlier: Vec<Earlier<'_>> = earlier
            .iter()
            .zip(&states)
            .map(|(record, state)| Earlier {
                id: &record.id,
                state,
                same_call: record.call_digest == reading.call_digest,
                same_key: reading.key_hash.is_some() && record.key_hash == reading.key_hash,
                undelivered: record.undelivered && !self.is_given(record),
            })
            .collect();
        admission::admit(&asked, &earlier)
    }

    /// How an operation stands: on record, and by what is known here and not written yet.
    fn standing<'r>(&self, record: &'r OperationRecord) -> Cow<'r, State> {
        let tracked = self.live.get(&record.id);
        let has_left = tracked.is_some_and(|tracked| tracked.has_left());
        match &record.state {
            State::Sent { trail } if has_left && !trail.agent_left => Cow::Owned(State::Sent {
                trail: Trail {
                    agent_left: true,
                    ..trail.clone()
                },
            }),
            state => Cow::Borrowed(state),
        }
    }

    /// Whether the agent that made the call has its answer, or is there and gets it next: what is on record is for nobody
    /// else then.
    fn is_given(&self, record: &OperationRecord) -> bool {
        let waits = || {
            let tracked = self.live.get(&record.id);
            tracked.is_some_and(|tracked| !tracked.has_left())
        };
        record.driver.as_ref() == Some(&self.name) && (self.given.has(record) || waits())
    }

    /// Whether something is written of an operation only now, so that it does not stand any more as it was read.
    async fn has_changed(&self, record: &OperationRecord) -> Result<bool, Error> {
        if record.version == Version::NONE {
            // Not on record yet, and read just now.
            return Ok(false);
        }
        self.live.flush(&record.id).await;
        let present = self.store.operation(&record.id).await?;
        Ok(present.is_none_or(|present| present.version != record.version))
    }

    /// Writes down of which of these operations the daemon is gone that drove them. Whether there are any.
    async fn find_orphans(&self, records: &[OperationRecord]) -> Result<bool, Error> {
        let mut any = false;
        for record in records {
            if let Some(driver) = record.driver.as_ref().filter(|it| **it != self.name)
                && !self.store.is_present(driver).await?
            {
                self.interrupted(record.clone()).await?;
                any = true;
            }
        }
        Ok(any)
    }

    /// The daemon that drove an operation is gone.
    pub(super) async fn interrupted(&self, mut record: OperationRecord) -> Result<(), Error> {
        if record.undelivered {
            record.driver = None;
            let decision =
                "Steadfast ended before it was known that its agent has the answer, which is kept";
            let fact = self.noted(&mut record, Evidence::Interrupted, decision);
            // Whoever was faster did the same.
            let _ = self.append(record, &[fact], Lasting::Synced).await?;
            return Ok(());
        }
        self.feed(record, &Event::Interrupted, clock::now(), |_| {})
            .await?;
        Ok(())
    }

    /// Gives what is known of an operation to the call that asks for it; once, unless it has a key. `None` where another
    /// call was faster.
    pub(super) async fn hand_over(
        &self,
        record: OperationRecord,
    ) -> Result<Option<Admitted>, Error> {
        let response = match record.state {
            State::Observed { .. } => self.vault.open_result(&record)?,
            State::Intended { .. }
            | State::Sent { .. }
            | State::NotObserved { .. }
            | State::Reconciling { .. }
            | State::Confirmed { .. }
            | State::NoEffect { .. }
            | State::Held { .. }
            | State::Abandoned { .. } => None,
        };
        let report = OperationReport::from(&record);
        if record.undelivered && !self.give(record).await? {
            return Ok(None);
        }
        Ok(Some(match response {
            Some(response) => Admitted::Answered(Bytes::copy_from_slice(&response)),
            None => Admitted::KeptBack(Box::new(WhyKeptBack::Settled(report))),
        }))
    }

    /// A further leg of a call (2026-07-28 basic/patterns/mrtr): it continues the operation whose last answer gave its
    /// `requestState`, and is a repeat of it where that one goes on already.
    async fn later_leg(
        self: &Arc<Self>,
        reading: &Reading<'_>,
        leg: Digest,
    ) -> Result<Admitted, Error> {
        for _ in 0..ROUNDS {
            let found = self.store.operation_of_leg(&leg).await?;
            let found = found.filter(|record| {
                record.agent == *reading.asked.agent
                    && record.server == *reading.asked.server
                    && record.call_digest == reading.call_digest
            });
            let Some(record) = found else {
                return self.begin(reading);
            };
            if self.find_orphans(std::slice::from_ref(&record)).await?
                || self.has_changed(&record).await?
            {
                continue;
            }
            return Ok(match &record.state {
                State::Observed {
                    said: Said::InputRequired,
                    ..
                } => {
                    let message = self.with_its_key(reading, &record)?;
                    let tracked = Tracked::go_on(self, record);
                    reading.asked.handle.track(&tracked);
                    Admitted::Go(tracked, message)
                }
                state if state.is_in_flight() || state.is_unresolved() => Admitted::KeptBack(
                    Box::new(WhyKeptBack::PossibleRepeat(OperationReport::from(&record))),
                ),
                _ if record.undelivered => match self.hand_over(record).await? {
                    Some(admitted) => admitted,
                    None => continue,
                },
                _ => return self.begin(reading),
            });
        }
        Err(super::contended(&"that is asked for".into()))
    }

    /// The operation of a call that an earlier process made, by the id of its last attempt.
    pub(crate) async fn take_up(
        self: &Arc<Self>,
        asked: Asked<'_>,
        rpc_id: i64,
    ) -> Result<Option<Arc<Tracked>>, Error> {
        let Ok(reading) = Reading::of(asked) else {
            return Ok(None);
        };
        let (agent, server, digest) = (asked.agent, asked.server, &reading.call_digest);
        let similar = || {
            self.store
                .similar_operations(agent, server, digest, None, EARLIER)
        };
        // The daemon that made it is gone, which may not be written yet.
        self.find_orphans(&similar().await?).await?;
        for record in similar().await? {
            let facts = self.store.operation_facts(&record.id).await?;
            let is_it = facts.iter().any(|fact| match &fact.evidence {
                Evidence::Leaving { rpc_id: left, .. } => *left == rpc_id.to_string(),
                _ => false,
            });
            if is_it {
                let tracked = Tracked::go_on(self, record);
                asked.handle.track(&tracked);
                return Ok(Some(tracked));
            }
        }
        Ok(None)
    }

    /// A later leg with the key that was put into the first one, where its agent knows of none.
    fn with_its_key(
        &self,
        reading: &Reading<'_>,
        record: &OperationRecord,
    ) -> Result<Option<Bytes>, Error> {
        if reading.message.is_none() {
            return Ok(None);
        }
        let key = self.vault.open_operation(record)?.provider_key;
        Ok(key.and_then(|key| reading.with_key(key.expose_secret())))
    }

    /// A further operation.
    fn begin(self: &Arc<Self>, reading: &Reading<'_>) -> Result<Admitted, Error> {
        let now = clock::now();
        let id = make_operation_id(now.wall)?;
        let sealed = self.vault.seal_operation(&id, &reading.secrets())?;
        let record = OperationRecord {
            version: Version::NONE,
            agent: reading.asked.agent.clone(),
            server: reading.asked.server.clone(),
            tool: reading.asked.tool.to_owned(),
            digest: reading.digest,
            call_digest: reading.call_digest,
            key_hash: reading.key_hash,
            leg_hash: None,
            contract: reading.contract(),
            state: State::intended(),
            undelivered: false,
            driver: Some(self.name.clone()),
            wake_at: None,
            intended_at: now.wall,
            changed_at: now.wall,
            sealed,
            result: None,
            id,
        };
        let tracked = Tracked::begin(self, record, reading.intended);
        reading.asked.handle.track(&tracked);
        Ok(Admitted::Go(tracked, reading.message.clone()))
    }
}
