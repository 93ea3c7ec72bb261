//! The newest access token of one connection, in memory: what every request takes at the moment when it is
//! sent (AU-01).

use std::time::Duration;

use http::HeaderValue;
use steadfast_core::grant::State;
use steadfast_core::identity::GrantGeneration;
use steadfast_core::{Fault, Kind};
use tokio::sync::watch;

use crate::clock;

/// What is known of a grant here.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) state: State,
    /// The value of the Authorization header; it does not print.
    pub(crate) bearer: Option<HeaderValue>,
    pub(crate) issuer: String,
    pub(crate) last_renewal: Option<steadfast_store::LastRenewal>,
}

impl Held {
    fn nothing() -> Self {
        Self {
            state: State::None,
            bearer: None,
            issuer: String::new(),
            last_renewal: None,
        }
    }

    fn generation(&self) -> GrantGeneration {
        self.state
            .tokens()
            .map_or(GrantGeneration::default(), |tokens| tokens.generation)
    }

    /// Whether the access token may be sent now.
    fn is_good(&self) -> bool {
        let tokens = self.state.tokens();
        self.bearer.is_some() && tokens.is_some_and(|tokens| tokens.good(clock::wall()))
    }

    /// Whether a renewal is on its way, and worth waiting for.
    fn is_coming(&self) -> bool {
        match &self.state {
            State::Due { .. } | State::Renewing { .. } => true,
            // Expired, and the supervisor has not looked yet.
            State::Valid { .. } => !self.is_good(),
            State::None
            | State::Delayed { .. }
            | State::Suspect { .. }
            | State::Refused { .. }
            | State::Unrenewable { .. } => false,
        }
    }
}

/// The slot of one connection.
#[derive(Debug)]
pub(crate) struct Slot {
    held: watch::Sender<Held>,
}

impl Slot {
    pub(super) fn new() -> Self {
        Self {
            held: watch::Sender::new(Held::nothing()),
        }
    }

    /// Puts a newer one in. Whether it is one; of the same generation the state is news, too.
    pub(super) fn put(&self, held: Held) -> bool {
        self.held.send_if_modified(|before| {
            let gone = matches!(held.state, State::None);
            if !gone && held.generation() < before.generation() {
                return false;
            }
            *before = held;
            true
        })
    }

    /// What is known.
    pub(crate) fn held(&self) -> Held {
        self.held.borrow().clone()
    }

    /// The Authorization header for a request that leaves now.
    pub(crate) fn bearer(&self) -> Option<(GrantGeneration, HeaderValue)> {
        let held = self.held.borrow();
        let bearer = held.bearer.clone().filter(|_| held.is_good())?;
        Some((held.generation(), bearer))
    }

    /// Waits while a renewal that is needed is under way, at most `limit`.
    ///
    /// # Errors
    ///
    /// What keeps requests from being sent: nobody who looks on could tell it from a sign-in that is missing.
    pub(crate) async fn ready(&self, limit: Duration) -> Result<(), Fault> {
        self.settled(GrantGeneration::default(), limit).await
    }

    /// The same for a token newer than `after`, which the server refused.
    pub(crate) async fn newer(&self, after: GrantGeneration, limit: Duration) -> Result<(), Fault> {
        self.settled(after.next(), limit).await
    }

    async fn settled(&self, least: GrantGeneration, limit: Duration) -> Result<(), Fault> {
        let is_usable = |held: &Held| held.generation() >= least && held.is_good();
        {
            let held = self.held.borrow();
            if held.state == State::None || is_usable(&held) {
                return Ok(());
            }
        }
        let mut watched = self.held.subscribe();
        let settled = watched.wait_for(|held| is_usable(held) || !held.is_coming());
        let held = match tokio::time::timeout(limit, settled).await {
            Ok(Ok(held)) => held.clone(),
            Ok(Err(_)) | Err(_) => self.held(),
        };
        if is_usable(&held) || held.state == State::None {
            return Ok(());
        }
        Err(held.state.fault().cloned().unwrap_or_else(|| {
            Fault::new(Kind::RenewalDelayed, "the access token is being renewed")
        }))
    }
}
