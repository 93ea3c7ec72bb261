//! One grant: what a person once allowed one agent at one server, and how it is kept alive. Decides when
//! to renew, what a failed renewal means, and when only a person can help. It knows the tokens by their
//! generation and their times, never by their text.
//!
//! | state | what it means | wakes up for |
//! | --- | --- | --- |
//! | `none` | nobody has signed in, or somebody signed out | nothing |
//! | `valid` | the access token is good for a while | the renewal ahead of its expiry |
//! | `due` | to be renewed; waits for its turn at the issuer and for the lease | the lease of another daemon |
//! | `renewing` | one renewal is under way | the limit of the attempt |
//! | `delayed` | the last renewal failed for a fault that time mends | the next try |
//! | `suspect` | refused in a way that need not be final | the next try |
//! | `refused` | only a person can help; nothing was deleted | the end of the access token, the one try then, or a probe, where there is one left |
//! | `unrenewable` | there is no refresh token; it ends when the access token does | its end |
//!
//! A client that asks for tokens for itself has no refresh token: its credential takes the place of one, and each
//! renewal is a new request with it (RFC 6749 section 4.4). All else is the same, but that nobody signs in.
//!
//! A renewal is itself a one-shot write (architecture, grants 1): its fact is durable before the action
//! that follows it runs, so that a daemon that dies in between finds the intent and not a riddle.
//! The table of transitions is drawn from the tests: `docs/machines/grant.md`.

mod failure;
pub mod schedule;
mod transitions;

#[cfg(test)]
mod tests;

pub use failure::Failure;
pub use transitions::{deadline, replay, restore, step, wake_at};

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::identity::{AttemptId, GrantGeneration};
use crate::now::{Jitter, Millis, Mono, Now, Wall};
use crate::sleep::Slept;

/// What is known of a set of tokens without their text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Which set. A failure of an older one changes nothing in a newer one (RT-02).
    pub generation: GrantGeneration,
    /// When the access token was issued.
    pub issued_at: Wall,
    /// When it expires: absolute, so that a restart does not begin to count anew (EX-01). Where the
    /// answer said nothing, after the assumed lifetime.
    pub expires_at: Wall,
    /// Whether the next ones can be had without a person: there is a refresh token, or the client asks for itself.
    pub renewable: bool,
    /// The scopes that are granted now.
    pub scopes: Vec<String>,
}

impl Tokens {
    /// Whether they lack a scope that the tokens before had. Where none are named, nobody knows.
    #[must_use]
    pub fn are_narrower_than(&self, before: &Self) -> bool {
        let is_lost = |scope: &String| !self.scopes.contains(scope);
        !self.scopes.is_empty() && before.scopes.iter().any(is_lost)
    }

    /// Before the first answer to a client that asks for itself: there is no access token yet, and it can be had.
    #[must_use]
    pub const fn none_yet(generation: GrantGeneration, now: Wall) -> Self {
        Self {
            generation,
            issued_at: now,
            expires_at: now,
            renewable: true,
            scopes: Vec::new(),
        }
    }

    /// Whether the access token may still be sent.
    #[must_use]
    pub const fn good(&self, now: Wall) -> bool {
        now.0 < self.expires_at.0
    }
}

/// What was refused so far, and how often. Forgiven when a renewed token is accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Strikes {
    /// Structured refusals other than `invalid_grant`, in a row.
    pub structured: u32,
    /// Freshly issued access tokens that the server refused, in a row (architecture, grants 6).
    pub fresh: u32,
    /// Renewals in a row that failed: the backoff grows with them.
    pub tries: u32,
    /// Probes of a refused token so far.
    pub probed: u32,
    /// Whether a result said that the access token is no good: until it was renewed, or that failed, calls wait (AU-03).
    #[serde(default)]
    pub suspected: bool,
    /// Whether the client was registered anew since the last sign-in: once is enough (CR-01).
    pub registered: bool,
    /// The sleep of the machine in which the access token ended unrenewed: what the provider says then is not all its doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slept: Option<Slept>,
}

/// How far a renewal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The request is about to leave, or has left.
    Asking,
    /// The token endpoint was not where it used to be: the issuer is asked where it is now.
    Rediscovering,
    /// The request goes to the address that was found. It is not looked for twice in one renewal.
    AskingElsewhere,
}

/// Why a grant waits in spite of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recheck {
    /// No further try: a person must act.
    Never,
    /// Once more when the access token expires (architecture, grants 5).
    AtExpiry,
    /// A further spaced try, because some providers heal (`renewal.probes`).
    Probe {
        /// When.
        due: Mono,
    },
}

/// The state of one grant. Holds only what is true in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    /// There is none.
    None,
    /// The access token is good.
    Valid {
        /// The tokens.
        tokens: Tokens,
        /// When to renew.
        renew_at: Wall,
        /// What was refused before.
        strikes: Strikes,
    },
    /// To be renewed now: waits for its turn.
    Due {
        /// The tokens.
        tokens: Tokens,
        /// Since when.
        since: Wall,
        /// When to ask for the turn again: another daemon may hold the lease until then.
        ask_again: Mono,
        /// What was refused before.
        strikes: Strikes,
        /// Why it must be renewed ahead of its time, where it must.
        fault: Option<Fault>,
    },
    /// A renewal is under way.
    Renewing {
        /// The tokens, among them the refresh token that is being presented.
        tokens: Tokens,
        /// Fences the outcome.
        attempt: AttemptId,
        /// When it has taken too long.
        until: Mono,
        /// How far it is.
        stage: Stage,
        /// What was refused before.
        strikes: Strikes,
        /// The fault that led to it, if one did.
        fault: Option<Fault>,
    },
    /// The last renewal failed; the next one is planned.
    Delayed {
        /// The tokens.
        tokens: Tokens,
        /// What went wrong.
        fault: Fault,
        /// When the next try is due.
        due: Mono,
        /// What was refused before.
        strikes: Strikes,
    },
    /// Refused in a way that need not be final.
    Suspect {
        /// The tokens.
        tokens: Tokens,
        /// What was said.
        fault: Fault,
        /// When the next try is due.
        due: Mono,
        /// What was refused before.
        strikes: Strikes,
    },
    /// The provider withdrew its consent. Tokens are kept (architecture, grants 5).
    Refused {
        /// The tokens; the access token may still be good.
        tokens: Tokens,
        /// What was said.
        fault: Fault,
        /// When.
        at: Wall,
        /// Whether the access token has ended, too: until then it goes on being used.
        #[serde(default)]
        ended: bool,
        /// Whether it is tried again without a person.
        recheck: Recheck,
        /// What was refused before.
        strikes: Strikes,
    },
    /// There is no refresh token.
    Unrenewable {
        /// The tokens.
        tokens: Tokens,
    },
}

/// What rediscovering the issuer found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Another token endpoint of the same issuer.
    Elsewhere,
    /// The same address as before.
    Same,
    /// Nothing, for this reason; also where the server names another issuer by now.
    Nothing(Fault),
}

/// What can happen to a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Tokens came from a sign-in, an import, the store at start, or another daemon's renewal.
    Loaded {
        /// They.
        tokens: Tokens,
    },
    /// The client asks for tokens for itself (RFC 6749 section 4.4), and has none: nobody needs to sign in.
    Wanted {
        /// Of the tokens to come, which replace all that is held.
        generation: GrantGeneration,
    },
    /// Signed out, or no longer configured.
    Removed,
    /// The deadline has come.
    Due,
    /// Somebody set the wall clock back. Times that were told by it are told anew, or what is due would not be so for
    /// as long.
    ClockSetBack {
        /// So far.
        by: Millis,
    },
    /// A person or an API asks for a renewal now (architecture, grants 7).
    Reload,
    /// Its turn has come: the lease is held, and the store still has this generation.
    Turn {
        /// Of these tokens.
        generation: GrantGeneration,
    },
    /// Another daemon holds the lease until then.
    Leased {
        /// When it ends at the latest.
        until: Mono,
    },
    /// The renewal succeeded; what it brought is on disk.
    Renewed {
        /// Fences it.
        attempt: AttemptId,
        /// The new tokens, with what the answer omitted taken over from the old ones.
        tokens: Tokens,
    },
    /// The renewal failed.
    Failed {
        /// Fences it.
        attempt: AttemptId,
        /// How.
        failure: Failure,
    },
    /// The issuer was asked where its token endpoint is.
    Rediscovered {
        /// Fences it.
        attempt: AttemptId,
        /// What was found.
        found: Found,
    },
    /// The MCP server refused an access token with 401.
    TokenRefused {
        /// Of these tokens. A late refusal of an older one changes nothing.
        generation: GrantGeneration,
    },
    /// The MCP server said within a result that the token is no good (AU-03).
    Suspected {
        /// Of these tokens.
        generation: GrantGeneration,
    },
    /// The MCP server accepted an access token.
    TokenAccepted {
        /// Of these tokens.
        generation: GrantGeneration,
    },
}

/// What the driver must do, once the fact is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Stand in line at the issuer, take the lease, read the store again; answer with `Turn`, `Leased` or `Loaded`.
    AwaitTurn {
        /// Of these tokens.
        generation: GrantGeneration,
    },
    /// Present the refresh token, or the client's own credential, at the token endpoint; answer with `Renewed` or
    /// `Failed`.
    Renew {
        /// Fences the outcome.
        attempt: AttemptId,
    },
    /// Forget endpoint and metadata, and ask the issuer again; answer with `Rediscovered`.
    Rediscover {
        /// Fences the outcome.
        attempt: AttemptId,
    },
    /// The registration is gone: register anew, once, so that the next sign-in has a client that exists.
    Register,
    /// Let the connection use the new token.
    Use {
        /// Which.
        generation: GrantGeneration,
    },
    /// A person must act: say so once.
    Tell {
        /// Why.
        fault: Fault,
    },
    /// Let go of turn and lease.
    LetGo,
}

/// The reason of a [`Fact`] whose tokens have not all the scopes of those before.
pub const SCOPE_NARROWED: &str = "scope_narrowed";

/// What became true. Durable before the actions of its step run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// When, as people count.
    pub at: Wall,
    /// The state that was entered, whole.
    pub state: State,
    /// One clause: why.
    pub reason: String,
}

/// The delays and limits that an operator can set (`[renewal]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long ahead of expiry; capped to half of the lifetime.
    pub window: Millis,
    /// The first delay after a temporary failure; doubled after each further one.
    pub retry_first: Millis,
    /// The longest delay.
    pub retry_max: Millis,
    /// How many spaced structured refusals other than `invalid_grant` make a grant refused.
    pub refused_after: u32,
    /// One more try after a refusal that came while the access token was good.
    pub recheck_at_expiry: bool,
    /// Further spaced tries of a refused token.
    pub probes: u32,
    /// How far apart.
    pub probe_every: Millis,
    /// So many fresh tokens refused in a row make a dead grant …
    pub fresh_token_refusals: u32,
    /// … where fresh means issued so recently.
    pub fresh_token_window: Millis,
    /// How long one renewal may take in all.
    pub attempt_limit: Millis,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            window: Millis::mins(20),
            retry_first: Millis::secs(5),
            retry_max: Millis::mins(5),
            refused_after: 3,
            recheck_at_expiry: true,
            probes: 0,
            probe_every: Millis::mins(10),
            fresh_token_refusals: 2,
            fresh_token_window: Millis::secs(60),
            attempt_limit: Millis::secs(70),
        }
    }
}

/// What a step may look at besides state and event.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The clocks.
    pub now: Now,
    /// A fresh random number.
    pub jitter: Jitter,
    /// A fresh number for an attempt, should one begin.
    pub attempt: AttemptId,
    /// The last sleep of the machine, if any is known.
    pub slept: Option<Slept>,
    /// The limits.
    pub policy: &'a Policy,
}

/// This machine's step.
pub type Step = crate::step::Step<State, Fact, Action>;

impl State {
    /// As the connection object writes it (`grant.state`).
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Valid { .. } => "valid",
            Self::Due { .. } => "due",
            Self::Renewing { .. } => "renewing",
            Self::Delayed { .. } => "delayed",
            Self::Suspect { .. } => "suspect",
            Self::Refused { .. } => "refused",
            Self::Unrenewable { .. } => "unrenewable",
        }
    }

    /// The tokens that are held, whatever is thought of them.
    #[must_use]
    pub const fn tokens(&self) -> Option<&Tokens> {
        match self {
            Self::None => None,
            Self::Valid { tokens, .. }
            | Self::Due { tokens, .. }
            | Self::Renewing { tokens, .. }
            | Self::Delayed { tokens, .. }
            | Self::Suspect { tokens, .. }
            | Self::Refused { tokens, .. }
            | Self::Unrenewable { tokens } => Some(tokens),
        }
    }

    /// The fault that it shows, if any.
    #[must_use]
    pub const fn fault(&self) -> Option<&Fault> {
        match self {
            Self::None | Self::Valid { .. } | Self::Unrenewable { .. } => None,
            Self::Due { fault, .. } | Self::Renewing { fault, .. } => fault.as_ref(),
            Self::Delayed { fault, .. }
            | Self::Suspect { fault, .. }
            | Self::Refused { fault, .. } => Some(fault),
        }
    }

    /// When it is planned to be renewed; `None` where that is not up to the clock.
    #[must_use]
    pub const fn renews_at(&self) -> Option<Wall> {
        match self {
            Self::Valid { renew_at, .. } => Some(*renew_at),
            Self::None
            | Self::Due { .. }
            | Self::Renewing { .. }
            | Self::Delayed { .. }
            | Self::Suspect { .. }
            | Self::Refused { .. }
            | Self::Unrenewable { .. } => None,
        }
    }
}
