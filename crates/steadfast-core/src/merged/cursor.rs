//! Where a page of a merged list ended. A cursor names what stood last, so that the next page goes on
//! behind it also where the list has changed meanwhile.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::identity::ServerName;

/// The first byte of every cursor, for the day when they change.
const VERSION: &str = "1";

/// The last entry of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Its server.
    pub server: ServerName,
    /// Its place among the entries of that server.
    pub at: usize,
    /// Its name or URI, as the server wrote it.
    pub key: String,
}

impl Cursor {
    /// As agents get it. It holds nothing that they have not seen.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Self { server, at, key } = self;
        URL_SAFE_NO_PAD.encode(format!("{VERSION}\n{server}\n{at}\n{key}"))
    }

    /// Reads what [`Cursor::to_text`] wrote; `None` for anything else.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let plain = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let mut parts = plain.splitn(4, '\n');
        if parts.next()? != VERSION {
            return None;
        }
        Some(Self {
            server: parts.next()?.into(),
            at: parts.next()?.parse().ok()?,
            key: parts.next()?.to_owned(),
        })
    }

    /// The index of the first entry of the next page. `entries` are in the order of their servers' names.
    /// Where the last entry is no more, its place counts.
    pub fn resume<'a>(&self, entries: impl Iterator<Item = (&'a ServerName, &'a str)>) -> usize {
        let (mut behind, mut own) = (0, 0);
        for (index, (server, key)) in entries.enumerate() {
            if *server == self.server {
                if key == self.key {
                    return index + 1;
                }
                own += 1;
            }
            let is_before = *server < self.server || (*server == self.server && own <= self.at);
            if is_before {
                behind = index + 1;
            }
        }
        behind
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cursor(server: &str, at: usize, key: &str) -> Cursor {
        Cursor {
            server: server.into(),
            at,
            key: key.to_owned(),
        }
    }

    fn resumed(cursor: &Cursor, entries: &[(&str, &str)]) -> usize {
        let entries: Vec<_> = entries
            .iter()
            .map(|(server, key)| (ServerName::from(*server), *key))
            .collect();
        cursor.resume(entries.iter().map(|(server, key)| (server, *key)))
    }

    #[test]
    fn the_next_page_begins_behind_the_last_entry() {
        let entries = [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2"), ("c", "1")];
        assert_eq!(resumed(&cursor("a", 1, "2"), &entries), 2);
        assert_eq!(resumed(&cursor("b", 0, "1"), &entries), 3);
        assert_eq!(resumed(&cursor("c", 0, "1"), &entries), 5);
    }

    #[test]
    fn a_changed_list_goes_on_where_it_was() {
        // Something new stands before it.
        let entries = [("a", "0"), ("a", "1"), ("a", "2"), ("b", "1")];
        assert_eq!(resumed(&cursor("a", 0, "1"), &entries), 2);
        // The last entry is gone: what stood behind it stands in its place.
        let entries = [("a", "0"), ("a", "2"), ("b", "1")];
        assert_eq!(resumed(&cursor("a", 1, "1"), &entries), 1);
        // Its server is gone.
        let entries = [("a", "0"), ("c", "1")];
        assert_eq!(resumed(&cursor("b", 3, "1"), &entries), 1);
        assert_eq!(resumed(&cursor("b", 3, "1"), &[]), 0);
    }

    #[test]
    fn what_we_did_not_write_is_no_cursor() {
        for text in ["", "x", "MQ", "MgphCjAKeA", "MQphCngKeA", "ä"] {
            assert_eq!(Cursor::from_text(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_cursor_comes_back_as_it_was(server in "[a-z]{0,8}", at: usize, key in "\\PC*\n?\\PC*") {
            let cursor = cursor(&server, at, &key);
            prop_assert_eq!(Cursor::from_text(&cursor.to_text()), Some(cursor));
        }
    }
}
