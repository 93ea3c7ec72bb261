//! Which servers list a name or a URI.

use std::collections::BTreeMap;

use crate::identity::ServerName;

/// What the servers of an agent list, by name or URI.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys(BTreeMap<Box<str>, Vec<ServerName>>);

impl Keys {
    /// A server lists this. Listing it twice makes no second owner.
    pub fn add(&mut self, server: &ServerName, key: &str) {
        let owners = self.0.entry(key.into()).or_default();
        if owners.last() != Some(server) {
            owners.push(server.clone());
        }
    }

    /// The servers that list it, in the order in which they were added.
    #[must_use]
    pub fn owners(&self, key: &str) -> &[ServerName] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    /// Whether several servers list it.
    #[must_use]
    pub fn is_shared(&self, key: &str) -> bool {
        self.owners(key).len() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_servers_list_is_shared() {
        let [a, b] = ["a", "b"].map(ServerName::from);
        let mut keys = Keys::default();
        for (server, key) in [(&a, "x"), (&a, "x"), (&a, "y"), (&b, "y")] {
            keys.add(server, key);
        }
        assert!(!keys.is_shared("x") && keys.is_shared("y") && !keys.is_shared("z"));
        assert_eq!(keys.owners("y"), [a, b]);
        assert!(keys.owners("z").is_empty());
    }
}
