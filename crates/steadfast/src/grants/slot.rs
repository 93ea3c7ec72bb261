//! The newest access token of one connection, in memory: what every request takes at the moment when it is
//! sent (AU-01).

use std::time::Duration;

use http::HeaderValue;
use parking_lot::Mutex;
use steadfast_core::grant::State;
use steadfast_core::identity::GrantGeneration;
use steadfast_core::oauth::step_up::StepUp;
use steadfast_core::{Fault, Kind, Wall};
use steadfast_store::Version;
use tokio::sync::watch;

use super::Offer;
use crate::clock;

/// What is known of a grant here.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// Which write of the record it is.
    pub(crate) version: Version,
    pub(crate) state: State,
    /// The value of the Authorization header; it does not print.
    pub(crate) bearer: Option<HeaderValue>,
    pub(crate) issuer: String,
    pub(crate) last_renewal: Option<steadfast_store::LastRenewal>,
    /// When the secret of its client ends.
    pub(crate) client_expires_at: Option<Wall>,
    /// Which calls want more than is granted.
    pub(crate) step_up: StepUp,
    /// A result has just said that the token is no good, and what follows from that is not written yet.
    pub(crate) doubted: bool,
}

impl Held {
    fn nothing() -> Self {
        Self {
            version: Version::NONE,
            state: State::None,
            bearer: None,
            issuer: String::new(),
            last_renewal: None,
            client_expires_at: None,
            step_up: StepUp::default(),
            doubted: false,
        }
    }

    /// Whether there was a grant once, and somebody signed out.
    pub(crate) fn was_removed(&self) -> bool {
        self.state == State::None && !self.issuer.is_empty()
    }

    /// How the scopes differ from those held before; also where somebody signed in for more and got it.
    fn scope_change(&self, before: &Self) -> ScopeChange {
        let (Some(now), Some(then)) = (self.state.tokens(), before.state.tokens()) else {
            return ScopeChange::default();
        };
        let is_new = now.generation > then.generation;
        let was_asked = before.step_up.is_asking() && !self.step_up.is_asking();
        ScopeChange {
            narrowed: now.are_narrower_than(then),
            widened: then.are_narrower_than(now) || (is_new && was_asked),
        }
    }

    fn generation(&self) -> GrantGeneration {
        self.state
            .tokens()
            .map_or(GrantGeneration::default(), |tokens| tokens.generation)
    }

    /// Whether the access token may be sent now.
    pub(crate) fn is_good(&self) -> bool {
        let tokens = self.state.tokens();
        self.bearer.is_some() && tokens.is_some_and(|tokens| tokens.good(clock::wall()))
    }

    /// Whether a renewal is on its way, and worth waiting for.
    fn is_coming(&self) -> bool {
        match &self.state {
            State::Due { .. } | State::Renewing { .. } => true,
            // Expired, and the supervisor has not looked yet.
            State::Valid { .. } | State::Unrenewable { .. } => !self.is_good() || self.doubted,
            State::Suspect { .. } => self.is_suspected(),
            State::None | State::Delayed { .. } | State::Refused { .. } => false,
        }
    }

    /// Whether a renewal is due, or under way.
    pub(crate) fn is_overdue(&self) -> bool {
        match &self.state {
            State::Valid { renew_at, .. } => *renew_at <= clock::wall(),
            State::Due { .. } | State::Renewing { .. } => true,
            State::Delayed { due, .. } | State::Suspect { due, .. } => *due <= clock::mono(),
            State::None | State::Refused { .. } | State::Unrenewable { .. } => false,
        }
    }

    /// Whether the renewal comes ahead of the next call, although the token says that it is good (AU-03).
    fn is_suspected(&self) -> bool {
        match &self.state {
            State::Suspect { strikes, .. }
            | State::Due { strikes, .. }
            | State::Renewing { strikes, .. } => strikes.suspected,
            State::Valid { .. } => self.doubted,
            State::None
            | State::Delayed { .. }
            | State::Refused { .. }
            | State::Unrenewable { .. } => false,
        }
    }

    /// Whether a call need not wait.
    fn is_usable(&self, least: GrantGeneration) -> bool {
        let is_newest = self.generation() >= least && self.is_good();
        self.state == State::None || (is_newest && !self.is_suspected())
    }
}

/// How the scopes that are granted changed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ScopeChange {
    /// There are some less.
    pub(crate) narrowed: bool,
    /// There are some more, or what was missing is missing no more.
    pub(crate) widened: bool,
}

/// The slot of one connection.
#[derive(Debug)]
pub(crate) struct Slot {
    held: watch::Sender<Held>,
    scope_change: Mutex<ScopeChange>,
    /// Held while a person is about to be asked for more.
    pub(super) asking: tokio::sync::Mutex<()>,
    /// The link that is open.
    offer: Mutex<Option<Offer>>,
}

impl Slot {
    pub(super) fn new() -> Self {
        Self {
            held: watch::Sender::new(Held::nothing()),
            scope_change: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            offer: Mutex::default(),
        }
    }

    /// Puts in what a later write says.
    pub(super) fn put(&self, held: Held) {
        self.held.send_if_modified(|before| {
            let is_later = held.version > before.version;
            if is_later {
                let change = held.scope_change(before);
                let mut kept = self.scope_change.lock();
                kept.narrowed |= change.narrowed;
                kept.widened |= change.widened;
                drop(kept);
                *before = held;
            }
            is_later
        });
    }

    /// Forgets all; a later write may fill it again.
    pub(super) fn hide(&self) {
        self.held.send_replace(Held::nothing());
    }

    /// Waits until what is due has been renewed, or cannot be now, at most `limit`.
    pub(super) async fn caught_up(&self, limit: Duration) {
        let mut watched = self.held.subscribe();
        let caught_up = watched.wait_for(|held| !held.is_overdue());
        // Whoever waits longer than that would rather go on with what there is.
        let _ = tokio::time::timeout(limit, caught_up).await;
    }

    /// Which write of the record is in it.
    pub(super) fn version(&self) -> Version {
        self.held.borrow().version
    }

    /// How the scopes changed since this was last asked.
    pub(super) fn take_scope_change(&self) -> ScopeChange {
        std::mem::take(&mut self.scope_change.lock())
    }

    /// Which set of tokens is in it.
    pub(super) fn generation(&self) -> GrantGeneration {
        self.held.borrow().generation()
    }

    /// Whether the server refuses any call for its scope.
    pub(super) fn lacks_any_scope(&self) -> bool {
        !self.held.borrow().step_up.lacking.is_empty()
    }

    /// Lets calls wait until it is written whether the token is renewed.
    pub(super) fn doubt(&self, doubted: bool) {
        self.held.send_modify(|held| held.doubted = doubted);
    }

    pub(super) fn show_offer(&self, offer: Option<Offer>) {
        *self.offer.lock() = offer;
    }

    /// Where a person signs in, as long as that link is good.
    pub(crate) fn sign_in_url(&self) -> Option<String> {
        let offer = self.offer.lock();
        let open = offer
            .as_ref()
            .filter(|it| it.expires_at.0 > clock::wall().0);
        open.map(|offer| offer.url.clone())
    }

    /// What is known.
    pub(crate) fn held(&self) -> Held {
        self.held.borrow().clone()
    }

    /// Whether somebody else may have changed the grant without our knowing: it is over here, or its time has come.
    pub(super) fn may_be_behind(&self) -> bool {
        let held = self.held.borrow();
        // Somebody may sign in for more elsewhere.
        if held.step_up.is_asking() {
            return true;
        }
        match &held.state {
            State::None | State::Refused { .. } => true,
            State::Valid { renew_at, .. } => *renew_at <= clock::wall(),
            State::Due { .. }
            | State::Renewing { .. }
            | State::Delayed { .. }
            | State::Suspect { .. } => true,
            State::Unrenewable { tokens } => !tokens.good(clock::wall()),
        }
    }

    /// The Authorization header for a request that leaves now: of the newest token, also where it has ended since
    /// [`is_ready`](Self::is_ready) was asked. A server can tell an old token from none (RT-07).
    pub(crate) fn bearer(&self) -> Option<(GrantGeneration, HeaderValue)> {
        let held = self.held.borrow();
        Some((held.generation(), held.bearer.clone()?))
    }

    /// Whether there is an access token, and it is good.
    pub(crate) fn has_good_token(&self) -> bool {
        self.held.borrow().is_good()
    }

    /// Whether the server refused the token before this one, and that is not forgiven yet.
    pub(super) fn is_on_probation(&self) -> bool {
        let held = self.held.borrow();
        matches!(held.state, State::Valid { strikes, .. } if strikes.fresh > 0)
    }

    /// Whether a request may leave now.
    pub(crate) fn is_ready(&self) -> bool {
        self.held.borrow().is_usable(GrantGeneration::default())
    }

    /// Waits while a renewal that is needed is under way, at most `limit`; for a token of the generation `least` or a
    /// later one. `None`: it is still under way.
    ///
    /// # Errors
    ///
    /// What keeps requests from being sent: nobody who looks on could tell it from a sign-in that is missing.
    pub(super) async fn settled(
        &self,
        least: GrantGeneration,
        limit: Duration,
    ) -> Option<Result<(), Fault>> {
        let mut watched = self.held.subscribe();
        let settled = watched.wait_for(|held| held.is_usable(least) || !held.is_coming());
        let held = match tokio::time::timeout(limit, settled).await {
            Ok(Ok(held)) => held.clone(),
            Ok(Err(_)) | Err(_) => return None,
        };
        if held.is_usable(least) {
            return Some(Ok(()));
        }
        Some(Err(held.state.fault().cloned().unwrap_or_else(delayed)))
    }

    /// What is said once nobody waits any longer. A token that is only suspected is better than none.
    pub(super) fn given_up(&self, least: GrantGeneration) -> Result<(), Fault> {
        let held = self.held();
        if held.generation() >= least && held.is_good() {
            return Ok(());
        }
        Err(held.state.fault().cloned().unwrap_or_else(delayed))
    }
}

fn delayed() -> Fault {
    Fault::new(Kind::RenewalDelayed, "the access token is being renewed")
}
