//! Drives the machines of one connection: one small task that feeds them events and performs what
//! they ask for. It decides nothing itself.
//!
//! ```text
//! callers, timers, sockets ──Input──► Driver ──► connection, session, listen, subscription ──► actions
//!                                       │                                                        │
//!                                       └── View, Phase, history, changes ◄──────────────────────┘
//! ```

mod actions;
mod listen;
pub(crate) mod open;
mod recheck;
mod scopes;
mod settle;
mod subscribe;
mod woke;

use std::sync::Arc;

use steadfast_core::identity::{AttemptId, Generation};
use steadfast_core::now::{Mono, Now};
use steadfast_core::sleep::Slept;
use steadfast_core::stream::{listen as get, subscription};
use steadfast_core::{Era, Fault, Kind, Outcome, SessionId, connection, session};
use steadfast_store::{SessionRecord, Transition};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use self::open::Opened;
use crate::clock;
use crate::grants::ScopeChange;
use crate::keeper::Shared;
use crate::link::{Link, Phase};
use crate::measure;
use crate::route::{Route, Upstream};

/// What reaches a driver.
#[derive(Debug)]
pub(crate) enum Input {
    /// For the connection.
    Connection(connection::Event),
    /// For the session.
    Session(session::Event),
    /// For the GET stream.
    Listen(get::Event),
    /// For the subscription.
    Subscription(subscription::Event),
    /// Agents want to hear of other resources.
    Wanted,
    /// An attempt to open has ended.
    Opened {
        attempt: AttemptId,
        outcome: Result<Box<Opened>, Fault>,
    },
    /// State and lists were restored after an opening, or could not be.
    Settled {
        attempt: AttemptId,
        outcome: Result<(), Fault>,
    },
    /// The session was asked to remember something; told once that is on record.
    Remembered(oneshot::Sender<()>),
    /// The configuration: `Ok(None)` where the connection is switched off.
    Configure(Result<Option<Arc<Upstream>>, Fault>),
    /// The grant has other scopes.
    Scopes(ScopeChange),
    /// The machine slept; whether the access token ended meanwhile, with nobody there to renew it.
    Woke { slept: Slept, missed: bool },
    /// Reconnect now, whatever the schedule says; told once that has settled.
    Reload(oneshot::Sender<()>),
    /// End politely.
    Stop(oneshot::Sender<()>),
}

/// An opening whose session and lists are being restored; not yet used by callers.
#[derive(Debug)]
struct Pending {
    attempt: AttemptId,
    opened: Box<Opened>,
    /// Told once the GET stream has been asked for, so that the order on the wire is kept (SE-01), or
    /// once the subscription is open, so that no change is missed after the lists were fetched.
    listening: Option<oneshot::Sender<()>>,
}

/// The task of one connection.
pub(crate) struct Driver {
    link: Arc<Link>,
    shared: Arc<Shared>,
    inbox: mpsc::UnboundedReceiver<Input>,
    connection: connection::State,
    session: session::State,
    listen: get::State,
    subscription: subscribe::Kept,
    attempts: u64,
    generation: Generation,
    opening: Option<JoinHandle<()>>,
    pending: Option<Pending>,
    stream: Option<JoinHandle<()>>,
    /// The routes that may still carry a session: the present one last.
    routes: Vec<Arc<Route>>,
    /// What a restart, or a network that came back, can go on with.
    record: Option<SessionRecord>,
    /// When the server changed its era, within the last hour.
    era_switches: Vec<Mono>,
    /// Who waits until a reload has settled.
    reloads: Vec<oneshot::Sender<()>>,
    stopped: bool,
}

/// Starts the driver of a link.
pub(crate) fn start(
    link: Arc<Link>,
    shared: Arc<Shared>,
    inbox: mpsc::UnboundedReceiver<Input>,
    record: Option<SessionRecord>,
) -> JoinHandle<()> {
    let driver = Driver {
        link,
        shared,
        inbox,
        connection: connection::State::Disabled,
        session: session::State::None { lost: Vec::new() },
        listen: get::State::Off(get::Memory::default()),
        subscription: subscribe::Kept::new(),
        attempts: 0,
        generation: Generation(0),
        opening: None,
        pending: None,
        stream: None,
        routes: Vec::new(),
        record,
        era_switches: Vec::new(),
        reloads: Vec::new(),
        stopped: false,
    };
    tokio::spawn(driver.run())
}

impl Driver {
    async fn run(mut self) {
        while !self.stopped {
            let due = self.next_deadline();
            tokio::select! {
                input = self.inbox.recv() => match input {
                    Some(input) => self.take(input).await,
                    None => break,
                },
                () = clock::wait_until(due) => self.due().await,
            }
            self.show();
        }
        self.abort();
    }

    fn next_deadline(&self) -> Option<Mono> {
        let connection = connection::deadline(&self.connection, &self.shared.connection_policy);
        let listen = get::deadline(&self.listen, &self.shared.stream_policy);
        let subscription = self.subscription.deadline(&self.shared.stream_policy);
        let next = [connection, listen, subscription].into_iter().flatten();
        next.map(|deadline| deadline.at).min()
    }

    /// Feeds the due event to each machine whose deadline has come.
    async fn due(&mut self) {
        let now = clock::mono();
        let has_come = |deadline: Option<steadfast_core::Deadline>| {
            deadline.is_some_and(|deadline| deadline.at <= now)
        };
        if has_come(connection::deadline(
            &self.connection,
            &self.shared.connection_policy,
        )) {
            let last_answer = self.link.last_answer();
            self.feed(connection::Event::Due { last_answer }).await;
        }
        if has_come(get::deadline(&self.listen, &self.shared.stream_policy)) {
            self.feed_listen(get::Event::Due).await;
        }
        if has_come(self.subscription.deadline(&self.shared.stream_policy)) {
            self.feed_subscription(subscription::Event::Due).await;
        }
    }

    async fn take(&mut self, input: Input) {
        match input {
            Input::Connection(event) => self.feed(event).await,
            Input::Session(event) => self.feed_session(event).await,
            Input::Listen(event) => self.feed_listen(event).await,
            Input::Subscription(event) => self.feed_subscription(event).await,
            Input::Wanted => self.want().await,
            Input::Opened { attempt, outcome } => self.opened(attempt, outcome).await,
            Input::Settled { attempt, outcome } => self.settled(attempt, outcome).await,
            Input::Remembered(kept) => {
                self.keep_remembered().await;
                let _ = kept.send(());
            }
            Input::Configure(configured) => self.configure(configured).await,
            Input::Scopes(change) => self.scopes_changed(change).await,
            Input::Woke { slept, missed } => self.woke(slept, missed).await,
            Input::Reload(settled) => {
                self.reloads.push(settled);
                self.feed(connection::Event::Reload).await;
            }
            Input::Stop(done) => {
                self.feed(connection::Event::Disable).await;
                self.stopped = true;
                let _ = done.send(());
            }
        }
    }

    async fn configure(&mut self, configured: Result<Option<Arc<Upstream>>, Fault>) {
        match configured {
            Ok(Some(upstream)) => {
                let before = self.link.upstream.write().replace(Arc::clone(&upstream));
                if before.is_some_and(|before| !before.shows_the_same_as(&upstream)) {
                    self.link.catalog.forget();
                }
                self.feed(connection::Event::Enable).await;
            }
            Ok(None) => self.feed(connection::Event::Disable).await,
            Err(fault) => {
                *self.link.upstream.write() = None;
                self.feed(connection::Event::Misconfigure(fault)).await;
            }
        }
    }

    // Feeding the machines. Actions of one may be events of another: the boxed recursion is at most
    // three deep, since no action of the connection feeds itself.

    async fn feed(&mut self, event: connection::Event) {
        let before = self.connection.clone();
        let step = connection::step(
            before.clone(),
            event,
            &connection::Context {
                now: clock::now(),
                jitter: clock::jitter(),
                attempt: AttemptId(self.attempts + 1),
                policy: &self.shared.connection_policy,
            },
        );
        self.note(step.outcome);
        self.connection = step.state;
        self.record_facts(&before, &step.facts);
        self.publish(&before).await;
        for action in step.actions {
            self.perform(action).await;
        }
    }

    async fn feed_session(&mut self, event: session::Event) {
        let step = session::step(
            self.session.clone(),
            event,
            &session::Context {
                now: clock::now(),
                policy: &self.shared.session_policy,
            },
        );
        self.note(step.outcome);
        self.session = step.state;
        for fact in &step.facts {
            tracing::debug!(
                agent = %self.link.agent, server = %self.link.server,
                session = fact.state.name(), reason = %fact.reason, "session"
            );
        }
        for action in step.actions {
            match action {
                session::Action::Rebuild { lost, fault }
                | session::Action::Rest { lost, fault } => {
                    self.forget_session().await;
                    let lost = connection::Event::Lost {
                        generation: lost,
                        fault,
                    };
                    Box::pin(self.feed(lost)).await;
                }
                session::Action::Delete { id } => self.delete_session(&id).await,
            }
        }
    }

    async fn feed_listen(&mut self, event: get::Event) {
        let step = get::step(
            self.listen.clone(),
            event,
            &get::Context {
                now: clock::now(),
                jitter: clock::jitter(),
                attempt: AttemptId(self.attempts + 1),
                policy: &self.shared.stream_policy,
            },
        );
        self.note(step.outcome);
        self.listen = step.state;
        let is_open = matches!(self.listen, get::State::Open { .. });
        self.link.catalog.set_hears(is_open);
        for action in step.actions {
            match action {
                get::Action::Open { attempt, cursor } => {
                    self.attempts = self.attempts.max(attempt.0);
                    self.open_stream(attempt, cursor);
                }
                get::Action::Close => {
                    if let Some(stream) = self.stream.take() {
                        stream.abort();
                    }
                }
                get::Action::Doubt => {
                    let generation = self.generation;
                    Box::pin(self.feed(connection::Event::Doubt { generation })).await;
                }
            }
        }
        if !matches!(self.listen, get::State::Opening { .. }) {
            self.listens_now();
        }
    }

    /// The stream of an opening under way is there, or will not be: its lists can be fetched.
    fn listens_now(&mut self) {
        if let Some(pending) = &mut self.pending
            && let Some(listening) = pending.listening.take()
        {
            let _ = listening.send(());
        }
    }

    /// Whether an opening under way has yet to fetch the lists.
    fn fetches_lists_next(&self) -> bool {
        let listening = self.pending.as_ref().and_then(|it| it.listening.as_ref());
        listening.is_some_and(|listening| !listening.is_closed())
    }

    fn note(&self, outcome: Outcome) {
        let (agent, server) = (&self.link.agent, &self.link.server);
        match outcome {
            Outcome::Used => {}
            Outcome::Ignored { why } => tracing::trace!(%agent, %server, why, "ignored"),
            Outcome::Violation { why } => tracing::error!(%agent, %server, why, "our bug"),
        }
    }

    /// Connections are history: written behind, and shown.
    fn record_facts(&self, before: &connection::State, facts: &[connection::Fact]) {
        if self.shared.is_stopping() || self.link.private.is_some() {
            // That the keeper stops is no news about the connection; nor is one conversation's own.
            return;
        }
        let mut from = before;
        for fact in facts {
            let to = &fact.state;
            if from.name() != to.name() || from.fault() != to.fault() {
                measure::transition(&self.link.server, to);
                self.shared.record(Transition {
                    at: fact.at,
                    agent: self.link.agent.clone(),
                    server: self.link.server.clone(),
                    from: from.name().to_owned(),
                    to: to.name().to_owned(),
                    fault: to.fault().cloned(),
                    reason: fact.reason.clone(),
                });
            }
            from = to;
        }
    }

    /// Lets callers know whether requests can go out, and drops what belongs to a lost opening.
    async fn publish(&mut self, before: &connection::State) {
        let was_open = matches!(before, connection::State::Connected { .. });
        let phase = match &self.connection {
            connection::State::Connected { .. } => match self.routes.last() {
                Some(route) => Phase::Ready(Arc::clone(route)),
                None => Phase::Down,
            },
            connection::State::Connecting { .. } => Phase::Opening,
            connection::State::Disabled
            | connection::State::Misconfigured { .. }
            | connection::State::Retrying { .. }
            | connection::State::AwaitingSignIn { .. } => Phase::Down,
        };
        let is_open = matches!(phase, Phase::Ready(_));
        self.link.phase.send_replace(phase);
        if was_open && !is_open {
            self.stop_listening().await;
            if let Some(route) = self.routes.last() {
                route.upstream.pool.discard_idle();
            }
        }
    }

    /// Copies what is shown, and tells everyone who watches where it changed.
    fn show(&mut self) {
        let connection = connection::deadline(&self.connection, &self.shared.connection_policy);
        let stream = get::deadline(&self.listen, &self.shared.stream_policy)
            .or_else(|| self.subscription.deadline(&self.shared.stream_policy));
        let changed = {
            let mut view = self.link.view.lock();
            let moved = view.state.name() != self.connection.name();
            let changed = moved || view.state.fault() != self.connection.fault();
            if moved {
                view.since = clock::wall();
            }
            view.state = self.connection.clone();
            view.deadline = connection;
            view.stream_deadline = stream;
            let note = self.stream_note();
            let changed = changed || view.stream_note != note;
            view.stream_note = note;
            if !matches!(self.session, session::State::Open { .. }) {
                view.session_since = None;
            }
            changed
        };
        if changed {
            self.link.announce();
            self.use_what_came_in();
        }
        if !matches!(self.connection, connection::State::Connecting { .. }) {
            for settled in self.reloads.drain(..) {
                let _ = settled.send(());
            }
        }
    }

    /// Tokens that came in while an attempt without them was under way: nobody else tells of them any more. One that
    /// the server refused is good no longer, so this does not go round in circles.
    fn use_what_came_in(&self) {
        let waits = matches!(
            &self.connection,
            connection::State::AwaitingSignIn { fault } if fault.kind == Kind::SignInRequired
        );
        let upstream = self.link.upstream.read().clone();
        if waits && upstream.is_some_and(|upstream| upstream.would_send_a_good_token()) {
            self.link
                .tell(Input::Connection(connection::Event::SignedIn));
        }
    }

    /// What there is to say about the server's own stream, where it is not simply open.
    fn stream_note(&self) -> Option<String> {
        let legacy = self
            .routes
            .last()
            .is_some_and(|route| route.era() == Era::Legacy);
        if !legacy {
            return self.subscription.note();
        }
        let cut = self.listen.memory().idle_cut().map(|beat| {
            let tenths = (beat.0 + 50) / 100;
            format!("idle cut ~{}.{} s observed", tenths / 10, tenths % 10)
        });
        match &self.listen {
            get::State::NotOffered { .. } => Some("no server stream".to_owned()),
            get::State::Waiting { .. } if cut.is_none() => Some("reopening".to_owned()),
            get::State::Off(_)
            | get::State::Opening { .. }
            | get::State::Open { .. }
            | get::State::Waiting { .. } => cut,
        }
    }

    /// The route that carries this session.
    fn route_of(&self, id: &SessionId) -> Option<Arc<Route>> {
        self.routes
            .iter()
            .rev()
            .find(|route| route.session.as_ref() == Some(id))
            .cloned()
    }

    fn now(&self) -> Now {
        clock::now()
    }

    fn abort(&mut self) {
        self.subscription.abort();
        for task in [self.opening.take(), self.stream.take()]
            .into_iter()
            .flatten()
        {
            task.abort();
        }
    }
}
