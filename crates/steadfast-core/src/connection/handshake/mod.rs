//! How a connection is opened: which era the server speaks, and which revision. Pure: each step says
//! what to ask next. The first question is harmless (`server/discover`), never an agent's call
//! (2026-07-28 streamable-http, "Backward Compatibility"; PV-01 to PV-07, HT-03).
//!
//! | state | the question that is out | what its answer can lead to |
//! | --- | --- | --- |
//! | `discovering` | `server/discover` | open, the same in another revision, `initialize` |
//! | `initializing` | `initialize` | open, once with (or without) the header, once in another revision, `server/discover` where the remembered era proved wrong, the old transport |
//! | `seeking_endpoint` | GET of the old transport | open, or what failed before it |
//! | `opened`, `failed` | none | the same again |
//!
//! An answer that says nothing about the era (401, 403, a temporary failure, a redirect, silence) ends
//! the attempt with its own cause; nothing is guessed from it.

mod discover;
mod initialize;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Kind};
use crate::quirks::{self, Answer};
use crate::revision::{Era, Revision};

/// The most questions of one attempt.
pub const MOST_QUESTIONS: u8 = 5;

/// The revision that defined the MCP-Protocol-Version header: what goes into it on `initialize`, as
/// a server that insists on it there knows at least this one (PV-05, server B).
const HEADER_REVISION: Revision = Revision::V2025_06_18;

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

/// Which eras may be used, and what is offered in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Modern first, else legacy from this revision downwards.
    Either {
        /// The highest legacy revision.
        legacy: Revision,
    },
    /// Legacy only, from this revision downwards.
    LegacyOnly {
        /// The highest legacy revision.
        legacy: Revision,
    },
    /// Modern only.
    ModernOnly,
}

impl Default for Offer {
    fn default() -> Self {
        Self::Either {
            legacy: Revision::LATEST_LEGACY,
        }
    }
}

impl Offer {
    /// The highest legacy revision that may be used.
    fn legacy(self) -> Option<Revision> {
        match self {
            // A modern revision is never a session's (PV-06).
            Self::Either { legacy } | Self::LegacyOnly { legacy } => {
                Some(legacy.min(Revision::LATEST_LEGACY))
            }
            Self::ModernOnly => None,
        }
    }

    const fn modern(self) -> bool {
        match self {
            Self::Either { .. } | Self::ModernOnly => true,
            Self::LegacyOnly { .. } => false,
        }
    }

    /// What is spoken, for a message.
    fn spoken(self) -> String {
        match self {
            Self::Either { legacy } => format!(
                "{} and {} or earlier",
                Revision::LATEST_MODERN,
                legacy.min(Revision::LATEST_LEGACY)
            ),
            Self::LegacyOnly { legacy } => {
                format!("{} or earlier", legacy.min(Revision::LATEST_LEGACY))
            }
            Self::ModernOnly => Revision::LATEST_MODERN.to_string(),
        }
    }
}

/// One attempt to open a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// `server/discover` is out.
    Discovering {
        /// In this revision.
        revision: Revision,
        /// What the attempt knows.
        memory: Memory,
    },
    /// `initialize` is out.
    Initializing {
        /// Offering this revision.
        revision: Revision,
        /// With MCP-Protocol-Version.
        header: bool,
        /// What the attempt knows.
        memory: Memory,
    },
    /// The GET of the old transport is out.
    SeekingEndpoint {
        /// Why it is asked for; `None` where the server is known to use that transport.
        cause: Option<Fault>,
        /// What the attempt knows.
        memory: Memory,
    },
    /// It is open.
    Opened(Known),
    /// It failed.
    Failed(Fault),
}

/// What one attempt knows and has tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    offer: Offer,
    known: Option<Known>,
    questions: u8,
    /// A modern revision was refused, and one that the server named was tried instead (PV-04).
    discover_repeated: bool,
    /// `initialize` was answered as a modern server does, against what was known of it.
    era_doubted: bool,
    /// `initialize` was repeated with, or without, the header (PV-05).
    header_changed: bool,
    /// `initialize` was repeated in a revision that the server named.
    revision_changed: bool,
}

/// Begins an attempt. `known` is what was learned about the server before; a known era is not
/// probed again (2026-07-28 versioning, "Clients SHOULD cache the result"; PV-07).
#[must_use]
pub fn begin(known: Option<&Known>, offer: Offer) -> (State, Ask) {
    let memory = Memory {
        offer,
        known: known.cloned(),
        questions: 1,
        discover_repeated: false,
        era_doubted: false,
        header_changed: false,
        revision_changed: false,
    };
    let known_legacy = known.is_some_and(|known| known.era == Era::Legacy);
    let ask = match offer.legacy() {
        Some(_) if known.is_some_and(|known| known.transport == Transport::HttpSse) => {
            Ask::Endpoint
        }
        Some(legacy) if known_legacy || !offer.modern() => memory.initialize(legacy),
        Some(_) | None => Ask::Discover(Revision::LATEST_MODERN),
    };
    (memory.waiting_for(ask, None), ask)
}

/// Takes a reply and says what to do next. Ends in `Open` or `Fail` within [`MOST_QUESTIONS`]
/// questions; a state that has ended repeats its end.
#[must_use]
pub fn next(state: State, reply: &Reply<'_>) -> (State, Next) {
    match state {
        State::Discovering { memory, .. } => match reply {
            Reply::Answer(answer) => discover::answered(memory, answer),
            Reply::Endpoint(_) => failed(misplaced()),
            Reply::Fault(fault) => failed((*fault).clone()),
        },
        State::Initializing {
            revision,
            header,
            memory,
        } => match reply {
            Reply::Answer(answer) => initialize::answered(revision, header, memory, answer),
            Reply::Endpoint(_) => failed(misplaced()),
            Reply::Fault(fault) => failed((*fault).clone()),
        },
        State::SeekingEndpoint { cause, memory } => sought(cause, memory, reply),
        State::Opened(known) => opened(known),
        State::Failed(fault) => failed(fault),
    }
}

/// What came to the GET of the old transport.
fn sought(cause: Option<Fault>, memory: Memory, reply: &Reply<'_>) -> (State, Next) {
    match reply {
        Reply::Endpoint(true) => opened(Known {
            era: Era::Legacy,
            transport: Transport::HttpSse,
            revision: Revision::V2024_11_05,
            initialize_header: false,
            no_ping: memory.no_ping(),
        }),
        // Whatever else the GET says, the answer to the POST is the cause (HT-03).
        Reply::Endpoint(false) => match cause {
            Some(cause) => failed(cause),
            // The server no longer uses the old transport: find out anew what it speaks.
            None => {
                let absent = Fault::new(
                    Kind::ProtocolMismatch,
                    "the server no longer offers the HTTP+SSE transport",
                );
                let ask = match memory.offer.legacy() {
                    Some(legacy) if !memory.offer.modern() => memory.initialize(legacy),
                    Some(_) | None => Ask::Discover(Revision::LATEST_MODERN),
                };
                memory.ask(ask, absent)
            }
        },
        Reply::Answer(answer) => match (undecided(answer), cause) {
            (Some(fault), _) => failed(fault),
            // A modern server now, and its era may not be used.
            (None, None) if !memory.offer.modern() && quirks::modern_refusal(answer).is_some() => {
                failed(quirks::fault_of(answer))
            }
            (None, cause) => sought(cause, memory, &Reply::Endpoint(false)),
        },
        Reply::Fault(fault) => failed(cause.unwrap_or_else(|| (*fault).clone())),
    }
}

/// The fault of an answer that says nothing about the era: a credential is missing, the server or
/// something before it cannot answer now, or the answer is elsewhere (HT-03).
fn undecided(answer: &Answer<'_>) -> Option<Fault> {
    let says_nothing = match answer.status {
        300..=399 | 401 | 403 | 408 | 425 | 429 => true,
        // 500 and 501 are how some servers refuse a method that they do not know (PV-02).
        500 | 501 => false,
        status => status >= 500,
    };
    says_nothing.then(|| quirks::fault_of(answer))
}

impl Memory {
    /// Goes on with a question, or ends with `cause` where too many were asked.
    fn ask(mut self, ask: Ask, cause: Fault) -> (State, Next) {
        if self.questions >= MOST_QUESTIONS {
            return failed(cause);
        }
        self.questions += 1;
        (self.waiting_for(ask, Some(cause)), Next::Ask(ask))
    }

    fn waiting_for(self, ask: Ask, cause: Option<Fault>) -> State {
        match ask {
            Ask::Discover(revision) => State::Discovering {
                revision,
                memory: self,
            },
            Ask::Initialize { revision, header } => State::Initializing {
                revision,
                header,
                memory: self,
            },
            Ask::Endpoint => State::SeekingEndpoint {
                cause,
                memory: self,
            },
        }
    }

    /// The first `initialize` of an attempt, with the header where the server is known to insist on it.
    fn initialize(&self, revision: Revision) -> Ask {
        let header = self
            .known
            .as_ref()
            .is_some_and(|known| known.initialize_header);
        Ask::Initialize {
            revision: if header {
                revision.min(HEADER_REVISION)
            } else {
                revision
            },
            header,
        }
    }

    /// The newest of `named` that may be used in a session.
    fn best_legacy(&self, named: impl IntoIterator<Item = Revision>) -> Option<Revision> {
        let highest = self.offer.legacy()?;
        named
            .into_iter()
            .filter(|revision| revision.era() == Era::Legacy && *revision <= highest)
            .max()
    }

    fn no_ping(&self) -> bool {
        self.known.as_ref().is_some_and(|known| known.no_ping)
    }
}

fn opened(known: Known) -> (State, Next) {
    (State::Opened(known.clone()), Next::Open(known))
}

fn failed(fault: Fault) -> (State, Next) {
    (State::Failed(fault.clone()), Next::Fail(fault))
}

/// The driver gave a reply that does not belong to the question.
fn misplaced() -> Fault {
    Fault::new(
        Kind::ProtocolMismatch,
        "the answer does not belong to the question",
    )
}
