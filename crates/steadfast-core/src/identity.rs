//! The four identities that must never be mixed, and the names and numbers that fence them.
//!
//! | identity | names | type |
//! | --- | --- | --- |
//! | event cursor | a position in one SSE stream | [`EventCursor`] |
//! | protocol session | a legacy grouping of interactions | [`SessionId`] |
//! | RPC id | one request, to match its response | [`RpcId`] |
//! | operation | the authorised business action | [`OperationId`], [`OperationKey`] |
//!
//! There is no conversion between them, and none of the first three is ever evidence about the fourth.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the text as it is.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }
    };
}

macro_rules! shown {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), &self.0)
            }
        }
    };
}

macro_rules! redacted {
    ($name:ident) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(…)"))
            }
        }
    };
}

name!(
    /// The name of an agent, as its operator configured it.
    AgentName
);
shown!(AgentName);
name!(
    /// The name of an upstream MCP server, as its operator configured it.
    ServerName
);
shown!(ServerName);
name!(
    /// A legacy session id. Whoever holds it can act in the session, so it never prints
    /// (2025-11-25 transports, session management: "MUST handle the session ID in a secure manner").
    SessionId
);
redacted!(SessionId);
name!(
    /// A position in one SSE stream: what a server wrote into an event's `id`.
    EventCursor
);
shown!(EventCursor);
name!(
    /// Steadfast's own name of one authorised business action (`op_…`).
    OperationId
);
shown!(OperationId);
name!(
    /// An agent's own name for its business intention (`_meta["dev.steadfast/operationKey"]`).
    OperationKey
);
shown!(OperationKey);

/// The id of one JSON-RPC request. `1` and `"1"` are different ids.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RpcId {
    /// A whole number that fits: all ids that the keeper makes, and most that agents make.
    Integer(i64),
    /// The JSON text of any other id: a string with its quotes, or a number of another form.
    Raw(Box<str>),
}

impl RpcId {
    /// Reads an id from its JSON text. `None` for anything but a string or a number
    /// (a null id is refused: JSON-RPC 2.0 section 4 discourages it, MCP forbids it).
    #[must_use]
    pub fn from_json(text: &str) -> Option<Self> {
        match text.as_bytes().first()? {
            b'"' => Some(Self::Raw(text.into())),
            // The one whole number that is written in two ways: `-0` must come back as it is.
            b'-' | b'0'..=b'9' if text != "-0" => Some(
                text.parse()
                    .map_or_else(|_| Self::Raw(text.into()), Self::Integer),
            ),
            b'-' => Some(Self::Raw(text.into())),
            _ => None,
        }
    }

    /// The JSON text of the id, as it goes into a message.
    #[must_use]
    pub fn to_json(&self) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            Self::Raw(text) => text.to_string(),
        }
    }
}

impl fmt::Debug for RpcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RpcId({})", self.to_json())
    }
}

impl fmt::Display for RpcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

/// Which opening of a connection something belongs to: grows by one each time a connection opens.
/// A late answer of an older generation cannot move the present one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Generation(pub u64);

impl Generation {
    /// The one after this.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Which set of tokens of a grant: grows by one each time they are replaced. Written by compare-and-swap, so
/// that a failure of an older set cannot move, or remove, a newer one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct GrantGeneration(pub u64);

impl GrantGeneration {
    /// The one after this.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Fences one attempt at something: the outcome of a stale attempt is ignored.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct AttemptId(pub u64);
