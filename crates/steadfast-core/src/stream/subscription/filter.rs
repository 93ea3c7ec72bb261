//! What a client asks to hear of, and what a server agrees to send (2026-07-28
//! basic/patterns/subscriptions, "Notification Filter").

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::wire::{json, splice};

const TOOLS: &str = "notifications/tools/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const RESOURCES: &str = "notifications/resources/list_changed";
const UPDATED: &str = "notifications/resources/updated";

/// A list whose changes can be announced.
struct List {
    word: &'static str,
    key: &'static str,
    method: &'static str,
}

const LISTS: [List; 3] = [
    List {
        word: "tools",
        key: "toolsListChanged",
        method: TOOLS,
    },
    List {
        word: "prompts",
        key: "promptsListChanged",
        method: PROMPTS,
    },
    List {
        word: "resources",
        key: "resourcesListChanged",
        method: RESOURCES,
    },
];

/// Kinds of change notifications.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// `toolsListChanged`.
    pub tools: bool,
    /// `promptsListChanged`.
    pub prompts: bool,
    /// `resourcesListChanged`.
    pub resources: bool,
    /// `resourceSubscriptions`.
    pub uris: BTreeSet<String>,
}

impl Filter {
    /// The lists whose changes a server declares to announce. `hello` is the `result` of
    /// `initialize` or `server/discover`.
    #[must_use]
    pub fn declared(hello: &[u8]) -> Self {
        let declared = |feature: &str| {
            let path = ["capabilities", feature, "listChanged"];
            is_true(hello, 0..hello.len(), &path)
        };
        Self {
            tools: declared("tools"),
            prompts: declared("prompts"),
            resources: declared("resources"),
            uris: BTreeSet::new(),
        }
    }

    /// All lists.
    #[must_use]
    pub const fn all_lists() -> Self {
        Self {
            tools: true,
            prompts: true,
            resources: true,
            uris: BTreeSet::new(),
        }
    }

    /// Reads the `notifications` object of a request or of an acknowledgment. Whatever is no filter
    /// asks for nothing.
    #[must_use]
    pub fn read(source: &[u8], object: Range<usize>) -> Self {
        let wants = |key: &str| is_true(source, object.clone(), &[key]);
        let mut uris = BTreeSet::new();
        if let Some(array) = json::at_path(source, object.clone(), &["resourceSubscriptions"]) {
            let _ = json::elements(source, array, |uri| {
                uris.extend(json::text(source, uri).map(std::borrow::Cow::into_owned));
            });
        }
        Self {
            tools: wants("toolsListChanged"),
            prompts: wants("promptsListChanged"),
            resources: wants("resourcesListChanged"),
            uris,
        }
    }

    /// The `notifications` object; what is not wanted is left out.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut members: Vec<String> = self
            .lists()
            .map(|list| format!("\"{}\":true", list.key))
            .collect();
        if !self.uris.is_empty() {
            let uris: Vec<String> = self.uris.iter().map(|uri| splice::quote(uri)).collect();
            members.push(format!("\"resourceSubscriptions\":[{}]", uris.join(",")));
        }
        format!("{{{}}}", members.join(","))
    }

    /// Whether it asks for nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What both have.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            tools: self.tools && other.tools,
            prompts: self.prompts && other.prompts,
            resources: self.resources && other.resources,
            uris: self.uris.intersection(&other.uris).cloned().collect(),
        }
    }

    /// What the other lacks.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self {
            tools: self.tools && !other.tools,
            prompts: self.prompts && !other.prompts,
            resources: self.resources && !other.resources,
            uris: self.uris.difference(&other.uris).cloned().collect(),
        }
    }

    /// Whether a notification is of a kind that it asks for. `uri` is that of
    /// `notifications/resources/updated`: it "might be a sub-resource of the one that the client
    /// actually subscribed to" (schema, `ResourceUpdatedNotificationParams`).
    #[must_use]
    pub fn wants(&self, method: &str, uri: Option<&str>) -> bool {
        match method {
            TOOLS => self.tools,
            PROMPTS => self.prompts,
            RESOURCES => self.resources,
            UPDATED => uri.is_some_and(|uri| self.uris.iter().any(|of| is_within(uri, of))),
            _ => false,
        }
    }

    /// The methods of the notifications for the lists that it has.
    pub fn list_methods(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.lists().map(|list| list.method)
    }

    fn lists(&self) -> impl Iterator<Item = &'static List> + use<> {
        let on = [self.tools, self.prompts, self.resources];
        LISTS
            .iter()
            .zip(on)
            .filter(|(_, on)| *on)
            .map(|(list, _)| list)
    }

    /// In words, for people: `prompts, 2 resources`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let mut words: Vec<String> = self.lists().map(|list| list.word.to_owned()).collect();
        match self.uris.len() {
            0 => {}
            1 => words.push("1 resource".to_owned()),
            many => words.push(format!("{many} resources")),
        }
        words.join(", ")
    }
}

fn is_true(source: &[u8], object: Range<usize>, path: &[&str]) -> bool {
    json::at_path(source, object, path)
        .is_some_and(|range| source.get(range) == Some(b"true".as_slice()))
}

/// Whether `uri` is `of` or lies beneath it.
#[must_use]
pub fn is_within(uri: &str, of: &str) -> bool {
    uri.strip_prefix(of)
        .is_some_and(|rest| rest.is_empty() || of.ends_with('/') || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(text: &str) -> Filter {
        Filter::read(text.as_bytes(), 0..text.len())
    }

    #[test]
    fn a_filter_is_read_and_written() {
        let text = r#"{"toolsListChanged":true,"resourceSubscriptions":["a:b","c:\"d\""]}"#;
        let filter = read(text);
        assert!(filter.tools && !filter.prompts && !filter.resources);
        assert_eq!(filter.to_json(), text);
        assert_eq!(filter.in_words(), "tools, 2 resources");
        for nothing in [
            "7",
            "{}",
            "null",
            r#"{"toolsListChanged":"true"}"#,
            r#"{"resourceSubscriptions":[1]}"#,
        ] {
            assert!(read(nothing).is_empty(), "{nothing}");
        }
        assert_eq!(Filter::default().to_json(), "{}");
    }

    #[test]
    fn what_is_declared_is_read_from_either_era() {
        let hello = br#"{"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":false},"resources":{"subscribe":true}}}"#;
        let declared = Filter::declared(hello);
        assert_eq!(
            declared.list_methods().collect::<Vec<_>>(),
            ["notifications/tools/list_changed"]
        );
        assert!(Filter::declared(b"no JSON").is_empty());
        assert_eq!(Filter::all_lists().list_methods().count(), 3);
    }

    #[test]
    fn only_what_was_asked_for_is_wanted() {
        let filter = read(r#"{"toolsListChanged":true,"resourceSubscriptions":["a:b"]}"#);
        assert!(filter.wants(TOOLS, None));
        assert!(!filter.wants(PROMPTS, None));
        assert!(!filter.wants("notifications/message", None));
        for (uri, wanted) in [
            ("a:b", true),
            ("a:b/c", true),
            ("a:bc", false),
            ("a", false),
        ] {
            assert_eq!(filter.wants(UPDATED, Some(uri)), wanted, "{uri}");
        }
        assert!(!filter.wants(UPDATED, None));
    }

    #[test]
    fn filters_are_compared_part_by_part() {
        let asked = read(
            r#"{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a","b"]}"#,
        );
        let honoured = read(
            r#"{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["b"]}"#,
        );
        let both = asked.and(&honoured);
        assert_eq!(both.in_words(), "tools, 1 resource");
        assert_eq!(asked.without(&both).in_words(), "prompts, 1 resource");
    }
}
