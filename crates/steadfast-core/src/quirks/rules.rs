//! The rule table. Each row names where it was seen, so that it can be judged again.

use super::Answer;
use super::body::Said;
use crate::revision::Era;

/// What an answer means, whatever it looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// The session that the request carried is not known (any more).
    UnknownSession,
    /// The request carried no session id, and the server wants one.
    SessionWanted,
    /// The credential was refused, or none came.
    CredentialRefused,
    /// Mirrored headers and body disagree.
    HeaderMismatch,
    /// The server does not speak the revision of the request.
    VersionUnsupported,
    /// The request lacks a client capability that the server needs.
    CapabilityMissing,
    /// The server does not know the method.
    MethodUnknown,
    /// The MCP-Protocol-Version header is missing, or is one too many.
    VersionHeader,
}

impl Meaning {
    /// Whether only a modern server says so.
    #[must_use]
    pub const fn is_modern(self) -> bool {
        match self {
            Self::HeaderMismatch | Self::VersionUnsupported | Self::CapabilityMissing => true,
            Self::UnknownSession
            | Self::SessionWanted
            | Self::CredentialRefused
            | Self::MethodUnknown
            | Self::VersionHeader => false,
        }
    }
}

/// Which JSON-RPC error codes a rule accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codes {
    /// Any, or none.
    Any,
    /// One of these.
    OneOf(&'static [i64]),
    /// Any other than these, or none.
    Except(&'static [i64]),
    /// One of these, or none: the body is no JSON-RPC error.
    NoneOr(&'static [i64]),
}

/// One row. Every condition must hold.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name in logs and in the history.
    pub name: &'static str,
    /// What it means.
    pub meaning: Meaning,
    /// Whether it proves that the request was refused before it was executed.
    pub refused: bool,
    /// The statuses; empty for any.
    pub statuses: &'static [u16],
    /// The codes of a JSON-RPC error.
    pub codes: Codes,
    /// Fragments in lower case, one of which must be in the text; empty for any text.
    pub texts: &'static [&'static str],
    /// Whether the request carried a session id; `None` where it does not matter.
    pub session: Option<bool>,
    /// Whether a WWW-Authenticate challenge came; `None` where it does not matter.
    pub challenge: Option<bool>,
    /// The era of the request; `None` where it does not matter.
    pub era: Option<Era>,
}

impl Rule {
    /// Whether the conditions hold that need no look into the body.
    pub(super) fn fits(&self, answer: &Answer<'_>) -> bool {
        (self.statuses.is_empty() || self.statuses.contains(&answer.status))
            && self
                .session
                .is_none_or(|wanted| wanted == answer.session_attached)
            && self
                .challenge
                .is_none_or(|wanted| wanted == answer.challenge.is_some())
            && self.era.is_none_or(|wanted| wanted == answer.era)
    }

    /// Whether the body says what the rule listens for.
    pub(super) fn hears(&self, said: &Said) -> bool {
        let code = match self.codes {
            Codes::Any => true,
            Codes::OneOf(codes) => said.code.is_some_and(|code| codes.contains(&code)),
            Codes::Except(codes) => said.code.is_none_or(|code| !codes.contains(&code)),
            Codes::NoneOr(codes) => said.code.is_none_or(|code| codes.contains(&code)),
        };
        code && (self.texts.is_empty() || self.texts.iter().any(|text| said.text.contains(text)))
    }
}

/// A row that asks for nothing; the table fills in what it needs.
const ANY: Rule = Rule {
    name: "",
    meaning: Meaning::MethodUnknown,
    refused: false,
    statuses: &[],
    codes: Codes::Any,
    texts: &[],
    session: None,
    challenge: None,
    era: None,
};

/// A row about a legacy session that the request carried.
const SESSION: Rule = Rule {
    meaning: Meaning::UnknownSession,
    refused: true,
    session: Some(true),
    era: Some(Era::Legacy),
    ..ANY
};

/// How servers word "I do not know that session". Fragments of two words or more: "session" alone
/// also stands in the arguments and errors of ordinary tools (WR-02).
const UNKNOWN_SESSION: &[&str] = &[
    // "No valid session ID provided": TypeScript and Python SDKs (python-sdk #1004, mcphub #405,
    // fastmcp #3073); "No valid session ID or not an initialize request" (affine-mcp-server #301);
    // "No valid session. Send an initialize request first." (agentdeals #1054).
    "no valid session",
    // "Invalid or missing session ID" (cap-mcp-plugin #95, prompt-optimizer #167).
    "invalid or missing session",
    // "missing or invalid Mcp-Session-Id" (agent-wiki #158).
    "missing or invalid session",
    "missing or invalid mcp-session-id",
    // "Invalid session ID", also as plain text (mcp-gateway #380, kite-mcp-server #31, mcp-go #689).
    "invalid session",
    "invalid mcp-session-id",
    // "Session not found" (most SDKs); "Session not found or expired. Please reinitialize." (nao #925);
    // "session not found; initialize a new MCP session" (appsmith #42238).
    "session not found",
    // "Unknown Mcp-Session-Id header" (OmniRoute #5191).
    "unknown mcp-session-id",
    // "Unknown session id '…' for 'tools/call'; client should reinitialize" (kimi-code #2380).
    "unknown session",
    // "No active session" (anubis-mcp #124).
    "no active session",
    // "Session terminated" (hermes-agent #18069, sparfenyuk/mcp-proxy #149).
    "session terminated",
    "session expired",
    "session has expired",
    // "Server not initialized": a restored transport that was never initialised (mcp-use #1133,
    // claude-code #55970).
    "server not initialized",
];

/// Every rule. The first one that matches counts.
pub static RULES: &[Rule] = &[
    // The protocol's own signal, whatever the body says (2025-11-25 transports, session management
    // 3 and 4; SE-01). A method that is not there is another thing.
    Rule {
        name: "session-404",
        statuses: &[404],
        codes: Codes::Except(&[-32601]),
        ..SESSION
    },
    // 400 for an unknown session (SE-02). -32602 is about the arguments of the call.
    Rule {
        name: "session-400-text",
        statuses: &[400],
        codes: Codes::NoneOr(&[-32000, -32001, -32002, -32005, -32600, -32603]),
        texts: UNKNOWN_SESSION,
        ..SESSION
    },
    // 401 without a challenge, from older releases of rmcp (rust-sdk #559 and #689; SE-03). Some send
    // a challenge as well (punkpeye/mcp-proxy #108): those cannot be told from a refused token.
    Rule {
        name: "session-401-text",
        statuses: &[401],
        texts: UNKNOWN_SESSION,
        challenge: Some(false),
        ..SESSION
    },
    // 403 for an id that is unknown or aged out (breeze #4256).
    Rule {
        name: "session-403-text",
        statuses: &[403],
        texts: UNKNOWN_SESSION,
        challenge: Some(false),
        ..SESSION
    },
    // 200 with an error of the protocol layer: -32600 "missing or invalid Mcp-Session-Id"
    // (agent-wiki #158) or "… client should reinitialize" (kimi-code #2380), -32002 "Server not
    // initialized" (anubis-mcp #89). Narrower than the others: with 200, "session not found" may be
    // an ordinary tool's answer.
    Rule {
        name: "session-200-text",
        statuses: &[200],
        codes: Codes::OneOf(&[-32600, -32002]),
        texts: &[
            "mcp-session-id",
            "server not initialized",
            "client should reinitialize",
        ],
        ..SESSION
    },
    // "Unauthorized: Session ID is required" and the like: a server with sessions, asked without one.
    Rule {
        name: "session-wanted-401",
        meaning: Meaning::SessionWanted,
        statuses: &[401],
        texts: &["session"],
        session: Some(false),
        challenge: Some(false),
        ..ANY
    },
    // The same in 400 and 404, as most SDKs word it (PV-01): the session was looked for before anything
    // else. "Bad Request: Mcp-Session-Id header is required" (TypeScript SDK), "Missing session ID"
    // (Python SDK), "Invalid session ID" for none (csharp-sdk #1765, slicc #3001).
    Rule {
        name: "session-wanted",
        meaning: Meaning::SessionWanted,
        refused: true,
        statuses: &[400, 404],
        codes: Codes::NoneOr(&[-32000, -32001, -32600]),
        texts: &[
            "mcp-session-id",
            "missing session id",
            "session id is required",
            "no valid session",
            "invalid session id",
            "server not initialized",
        ],
        session: Some(false),
        ..ANY
    },
    // RFC 9110 section 15.5.2: a 401 comes with a challenge.
    Rule {
        name: "credential-401-challenge",
        meaning: Meaning::CredentialRefused,
        refused: true,
        statuses: &[401],
        challenge: Some(true),
        ..ANY
    },
    // Many do not send one.
    Rule {
        name: "credential-401-text",
        meaning: Meaning::CredentialRefused,
        refused: true,
        statuses: &[401],
        texts: &[
            "unauthorized",
            "unauthorised",
            "not authorized",
            "unauthenticated",
            "authorization",
            "authentication",
            "credential",
            "token",
            "bearer",
            "api key",
            "api-key",
            "apikey",
            "sign in",
            "log in",
            "login",
        ],
        ..ANY
    },
    // 2026-07-28 streamable-http, "Server Validation".
    Rule {
        name: "header-mismatch",
        meaning: Meaning::HeaderMismatch,
        refused: true,
        statuses: &[400],
        codes: Codes::OneOf(&[-32020]),
        ..ANY
    },
    // The same in drafts, before codes were renumbered (changelog, minor 12; PV-10).
    Rule {
        name: "header-mismatch-draft",
        meaning: Meaning::HeaderMismatch,
        refused: true,
        statuses: &[400],
        codes: Codes::OneOf(&[-32001]),
        texts: &["header mismatch"],
        ..ANY
    },
    // 2026-07-28 versioning, "Protocol Version Negotiation".
    Rule {
        name: "version-unsupported",
        meaning: Meaning::VersionUnsupported,
        refused: true,
        statuses: &[400],
        codes: Codes::OneOf(&[-32022]),
        ..ANY
    },
    // Both again in another status: they still tell the era, but prove nothing about execution.
    Rule {
        name: "header-mismatch-status",
        meaning: Meaning::HeaderMismatch,
        codes: Codes::OneOf(&[-32020]),
        ..ANY
    },
    Rule {
        name: "version-unsupported-status",
        meaning: Meaning::VersionUnsupported,
        codes: Codes::OneOf(&[-32022]),
        ..ANY
    },
    // 2026-07-28 basic/index, "Per-request protocol fields". No proof: a capability may be found
    // missing in the middle of the work ("if processing a request requires a capability").
    Rule {
        name: "capability-missing",
        meaning: Meaning::CapabilityMissing,
        codes: Codes::OneOf(&[-32021]),
        ..ANY
    },
    Rule {
        name: "method-unknown",
        meaning: Meaning::MethodUnknown,
        codes: Codes::OneOf(&[-32601]),
        ..ANY
    },
    // PV-05: xiaohongshu-mcp #697, Effect #7388.
    Rule {
        name: "version-header",
        meaning: Meaning::VersionHeader,
        statuses: &[400, 406, 412, 422, 426],
        texts: &[
            "mcp-protocol-version",
            "protocol version header",
            "protocol-version header",
        ],
        ..ANY
    },
];
