//! Dated protocol revisions in their order, and the two eras. Every rule that depends on a revision
//! asks [`Revision::since`]; nothing compares strings.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A revision of the Model Context Protocol that Steadfast speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Revision {
    /// 2024-11-05: the HTTP+SSE transport, deprecated.
    #[serde(rename = "2024-11-05")]
    V2024_11_05,
    /// 2025-03-26: Streamable HTTP, sessions, batches.
    #[serde(rename = "2025-03-26")]
    V2025_03_26,
    /// 2025-06-18: the MCP-Protocol-Version header; no batches.
    #[serde(rename = "2025-06-18")]
    V2025_06_18,
    /// 2025-11-25: priming events and polling.
    #[serde(rename = "2025-11-25")]
    V2025_11_25,
    /// 2026-07-28: stateless; no sessions, no GET stream, no replay.
    #[serde(rename = "2026-07-28")]
    V2026_07_28,
}

/// How a revision opens: by a handshake, or by metadata on every request (2026-07-28 versioning, terminology).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Era {
    /// 2025-11-25 and earlier: an `initialize` handshake, sessions, GET streams, replay.
    Legacy,
    /// 2026-07-28 and later: per-request metadata.
    Modern,
}

impl Revision {
    /// All of them, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];
    /// What we offer in `initialize`.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;
    /// What we offer in `server/discover`.
    pub const LATEST_MODERN: Self = Self::V2026_07_28;

    /// Reads a revision as the wire writes it. `None` for one that we do not speak.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }

    /// As the wire writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Whether this revision is `first` or a later one.
    #[must_use]
    pub fn since(self, first: Self) -> bool {
        self >= first
    }

    /// Its era.
    #[must_use]
    pub fn era(self) -> Era {
        if self.since(Self::V2026_07_28) {
            Era::Modern
        } else {
            Era::Legacy
        }
    }

    /// The newest revision of `era` among `offered` that we speak, for a server that names its own
    /// (2026-07-28 versioning: "select a mutually supported version from the supported list").
    pub fn best_of<'a>(offered: impl IntoIterator<Item = &'a str>, era: Era) -> Option<Self> {
        offered
            .into_iter()
            .filter_map(Self::parse)
            .filter(|revision| revision.era() == era)
            .max()
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Era {
    /// As the connection object writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_in_order_and_read_back() {
        assert!(Revision::ALL.is_sorted());
        for revision in Revision::ALL {
            assert_eq!(Revision::parse(revision.as_str()), Some(revision));
            assert_eq!(
                serde_json::to_value(revision).ok(),
                Some(revision.as_str().into()),
                "the store writes what the wire writes"
            );
        }
        for text in ["", "2025-11-25 ", "2026-07-29", "DRAFT-2026-v1"] {
            assert_eq!(Revision::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn only_2026_07_28_is_modern() {
        let modern: Vec<_> = Revision::ALL
            .into_iter()
            .filter(|revision| revision.era() == Era::Modern)
            .collect();
        assert_eq!(modern, [Revision::V2026_07_28]);
        assert_eq!(Revision::LATEST_LEGACY.era(), Era::Legacy);
        assert_eq!(Revision::LATEST_MODERN.era(), Era::Modern);
    }

    #[test]
    fn the_best_is_the_newest_of_its_era_that_we_speak() {
        let offered = ["2025-03-26", "2030-01-01", "2026-07-28", "2025-06-18", "x"];
        let best = |era| Revision::best_of(offered, era);
        assert_eq!(best(Era::Legacy), Some(Revision::V2025_06_18));
        assert_eq!(best(Era::Modern), Some(Revision::V2026_07_28));
        assert_eq!(Revision::best_of(["2030-01-01"], Era::Modern), None);
        assert_eq!(Revision::best_of([], Era::Legacy), None);
    }
}
