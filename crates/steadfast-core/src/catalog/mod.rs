//! The lists of a server: tools, prompts, resources, resource templates. How long the last complete one may be
//! used, when the server is asked again, and which answer takes its place (CA-01 to CA-03).
//!
//! A list is asked for when somebody uses it and it may have changed, never by polling
//! (2026-07-28 server/utilities/caching: "SHOULD NOT treat TTL as a polling interval"); this machine has no
//! deadline.
//!
//! | since the list was asked for | legacy, changes are announced and heard | legacy, otherwise | modern |
//! | --- | --- | --- | --- |
//! | nothing | used as it is | asked again at each use | used until `ttlMs` is over, then asked again |
//! | the listening stream broke | asked again at the next use | the same | as if nothing had happened |
//! | the connection opened again | asked again at the next use | the same | the same |
//! | `list_changed` | asked again at the next use | the same | the same |
//!
//! | the answer | what becomes of it |
//! | --- | --- |
//! | pages that break off, an error, an endless run of pages | the last complete list stays |
//! | of an earlier opening | the last complete list stays |
//! | less than half as long, and no `list_changed` | held for [`Policy::shrink_hold`]: the last complete list stays |
//! | the same after the hold | takes its place |
//! | anything else | takes its place |

mod access;
mod filter;
mod hints;
mod transitions;

use serde::{Deserialize, Serialize};

pub use access::Access;
pub use filter::without;
pub use hints::{Hints, Scope};
pub use transitions::{need, replay, step};

use crate::identity::Generation;
use crate::now::{Millis, Mono, Now, Wall};
use crate::wire::json;

/// One of the lists that a server may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// `tools/list`.
    Tools,
    /// `prompts/list`.
    Prompts,
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
    Templates,
}

impl List {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The method that asks for it.
    #[must_use]
    pub const fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// The list that a method asks for.
    #[must_use]
    pub fn of_method(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|list| list.method() == method)
    }

    /// The member of the result that holds it.
    #[must_use]
    pub const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The member of an entry that names it.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// The notification that announces a change of it.
    #[must_use]
    pub const fn changed(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            // Templates have no announcement of their own (2025-11-25 server/resources).
            Self::Resources | Self::Templates => "notifications/resources/list_changed",
        }
    }

    /// The lists whose change a notification announces.
    pub fn of_changed(method: &str) -> impl Iterator<Item = Self> {
        Self::ALL
            .into_iter()
            .filter(move |list| list.changed() == method)
    }

    /// The capability that a server with this list declares.
    const fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }

    /// What the `result` of `initialize` or `server/discover` says about it.
    #[must_use]
    pub fn offer(self, hello: &[u8]) -> Offer {
        let path = ["capabilities", self.capability()];
        let Some(capability) = json::at_path(hello, 0..hello.len(), &path) else {
            return Offer::default();
        };
        let announced = json::at_path(hello, capability, &["listChanged"]);
        Offer {
            offered: true,
            announced: announced.and_then(|range| hello.get(range)) == Some(b"true"),
        }
    }
}

/// What a server says about one of its lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// It declares the capability.
    pub offered: bool,
    /// It announces changes.
    pub announced: bool,
}

/// What is known of one list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The opening of the connection whose answers count.
    pub generation: Generation,
    /// The list in force.
    pub standing: Standing,
    /// A question is under way: what came up since it was asked.
    pub asked: Option<News>,
}

/// The list in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "standing")]
pub enum Standing {
    /// There is none: it was never seen whole.
    #[default]
    Unseen,
    /// The last complete one.
    Complete(Complete),
    /// The last complete one, though the server has answered with a much shorter one since, unannounced.
    Held {
        /// The one in force.
        complete: Complete,
        /// From when on a short answer is believed.
        until: Mono,
    },
}

impl Standing {
    /// As logs write it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Unseen => "unseen",
            Self::Complete(_) => "complete",
            Self::Held { .. } => "held",
        }
    }
}

/// A list that was read to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complete {
    /// How many entries it has.
    pub size: usize,
    /// How long it counts as fresh.
    pub life: Life,
    /// What came up since the newest answer was asked for.
    pub news: News,
}

/// How long a list counts as fresh where nothing comes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    /// Until a change is announced.
    UntilNews,
    /// Until then.
    Until(Mono),
    /// It is asked for again at each use.
    Never,
}

/// What came up since a list was asked for; the worst of it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// Nothing.
    #[default]
    Quiet,
    /// The server's stream broke: an announcement may have been missed.
    Deaf,
    /// There is reason to think that it changed: the connection opened again, or the server refused what
    /// the list asks for.
    Doubtful,
    /// The server said that it changed.
    Announced,
}

/// What can happen to a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection opened (again).
    Reopened {
        /// Which opening this is.
        generation: Generation,
    },
    /// The server announced a change.
    Changed,
    /// The stream on which it announces changes broke.
    Deaf,
    /// There is another reason to think that it changed.
    Doubted,
    /// Somebody wants to ask the server.
    Asked {
        /// On this opening.
        generation: Generation,
    },
    /// All pages are there.
    Fetched {
        /// On this opening.
        generation: Generation,
        /// How many entries it has.
        size: usize,
        /// How long it counts as fresh.
        life: Life,
    },
    /// They could not be read to the end.
    Failed {
        /// On this opening.
        generation: Generation,
    },
}

/// What the keeper must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the server.
    Fetch,
    /// Put the answer in force.
    Enforce,
    /// Keep the answer aside; what is in force stays.
    Hold,
}

/// What a use of the list needs first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: what is in force can be used.
    Nothing,
    /// The server is asked.
    Ask,
    /// The question that is under way will do.
    Join,
    /// What is under way may bring what was true before the last news: afterwards look again.
    Wait,
}

/// The limits of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// How long an unannounced sharp shrink is not believed.
    pub shrink_hold: Millis,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            shrink_hold: Millis::mins(1),
        }
    }
}

/// What a step may look at besides state and event.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The clocks.
    pub now: Now,
    /// The limits.
    pub policy: &'a Policy,
}

/// What became true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// When, as people count.
    pub at: Wall,
    /// The state that was entered, whole.
    pub state: State,
}

/// This machine's step.
pub type Step = crate::step::Step<State, Fact, Action>;

/// Announcements are collected until none came for so long …
const QUIET: Millis = Millis(500);
/// … but no longer than this after the first.
const PATIENCE: Millis = Millis::secs(3);

/// When a list whose change was announced is asked for without anybody using it: once, however many
/// announcements there are (CA-01).
#[must_use]
pub fn refresh_at(first: Mono, last: Mono) -> Mono {
    (last + QUIET).min(first + PATIENCE)
}

#[cfg(test)]
mod tests;
