//! Grants at work: renewed on a clock, used at send time, on record before they are used.
//!
//! The store is where a grant lives. Every event is fed to the state that is stored, and what follows is written by
//! compare-and-swap before anything is done about it, so that several tasks and several daemons can look after
//! the same grants (RT-02, RT-03). In memory is only the newest access token of each connection ([`slot`]).
//!
//! | module | what it does |
//! | --- | --- |
//! | [`supervisor`] | finds what is due, by the clock |
//! | [`renewal`] | one renewal, from standing in line to letting go |
//! | [`clocks`] | sleep of the machine, and a clock that is set |
//! | [`leaving`] | a connection that is no more |
//! | [`lease`] | what only one may do at a time |
//! | [`slot`] | the newest access token, in memory |
//! | [`client`] | who asks, and how that is proven |
//! | [`credential`] | one connection's part: at send time, and at a 401 |
//! | [`machine`] | clients that ask for tokens for themselves |
//! | [`identity`] | the same for a person whom an organisation's identity provider vouches for |
//! | [`import`] | tokens from elsewhere |
//! | [`looked`] | what the doctor sees of a grant |
//! | [`step_up`] | calls that want more than is granted |
//! | [`sign_in`] | tokens that a person gets us, and giving them back |

mod client;
mod clocks;
mod credential;
mod identity;
mod import;
mod lease;
mod leaving;
mod looked;
mod machine;
mod renewal;
mod sign_in;
mod slot;
mod step_up;
pub(crate) mod supervisor;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use parking_lot::{Mutex, RwLock};
use steadfast_core::grant::{self, Action, Event, Policy, Tokens};
use steadfast_core::identity::GrantGeneration;
use steadfast_core::oauth::step_up as step_up_rules;
use steadfast_core::{AgentName, AttemptId, Fault, ServerName, Wall};
use steadfast_store::{
    Error, ExposeSecret as _, GrantRecord, GrantSecrets, SharedStore, Swap, Vault,
};
use tokio::sync::{Notify, Semaphore, broadcast, mpsc, watch};

pub(crate) use clocks::Woke;
pub(crate) use credential::Credential;
pub use import::{BadImport, Import};
pub(crate) use looked::Looked;
pub(crate) use machine::Want;
pub(crate) use sign_in::obstacle;
pub use sign_in::{
    Callback, Doors, Finished, NotOffered, NotSignedIn, Offer, Revoked, SignedIn, SignedOut,
};
pub(crate) use slot::{Held, ScopeChange, Slot};
pub(crate) use step_up::{Refused, operation};

use crate::clock;
use crate::config;
use crate::configured::Configured;
use crate::own_number;
use crate::perform::dial::Dialer;
use crate::secrets::Secrets;

/// Whose grant, and for which server.
pub(crate) type Owner = (AgentName, ServerName);

/// How often a write that another task was faster with is tried again.
const SWAPS: usize = 32;

/// How soon whoever waits for another daemon's renewal looks for it, at first and at most.
const LOOKS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// More turns than are ever under way together.
const ALL_TURNS: u32 = 1 << 16;

/// All grants of this daemon.
#[derive(Debug)]
pub(crate) struct Grants {
    store: SharedStore,
    vault: Arc<Vault>,
    /// What the operator keeps in the vault: the secrets of configured clients.
    secrets: Arc<Secrets>,
    policy: Policy,
    settings: config::Renewal,
    /// How long a person may take to sign in.
    attempt_lifetime: config::Span,
    /// How often a person is asked for further scopes.
    step_ups: step_up_rules::Policy,
    /// Where browsers reach this daemon, once somebody has said so.
    doors: RwLock<Option<Doors>>,
    /// How long one request to an authorization server may take: shorter than the lease that covers it.
    request_limit: Duration,
    dialer: Arc<Dialer>,
    configured: Arc<Configured>,
    clocks: clocks::Clocks,
    /// The connections whose grant is being given back: none of it is used any more.
    leaving: watch::Sender<BTreeSet<Owner>>,
    /// The name under which this daemon holds leases.
    holder: String,
    slots: RwLock<BTreeMap<Owner, Arc<Slot>>>,
    /// Who may ask an issuer, in the order of arrival.
    turns: Mutex<BTreeMap<String, Arc<Semaphore>>>,
    /// Whose renewal stands in line or is under way here, and whether it was asked for again since it began.
    in_line: Mutex<BTreeMap<Owner, bool>>,
    /// Each turn that is under way holds a permit.
    under_way: Semaphore,
    /// The supervisor looks again.
    look: Notify,
    /// Every grant that changed, for connections and people.
    changed: broadcast::Sender<Owner>,
}

/// What goes into the record together with the state.
#[derive(Default)]
pub(super) struct Along {
    /// New tokens; the old ones stay where there are none.
    secrets: Option<GrantSecrets>,
    /// What else changes.
    edit: Option<Edit>,
}

/// A change of a record, made anew where another task was faster.
pub(super) type Edit = Box<dyn FnMut(&mut GrantRecord) + Send>;

/// What a change did.
pub(super) struct Fed {
    record: GrantRecord,
    actions: Vec<Action>,
}

impl Grants {
    pub(crate) fn new(
        secrets: Arc<Secrets>,
        settings: &config::Settings,
        dialer: Arc<Dialer>,
        configured: Arc<Configured>,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Woke>) {
        let (clocks, woke) = clocks::Clocks::new(settings.retry.sleep());
        let renewal = settings.renewal.clone();
        let lease = renewal.lease.duration();
        let grants = Arc::new(Self {
            policy: renewal.policy(),
            request_limit: settings.retry.request_timeout.duration().min(lease / 2),
            settings: renewal,
            attempt_lifetime: settings.sign_in.attempt_lifetime,
            step_ups: settings.sign_in.step_ups(),
            doors: RwLock::default(),
            holder: format!(
                "process {}, {:016x}",
                std::process::id(),
                own_number::draw()
            ),
            store: Arc::clone(&secrets.store),
            vault: Arc::clone(&secrets.vault),
            secrets,
            dialer,
            configured,
            clocks,
            leaving: watch::Sender::default(),
            slots: RwLock::default(),
            turns: Mutex::default(),
            in_line: Mutex::default(),
            under_way: Semaphore::new(ALL_TURNS as usize),
            look: Notify::new(),
            changed: broadcast::Sender::new(1_024),
        });
        (grants, woke)
    }

    /// Begins no further renewal, and waits for those under way: the answer that is cut off may be the one with the
    /// only refresh token that is good (RT-01).
    pub(crate) async fn finish(&self) {
        // Fair: whoever asks for a permit from now on comes after this.
        if let Ok(_all) = self.under_way.acquire_many(ALL_TURNS).await {
            self.under_way.close();
        }
    }

    /// Every grant that changes from now on.
    pub(crate) fn changed(&self) -> broadcast::Receiver<Owner> {
        self.changed.subscribe()
    }

    /// The credential of a connection, with what the store holds.
    pub(crate) async fn credential(self: &Arc<Self>, owner: &Owner) -> Credential {
        let credential = self.credential_now(owner);
        self.want(owner, Want::Missing).await;
        self.read_again(owner).await;
        self.read_offer(owner).await;
        credential
    }

    /// The same, with what is known already.
    pub(crate) fn credential_now(self: &Arc<Self>, owner: &Owner) -> Credential {
        let slot = {
            let mut slots = self.slots.write();
            let slot = slots.entry(owner.clone());
            Arc::clone(slot.or_insert_with(|| Arc::new(Slot::new())))
        };
        Credential::new(Arc::clone(self), owner.clone(), slot)
    }

    /// The connection is no more.
    pub(crate) fn forget_slot(&self, owner: &Owner) {
        self.slots.write().remove(owner);
    }

    /// Another daemon, or a sign-in, may have replaced the tokens (RT-04).
    async fn read_again(&self, owner: &Owner) {
        match self.store.grant(&owner.0, &owner.1).await {
            Ok(Some(record)) => self.publish(&record),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "a grant cannot be read"),
        }
    }

    /// The server refused a token with 401: renewed once, however many calls say so (AU-02). Waits for a newer one.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(crate) async fn refused(
        self: &Arc<Self>,
        owner: &Owner,
        generation: GrantGeneration,
        slot: &Slot,
    ) -> Result<(), Fault> {
        // Another daemon may have renewed it: then there is nothing to ask for (RT-04).
        self.read_again(owner).await;
        self.tell(owner, Event::TokenRefused { generation }).await;
        let limit = self.settings.lease.duration();
        self.await_token(owner, slot, generation.next(), limit)
            .await
    }

    /// Waits for a token of this generation or a later one while a renewal is under way, whoever performs it.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(super) async fn await_token(
        &self,
        owner: &Owner,
        slot: &Slot,
        least: GrantGeneration,
        limit: Duration,
    ) -> Result<(), Fault> {
        let began = Instant::now();
        let (mut pause, longest) = LOOKS;
        loop {
            // Another daemon may be the one that renews it, or have other tokens by now (RT-03, RT-04).
            if !self.in_line.lock().contains_key(owner) {
                self.read_again(owner).await;
            }
            let left = limit.saturating_sub(began.elapsed());
            match slot.settled(least, pause.min(left)).await {
                Some(outcome) => return outcome,
                None if left <= pause => return slot.given_up(least),
                None => pause = (pause * 2).min(longest),
            }
        }
    }

    /// Looks again at what others may have changed: connections that wait for a person, and grants whose time has
    /// come without our doing anything about it.
    async fn catch_up(&self) {
        let behind: Vec<Owner> = {
            let slots = self.slots.read();
            let behind = slots.iter().filter(|(_, slot)| slot.may_be_behind());
            behind.map(|(owner, _)| owner.clone()).collect()
        };
        for owner in behind {
            self.read_again(&owner).await;
        }
    }

    /// Feeds an event that comes from a connection, and does what follows.
    pub(crate) async fn tell(self: &Arc<Self>, owner: &Owner, event: Event) {
        match self.feed(owner, |_| event.clone(), Along::default()).await {
            Ok(fed) => self.follow(owner, &fed),
            Err(error) => tracing::warn!(%error, "a grant cannot be written"),
        }
    }

    /// An explicit reload beats every schedule: what is due, delayed, suspect or refused is tried once, and waited for.
    pub(crate) async fn reload(self: &Arc<Self>, owner: &Owner, slot: &Slot, limit: Duration) {
        self.want(owner, Want::SignedOut).await;
        self.tell(owner, Event::Reload).await;
        let any = GrantGeneration::default();
        let _ = self.await_token(owner, slot, any, limit).await;
    }

    /// Feeds one event to the grant that is stored. The event may depend on what is there; a write that another
    /// task was faster with begins anew with what that one wrote.
    pub(super) async fn feed(
        &self,
        owner: &Owner,
        mut event: impl FnMut(Option<&GrantRecord>) -> Event + Send,
        mut along: Along,
    ) -> Result<Fed, Error> {
        let mut found = self.store.grant(&owner.0, &owner.1).await?;
        for _ in 0..SWAPS {
            let (now, slept) = self.look_at_clocks();
            let event = event(found.as_ref());
            let before = found.unwrap_or_else(|| import::blank(owner));
            let told = clocks::told_by(&event, now);
            let state = grant::restore(before.state.clone(), before.wake_at, told);
            let context = grant::Context {
                now,
                jitter: clock::jitter(),
                attempt: AttemptId(attempt()),
                slept,
                policy: &self.policy,
            };
            let step = grant::step(state, event, &context);
            if step.facts.is_empty() {
                // No news for the store; it may be some for us.
                self.publish(&before);
                return Ok(Fed {
                    record: before,
                    actions: step.actions,
                });
            }
            let mut record = before.clone();
            record.wake_at = grant::wake_at(&step.state, now);
            if let Some(tokens) = step.state.tokens() {
                record.generation = tokens.generation;
            }
            record.state = step.state;
            if let Some(edit) = &mut along.edit {
                edit(&mut record);
            }
            if let Some(secrets) = &along.secrets {
                self.vault.seal_grant(&mut record, secrets)?;
            }
            match self.store.swap_grant(&record).await? {
                Swap::Stored(version) => {
                    record.version = version;
                    self.publish(&record);
                    for fact in &step.facts {
                        let state = fact.state.name();
                        tracing::info!(agent = %owner.0, server = %owner.1, state, reason = %fact.reason, "grant");
                    }
                    return Ok(Fed {
                        record,
                        actions: step.actions,
                    });
                }
                Swap::Lost(present) => found = present.map(|present| *present),
            }
        }
        Err(import::contended(owner))
    }

    /// Does what a step asks for, but for a renewal, which has its own task.
    pub(super) fn follow(self: &Arc<Self>, owner: &Owner, fed: &Fed) {
        for action in &fed.actions {
            match action {
                Action::AwaitTurn { .. } => self.stand_in_line(owner, &fed.record),
                Action::Register => {
                    let (grants, owner) = (Arc::clone(self), owner.clone());
                    let record = fed.record.clone();
                    tokio::spawn(async move { grants.register_anew(&owner, &record).await });
                }
                // The slot was filled when the record was written; turn and lease belong to the renewal's task.
                Action::Use { .. }
                | Action::LetGo
                | Action::Renew { .. }
                | Action::Rediscover { .. }
                // The state that was entered says it, and `keeper::notices` reads it there: one place opens notices.
                | Action::Tell { .. } => {}
            }
        }
        self.look.notify_one();
    }

    /// Fills the slot of a connection with what is stored, where that is news.
    fn publish(&self, record: &GrantRecord) {
        let owner = (record.agent.clone(), record.server.clone());
        // Held until it is in the slot: whoever empties that one comes afterwards.
        let leaving = self.leaving.borrow();
        if leaving.contains(&owner) {
            return;
        }
        let slot = self.slots.read().get(&owner).cloned();
        if let Some(slot) = slot {
            if record.version <= slot.version() {
                return;
            }
            let bearer = match self.vault.open_grant(record) {
                Ok(secrets) => secrets.and_then(|secrets| bearer(&secrets)),
                Err(error) => {
                    tracing::error!(%error, "a grant cannot be opened");
                    None
                }
            };
            slot.put(Held {
                version: record.version,
                state: grant::restore(record.state.clone(), record.wake_at, clock::now()),
                bearer,
                issuer: record.issuer.clone(),
                last_renewal: record.last_renewal.clone(),
                client_expires_at: record.client.expires_at,
                step_up: record.step_up.clone(),
                doubted: false,
            });
        }
        drop(leaving);
        let _ = self.changed.send(owner);
    }
}

impl Grants {
    pub(crate) fn set_doors(&self, doors: Doors) {
        *self.doors.write() = Some(doors);
    }

    /// Shows a link, or none, in the connection object.
    fn show_offer(&self, owner: &Owner, offer: Option<Offer>) {
        let slot = self.slots.read().get(owner).cloned();
        if let Some(slot) = slot {
            slot.show_offer(offer);
        }
        let _ = self.changed.send(owner.clone());
    }
}

fn bearer(secrets: &GrantSecrets) -> Option<HeaderValue> {
    let text = format!("Bearer {}", secrets.access_token.expose_secret());
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// A number for an attempt. Random: several daemons make them for one grant.
fn attempt() -> u64 {
    // Databases and JSON count with 53 bits at least.
    getrandom::u64().unwrap_or_else(|_| clock::mono().0) >> 11
}

/// Tokens of a person's grant as the machine looks at them.
pub(super) fn tokens(
    generation: GrantGeneration,
    issued_at: Wall,
    expires_at: Wall,
    secrets: &GrantSecrets,
    scopes: Vec<String>,
) -> Tokens {
    Tokens {
        generation,
        issued_at,
        expires_at,
        renewable: secrets.refresh_token.is_some(),
        scopes,
    }
}
