//! What an operator has read in a provider's documentation: how a call may safely be repeated, and how its
//! outcome can be looked up. Kept with the operation, as it was in force when the call was made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::now::{Millis, Wall};

/// The contracts of one tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contract {
    /// How the provider prevents duplicates.
    pub duplicate_key: Option<KeyContract>,
    /// How the original operation is looked up.
    pub lookup: Option<LookupContract>,
}

/// A provider's documented protection against duplicates (`duplicate_key`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyContract {
    /// Whether the call that was sent carries a key.
    pub present: bool,
    /// How long the provider remembers a key.
    pub retention: Millis,
    /// Whether it holds for concurrent repeats.
    pub atomic: bool,
    /// Whether a key is bound to its payload.
    pub payload_bound: bool,
    /// Whether a key is scoped to this account.
    pub account_scoped: bool,
    /// Whether the key reaches whoever acts in the end.
    pub propagated: bool,
}

impl KeyContract {
    /// Whether it covers a repeat now of a call that first left at `first_sent`; else what is missing.
    ///
    /// # Errors
    ///
    /// The first thing that is missing, in one clause.
    pub fn covers(&self, first_sent: Option<Wall>, now: Wall) -> Result<(), &'static str> {
        let promised = [
            (self.present, "the call carries no key"),
            (
                self.atomic,
                "the contract does not say that it is atomic under concurrent repeats",
            ),
            (
                self.payload_bound,
                "the contract does not say that a key is bound to its payload",
            ),
            (
                self.account_scoped,
                "the contract does not say that a key is scoped to this account",
            ),
            (
                self.propagated,
                "the contract does not say that the key reaches the provider that acts",
            ),
        ];
        if let Some((_, missing)) = promised.into_iter().find(|(holds, _)| !holds) {
            return Err(missing);
        }
        let Some(first_sent) = first_sent else {
            return Err("it is not known when it first left");
        };
        // A clock that was set back proves nothing about what the provider remembers.
        let elapsed = now.0.saturating_sub(first_sent.0);
        match u64::try_from(elapsed) {
            Ok(elapsed) if elapsed < self.retention.0 => Ok(()),
            Ok(_) => Err("the provider may have forgotten its key by now"),
            Err(_) => Err("the clock was set back since it left"),
        }
    }
}

/// A provider's documented way to look an operation up (`lookup`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LookupContract {
    /// The tool to ask. It only reads.
    pub tool: String,
    /// Its arguments: texts that are a JSONPath are taken from the record of the operation.
    pub arguments: BTreeMap<String, Value>,
    /// Where the answer holds the records that count (RFC 9535, with the arguments as variables).
    pub accepted: String,
    /// What such a record must say: a path in it, and a path in the record of the operation.
    pub must_equal: BTreeMap<String, String>,
    /// Whether the provider documents that what is not found did not happen …
    pub absent_is_definitive: bool,
    /// … and this long after it was sent.
    pub settle_after: Millis,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> KeyContract {
        KeyContract {
            present: true,
            retention: Millis::secs(60),
            atomic: true,
            payload_bound: true,
            account_scoped: true,
            propagated: true,
        }
    }

    #[test]
    fn a_repeat_is_covered_only_while_every_promise_holds() {
        let sent = Some(Wall(1_000));
        assert_eq!(full().covers(sent, Wall(60_999)), Ok(()));
        assert!(full().covers(sent, Wall(61_000)).is_err());
        assert!(full().covers(sent, Wall(999)).is_err());
        assert!(full().covers(None, Wall(1_000)).is_err());
        let without: [fn(&mut KeyContract); 5] = [
            |key| key.present = false,
            |key| key.atomic = false,
            |key| key.payload_bound = false,
            |key| key.account_scoped = false,
            |key| key.propagated = false,
        ];
        for take_away in without {
            let mut key = full();
            take_away(&mut key);
            assert!(key.covers(sent, Wall(1_000)).is_err(), "{key:?}");
        }
    }
}
