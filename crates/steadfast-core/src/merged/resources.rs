//! Which server a resource belongs to. A URI stays as the server wrote it, for results refer to it
//! (resource links, MCP Apps `_meta.ui.resourceUri`); only where two servers list the same one each
//! gets a URI of ours.

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

/// What is known of one server's resources.
pub trait Shelf {
    /// Whether it offers resources at all.
    fn offers(&self) -> bool;
    /// Whether it lists this URI.
    fn lists(&self, uri: &str) -> bool;
    /// The URIs that it lists.
    fn uris(&self) -> impl Iterator<Item = &str>;
    /// The templates that it lists.
    fn templates(&self) -> impl Iterator<Item = &str>;
}

/// Whose resource it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// That of the server at this place.
    One(usize),
    /// It may be that of each of these.
    Several(Vec<usize>),
    /// Nobody's that we know of.
    Nobody,
}

/// The owner of a URI as a server wrote it: who lists it, else whose template fits best, else the only
/// server that offers resources, else the only one that lists any of the same scheme.
#[must_use]
pub fn owner<S: Shelf>(servers: &[S], uri: &str) -> Owner {
    let listing = places(servers, |server| server.lists(uri));
    if !listing.is_empty() {
        return of(listing);
    }
    let fitting = fitting(servers, uri);
    if !fitting.is_empty() {
        return of(fitting);
    }
    if let [only] = *places(servers, Shelf::offers) {
        return Owner::One(only);
    }
    let scheme = scheme(uri);
    let same = |other: &str| scheme.is_some() && self::scheme(other) == scheme;
    let has_some = |server: &S| server.uris().any(same) || server.templates().any(same);
    match *places(servers, has_some) {
        [only] => Owner::One(only),
        // A scheme alone says too little to name all of them.
        _ => Owner::Nobody,
    }
}

fn places<S>(servers: &[S], is_one: impl Fn(&S) -> bool) -> Vec<usize> {
    let numbered = servers.iter().enumerate();
    let those = numbered.filter(|(_, server)| is_one(server));
    those.map(|(place, _)| place).collect()
}

/// The servers with the templates that fit best: those with the most literal characters.
fn fitting<S: Shelf>(servers: &[S], uri: &str) -> Vec<usize> {
    let best_of = |server: &S| server.templates().filter_map(|it| fits(it, uri)).max();
    let best: Vec<_> = servers.iter().map(best_of).collect();
    let Some(most) = best.iter().flatten().max() else {
        return Vec::new();
    };
    places(&best, |literal| literal.as_ref() == Some(most))
}

fn of(places: Vec<usize>) -> Owner {
    match *places {
        [] => Owner::Nobody,
        [only] => Owner::One(only),
        _ => Owner::Several(places),
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

    /// What a server lists: URIs and templates.
    struct Lists(&'static [&'static str], &'static [&'static str]);

    impl Shelf for Lists {
        fn offers(&self) -> bool {
            true
        }

        fn lists(&self, uri: &str) -> bool {
            self.0.contains(&uri)
        }

        fn uris(&self) -> impl Iterator<Item = &str> {
            self.0.iter().copied()
        }

        fn templates(&self) -> impl Iterator<Item = &str> {
            self.1.iter().copied()
        }
    }

    #[test]
    fn who_lists_it_has_it() {
        let servers = [
            Lists(&["x://1"], &["x://{id}"]),
            Lists(&["x://1", "x://2"], &[]),
        ];
        assert_eq!(owner(&servers, "x://2"), Owner::One(1));
        assert_eq!(owner(&servers, "x://1"), Owner::Several(vec![0, 1]));
        assert_eq!(owner(&servers, "x://3"), Owner::One(0), "by its template");
    }

    #[test]
    fn the_template_that_says_most_wins() {
        let servers = [
            Lists(&[], &["repo://{owner}/{name}"]),
            Lists(&[], &["repo://{owner}/{name}/issues/{number}"]),
            Lists(&[], &["{+anything}.txt", "{+anything}.md"]),
        ];
        assert_eq!(owner(&servers, "repo://x/y/issues/7"), Owner::One(1));
        assert_eq!(owner(&servers, "repo://x/y"), Owner::One(0));
        assert_eq!(owner(&servers, "other://note.txt"), Owner::One(2));
        assert_eq!(owner(&servers, "other://note"), Owner::Nobody);
    }

    #[test]
    fn else_the_only_one_that_can_have_it() {
        let servers = [
            Lists(&["file:///1"], &["git://{id}"]),
            Lists(&["test://1"], &[]),
            Lists(&["test://2"], &[]),
        ];
        assert_eq!(owner(&servers, "file:///2"), Owner::One(0));
        assert_eq!(owner(&servers, "git:2"), Owner::One(0));
        assert_eq!(owner(&servers, "test://3"), Owner::Nobody, "two have some");
        assert_eq!(owner(&servers, "none://3"), Owner::Nobody);
        assert_eq!(owner(&servers, "no scheme"), Owner::Nobody);
        assert_eq!(owner(&servers[1..2], "none://3"), Owner::One(0));
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
