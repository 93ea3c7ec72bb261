//! Calls of modern agents in which a legacy server asks something. The agent's leg has ended with an
//! `input_required` result; the call itself goes on upstream, and waits here for the second leg. What
//! another process needs to go on with it is on record before the agent learns the state.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use steadfast::{Link, Place, ServerRequest};
use steadfast_core::bridge::questions;
use steadfast_core::{AgentName, ServerName, Wall};
use steadfast_store::{IdHash, ParkedCallRecord, ParkedQuestion, SharedRecords, hash_state};
use tokio::task::AbortHandle;

use crate::agents::calling::{Calling, Next};
use crate::agents::inbound::Inbound;
use crate::clock;
use crate::unguessable::Unguessable;

/// What a state is good for: one agent, one server, one call. Anything else that presents it gets nothing
/// (mrtr, "Server Requirements": state "presented by a different principal", "on a request that does not
/// match").
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binding {
    agent: AgentName,
    server: ServerName,
    method: String,
    tool: Option<String>,
    /// Of what all legs of the call have in common.
    digest: IdHash,
}

impl Binding {
    pub(super) fn of(link: &Link, inbound: &Inbound) -> Self {
        let common = questions::common_part(&inbound.message, &inbound.envelope);
        let method = inbound.method().into_owned();
        let tool = (method == "tools/call")
            .then(|| inbound.text(inbound.params.name.as_ref()))
            .flatten();
        Self {
            agent: link.agent().clone(),
            server: link.server().clone(),
            tool: tool.map(std::borrow::Cow::into_owned),
            method,
            digest: Sha256::digest(common).into(),
        }
    }

    fn fits(&self, record: &ParkedCallRecord) -> bool {
        self.agent == record.agent && self.server == record.server && self.digest == record.digest
    }
}

/// A question, under the key that the agent answers it by.
#[derive(Debug)]
pub(super) struct Keyed {
    pub(super) key: String,
    pub(super) question: ServerRequest,
}

/// A call that waits in this process.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) calling: Calling,
    pub(super) questions: Vec<Keyed>,
    binding: Binding,
    timer: AbortHandle,
}

impl Parked {
    /// Leaves it to the next process, which finds it on record.
    fn leave(self) {
        self.timer.abort();
        for keyed in self.questions {
            keyed.question.leave();
        }
        self.calling.leave();
    }
}

/// What a state stands for.
#[derive(Debug)]
pub(super) enum Found {
    /// A call of this process.
    Here(Box<Parked>),
    /// A call of a process that is no more. It has not been taken yet: [`Parking::claim`].
    OnRecord(Box<ParkedCallRecord>),
}

/// All calls that wait.
#[derive(Debug)]
pub(crate) struct Parking {
    records: SharedRecords,
    states: Arc<Unguessable>,
    waiting: Mutex<HashMap<IdHash, Parked>>,
    /// Whether the gateway stops: then calls are left to the next process.
    stopping: AtomicBool,
    patience: Duration,
}

impl Parking {
    pub(crate) fn new(
        records: SharedRecords,
        states: Arc<Unguessable>,
        patience: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            records,
            states,
            waiting: Mutex::default(),
            stopping: AtomicBool::new(false),
            patience,
        })
    }

    /// Parks a call: the state for its agent. It comes back where it cannot be put on record: then nobody
    /// is asked anything.
    pub(super) async fn park(
        self: Arc<Self>,
        calling: Calling,
        questions: Vec<Keyed>,
        binding: Binding,
    ) -> Result<String, Calling> {
        let state = self.states.text();
        let hash = hash_state(&state);
        let Some(record) = self.record(hash, &questions, &binding) else {
            return Err(calling);
        };
        if let Err(error) = self.records.put_parked_call(&record).await {
            tracing::error!(%error, "a call that waits for its agent cannot be put on record");
            return Err(calling);
        }
        let (parking, patience) = (Arc::downgrade(&self), self.patience);
        let timer = tokio::spawn(async move {
            tokio::time::sleep(patience).await;
            give_up(&parking, hash).await;
        });
        let parked = Parked {
            calling,
            questions,
            binding,
            timer: timer.abort_handle(),
        };
        let mut waiting = self.waiting.lock();
        if self.stopping.load(Ordering::Relaxed) {
            drop(waiting);
            parked.leave();
        } else {
            waiting.insert(hash, parked);
        }
        Ok(state)
    }

    /// `None` for questions that do not stand on the stream of a call.
    fn record(
        &self,
        state_hash: IdHash,
        questions: &[Keyed],
        binding: &Binding,
    ) -> Option<ParkedCallRecord> {
        // The newest question is the furthest place that was read.
        let place = questions.last()?.question.place()?;
        let patience = i64::try_from(self.patience.as_millis()).unwrap_or(i64::MAX);
        Some(ParkedCallRecord {
            state_hash,
            agent: binding.agent.clone(),
            server: binding.server.clone(),
            session: place.session.clone(),
            rpc_id: place.rpc_id,
            cursor: place.cursor.clone(),
            questions: questions.iter().filter_map(on_record).collect(),
            method: binding.method.clone(),
            tool: binding.tool.clone(),
            digest: binding.digest,
            sent_at: place.sent_at,
            bytes_sent: i64::try_from(place.bytes_sent).unwrap_or(i64::MAX),
            expires_at: Wall(clock::wall().0.saturating_add(patience)),
        })
    }

    /// Finds, and takes where it is here, what waits under a state; `None` where it stands for nothing of this call. What belongs to
    /// somebody else stays where it is.
    pub(super) async fn find(
        &self,
        state: &str,
        binding: &Binding,
    ) -> Result<Option<Found>, steadfast_store::Error> {
        let hash = hash_state(state);
        if let Some(parked) = self.take_here(&hash, binding) {
            if let Err(error) = self.records.remove_parked_call(&hash).await {
                tracing::warn!(%error, "a call that goes on is still on record as waiting");
            }
            return Ok(Some(Found::Here(Box::new(parked))));
        }
        let Some(record) = self.records.parked_call(&hash).await? else {
            return Ok(None);
        };
        let is_late = record.expires_at < clock::wall();
        let is_here = self.waiting.lock().contains_key(&hash);
        if is_late || is_here || !binding.fits(&record) {
            return Ok(None);
        }
        Ok(Some(Found::OnRecord(Box::new(record))))
    }

    /// Takes a call on record. Whether nobody else has.
    pub(super) async fn claim(
        &self,
        record: &ParkedCallRecord,
    ) -> Result<bool, steadfast_store::Error> {
        self.records.remove_parked_call(&record.state_hash).await
    }

    fn take_here(&self, hash: &IdHash, binding: &Binding) -> Option<Parked> {
        let mut waiting = self.waiting.lock();
        if waiting.get(hash)?.binding != *binding {
            return None;
        }
        let parked = waiting.remove(hash)?;
        parked.timer.abort();
        Some(parked)
    }

    /// Forgets what nobody came back for in any process.
    pub(crate) async fn sweep(&self) {
        let now = clock::wall();
        if let Err(error) = self.records.remove_expired_parked_calls(now).await {
            tracing::warn!(%error, "calls that waited too long could not be removed from the store");
        }
    }

    /// The gateway stops: what waits is on record, and its servers are told nothing.
    pub(crate) fn leave_all(&self) {
        let mut waiting = self.waiting.lock();
        self.stopping.store(true, Ordering::Relaxed);
        let left = std::mem::take(&mut *waiting);
        drop(waiting);
        left.into_values().for_each(Parked::leave);
    }

    /// Drops the calls of connections that are no more.
    pub(crate) fn retain(&self, still_there: impl Fn(&AgentName, &ServerName) -> bool) {
        let gone = |parked: &Parked| !still_there(&parked.binding.agent, &parked.binding.server);
        let mut waiting = self.waiting.lock();
        let dropped: Vec<_> = waiting.extract_if(|_, parked| gone(parked)).collect();
        drop(waiting);
        for (_, parked) in dropped {
            parked.timer.abort();
        }
    }
}

fn on_record(keyed: &Keyed) -> Option<ParkedQuestion> {
    Some(ParkedQuestion {
        key: keyed.key.clone(),
        id: keyed.question.id()?.to_owned(),
        method: keyed.question.method(),
    })
}

/// Nobody came back in time: the questions end as unanswered, and the call is read to its end, so that its
/// server is told nothing that could be taken for a cancellation.
async fn give_up(parking: &Weak<Parking>, hash: IdHash) {
    let Some(parking) = parking.upgrade() else {
        return;
    };
    let Some(parked) = parking.waiting.lock().remove(&hash) else {
        return;
    };
    if let Err(error) = parking.records.remove_parked_call(&hash).await {
        tracing::warn!(%error, "a call that waited too long is still on record");
    }
    drop(parking);
    let Parked {
        mut calling,
        questions,
        ..
    } = parked;
    drop(questions);
    loop {
        match std::future::poll_fn(|cx| calling.poll_next(cx)).await {
            Next::Message(_) | Next::Question(_) => {}
            Next::Last(_) | Next::End => return,
        }
    }
}

/// Where a call on record stood.
pub(super) fn place(record: &ParkedCallRecord) -> Place {
    Place {
        session: record.session.clone(),
        rpc_id: record.rpc_id,
        cursor: record.cursor.clone(),
        sent_at: record.sent_at,
        bytes_sent: u64::try_from(record.bytes_sent).unwrap_or_default(),
    }
}
