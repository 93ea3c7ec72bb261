//! How a renewal can fail, and whom a failure is for.

use crate::fault::{Fault, Kind};

/// How a renewal failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The provider did not refuse: time mends it.
    Temporary(Fault),
    /// 404, 405 or 410: there is no token endpoint at this address (architecture, grants 4).
    Moved(Fault),
    /// The request left and its answer was not observed: the refresh token may be spent.
    OutcomeLost(Fault),
    /// A structured refusal of the grant itself: `invalid_grant`, or a code that this provider means so.
    Grant(Fault),
    /// Another structured refusal.
    Structured(Fault),
    /// `invalid_client`: the registration is gone (CR-01).
    Client(Fault),
}

impl Failure {
    /// As it is meant for a client that the operator configured: signing in anew brings no other client, so that only
    /// its configuration can be wrong. One that asks `for_itself` has no grant that could be refused instead.
    #[must_use]
    pub fn of_configured_client(self, for_itself: bool) -> Self {
        let refused = |fault: Fault| Fault {
            kind: Kind::ClientRefused,
            ..fault
        };
        match self {
            Self::Client(fault) => Self::Client(refused(fault)),
            Self::Grant(fault) if for_itself => Self::Client(refused(fault)),
            Self::Structured(fault) if for_itself => Self::Structured(refused(fault)),
            Self::Temporary(_)
            | Self::Moved(_)
            | Self::OutcomeLost(_)
            | Self::Grant(_)
            | Self::Structured(_) => self,
        }
    }

    /// The same, said of somebody else than the issuer of the grant: no other token endpoint of that one helps.
    #[must_use]
    pub fn at_another(self, who: &str) -> Self {
        let said = |fault: Fault| Fault {
            message: format!("{who}: {}", fault.message),
            ..fault
        };
        match self {
            Self::Temporary(fault) | Self::Moved(fault) => Self::Temporary(said(fault)),
            Self::OutcomeLost(fault) => Self::OutcomeLost(said(fault)),
            Self::Grant(fault) => Self::Grant(said(fault)),
            Self::Client(fault) => Self::Client(said(fault)),
            Self::Structured(fault) => Self::Structured(said(fault)),
        }
    }

    /// The same in other words.
    #[must_use]
    pub fn reworded(self, words: impl FnOnce(&str) -> String) -> Self {
        let reworded = |fault: Fault| Fault {
            message: words(&fault.message),
            ..fault
        };
        match self {
            Self::Temporary(fault) => Self::Temporary(reworded(fault)),
            Self::Moved(fault) => Self::Moved(reworded(fault)),
            Self::OutcomeLost(fault) => Self::OutcomeLost(reworded(fault)),
            Self::Grant(fault) => Self::Grant(reworded(fault)),
            Self::Client(fault) => Self::Client(reworded(fault)),
            Self::Structured(fault) => Self::Structured(reworded(fault)),
        }
    }

    /// What is said of it.
    #[must_use]
    pub const fn fault(&self) -> &Fault {
        match self {
            Self::Temporary(fault)
            | Self::Moved(fault)
            | Self::OutcomeLost(fault)
            | Self::Grant(fault)
            | Self::Structured(fault)
            | Self::Client(fault) => fault,
        }
    }
}
