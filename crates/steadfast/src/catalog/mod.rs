//! The lists of one server, as one agent's connection sees them: the last complete ones, kept while the server
//! is down, because absent and unavailable are different answers (architecture, connections 11).
//!
//! What may be used, and when the server is asked again, is decided by [`steadfast_core::catalog`]. Nothing is
//! shared between agents: a list of scope `public` could be, but then one agent's connection would answer for
//! another's, and a private list would be one mistake away.

mod ask;
mod fetch;
mod listing;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock};
use steadfast_core::Generation;
use steadfast_core::catalog::{
    self, Access, Action, Context, Event, List, Need, Offer, Policy, Standing, State,
};
use steadfast_core::now::Mono;
use tokio::sync::watch;

pub use listing::{Entry, Listing};

use crate::clock;

/// How many names of tools that are gone are remembered.
const MOST_GONE: usize = 4_096;

/// All lists of one connection.
#[derive(Debug)]
pub(crate) struct Catalog {
    lists: [Mutex<Kept>; List::ALL.len()],
    access: RwLock<Arc<Access>>,
    /// Whether the server's own stream is open, on which it announces changes.
    hears: AtomicBool,
    policy: Policy,
}

/// What is kept of one list.
#[derive(Debug, Default)]
struct Kept {
    state: State,
    /// What the server says about it.
    offer: Offer,
    /// The list in force.
    whole: Option<Arc<Listing>>,
    /// The same without what the agents may not see.
    shown: Option<Arc<Listing>>,
    /// The short list that is not believed yet.
    aside: Option<Arc<Listing>>,
    /// What was listed once and is no more.
    gone: BTreeSet<Box<str>>,
    /// Ends with the question that is under way; true once it was answered.
    under_way: Option<watch::Receiver<bool>>,
    /// The first and the last announcement of a change that are still collected.
    announced: Option<(Mono, Mono)>,
}

impl Catalog {
    pub(crate) fn new(policy: Policy, access: Access) -> Self {
        Self {
            lists: Default::default(),
            access: RwLock::new(Arc::new(access)),
            hears: AtomicBool::new(false),
            policy,
        }
    }

    /// Takes over what another connection of the agent saw; all of it is asked for again before it is used.
    pub(crate) fn inherit(&self, other: &Self) {
        for list in List::ALL {
            let (offer, whole, shown) = {
                let theirs = other.kept(list);
                (theirs.offer, theirs.whole.clone(), theirs.shown.clone())
            };
            let mut kept = self.kept(list);
            (kept.offer, kept.whole, kept.shown) = (offer, whole, shown);
        }
    }

    fn kept(&self, list: List) -> MutexGuard<'_, Kept> {
        let [tools, prompts, resources, templates] = &self.lists;
        match list {
            List::Tools => tools,
            List::Prompts => prompts,
            List::Resources => resources,
            List::Templates => templates,
        }
        .lock()
    }

    /// The list in force, as agents may see it.
    pub(crate) fn listed(&self, list: List) -> Option<Arc<Listing>> {
        self.kept(list).shown.clone()
    }

    /// Whether the operator lets agents see and call this tool.
    pub(crate) fn allows(&self, tool: &str) -> bool {
        self.access.read().allows(tool)
    }

    /// The operator's patterns.
    pub(crate) fn access(&self) -> Arc<Access> {
        Arc::clone(&self.access.read())
    }

    /// Takes other patterns; whether they are others.
    pub(crate) fn set_access(&self, access: Access) -> bool {
        let mut tools = self.kept(List::Tools);
        if **self.access.read() == access {
            return false;
        }
        tools.shown = shown(List::Tools, tools.whole.as_ref(), &access);
        *self.access.write() = Arc::new(access);
        true
    }

    /// The connection opened again: every list is asked for before it is used. `hello` is what the server said
    /// of itself.
    pub(crate) fn reopened(&self, generation: Generation, hello: &[u8]) {
        for list in List::ALL {
            let mut kept = self.kept(list);
            kept.offer = list.offer(hello);
            if list != List::Tools && !kept.offer.offered {
                *kept = Kept::default();
            }
            self.feed(list, &mut kept, Event::Reopened { generation }, None);
        }
    }

    /// What another address shows, or the same one to another identity, is another list.
    pub(crate) fn forget(&self) {
        for list in List::ALL {
            let mut kept = self.kept(list);
            let generation = kept.state.generation;
            *kept = Kept::default();
            kept.state.generation = generation;
        }
    }

    /// Whether the stream is open on which the server announces changes. Where it breaks, an announcement may
    /// be missed.
    pub(crate) fn set_hears(&self, hears: bool) {
        let did = self.hears.swap(hears, Ordering::Relaxed);
        if did && !hears {
            for list in List::ALL {
                self.feed(list, &mut self.kept(list), Event::Deaf, None);
            }
        }
    }

    fn hears(&self) -> bool {
        self.hears.load(Ordering::Relaxed)
    }

    fn tell(&self, list: List, event: Event) {
        self.feed(list, &mut self.kept(list), event, None);
    }

    /// Feeds the machine of one list, and does what it says. `answer` is the list that was fetched, if one was.
    fn feed(
        &self,
        list: List,
        kept: &mut Kept,
        event: Event,
        answer: Option<Arc<Listing>>,
    ) -> Option<Action> {
        let context = Context {
            now: clock::now(),
            policy: &self.policy,
        };
        let step = catalog::step(std::mem::take(&mut kept.state), event, &context);
        kept.state = step.state;
        if kept.state.asked.is_none() {
            kept.under_way = None;
        }
        let action = step.actions.into_iter().next()?;
        match action {
            Action::Fetch => {}
            Action::Enforce => {
                if list == List::Tools {
                    note_gone(kept, answer.as_deref());
                }
                kept.shown = shown(list, answer.as_ref(), &self.access.read());
                kept.whole = answer;
                kept.aside = None;
            }
            Action::Hold => kept.aside = Some(answer.unwrap_or_default()),
        }
        Some(action)
    }

    /// Whether a tool may be one that the server has taken away: worth a look, and perhaps a question.
    fn may_have_lost(&self, tool: &str) -> bool {
        let tools = self.kept(List::Tools);
        let is_missing = |aside: &Arc<Listing>| aside.entry(tool).is_none();
        tools.gone.contains(tool)
            || (tools.aside.as_ref().is_some_and(is_missing)
                && catalog::need(&tools.state, clock::mono()) == Need::Ask)
    }

    fn has_lost(&self, tool: &str) -> bool {
        self.kept(List::Tools).gone.contains(tool)
    }

    /// Whether what is in force is what the server said last.
    fn is_complete(&self, list: List) -> bool {
        matches!(self.kept(list).state.standing, Standing::Complete(_))
    }
}

fn shown(list: List, whole: Option<&Arc<Listing>>, access: &Access) -> Option<Arc<Listing>> {
    let whole = whole?;
    if list != List::Tools || access.is_open() {
        return Some(Arc::clone(whole));
    }
    Some(Arc::new(whole.only(|tool| access.allows(tool))))
}

/// Remembers what was in the list in force and is not in the one that takes its place.
fn note_gone(kept: &mut Kept, next: Option<&Listing>) {
    let is_next = |key: &str| next.is_some_and(|next| next.entry(key).is_some());
    kept.gone.retain(|key| !is_next(key));
    let Some(before) = &kept.whole else {
        return;
    };
    for entry in before.entries.iter().filter(|entry| !is_next(&entry.key)) {
        if kept.gone.len() < MOST_GONE {
            kept.gone.insert(entry.key.clone());
        }
    }
}
