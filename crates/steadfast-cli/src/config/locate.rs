//! Where something stands in a TOML text: from a byte to the path of its key, and back.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A parsed text that remembers where everything stands.
pub(crate) struct Tree<'t> {
    text: &'t str,
    root: DeTable<'t>,
}

/// A place in a text, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// The place of a byte in a text.
pub(crate) fn place(text: &str, offset: usize) -> Place {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    Place {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}

/// The closest thing found so far.
#[derive(Default)]
struct Closest {
    length: Option<usize>,
    path: Vec<String>,
}

impl Closest {
    fn offer(&mut self, span: &Range<usize>, offset: usize, path: &[String]) {
        let contains = span.start <= offset && offset <= span.end;
        if contains && self.length.is_none_or(|length| span.len() <= length) {
            self.length = Some(span.len());
            self.path = path.to_vec();
        }
    }
}

impl<'t> Tree<'t> {
    /// Parses `text`.
    pub(crate) fn parse(text: &'t str) -> Result<Self, toml::de::Error> {
        Ok(Self {
            text,
            root: DeTable::parse(text)?.into_inner(),
        })
    }

    /// The path of the innermost key or value that holds the byte at `offset`.
    pub(crate) fn path_at(&self, offset: usize) -> Vec<String> {
        let mut closest = Closest::default();
        search(&self.root, offset, &mut Vec::new(), &mut closest);
        closest.path
    }

    /// The place of the key at `path`, or of the longest part of it that is there.
    pub(crate) fn place_of(&self, path: &[&str]) -> Option<Place> {
        let mut table = Some(&self.root);
        let mut found = None;
        for name in path {
            let Some((key, value)) = table.and_then(|table| entry(table, name)) else {
                break;
            };
            found = Some(key.span().start);
            table = value.get_ref().as_table();
        }
        found.map(|offset| place(self.text, offset))
    }
}

type Entry<'a, 't> = (
    &'a Spanned<std::borrow::Cow<'t, str>>,
    &'a Spanned<DeValue<'t>>,
);

fn entry<'a, 't>(table: &'a DeTable<'t>, name: &str) -> Option<Entry<'a, 't>> {
    table.iter().find(|(key, _)| key.get_ref() == name)
}

fn search(table: &DeTable<'_>, offset: usize, path: &mut Vec<String>, closest: &mut Closest) {
    for (key, value) in table {
        path.push(key.get_ref().to_string());
        closest.offer(&value.span(), offset, path);
        closest.offer(&key.span(), offset, path);
        search_value(value.get_ref(), offset, path, closest);
        path.pop();
    }
}

fn search_value(value: &DeValue<'_>, offset: usize, path: &mut Vec<String>, closest: &mut Closest) {
    match value {
        DeValue::Table(table) => search(table, offset, path, closest),
        DeValue::Array(items) => {
            for item in items.iter() {
                search_value(item.get_ref(), offset, path, closest);
            }
        }
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[servers.booking]\nurl = \"x\"\noauth = { scopes = [\"a\"] }\n";

    #[test]
    fn a_byte_leads_to_its_key() {
        let tree = Tree::parse(TEXT).unwrap();
        let at = |word: &str| tree.path_at(TEXT.find(word).unwrap()).join(".");
        assert_eq!(at("url"), "servers.booking.url");
        assert_eq!(at("\"x\""), "servers.booking.url");
        assert_eq!(at("scopes"), "servers.booking.oauth.scopes");
        assert_eq!(at("[\"a\"]"), "servers.booking.oauth.scopes");
        assert_eq!(at("booking"), "servers.booking");
    }

    #[test]
    fn a_path_leads_to_its_place() {
        let tree = Tree::parse(TEXT).unwrap();
        let place = |path: &[&str]| tree.place_of(path).map(|place| (place.line, place.column));
        assert_eq!(place(&["servers", "booking", "url"]), Some((2, 1)));
        assert_eq!(
            place(&["servers", "booking", "oauth", "scopes"]),
            Some((3, 11))
        );
        assert_eq!(place(&["servers", "booking", "headers"]), Some((1, 10)));
        assert_eq!(place(&["agents"]), None);
    }

    #[test]
    fn columns_are_characters() {
        assert_eq!(place("ä = 1\nöö = 2", 9), Place { line: 2, column: 2 });
    }
}
