//! What is written down about an operation: append-only, and readable by somebody who was not there.

use serde::{Deserialize, Serialize};

use super::{Finding, Said, State, Verdict};
use crate::now::Wall;

/// What is added to the record. Times of steps are in [`Fact::at`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Evidence {
    /// It is about to leave.
    Leaving {
        /// Which attempt, from 1.
        attempt: u32,
        /// The id on the wire, as JSON text.
        rpc_id: String,
    },
    /// An attempt was not executed.
    Refused {
        /// How many bytes left.
        bytes_sent: u64,
        /// The proof.
        proof: String,
    },
    /// It was not tried again.
    GivenUp {
        /// Why.
        why: String,
    },
    /// An answer was not observed.
    Lost {
        /// How many bytes left.
        bytes_sent: u64,
        /// What was seen instead.
        evidence: String,
    },
    /// The server made a task of it.
    TaskStarted {
        /// The handle.
        task: String,
    },
    /// An answer was observed.
    Answered {
        /// What it says.
        said: Said,
        /// Whether nobody waited for it any more.
        late: bool,
    },
    /// The agent went away.
    AgentLeft,
    /// Its agent says that it means a further call (`dev.steadfast/repeat`).
    MeantAsFurther,
    /// What had become of it was given to the identical call that asked for it.
    Delivered,
    /// The provider is asked.
    LookingUp {
        /// Which lookup, from 0.
        tries: u32,
    },
    /// The provider was asked.
    LookedUp {
        /// Which lookup, from 0.
        tries: u32,
        /// What was found.
        finding: Finding,
    },
    /// A person asked to look it up.
    Asked {
        /// Who.
        name: String,
    },
    /// A person decided.
    Settled {
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

/// What became true. Durable before the actions of its step run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// When, as people count.
    pub at: Wall,
    /// What happened.
    pub evidence: Evidence,
    /// The state that was entered, whole.
    pub state: State,
    /// What was concluded, and why, in one clause.
    pub decision: String,
}
