//! One operation: a consequential call, from the moment before its first byte leaves to the moment when its
//! outcome is known or a person has decided. Decides what the loss of an answer means, what may be asked of the
//! provider, and when the call may be sent once more. It never decides that something did not happen because
//! nobody heard of it (architecture, writes 12 to 15).
//!
//! | state | what it means | wakes up for |
//! | --- | --- | --- |
//! | `intended` | on record; nothing that could have had an effect has left | nothing: its driver acts |
//! | `sent` | it leaves or has left, and its answer may still come | nothing: its driver listens |
//! | `observed` | its answer was seen, whatever it says | nothing |
//! | `not_observed` | its answer was not seen; it is sent once more under a duplicate-prevention contract | the next try |
//! | `reconciling` | its answer was not seen; the provider is asked what became of it | the next lookup |
//! | `confirmed` | it had its effect, says the provider or a person | nothing |
//! | `no_effect` | it had none: that is proven, or a person says so | nothing |
//! | `held` | nobody knows, and nothing more can be found out by itself | nothing: a person decides |
//! | `abandoned` | nobody knows, and a person has closed it | nothing |
//!
//! Whether an identical call is a further call or a repeat of this one is decided in [`admission`]; what a
//! contract allows, in [`contract`]; what the answer to a lookup proves, in [`lookup`]; what identical calls have in
//! common, in [`digest`]; where a provider's key stands, in [`place`]; how a server says that it keeps keys itself, in
//! [`idempotency`].
//! The table of transitions is drawn from the tests: `docs/machines/operation.md`.

pub mod admission;
pub mod contract;
pub mod digest;
pub mod idempotency;
pub mod lookup;
pub mod place;
mod record;
mod transitions;

#[cfg(test)]
mod tests;

pub use contract::{Contract, KeyContract, LookupContract};
pub use record::{Evidence, Fact};
pub use transitions::{deadline, replay, restore, step, wake_at};

use serde::{Deserialize, Serialize};

use crate::effect::Executed;
use crate::fault::Fault;
use crate::identity::RpcId;
use crate::now::{Jitter, Millis, Mono, Now, Wall};

/// What left so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trail {
    /// How often it was sent, or was about to be.
    pub attempts: u32,
    /// When it was first about to leave: a provider's retention counts from here.
    pub first_sent: Option<Wall>,
    /// When it was last about to leave.
    pub last_sent: Option<Wall>,
    /// How many bytes of the last attempt's body left, as far as it is known.
    pub bytes_sent: u64,
    /// How many attempts may have been executed without anybody having seen their answer.
    pub unknown: u32,
    /// Whether its agent went away, or cancelled it, before there was an answer.
    pub agent_left: bool,
    /// Whether the server answered a leg of it with a wish for input.
    #[serde(default)]
    pub asked: bool,
    /// The handle of the task that the server made of it (extension io.modelcontextprotocol/tasks).
    pub task: Option<String>,
}

/// Who or what settled it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Decider {
    /// Proof on the wire: nothing left, or the peer refused before executing.
    Wire,
    /// The provider's own record, under the lookup contract.
    Lookup,
    /// A person.
    Person {
        /// As whom they were signed in.
        name: String,
        /// What they noted.
        note: Option<String>,
    },
}

/// What the answer said, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// A result.
    Result,
    /// A result that says `isError`.
    ToolError,
    /// A JSON-RPC error.
    RpcError,
    /// A wish for input: a further leg of the same call may follow.
    InputRequired,
}

/// The state of one operation. Holds only what is true in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum State {
    /// On record. What left so far was refused before it was executed.
    Intended {
        /// What left.
        trail: Trail,
    },
    /// An attempt is under way.
    Sent {
        /// What left.
        trail: Trail,
    },
    /// An answer that carries its id was seen.
    Observed {
        /// What left.
        trail: Trail,
        /// What it said.
        said: Said,
        /// Whether it came when nobody waited for it any more.
        late: bool,
    },
    /// The answer is lost, and the contract allows to send it once more.
    NotObserved {
        /// What left.
        trail: Trail,
        /// When the next try is due.
        due: Mono,
        /// How often it was sent once more.
        repeats: u32,
    },
    /// The answer is lost, and the provider is asked.
    Reconciling {
        /// What left.
        trail: Trail,
        /// When the next lookup is due; while one is under way, when it has taken too long.
        due: Mono,
        /// Which lookup is next, or under way: 0 for the first.
        tries: u32,
        /// Whether one is under way.
        asking: bool,
    },
    /// It had its effect.
    Confirmed {
        /// What left.
        trail: Trail,
        /// Who says so.
        by: Decider,
    },
    /// It had no effect.
    NoEffect {
        /// What left.
        trail: Trail,
        /// Who says so.
        by: Decider,
        /// Whether a person wants it sent again.
        repeat: bool,
    },
    /// Nobody knows.
    Held {
        /// What left.
        trail: Trail,
        /// Why nothing more can be found out, in one clause.
        why: String,
    },
    /// Closed without being known.
    Abandoned {
        /// What left.
        trail: Trail,
        /// Who closed it.
        by: Decider,
    },
}

/// What a lookup found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Finding {
    /// One record of exactly this target and these arguments.
    Found {
        /// It, as JSON text.
        record: String,
    },
    /// No record at all.
    Absent,
    /// Something that proves nothing, in one clause.
    Unclear {
        /// What.
        why: String,
    },
    /// The server is still at work on the task that it made of the call.
    Working {
        /// How long it asks to wait before it is asked again.
        again_after: Option<Millis>,
    },
    /// The provider could not be asked.
    Unreachable {
        /// Why.
        fault: Fault,
    },
}

/// What a person decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It had its effect.
    Confirmed,
    /// It had none; sent again if `repeat`.
    NoEffect {
        /// Whether it is to be sent again.
        repeat: bool,
    },
    /// Nobody will ever know.
    Abandoned,
}

/// What can happen to an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is about to leave under this RPC id. The first byte leaves when the fact is durable.
    Leave {
        /// The id on the wire.
        rpc_id: RpcId,
    },
    /// The attempt under way was not executed: that is proven (architecture, writes 12).
    Refused {
        /// How many bytes of its body left.
        bytes_sent: u64,
        /// The proof, in one clause.
        proof: String,
    },
    /// The driver does not try again.
    GivenUp {
        /// Why, in one clause.
        why: String,
    },
    /// The answer to the attempt under way was not observed.
    Lost {
        /// How many bytes of its body left.
        bytes_sent: u64,
        /// What was seen instead, in one clause.
        evidence: String,
        /// How long the peer asks to wait.
        retry_after: Option<Millis>,
    },
    /// The server made a task of it and gave this handle.
    TaskStarted {
        /// The handle.
        task: String,
    },
    /// An answer that carries the id of one of its attempts was seen.
    Answered {
        /// What it says.
        said: Said,
        /// Whether somebody still waits for it.
        awaited: bool,
    },
    /// Its agent went away or cancelled it.
    AgentLeft,
    /// The deadline has come.
    Due,
    /// The lookup that was asked for came to this.
    LookedUp {
        /// Which.
        tries: u32,
        /// What was found.
        finding: Finding,
    },
    /// A person asks to look it up now, whatever the schedule says.
    Reconcile {
        /// Who.
        name: String,
    },
    /// A person decides.
    Settle {
        /// What.
        verdict: Verdict,
        /// Who.
        name: String,
        /// What they noted.
        note: Option<String>,
    },
    /// The daemon that drove it is gone.
    Interrupted,
}

/// What the driver must do, once the fact is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send it, as this attempt.
    Send {
        /// Which attempt, from 1.
        attempt: u32,
    },
    /// Send it once more: announce it with `Leave`, under a new RPC id.
    Repeat,
    /// Ask the provider; answer with `LookedUp`.
    LookUp {
        /// Which lookup.
        tries: u32,
    },
    /// A person must decide: say so once.
    Tell,
    /// It is settled: nobody needs to be told any more.
    Settled,
}

/// The delays and limits that an operator can set (`[repeat]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The delay before it is first sent once more under a duplicate-prevention contract; doubled after each try.
    pub again_first: Millis,
    /// How often it is sent once more by itself.
    pub again_limit: u32,
    /// The delay after the first lookup that proved nothing; doubled after each further one.
    pub lookup_first: Millis,
    /// The longest delay between lookups.
    pub lookup_max: Millis,
    /// How many lookups there are before a person is asked.
    pub lookup_tries: u32,
    /// How long one lookup may take.
    pub lookup_limit: Millis,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            again_first: Millis::secs(1),
            again_limit: 3,
            lookup_first: Millis::secs(5),
            lookup_max: Millis::mins(5),
            lookup_tries: 6,
            lookup_limit: Millis::secs(70),
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
    /// What was in force when the call was made.
    pub contract: &'a Contract,
    /// The limits.
    pub policy: &'a Policy,
}

/// This machine's step.
pub type Step = crate::step::Step<State, Fact, Action>;

impl State {
    /// Where every operation begins, on record before anything leaves.
    #[must_use]
    pub fn intended() -> Self {
        Self::Intended {
            trail: Trail::default(),
        }
    }

    /// As the operation object writes it (`state`).
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Intended { .. } => "intended",
            Self::Sent { .. } => "sent",
            Self::Observed { .. } => "observed",
            Self::NotObserved { .. } => "not_observed",
            Self::Reconciling { .. } => "reconciling",
            Self::Confirmed { .. } => "confirmed",
            Self::NoEffect { .. } => "no_effect",
            Self::Held { .. } => "held",
            Self::Abandoned { .. } => "abandoned",
        }
    }

    /// What left so far.
    #[must_use]
    pub const fn trail(&self) -> &Trail {
        match self {
            Self::Intended { trail }
            | Self::Sent { trail }
            | Self::Observed { trail, .. }
            | Self::NotObserved { trail, .. }
            | Self::Reconciling { trail, .. }
            | Self::Confirmed { trail, .. }
            | Self::NoEffect { trail, .. }
            | Self::Held { trail, .. }
            | Self::Abandoned { trail, .. } => trail,
        }
    }

    /// Whether it ran, as far as it is known (`executed`).
    #[must_use]
    pub const fn executed(&self) -> Executed {
        match self {
            Self::Observed { .. } | Self::Confirmed { .. } => Executed::Yes,
            // Nothing has left, or all that left was refused.
            Self::Intended { .. } | Self::NoEffect { .. } => Executed::No,
            Self::Sent { .. }
            | Self::NotObserved { .. }
            | Self::Reconciling { .. }
            | Self::Held { .. }
            | Self::Abandoned { .. } => Executed::Unknown,
        }
    }

    /// Whether a call was sent, and nobody knows yet what became of it: an identical call is held.
    #[must_use]
    pub const fn is_unresolved(&self) -> bool {
        match self {
            Self::NotObserved { .. } | Self::Reconciling { .. } | Self::Held { .. } => true,
            Self::Intended { .. }
            | Self::Sent { .. }
            | Self::Observed { .. }
            | Self::Confirmed { .. }
            | Self::NoEffect { .. }
            | Self::Abandoned { .. } => false,
        }
    }

    /// Whether its driver is at work on it.
    #[must_use]
    pub const fn is_in_flight(&self) -> bool {
        match self {
            Self::Intended { .. } | Self::Sent { .. } => true,
            Self::Observed { .. }
            | Self::NotObserved { .. }
            | Self::Reconciling { .. }
            | Self::Confirmed { .. }
            | Self::NoEffect { .. }
            | Self::Held { .. }
            | Self::Abandoned { .. } => false,
        }
    }
}
