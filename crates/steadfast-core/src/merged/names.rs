//! Tools and prompts of several servers are told apart by a prefix: `server__tool`.

use crate::identity::ServerName;

/// Parts the server's name from the rest. No server's name has it within.
pub const SEPARATOR: &str = "__";

/// What belongs to nobody but us, such as the tool `steadfast__connections`.
pub const OURS: &str = "steadfast";

/// The name of a server's tool or prompt among those of all servers.
#[must_use]
pub fn join(server: &ServerName, name: &str) -> String {
    format!("{server}{SEPARATOR}{name}")
}

/// The ways to part such a name into server and rest, the likelier one first. There are two where an
/// underscore may be the last of the server's name or the first of the rest.
pub fn part(merged: &str) -> impl Iterator<Item = (&str, &str)> {
    let first = merged.find(SEPARATOR).filter(|at| *at > 0);
    let second = first
        .map(|at| at + 1)
        .filter(|at| merged.get(*at..*at + SEPARATOR.len()) == Some(SEPARATOR));
    first.into_iter().chain(second).filter_map(|at| {
        let rest = merged.get(at + SEPARATOR.len()..)?;
        Some((merged.get(..at)?, rest))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(merged: &str) -> Vec<(&str, &str)> {
        part(merged).collect()
    }

    #[test]
    fn the_first_separator_counts() {
        assert_eq!(parts("u1__create"), [("u1", "create")]);
        assert_eq!(parts("u1__a__b"), [("u1", "a__b")]);
        assert_eq!(parts("a___b"), [("a", "_b"), ("a_", "b")]);
        assert_eq!(parts("a____b"), [("a", "__b"), ("a_", "_b")]);
        assert_eq!(parts("ä__ö"), [("ä", "ö")]);
        for alone in ["", "create", "a_b", "__b"] {
            assert!(parts(alone).is_empty(), "{alone}");
        }
    }

    proptest! {
        #[test]
        fn what_is_joined_can_be_parted(server in "[A-Za-z0-9-]{1,8}_?", name in ".{0,12}") {
            let server = ServerName::from(server.as_str());
            let merged = join(&server, &name);
            prop_assert!(part(&merged).any(|parted| parted == (server.as_str(), &*name)));
        }
    }
}
