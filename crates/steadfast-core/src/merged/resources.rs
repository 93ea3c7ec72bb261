//! Which server a resource belongs to. A URI stays as the server wrote it, for results refer to it
//! (resource links, MCP Apps `_meta.ui.resourceUri`); only where two servers list the same one each
//! gets a URI of ours.

use std::collections::BTreeSet;

use super::keys::Keys;
use super::names;
use crate::identity::ServerName;

const SCHEME: &str = "steadfast://";

/// The URI, or the template of URIs, under which this server's resource is told apart.
#[must_use]
pub fn own_uri(server: &ServerName, uri: &str) -> String {
    // What follows the authority is path, query and fragment whatever it holds (RFC 3986 section 3).
    format!("{SCHEME}{server}/{uri}")
}

/// The ways to read a URI as one that names its server: `steadfast://server/…` and `server__…`.
pub fn part(uri: &str) -> impl Iterator<Item = (&str, &str)> {
    let own = uri
        .strip_prefix(SCHEME)
        .and_then(|rest| rest.split_once('/'));
    own.into_iter().chain(names::part(uri))
}

/// Whose resource it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// One server's.
    One(ServerName),
    /// It may be that of each of these.
    Several(Vec<ServerName>),
    /// Nobody's that we know of.
    Nobody,
}

/// What is known of the resources of an agent's servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// The URIs that are listed.
    pub listed: Keys,
    /// The templates that are listed.
    pub templates: Keys,
    /// The servers that offer resources at all.
    pub offering: Vec<ServerName>,
}

impl Resources {
    /// The owner of a URI as a server wrote it: who lists it, else whose template fits best, else the
    /// only server that offers resources, else the only one that lists any of the same scheme.
    #[must_use]
    pub fn owner(&self, uri: &str) -> Owner {
        let listing = self.listed.owners(uri);
        if !listing.is_empty() {
            return owner(listing.iter().cloned());
        }
        let fitting = self.fitting(uri);
        if !fitting.is_empty() {
            return owner(fitting);
        }
        if let [only] = &*self.offering {
            return Owner::One(only.clone());
        }
        match owner(self.of_scheme(uri)) {
            Owner::One(server) => Owner::One(server),
            // A scheme alone says too little to name all of them.
            Owner::Several(_) | Owner::Nobody => Owner::Nobody,
        }
    }

    /// The servers with the templates that fit best: those with the most literal characters.
    fn fitting(&self, uri: &str) -> BTreeSet<ServerName> {
        let mut best = 0;
        let mut servers = BTreeSet::new();
        for (template, owners) in self.templates.iter() {
            let Some(literal) = fits(template, uri) else {
                continue;
            };
            if literal > best {
                servers.clear();
                best = literal;
            }
            if literal == best {
                servers.extend(owners.iter().cloned());
            }
        }
        servers
    }

    fn of_scheme(&self, uri: &str) -> BTreeSet<ServerName> {
        let scheme = scheme(uri);
        let same = |other: &str| scheme.is_some() && self::scheme(other) == scheme;
        self.listed
            .iter()
            .chain(self.templates.iter())
            .filter(|(listed, _)| same(listed))
            .flat_map(|(_, owners)| owners.iter().cloned())
            .collect()
    }
}

fn owner(servers: impl IntoIterator<Item = ServerName>) -> Owner {
    let mut servers: Vec<_> = servers.into_iter().collect();
    match servers.len() {
        0 => Owner::Nobody,
        1 => servers.pop().map_or(Owner::Nobody, Owner::One),
        _ => Owner::Several(servers),
    }
}

fn scheme(uri: &str) -> Option<&str> {
    let (scheme, _) = uri.split_once(':')?;
    (!scheme.contains(['/', '{'])).then_some(scheme)
}

/// How many literal characters of a template stand in `uri`; `None` where it does not fit. Expressions
/// (RFC 6570 section 2.2) stand for anything: which server's it is, not what it expands to, is asked.
fn fits(template: &str, uri: &str) -> Option<usize> {
    let mut literals = literals(template);
    let first = literals.next()?;
    let mut rest = uri.strip_prefix(first)?;
    let mut count = first.len();
    let mut last = None;
    for literal in literals {
        if let Some(before) = last.replace(literal) {
            let (_, after) = rest.split_once(before)?;
            rest = after;
        }
        count += literal.len();
    }
    match last {
        // Without an expression it is a URI like any other.
        None => rest.is_empty().then_some(count),
        Some(last) => rest.ends_with(last).then_some(count),
    }
}

/// The literals of a template: before, between and behind its expressions, empty ones included.
fn literals(template: &str) -> impl Iterator<Item = &str> {
    let mut parts = template.split('{');
    let first = parts.next();
    first.into_iter().chain(parts.map(|part| {
        part.split_once('}')
            .map_or(part, |(_expression, literal)| literal)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(listed: &[(&str, &str)]) -> Keys {
        let mut keys = Keys::default();
        for (server, key) in listed {
            keys.add(&ServerName::from(*server), key);
        }
        keys
    }

    fn one(server: &str) -> Owner {
        Owner::One(server.into())
    }

    #[test]
    fn who_lists_it_has_it() {
        let resources = Resources {
            listed: keys(&[("a", "x://1"), ("b", "x://1"), ("b", "x://2")]),
            templates: keys(&[("a", "x://{id}")]),
            offering: vec!["a".into(), "b".into()],
        };
        assert_eq!(resources.owner("x://2"), one("b"));
        let both = vec![ServerName::from("a"), ServerName::from("b")];
        assert_eq!(resources.owner("x://1"), Owner::Several(both));
        assert_eq!(resources.owner("x://3"), one("a"), "by its template");
    }

    #[test]
    fn the_template_that_says_most_wins() {
        let resources = Resources {
            templates: keys(&[
                ("a", "repo://{owner}/{name}"),
                ("b", "repo://{owner}/{name}/issues/{number}"),
                ("c", "{+anything}.txt"),
            ]),
            offering: vec!["a".into(), "b".into(), "c".into()],
            ..Resources::default()
        };
        assert_eq!(resources.owner("repo://x/y/issues/7"), one("b"));
        assert_eq!(resources.owner("repo://x/y"), one("a"));
        assert_eq!(resources.owner("other://note.txt"), one("c"));
        assert_eq!(resources.owner("other://note"), Owner::Nobody);
    }

    #[test]
    fn else_the_only_one_that_can_have_it() {
        let mut resources = Resources {
            listed: keys(&[("a", "file:///1"), ("b", "test://1"), ("c", "test://2")]),
            templates: keys(&[("a", "git://{id}")]),
            offering: vec!["a".into(), "b".into(), "c".into()],
        };
        assert_eq!(resources.owner("file:///2"), one("a"));
        assert_eq!(resources.owner("test://3"), Owner::Nobody, "two have some");
        assert_eq!(resources.owner("none://3"), Owner::Nobody);
        assert_eq!(resources.owner("no scheme"), Owner::Nobody);
        resources.offering = vec!["b".into()];
        assert_eq!(resources.owner("none://3"), one("b"));
    }

    #[test]
    fn templates_fit_by_their_literals() {
        for (template, uri, fits_to) in [
            ("a://{x}", "a://1", Some(4)),
            ("a://{x}/end", "a://1/end", Some(8)),
            ("a://{x}/end", "a://1/end/2", None),
            ("a://{x}{?q}", "a://1?q=2", Some(4)),
            ("a://1", "a://1", Some(5)),
            ("a://1", "a://12", None),
            ("a://{x}-{y}-z", "a://1-2-z", Some(7)),
            ("a://{x}-{y}-z", "a://1-z", None),
            ("a://{broken", "a://broken", Some(10)),
            ("{x}", "", Some(0)),
        ] {
            assert_eq!(fits(template, uri), fits_to, "{template} {uri}");
        }
    }

    #[test]
    fn a_uri_that_names_its_server_can_be_parted() {
        let server = ServerName::from("a_b");
        let own = own_uri(&server, "test://note?x#y");
        assert_eq!(own, "steadfast://a_b/test://note?x#y");
        assert_eq!(part(&own).collect::<Vec<_>>(), [("a_b", "test://note?x#y")]);
        assert_eq!(part("a__test://x").collect::<Vec<_>>(), [("a", "test://x")]);
        assert_eq!(part("test://x").count(), 0);
    }
}
