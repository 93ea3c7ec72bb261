//! How a connection is opened: which era the server speaks, and which revision. Pure: each step says
//! what to ask next. The first question is harmless (`server/discover`), never an agent's call
//! (2026-07-28 streamable-http, "Backward Compatibility"; PV-01 to PV-07, HT-03).

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::quirks::Answer;
use crate::revision::{Era, Revision};

/// How requests and answers travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Streamable HTTP (2025-03-26 and later).
    #[default]
    StreamableHttp,
    /// The deprecated HTTP+SSE transport of 2024-11-05.
    HttpSse,
}

/// What was learned about a server and is remembered, per address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Its era.
    pub era: Era,
    /// Its transport.
    pub transport: Transport,
    /// The revision that it spoke last.
    pub revision: Revision,
    /// It insists on MCP-Protocol-Version on `initialize` itself (PV-05, server B).
    #[serde(default)]
    pub initialize_header: bool,
    /// It does not know `ping` (OP-05).
    #[serde(default)]
    pub no_ping: bool,
}

/// A question to the server. None of them carries a session id (SE-05).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// POST `server/discover` in this revision.
    Discover(Revision),
    /// POST `initialize`, offering this revision.
    Initialize {
        /// The revision offered.
        revision: Revision,
        /// Whether MCP-Protocol-Version goes along.
        header: bool,
    },
    /// GET, expecting the `endpoint` event of the old transport as the first one.
    Endpoint,
}

/// What came back.
#[derive(Clone, Copy, Debug)]
pub enum Reply<'a> {
    /// An HTTP answer. For an event stream the body is the JSON-RPC response found in it.
    Answer(Answer<'a>),
    /// To [`Ask::Endpoint`]: whether the `endpoint` event came.
    Endpoint(bool),
    /// No HTTP answer.
    Fault(&'a Fault),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask this.
    Ask(Ask),
    /// It is open.
    Open(Known),
    /// It cannot be opened now; the verdict of the fault decides what follows.
    Fail(Fault),
}
