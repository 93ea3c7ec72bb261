//! What is known to fail, with reasons: `exceptions.toml`, strict both ways.

use serde::Deserialize;

use crate::Failure;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Place {
    /// A server scenario against the server itself.
    Direct,
    /// One at `/mcp/{server}`.
    Gateway,
    /// One at `/mcp`.
    Merged,
    /// One at `/mcp/{server}`, of a server of the other era.
    Bridge,
    /// A client scenario.
    Client,
}

impl Place {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Gateway => "gateway",
            Self::Merged => "merged",
            Self::Bridge => "bridge",
            Self::Client => "client",
        }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exception {
    pub(crate) scenario: String,
    pub(crate) revision: String,
    #[serde(rename = "where")]
    pub(crate) place: Place,
    /// For people; an entry without one does not parse.
    pub(crate) reason: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exceptions {
    #[serde(default, rename = "exception")]
    pub(crate) entries: Vec<Exception>,
}

impl Exceptions {
    pub(crate) fn load() -> Result<Self, Failure> {
        Ok(toml::from_str(include_str!("../exceptions.toml"))?)
    }

    pub(crate) fn find(&self, scenario: &str, revision: &str, place: Place) -> Option<&Exception> {
        self.entries.iter().find(|entry| {
            entry.scenario == scenario && entry.revision == revision && entry.place == place
        })
    }
}
