//! Who reads, and what may be read with the credential that was shown.

use std::collections::BTreeSet;

use super::{Reach, Resource};
use crate::identity::AgentName;
use crate::now::Wall;

/// What the credential of one request says. It is asked for again with every request: nothing of it outlives
/// the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whose request it is.
    pub agent: AgentName,
    /// What the credential reaches.
    pub reach: Reach,
    /// When it stops to be good; none for a key, which is good until it is replaced.
    pub expires_at: Option<Wall>,
}

impl Access {
    /// By an agent's key, which reaches all that is the agent's.
    #[must_use]
    pub fn of_key(agent: AgentName) -> Self {
        Self {
            agent,
            reach: Reach::All,
            expires_at: None,
        }
    }

    /// Whether it is no longer good.
    #[must_use]
    pub fn has_expired(&self, now: Wall) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// What of `resources` it does not reach now, each once and in the order of their identifiers: nothing where
    /// it may go on, and everything once it has expired.
    pub fn missing<'a>(
        &self,
        resources: impl IntoIterator<Item = &'a Resource>,
        now: Wall,
    ) -> Vec<Resource> {
        let expired = self.has_expired(now);
        let missing = resources.into_iter();
        let missing: BTreeSet<_> = missing
            .filter(|it| expired || !self.reach.covers(it))
            .collect();
        missing.into_iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expired_token_reaches_nothing() {
        let resource = |text| Resource::parse(text).unwrap();
        let [all, server] = [
            resource("https://gw.test/mcp"),
            resource("https://gw.test/mcp/b"),
        ];
        let key = Access::of_key(AgentName::from("support"));
        assert_eq!(key.missing([&all, &server], Wall(i64::MAX)), []);
        let token = Access {
            reach: Reach::Only(std::iter::once(server.clone()).collect()),
            expires_at: Some(Wall(1_000)),
            ..key
        };
        assert_eq!(token.missing([&server], Wall(999)), []);
        assert_eq!(token.missing([&server, &all, &all], Wall(999)), [all]);
        assert_eq!(token.missing([&server], Wall(1_000)), [server]);
        assert!(!token.has_expired(Wall(999)) && token.has_expired(Wall(1_000)));
    }
}
