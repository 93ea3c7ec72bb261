//! What the ledger reads in a consequential call: what it means, its keys, and what identical calls have in common.

use std::borrow::Cow;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use steadfast_core::operation::digest::canonical;
use steadfast_core::operation::place::Place;
use steadfast_core::operation::{Contract, idempotency};
use steadfast_core::wire::{envelope, json, splice};
use steadfast_core::{AgentName, ServerName};
use steadfast_store::{Digest, OperationSecrets, SecretString};

use crate::call::{Call, WhyKeptBack};
use crate::config::{Idempotency, Tool};
use crate::handle::CallHandle;

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
    /// How its agent ends it.
    pub(crate) handle: &'a CallHandle,
    /// What the operator says about the tool.
    pub(crate) policy: Option<&'a Tool>,
    /// Where the server keeps keys of calls by itself, and the operator counts on it.
    pub(crate) idempotency: Option<&'a Idempotency>,
}

impl Asked<'_> {
    /// Whether a repeat of it would count on nothing but what the server says of itself.
    pub(crate) fn counts_on_server(&self) -> bool {
        let of_tool = self.policy.and_then(|tool| tool.duplicate_key.as_ref());
        of_tool.is_none() && self.idempotency.is_some()
    }
}

/// A call as the ledger looks at it.
pub(super) struct Reading<'a> {
    pub(super) asked: Asked<'a>,
    pub(super) operation_key: Option<String>,
    pub(super) key_hash: Option<Digest>,
    pub(super) intended: bool,
    /// With a key that was put into it.
    pub(super) message: Option<Bytes>,
    pub(super) provider_key: Option<String>,
    pub(super) digest: Digest,
    pub(super) call_digest: Digest,
}

impl<'a> Reading<'a> {
    pub(super) fn of(asked: Asked<'a>) -> Result<Self, Box<WhyKeptBack>> {
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
        let (place, may_make_one) = self.place_of_key()?;
        let call = self.asked.call;
        let whole = call.params.whole.clone()?;
        let found = place.find(&call.message, whole.clone());
        let found = found.and_then(|range| call.message.get(range));
        match found {
            Some(raw) if raw != b"null" && raw != b"\"\"" => {
                self.provider_key = Some(String::from_utf8_lossy(raw).into_owned());
            }
            Some(_) | None if may_make_one => {
                let key = splice::quote(&made_key()?);
                self.message = Some(self.with_key(&key)?);
                self.provider_key = Some(key);
            }
            Some(_) | None => {}
        }
        Some(place)
    }

    /// Where the provider's key stands, from the params on, and whether we may make one. What the operator says about
    /// the tool goes first.
    fn place_of_key(&self) -> Option<(Place, bool)> {
        let of_tool = self
            .asked
            .policy
            .and_then(|tool| tool.duplicate_key.as_ref());
        let (path, may_make_one) = match of_tool {
            Some(key) => {
                let below = key.argument.strip_prefix('$')?;
                (Cow::from(format!("$.arguments{below}")), key.inject)
            }
            None => {
                self.asked.idempotency?;
                (Cow::from(idempotency::PLACE), true)
            }
        };
        Some((Place::read(&path).ok()?, may_make_one))
    }

    /// The message with this key (raw JSON) in it.
    pub(super) fn with_key(&self, key: &str) -> Option<Bytes> {
        let call = self.asked.call;
        let whole = call.params.whole.clone()?;
        let (place, _) = self.place_of_key()?;
        let message = place.put(&call.message, whole, key)?;
        Some(Bytes::from(message))
    }

    pub(super) fn contract(&self) -> Contract {
        let has_key = self.provider_key.is_some();
        let policy = self.asked.policy;
        let mut contract = policy.map_or_else(Contract::default, |tool| tool.contract(has_key));
        if contract.duplicate_key.is_none() && has_key {
            contract.duplicate_key = self.asked.idempotency.map(Idempotency::contract);
        }
        contract
    }

    /// What is sealed: the params as they leave.
    pub(super) fn secrets(&self) -> OperationSecrets {
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
pub(super) fn leg_hash(call: &Call) -> Option<Digest> {
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
