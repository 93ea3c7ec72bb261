//! What agents and the upstream of this bench say to each other.

use std::fmt;
use std::ops::Range;

use clap::ValueEnum;
use memchr::memmem;
use serde::{Deserialize, Serialize};

/// The revision of each era that is spoken here.
pub(crate) const LEGACY_REVISION: &str = "2025-11-25";
pub(crate) const MODERN_REVISION: &str = "2026-07-28";

/// How the text of every result begins. A proxy that answers in the upstream's place does not know it.
pub(crate) const RESULT_BEGINS: &str = "bench: ";
/// The length of the text of a large result.
pub(crate) const LARGE: usize = 100 * 1024;

/// The first RPC id. All have ten digits, so that a request is one template in which the id is overwritten.
pub(crate) const FIRST_ID: u64 = 1_000_000_000;

/// A protocol era: with sessions, or stateless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Era {
    Legacy,
    Modern,
}

impl Era {
    pub(crate) const ALL: [Self; 2] = [Self::Legacy, Self::Modern];

    /// The era of one of many servers, half of which are of each.
    pub(crate) const fn of(server: usize) -> Self {
        Self::ALL[server % 2]
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }

    pub(crate) fn revision(self) -> &'static str {
        match self {
            Self::Legacy => LEGACY_REVISION,
            Self::Modern => MODERN_REVISION,
        }
    }
}

/// What is called. Each is a tool of the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Case {
    /// A small result as JSON
    Json,
    /// A small result as the only event of a stream
    Sse,
    /// A result of 100 KB as JSON
    Large,
    /// A progress event at once, and the result 20 ms later
    Progress,
}

impl Case {
    pub(crate) const ALL: [Self; 4] = [Self::Json, Self::Sse, Self::Large, Self::Progress];

    /// The name on the command line, and the tool.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Sse => "sse",
            Self::Large => "large",
            Self::Progress => "progress",
        }
    }

    pub(crate) fn is_stream(self) -> bool {
        matches!(self, Self::Sse | Self::Progress)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "small call, JSON",
            Self::Sse => "small call, SSE",
            Self::Large => "100 KB result",
            Self::Progress => "progress, result 20 ms later",
        })
    }
}

/// The body of a `tools/call`, with [`FIRST_ID`] as its id.
pub(crate) fn call(era: Era, case: Case) -> String {
    let name = case.name();
    let mut meta = match era {
        Era::Legacy => String::new(),
        Era::Modern => modern_meta(),
    };
    if case == Case::Progress {
        let comma = if meta.is_empty() { "" } else { "," };
        meta = format!(r#""progressToken":"bench"{comma}{meta}"#);
    }
    let meta = match meta.as_str() {
        "" => String::new(),
        members => format!(r#","_meta":{{{members}}}"#),
    };
    format!(
        r#"{{"jsonrpc":"2.0","id":{FIRST_ID},"method":"tools/call","params":{{"name":"{name}","arguments":{{"city":"Lisbon"}}{meta}}}}}"#
    )
}

/// The members of `_meta` that make a request modern (2026-07-28, basic/versioning).
fn modern_meta() -> String {
    format!(
        r#""io.modelcontextprotocol/protocolVersion":"{MODERN_REVISION}","io.modelcontextprotocol/clientInfo":{{"name":"steadfast-bench","version":"1.0.0"}},"io.modelcontextprotocol/clientCapabilities":{{}}"#
    )
}

/// The body with which a session opens.
pub(crate) fn initialize() -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{FIRST_ID},"method":"initialize","params":{{"protocolVersion":"{LEGACY_REVISION}","capabilities":{{}},"clientInfo":{{"name":"steadfast-bench","version":"1.0.0"}}}}}}"#
    )
}

pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Where the id of a message is: the first number that follows `"id":`. Right for the messages of this bench,
/// which have it in front of everything that could hold another.
pub(crate) fn id_in(message: &[u8]) -> Option<Range<usize>> {
    const NAME: &[u8] = br#""id":"#;
    let start = memmem::find(message, NAME)? + NAME.len();
    let digits = message[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    (digits > 0).then_some(start..start + digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_json_with_its_id_where_it_is_looked_for() {
        for era in Era::ALL {
            for case in Case::ALL {
                let body = call(era, case);
                let message: serde_json::Value = serde_json::from_str(&body).unwrap();
                let id = &body[id_in(body.as_bytes()).unwrap()];
                assert_eq!(message["id"].to_string(), id);
                assert_eq!(id.len(), 10);
                let meta = &message["params"]["_meta"];
                let revision = &meta["io.modelcontextprotocol/protocolVersion"];
                assert_eq!(revision.is_string(), era == Era::Modern);
                assert_eq!(meta["progressToken"].is_string(), case == Case::Progress);
            }
        }
    }

    #[test]
    fn an_event_id_is_not_an_rpc_id() {
        let event = b"id: 7\ndata: {\"jsonrpc\":\"2.0\",\"id\":12,\"result\":{\"id\":3}}\n\n";
        assert_eq!(&event[id_in(event).unwrap()], b"12");
        assert_eq!(id_in(b"id: 7\ndata:\n\n"), None);
    }
}
