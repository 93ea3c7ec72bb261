//! When a server is asked for a list: by whoever uses it, one question at a time.

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::catalog::{self, Action, Event, Life, List, Need};
use steadfast_core::{Fault, Generation};
use tokio::sync::watch;

use super::fetch::{self, Fetched};
use super::{Catalog, Listing};
use crate::clock;
use crate::link::{Link, Phase};
use crate::route::Route;

/// How long a use waits where the driver of the connection has not begun yet.
const BEGINNING: Duration = Duration::from_secs(10);

/// How often a use of a list waits for a question that may come too early for it.
const ROUNDS: usize = 3;

/// What stands between a use of a list and the list.
enum First {
    /// Nothing; whether it is the server's latest.
    Nothing(bool),
    /// The server is asked.
    Ask,
    /// Somebody has asked already; whether that will do.
    Wait(watch::Receiver<bool>, bool),
}

impl Link {
    /// The list, asked for again where it may have changed; the last complete one where the server does not
    /// answer. `None` where it was never seen, or the server has no such list. Tools that the operator denies
    /// are not in it.
    ///
    /// It waits while the connection is being opened, at most `retry.connect_timeout`, and for a server that is
    /// slow to answer as long as any request may take: set a limit where many servers are asked. The future may
    /// be dropped at any time; a question that is under way is read to its end for the next one.
    pub async fn list(self: &Arc<Self>, list: List) -> Option<Arc<Listing>> {
        self.look(list).await;
        self.listed(list)
    }

    /// The list as it was last seen whole, without asking.
    pub fn listed(&self, list: List) -> Option<Arc<Listing>> {
        self.catalog.listed(list)
    }

    /// Asks where that is needed. Whether the list in force is now known to be the server's present one.
    async fn look(self: &Arc<Self>, list: List) -> bool {
        for _ in 0..ROUNDS {
            match self.catalog.first(list) {
                First::Nothing(latest) => return latest,
                First::Wait(mut under_way, will_do) => {
                    // An error only says that it is over.
                    let _ = under_way.changed().await;
                    let answered = *under_way.borrow();
                    if will_do {
                        return answered && self.catalog.is_complete(list);
                    }
                }
                First::Ask => {
                    let Some(route) = self.route(None, self.patience()).await else {
                        return false;
                    };
                    if let Some(asking) = self.ask_for(&route, list) {
                        let answered = matches!(asking.await, Ok(Ok(())));
                        return answered && self.catalog.is_complete(list);
                    }
                }
            }
        }
        false
    }

    /// How long a use may wait for an opening that is under way.
    pub(crate) fn patience(&self) -> Duration {
        let upstream = self.upstream.read();
        upstream.as_ref().map_or(BEGINNING, |upstream| {
            upstream.retry.connect_timeout.duration()
        })
    }

    /// Asks for the tools on a route that is not in use yet. A fault leaves the last complete list in place.
    pub(crate) async fn ask_for_tools(self: &Arc<Self>, route: &Arc<Route>) -> Result<(), Fault> {
        match self.ask_for(route, List::Tools) {
            Some(asking) => asking.await.unwrap_or(Ok(())),
            // The connection is being opened anew: this opening is over.
            None => Ok(()),
        }
    }

    /// Asks for the tools though nothing says that they changed: the server refused what they ask for.
    pub(crate) async fn ask_again_for_tools(self: &Arc<Self>) {
        self.catalog.tell(List::Tools, Event::Doubted);
        self.look(List::Tools).await;
    }

    /// Begins to ask, in a task of its own, so that nobody who goes away ends it for others. `None` where
    /// another one is under way, or the route is not the present one.
    fn ask_for(
        self: &Arc<Self>,
        route: &Arc<Route>,
        list: List,
    ) -> Option<tokio::task::JoinHandle<Result<(), Fault>>> {
        let question = Question::begin(self, route.generation, list)?;
        let route = Arc::clone(route);
        Some(tokio::spawn(question.ask(route)))
    }

    /// The server says that something changed. What that makes stale is asked for before anybody uses it; the
    /// tools also without that, once, however many announcements there are (CA-01).
    pub(crate) fn note_change(self: &Arc<Self>, method: &str) {
        for list in List::of_changed(method) {
            self.catalog.tell(list, Event::Changed);
            if list == List::Tools {
                self.refresh_tools();
            }
        }
    }

    /// Announcements may have been missed. As if everything had changed, but for that nobody said so.
    pub(crate) fn note_gap(self: &Arc<Self>) {
        for list in List::ALL {
            self.catalog.tell(list, Event::Doubted);
        }
        self.refresh_tools();
    }

    fn refresh_tools(self: &Arc<Self>) {
        if !self.catalog.note_announcement() {
            return;
        }
        let link = Arc::clone(self);
        tokio::spawn(async move {
            while let Some(due) = link.catalog.refresh_due() {
                clock::wait_until(Some(due)).await;
            }
            link.look(List::Tools).await;
        });
    }

    /// Whether the server once listed a tool and does so no more (CA-02). Only what is known for certain counts: a name
    /// that was never listed may be one that the server does not list, and passes.
    pub(crate) async fn has_lost_tool(self: &Arc<Self>, tool: &str) -> bool {
        self.look(List::Tools).await && self.catalog.has_lost(tool)
    }

    /// Whether that is worth finding out.
    pub(crate) fn may_have_lost_tool(&self, tool: &str) -> bool {
        self.catalog.may_have_lost(tool)
    }
}

impl Catalog {
    fn first(&self, list: List) -> First {
        let kept = self.kept(list);
        // Tools are asked for whatever the server declares: some declare nothing.
        let is_offered = list == List::Tools || kept.offer.offered || kept.state.generation.0 == 0;
        if !is_offered {
            return First::Nothing(true);
        }
        let need = catalog::need(&kept.state, clock::mono());
        match (need, &kept.under_way) {
            (Need::Nothing, _) => {
                let complete = matches!(kept.state.standing, catalog::Standing::Complete(_));
                First::Nothing(complete)
            }
            (Need::Join, Some(under_way)) => First::Wait(under_way.clone(), true),
            (Need::Wait, Some(under_way)) => First::Wait(under_way.clone(), false),
            (Need::Ask | Need::Join | Need::Wait, _) => First::Ask,
        }
    }

    /// Collects an announcement; whether it is the first of a run.
    fn note_announcement(&self) -> bool {
        let now = clock::mono();
        let mut tools = self.kept(List::Tools);
        let is_first = tools.announced.is_none();
        let first = tools.announced.map_or(now, |(first, _)| first);
        tools.announced = Some((first, now));
        is_first
    }

    /// When the announcements that are collected lead to a question, unless that has come: then they are over.
    fn refresh_due(&self) -> Option<steadfast_core::Mono> {
        let mut tools = self.kept(List::Tools);
        let (first, last) = tools.announced?;
        let due = catalog::refresh_at(first, last);
        if due > clock::mono() {
            return Some(due);
        }
        tools.announced = None;
        None
    }
}

/// One question for one list. However it ends, the machine is told.
struct Question {
    link: Arc<Link>,
    generation: Generation,
    list: List,
    answered: watch::Sender<bool>,
    is_over: bool,
}

impl Question {
    fn begin(link: &Arc<Link>, generation: Generation, list: List) -> Option<Self> {
        let mut kept = link.catalog.kept(list);
        let asked = Event::Asked { generation };
        let action = link.catalog.feed(list, &mut kept, asked, None);
        if action != Some(Action::Fetch) {
            return None;
        }
        let (answered, under_way) = watch::channel(false);
        kept.under_way = Some(under_way);
        drop(kept);
        Some(Self {
            link: Arc::clone(link),
            generation,
            list,
            answered,
            is_over: false,
        })
    }

    async fn ask(mut self, route: Arc<Route>) -> Result<(), Fault> {
        // What is announced before the answer is there must have been heard as well.
        let hears = self.link.catalog.hears();
        let fetched = fetch::fetch(&self.link, &route, self.list).await;
        let is_in_use = matches!(&*self.link.phase.borrow(), Phase::Ready(_));
        match fetched {
            Ok(Fetched::Whole { listing, received }) => {
                let announced = hears && self.link.catalog.kept(self.list).offer.announced;
                let life = listing.hints.life(route.era(), announced, received);
                self.answer(Some(Arc::new(listing)), life);
            }
            Ok(Fetched::NotOffered) => self.answer(None, Life::UntilNews),
            Ok(Fetched::Refused) => {}
            Err(fault) => {
                tracing::debug!(
                    server = %self.link.server, list = self.list.method(), fault = %fault.message,
                    "list not fetched"
                );
                if is_in_use {
                    // What refused the list may have refused the session (SE-01).
                    self.link.doubt(self.generation);
                }
                return Err(fault);
            }
        }
        if is_in_use && self.list == List::Tools {
            self.link.announce();
        }
        Ok(())
    }

    fn answer(&mut self, answer: Option<Arc<Listing>>, life: Life) {
        let size = answer.as_ref().map_or(0, |listing| listing.entries.len());
        let fetched = Event::Fetched {
            generation: self.generation,
            size,
            life,
        };
        let catalog = &self.link.catalog;
        let mut kept = catalog.kept(self.list);
        let action = catalog.feed(self.list, &mut kept, fetched, answer);
        drop(kept);
        if action == Some(Action::Hold) {
            tracing::warn!(
                agent = %self.link.agent, server = %self.link.server, list = self.list.method(), size,
                "the list lost over half of its entries without an announcement: the one before is kept for now"
            );
        }
        self.is_over = true;
        self.answered.send_replace(true);
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if !self.is_over {
            let generation = self.generation;
            let failed = Event::Failed { generation };
            self.link.catalog.tell(self.list, failed);
        }
    }
}
