//! Whether a consequential call is a further one, and what goes on record of it.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use steadfast_core::operation::admission::{self, Admission, Earlier};
use steadfast_core::operation::digest::canonical;
use steadfast_core::operation::place::Place;
use steadfast_core::operation::{Contract, Event, Evidence, Said, State, Trail};
use steadfast_core::wire::{envelope, json, splice};
use steadfast_core::{AgentName, ServerName};
use steadfast_store::{
    Digest, Error, ExposeSecret as _, OperationRecord, OperationSecrets, SecretString, Version,
    make_operation_id,
};

use super::{Ledger, OperationReport, Tracked, unwritten};
use crate::call::{Call, WhyKeptBack};
use crate::clock;
use crate::config::{OnRepeat, Tool};

/// How many earlier operations an identical call looks at: the newest ones decide.
const EARLIER: usize = 16;

/// How often it looks again, where what it saw has just changed.
const ROUNDS: usize = 8;

/// What of `_meta` is for the ledger (interface, "When a result was not observed").
const OPERATION_KEY: &str = "dev.steadfast/operationKey";
const REPEAT: &str = "dev.steadfast/repeat";

/// A consequential call that wants to leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) agent: &'a AgentName,
    pub(crate) server: &'a ServerName,
    pub(crate) tool: &'a str,
    pub(crate) call: &'a Call,
    /// What the operator says about the tool.
    pub(crate) policy: Option<&'a Tool>,
}

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

/// A call as the ledger looks at it.
struct Reading<'a> {
    asked: Asked<'a>,
    operation_key: Option<String>,
    key_hash: Option<Digest>,
    intended: bool,
    /// With a key that was put into it.
    message: Option<Bytes>,
    provider_key: Option<String>,
    digest: Digest,
    call_digest: Digest,
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
        for _ in 0..ROUNDS {
            let earlier = self
                .store
                .similar_operations(
                    asked.agent,
                    asked.server,
                    &reading.call_digest,
                    reading.key_hash.as_ref(),
                    EARLIER,
                )
                .await?;
            if self.find_orphans(&earlier).await? {
                continue;
            }
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
                undelivered: record.undelivered,
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

    /// Whether something is written of an operation only now, so that it does not stand any more as it was read.
    async fn has_changed(&self, record: &OperationRecord) -> Result<bool, Error> {
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
    pub(super) async fn interrupted(&self, record: OperationRecord) -> Result<(), Error> {
        self.feed(record, &Event::Interrupted, clock::now(), |_| {})
            .await?;
        Ok(())
    }

    /// Gives what is known of an operation to the call that asks for it; once, unless it has a key. `None` where another
    /// call was faster.
    async fn hand_over(&self, record: OperationRecord) -> Result<Option<Admitted>, Error> {
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
        if record.undelivered {
            let decision = "what had become of it was given to the identical call that asked";
            if self.delivered(record, decision).await?.is_none() {
                return Ok(None);
            }
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
                    Admitted::Go(Tracked::go_on(self, record), message)
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
                return Ok(Some(Tracked::go_on(self, record)));
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
        Ok(Admitted::Go(tracked, reading.message.clone()))
    }
}

impl<'a> Reading<'a> {
    fn of(asked: Asked<'a>) -> Result<Self, Box<WhyKeptBack>> {
        let operation_key = match ours(asked.call, OPERATION_KEY) {
            None => None,
            Some(Some(key)) => Some(key),
            Some(None) => return Err(Box::new(WhyKeptBack::KeyNotText)),
        };
        let mut reading = Self {
            key_hash: operation_key.as_ref().map(|key| hash(&[key.as_bytes()])),
            operation_key,
            intended: ours(asked.call, REPEAT).flatten().as_deref() == Some("intended"),
            asked,
            message: None,
            provider_key: None,
            digest: Digest::default(),
            call_digest: Digest::default(),
        };
        let place = reading.find_key();
        let call = asked.call;
        let message = reading.message.as_ref().unwrap_or(&call.message);
        let (arguments, key) = match &reading.message {
            // With the key that was put into it, every place is another one.
            Some(message) => {
                let params = envelope::read(message).map(|it| envelope::read_params(message, &it));
                let params = params.unwrap_or_default();
                let whole = params.whole.unwrap_or_default();
                let key = place.and_then(|place| place.find(message, whole));
                (params.arguments, key)
            }
            None => {
                let whole = call.params.whole.clone().unwrap_or_default();
                let key = place.and_then(|place| place.find(message, whole));
                (call.params.arguments.clone(), key)
            }
        };
        let form = |without| match arguments.clone() {
            Some(arguments) => canonical(message, arguments, without),
            None => b"{}".to_vec(),
        };
        let tool = asked.tool.as_bytes();
        reading.digest = hash(&[tool, &form(None)]);
        reading.call_digest = match &key {
            Some(key) => hash(&[tool, &form(Some(key))]),
            None => reading.digest,
        };
        Ok(reading)
    }

    /// Finds the provider's key in the call, or puts one there where the contract says that we may. Where it stands,
    /// from the params on.
    fn find_key(&mut self) -> Option<Place> {
        let contract = self.asked.policy?.duplicate_key.as_ref()?;
        let place = self.place_of_key()?;
        let call = self.asked.call;
        let whole = call.params.whole.clone()?;
        let found = place.find(&call.message, whole.clone());
        let found = found.and_then(|range| call.message.get(range));
        match found {
            Some(raw) if raw != b"null" && raw != b"\"\"" => {
                self.provider_key = Some(String::from_utf8_lossy(raw).into_owned());
            }
            Some(_) | None if contract.inject => {
                let key = splice::quote(&made_key()?);
                self.message = Some(self.with_key(&key)?);
                self.provider_key = Some(key);
            }
            Some(_) | None => {}
        }
        Some(place)
    }

    /// Where the provider's key stands, from the params on.
    fn place_of_key(&self) -> Option<Place> {
        let contract = self.asked.policy?.duplicate_key.as_ref()?;
        let below = contract.argument.strip_prefix('$')?;
        Place::read(&format!("$.arguments{below}")).ok()
    }

    /// The message with this key (raw JSON) in it.
    fn with_key(&self, key: &str) -> Option<Bytes> {
        let call = self.asked.call;
        let whole = call.params.whole.clone()?;
        let message = self.place_of_key()?.put(&call.message, whole, key)?;
        Some(Bytes::from(message))
    }

    fn contract(&self) -> Contract {
        let has_key = self.provider_key.is_some();
        let policy = self.asked.policy;
        policy.map_or_else(Contract::default, |tool| tool.contract(has_key))
    }

    /// What is sealed: the params as they leave.
    fn secrets(&self) -> OperationSecrets {
        let call = self.asked.call;
        let params = match &self.message {
            Some(message) => envelope::read(message)
                .ok()
                .and_then(|read| message.get(read.params?)),
            None => call
                .params
                .whole
                .clone()
                .and_then(|whole| call.message.get(whole)),
        };
        OperationSecrets {
            params: String::from_utf8_lossy(params.unwrap_or(b"{}"))
                .into_owned()
                .into(),
            operation_key: self.operation_key.clone().map(SecretString::from),
            provider_key: self.provider_key.clone().map(SecretString::from),
        }
    }
}

/// A member of `_meta` that is for us: its text, or nothing where it is none.
fn ours(call: &Call, name: &str) -> Option<Option<String>> {
    let named = |member: &&json::Member| json::is_text(&call.message, member.key.clone(), name);
    let member = call.params.ours.iter().rfind(named)?;
    let text = json::text(&call.message, member.value.clone());
    Some(text.map(Cow::into_owned))
}

/// Of the state with which a call continues an earlier one.
fn leg_hash(call: &Call) -> Option<Digest> {
    let state = json::text(&call.message, call.params.request_state.clone()?)?;
    Some(hash_leg(&state))
}

/// Of a `requestState`.
pub(crate) fn hash_leg(state: &str) -> Digest {
    hash(&[b"requestState", state.as_bytes()])
}

/// Of parts that cannot run into each other.
fn hash(parts: &[&[u8]]) -> Digest {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// A key that the provider has never seen. `None` without random numbers: then there is no key.
fn made_key() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(super::report::hex(&bytes))
}
