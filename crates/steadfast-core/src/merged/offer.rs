//! What the servers of an agent offer together, in their own words as far as these can be joined.

use std::ops::Range;

use crate::identity::ServerName;
use crate::wire::{json, splice};

/// A server that was never seen may be able to do anything: it may be there the next moment.
const ANYTHING: &[u8] =
    br#"{"completions":{},"logging":{},"prompts":{},"resources":{"subscribe":true},"tools":{}}"#;

/// The most that all instructions together may be, in bytes: they go into every prompt.
const LONGEST: usize = 32 << 10;
/// The most that those of one server may be.
const LONGEST_OF_ONE: usize = 8 << 10;

/// How one server introduced itself.
#[derive(Clone, Copy, Debug)]
pub struct Introduced<'a> {
    /// The server.
    pub server: &'a ServerName,
    /// The raw result of `initialize` or `server/discover`; `None` for one that was never seen.
    pub result: Option<&'a [u8]>,
}

impl Introduced<'_> {
    fn at(&self, key: &str) -> Option<(&[u8], Range<usize>)> {
        let result = self.result?;
        Some((result, json::at_path(result, 0..result.len(), &[key])?))
    }
}

/// The capabilities of all: a raw JSON object. Every list is announced, for servers come and go.
#[must_use]
pub fn capabilities(servers: &[Introduced<'_>]) -> String {
    let mut union = Union::default();
    for server in servers {
        match (server.result, server.at("capabilities")) {
            (_, Some((source, object))) => union.add(source, object),
            (None, None) => union.add(ANYTHING, 0..ANYTHING.len()),
            // It introduced itself and offers nothing.
            (Some(_), None) => {}
        }
    }
    union.to_json()
}

/// Members of an object: their keys as text and their values as raw JSON. The first of each key stays.
#[derive(Debug, Default)]
struct Members(Vec<(String, String)>);

impl Members {
    fn add(&mut self, source: &[u8], member: &json::Member) {
        let key = json::text(source, member.key.clone());
        let value = source.get(member.value.clone());
        let value = value.and_then(|value| std::str::from_utf8(value).ok());
        if let (Some(key), Some(value)) = (key, value)
            && !self.0.iter().any(|(known, _)| *known == key)
        {
            self.0.push((key.into_owned(), value.to_owned()));
        }
    }

    fn to_json(&self) -> String {
        let members = self.0.iter();
        let members: Vec<String> = members
            .map(|(key, value)| format!("{}:{value}", splice::quote(key)))
            .collect();
        format!("{{{}}}", members.join(","))
    }
}

#[derive(Debug, Default)]
struct Union {
    resources: bool,
    subscribe: bool,
    experimental: Members,
    extensions: Members,
    others: Members,
}

impl Union {
    fn add(&mut self, source: &[u8], capabilities: Range<usize>) {
        // What is no object has no members.
        let _ = json::members(source, capabilities, |member| {
            let key = json::text(source, member.key.clone());
            match key.as_deref() {
                // We have a tool and a prompt of our own: both lists are always there.
                Some("tools" | "prompts") => {}
                Some("resources") => {
                    self.resources = true;
                    let subscribe = json::at_path(source, member.value, &["subscribe"]);
                    self.subscribe |=
                        subscribe.is_some_and(|value| source.get(value) == Some(b"true"));
                }
                Some("experimental") => each(source, member.value, &mut self.experimental),
                Some("extensions") => each(source, member.value, &mut self.extensions),
                Some(_) | None => self.others.add(source, &member),
            }
        });
    }

    fn to_json(&self) -> String {
        let changes = r#"{"listChanged":true}"#.to_owned();
        let mut all = Members(vec![
            ("tools".to_owned(), changes.clone()),
            ("prompts".to_owned(), changes.clone()),
        ]);
        if self.resources {
            let subscribe = r#"{"listChanged":true,"subscribe":true}"#.to_owned();
            let resources = if self.subscribe { subscribe } else { changes };
            all.0.push(("resources".to_owned(), resources));
        }
        all.0.extend(self.others.0.iter().cloned());
        for (key, members) in [
            ("experimental", &self.experimental),
            ("extensions", &self.extensions),
        ] {
            if !members.0.is_empty() {
                all.0.push((key.to_owned(), members.to_json()));
            }
        }
        all.to_json()
    }
}

fn each(source: &[u8], object: Range<usize>, into: &mut Members) {
    let _ = json::members(source, object, |member| into.add(source, &member));
}

/// The instructions of all, each below its server's name; `None` where no server has any.
#[must_use]
pub fn instructions(servers: &[Introduced<'_>]) -> Option<String> {
    let mut all = String::new();
    for server in servers {
        let text = server
            .at("instructions")
            .and_then(|(source, range)| json::text_lossy(source, range));
        let Some(text) = text.filter(|text| !text.trim().is_empty()) else {
            continue;
        };
        let heading = format!("# {}\n\n", server.server);
        let left = LONGEST.saturating_sub(all.len() + heading.len());
        let shown = shortened(text.trim(), left.min(LONGEST_OF_ONE));
        if shown.is_empty() {
            break;
        }
        if !all.is_empty() {
            all.push_str("\n\n");
        }
        all.push_str(&heading);
        all.push_str(&shown);
    }
    (!all.is_empty()).then_some(all)
}

/// The beginning of a text, with a mark where something is left out.
fn shortened(text: &str, limit: usize) -> String {
    const MARK: &str = " …";
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(limit.saturating_sub(MARK.len()));
    match text.get(..end) {
        Some(start) if end > 0 => format!("{start}{MARK}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn introduced<'a>(server: &'a ServerName, result: Option<&'a str>) -> Introduced<'a> {
        Introduced {
            server,
            result: result.map(str::as_bytes),
        }
    }

    #[test]
    fn capabilities_are_the_union() {
        let [a, b] = ["a", "b"].map(ServerName::from);
        let first = r#"{"capabilities":{"tools":{"listChanged":false},"extensions":{"x/1":{"n":1.0}},"tasks":{"list":{}}}}"#;
        let second = r#"{"capabilities":{"resources":{"subscribe":true},"logging":{},"extensions":{"x/1":{},"x/2":{}},"experimental":{"y":{}}}}"#;
        let servers = [introduced(&a, Some(first)), introduced(&b, Some(second))];
        assert_eq!(
            capabilities(&servers),
            r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tasks":{"list":{}},"logging":{},"experimental":{"y":{}},"extensions":{"x/1":{"n":1.0},"x/2":{}}}"#
        );
        let only = [introduced(&a, Some(first))];
        assert!(!capabilities(&only).contains("resources"));
        let plain = r#"{"capabilities":{"resources":{}}}"#;
        let plain = capabilities(&[introduced(&a, Some(plain))]);
        assert!(
            plain.contains(r#""resources":{"listChanged":true}"#),
            "{plain}"
        );
    }

    #[test]
    fn a_server_that_was_never_seen_may_offer_anything() {
        let a = ServerName::from("a");
        let unseen = capabilities(&[introduced(&a, None)]);
        for key in [
            "tools",
            "prompts",
            "resources",
            "subscribe",
            "logging",
            "completions",
        ] {
            assert!(unseen.contains(key), "{unseen}");
        }
        let nothing = capabilities(&[introduced(&a, Some(r#"{"serverInfo":{}}"#))]);
        assert_eq!(nothing, capabilities(&[]));
    }

    #[test]
    fn instructions_stand_below_their_servers_names() {
        let [a, b, c] = ["a", "b", "c"].map(ServerName::from);
        let servers = [
            introduced(&a, Some(r#"{"instructions":"Book\nrooms. "}"#)),
            introduced(&b, Some(r#"{"instructions":" "}"#)),
            introduced(&c, Some(r#"{"instructions":"Ask first."}"#)),
        ];
        assert_eq!(
            instructions(&servers).unwrap(),
            "# a\n\nBook\nrooms.\n\n# c\n\nAsk first."
        );
        assert_eq!(instructions(&servers[1..2]), None);
    }

    #[test]
    fn instructions_are_bounded() {
        let names: Vec<_> = (0..9)
            .map(|n| ServerName::from(&*format!("s{n}")))
            .collect();
        let long = format!(r#"{{"instructions":"{}"}}"#, "ä".repeat(LONGEST_OF_ONE));
        let servers: Vec<_> = names.iter().map(|it| introduced(it, Some(&long))).collect();
        let all = instructions(&servers).unwrap();
        assert!(all.len() <= LONGEST + 16, "{}", all.len());
        assert!(all.ends_with('…'));
        let one = instructions(&servers[..1]).unwrap();
        assert!(one.len() <= LONGEST_OF_ONE + 16, "{}", one.len());
    }
}
