//! When a machine wants to be woken, and why: so that a person can read "next: reconnect in 4 s".

use serde::{Deserialize, Serialize};

use crate::now::{Mono, Now, Wall};

/// A wake-up with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadline {
    /// When the machine's due event must be fed at the latest.
    pub at: Mono,
    /// Why.
    pub reason: Reason,
}

impl Deadline {
    /// The same on the clock that everybody shares.
    #[must_use]
    pub const fn on_wall(self, now: Now) -> Wall {
        let wait = self.at.since(now.mono);
        Wall(now.wall.0.saturating_add_unsigned(wait.0))
    }
}

/// Why a machine wakes up next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The next attempt to connect.
    Reconnect,
    /// The next attempt to connect, held back because the server is being connected to too often.
    Turn,
    /// An attempt to connect has taken too long.
    AttemptLimit,
    /// Nothing was heard for a while: ask whether the server still answers.
    CheckHealth,
    /// Open the standalone GET stream again.
    ReopenStream,
    /// Ask the server for other notifications than those of the present stream.
    RenewStream,
    /// Ask again whether the server offers a stream.
    RecheckStream,
    /// An attempt to open a stream has taken too long.
    OpenLimit,
    /// Fetch the rest of a broken answer with Last-Event-ID.
    ResumeAnswer,
    /// Nothing came on a stream for too long.
    Silence,
    /// The renewal of a grant ahead of its expiry.
    RenewGrant,
    /// The next try of a renewal that failed.
    RetryRenewal,
    /// Another daemon may have let go of the grant.
    AwaitLease,
    /// A renewal has taken too long.
    RenewalLimit,
    /// One more try of a refused grant.
    RecheckGrant,
    /// A grant without a refresh token ends.
    GrantEnds,
    /// A call whose answer was lost is sent once more under its duplicate-prevention contract.
    RepeatCall,
    /// A call whose answer was lost is looked up at the provider.
    LookUp,
    /// A lookup has taken too long.
    LookupLimit,
}
