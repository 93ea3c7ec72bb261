//! A list that was read to its end, in the server's own bytes.

use std::collections::BTreeMap;

use bytes::Bytes;
use steadfast_core::Era;
use steadfast_core::catalog::{Hints, List};
use steadfast_core::wire::header::{self, ParamHeader};
use steadfast_core::wire::json;

/// One entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is called by: a name, a URI, a URI template.
    pub key: Box<str>,
    /// The server's definition, as raw JSON.
    pub definition: Bytes,
}

/// A complete list. It belongs to one agent and one server, and is never shown to another agent, whatever
/// its scope says: each agent has connections, and so lists, of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The entries in the server's order, each key once.
    pub entries: Vec<Entry>,
    /// What the server says about keeping it.
    pub hints: Hints,
    /// The places of the entries, ordered by key.
    order: Vec<u32>,
    /// The mirrored parameters of the tools that have some.
    mirrored: BTreeMap<Box<str>, Vec<ParamHeader>>,
}

impl Listing {
    /// Reads definitions. What has no key, or one that came before, is left out; in the modern era also a tool
    /// with an invalid `x-mcp-header`, as 2026-07-28 streamable-http, "Schema Extension", demands.
    pub(super) fn read(list: List, definitions: Vec<Bytes>, era: Era, hints: Hints) -> Self {
        let mut mirrored = BTreeMap::new();
        let mut entries: Vec<Entry> = Vec::with_capacity(definitions.len());
        for definition in definitions {
            let whole = 0..definition.len();
            let key = json::at_path(&definition, whole.clone(), &[list.key()])
                .and_then(|range| json::text(&definition, range));
            let Some(key) = key else {
                continue;
            };
            let key: Box<str> = key.into();
            if list == List::Tools && era == Era::Modern {
                let schema = json::at_path(&definition, whole, &["inputSchema"]);
                let schema = schema.map_or(&b"{}"[..], |range| &definition[range]);
                match header::param_headers(schema) {
                    Ok(params) if params.is_empty() => {}
                    Ok(params) => {
                        mirrored.insert(key.clone(), params);
                    }
                    Err(rule) => {
                        tracing::warn!(tool = %key, %rule, "a tool with an invalid x-mcp-header is left out");
                        continue;
                    }
                }
            }
            entries.push(Entry { key, definition });
        }
        Self::of(entries, hints, mirrored)
    }

    fn of(
        mut entries: Vec<Entry>,
        hints: Hints,
        mirrored: BTreeMap<Box<str>, Vec<ParamHeader>>,
    ) -> Self {
        let mut order = ordered(&entries);
        let mut repeated: Vec<u32> = order
            .windows(2)
            .filter(|pair| key_at(&entries, pair[0]) == key_at(&entries, pair[1]))
            .map(|pair| pair[1])
            .collect();
        if !repeated.is_empty() {
            repeated.sort_unstable();
            let mut place = 0;
            entries.retain(|_| {
                let keep = repeated.binary_search(&place).is_err();
                place += 1;
                keep
            });
            order = ordered(&entries);
        }
        Self {
            entries,
            hints,
            order,
            mirrored,
        }
    }

    /// The entry of this key.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        let found = self
            .order
            .binary_search_by(|place| key_at(&self.entries, *place).cmp(key))
            .ok()?;
        self.entries.get(*self.order.get(found)? as usize)
    }

    /// The entries as a JSON array.
    #[must_use]
    pub fn to_json(&self) -> Bytes {
        let size: usize = self
            .entries
            .iter()
            .map(|entry| entry.definition.len() + 1)
            .sum();
        let mut array = Vec::with_capacity(size + 2);
        array.push(b'[');
        for (place, entry) in self.entries.iter().enumerate() {
            if place > 0 {
                array.push(b',');
            }
            array.extend_from_slice(&entry.definition);
        }
        array.push(b']');
        array.into()
    }

    /// Whether the server says that a tool changes nothing (2025-11-25 schema, `ToolAnnotations.readOnlyHint`).
    pub(crate) fn is_read_only(&self, tool: &str) -> bool {
        const HINT: [&str; 2] = ["annotations", "readOnlyHint"];
        self.entry(tool).is_some_and(|entry| {
            let definition = &entry.definition;
            let hint = json::at_path(definition, 0..definition.len(), &HINT);
            hint.and_then(|hint| definition.get(hint)) == Some(b"true")
        })
    }

    /// The parameters of a tool that are mirrored into headers.
    pub(crate) fn mirrored(&self, tool: &str) -> &[ParamHeader] {
        self.mirrored.get(tool).map_or(&[], Vec::as_slice)
    }

    /// The same without the entries that `keep` does not want.
    pub(super) fn only(&self, keep: impl Fn(&str) -> bool) -> Self {
        let mut mirrored = self.mirrored.clone();
        mirrored.retain(|key, _| keep(key));
        let entries = self.entries.iter().filter(|entry| keep(&entry.key));
        Self::of(entries.cloned().collect(), self.hints, mirrored)
    }
}

/// The places by key; of the same key the earlier one first.
fn ordered(entries: &[Entry]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..).take(entries.len()).collect();
    order.sort_by(|a, b| key_at(entries, *a).cmp(key_at(entries, *b)));
    order
}

fn key_at(entries: &[Entry], place: u32) -> &str {
    entries.get(place as usize).map_or("", |entry| &entry.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(list: List, definitions: &[&'static str], era: Era) -> Listing {
        let definitions = definitions
            .iter()
            .map(|text| Bytes::from_static(text.as_bytes()));
        Listing::read(list, definitions.collect(), era, Hints::default())
    }

    fn keys(listing: &Listing) -> Vec<&str> {
        listing.entries.iter().map(|entry| &*entry.key).collect()
    }

    #[test]
    fn entries_keep_their_order_and_their_bytes_and_come_once() {
        let found = listing(
            List::Tools,
            &[
                r#"{"name":"b", "n":1.0}"#,
                r#"{"name":"a"}"#,
                r#"{"title":"nameless"}"#,
                r#"{"name":"\u0062","second":true}"#,
                "7",
            ],
            Era::Legacy,
        );
        assert_eq!(keys(&found), ["b", "a"]);
        assert_eq!(
            found.entry("b").unwrap().definition,
            r#"{"name":"b", "n":1.0}"#
        );
        assert!(found.entry("c").is_none());
        assert_eq!(found.to_json(), r#"[{"name":"b", "n":1.0},{"name":"a"}]"#);
        assert_eq!(Listing::default().to_json(), "[]");
        let templates = listing(
            List::Templates,
            &[r#"{"uriTemplate":"x:{y}"}"#],
            Era::Modern,
        );
        assert_eq!(keys(&templates), ["x:{y}"]);
    }

    #[test]
    fn mirrored_parameters_are_known_and_broken_ones_leave_the_tool_out() {
        let tool = r#"{"name":"t","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}}"#;
        let broken = r#"{"name":"u","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":""}}}}"#;
        let modern = listing(List::Tools, &[tool, broken, r#"{"name":"v"}"#], Era::Modern);
        assert_eq!(keys(&modern), ["t", "v"]);
        assert_eq!(modern.mirrored("t").len(), 1);
        assert!(modern.mirrored("v").is_empty());
        let only = modern.only(|name| name != "t");
        assert_eq!(keys(&only), ["v"]);
        assert!(only.mirrored("t").is_empty());
        let legacy = listing(List::Tools, &[tool, broken], Era::Legacy);
        assert_eq!(keys(&legacy), ["t", "u"]);
        assert!(legacy.mirrored("t").is_empty());
    }
}
