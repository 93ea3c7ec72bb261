//! A small world in virtual time: one server that fails in every way for a while, and the machines of
//! one connection driven as the keeper drives them. Nothing spins while it fails, and once it stops
//! failing everything comes back by itself.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use common::{Connection, Listen, Machine, Moment, Session};
use proptest::collection::vec;
use proptest::prelude::*;
use steadfast_core::stream::{self, Break, listen};
use steadfast_core::{
    AttemptId, Deadline, Fault, Generation, Jitter, Kind, Millis, Mono, SessionId, connection,
    session,
};

/// How the server behaves for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weather {
    Fine,
    /// Connections are refused. A server that was down has forgotten its sessions.
    Down,
    /// Nothing is ever answered.
    BlackHole,
    Busy {
        retry_after: Option<u64>,
    },
    /// Connections open and are cut after this long.
    Drops {
        after: u64,
    },
    /// Every request is refused as one of an unknown session.
    Forgetful,
    /// The GET stream ends after this long, with or without an event.
    Cuts {
        after: u64,
        event: bool,
    },
    /// The GET stream is refused with this status; `None`: it is no event stream.
    NoStream(Option<u16>),
    WantsSignIn,
    Redirects,
}

fn weather() -> impl Strategy<Value = Weather> {
    prop_oneof![
        Just(Weather::Fine),
        Just(Weather::Down),
        Just(Weather::BlackHole),
        (proptest::option::of(0..120_000_u64))
            .prop_map(|retry_after| Weather::Busy { retry_after }),
        (0..30_000_u64).prop_map(|after| Weather::Drops { after }),
        Just(Weather::Forgetful),
        (0..3_000_u64, any::<bool>()).prop_map(|(after, event)| Weather::Cuts { after, event }),
        prop_oneof![
            Just(None),
            Just(Some(405)),
            Just(Some(404)),
            Just(Some(501))
        ]
        .prop_map(Weather::NoStream),
        Just(Weather::WantsSignIn),
        Just(Weather::Redirects),
    ]
}

/// What the world has planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Plan {
    /// The next entry of the forecast.
    Turn,
    /// An attempt comes to its end.
    Attempt(AttemptId),
    /// What is open is cut.
    Cut(Generation),
    /// The answer to a health check.
    Health(Generation),
    /// An agent calls.
    Call,
    /// The GET is answered.
    Get(AttemptId),
    /// The GET stream ends.
    GetEnds(AttemptId),
    /// A person looks after what only a person can mend.
    Person,
}

struct World {
    now: Mono,
    random: u32,
    numbers: u64,
    plans: BinaryHeap<Reverse<(Mono, u64, Plan)>>,
    forecast: VecDeque<(u64, Weather)>,
    weather: Weather,
    /// The sessions that the server knows, by the opening that made them.
    sessions: BTreeMap<Generation, SessionId>,
    last_answer: Option<Mono>,
    connection: connection::State,
    session: session::State,
    listen: listen::State,
    opens: Vec<Mono>,
    gets: Vec<Mono>,
}

const POLICY: fn() -> connection::Policy = connection::Policy::default;

impl World {
    fn new(forecast: Vec<(u64, Weather)>, random: u32) -> Self {
        let mut world = Self {
            now: Mono(1_000),
            random: random | 1,
            numbers: 0,
            plans: BinaryHeap::new(),
            forecast: forecast.into(),
            weather: Weather::Fine,
            sessions: BTreeMap::new(),
            last_answer: None,
            connection: Connection::initial(),
            session: Session::initial(),
            listen: Listen::initial(),
            opens: Vec::new(),
            gets: Vec::new(),
        };
        world.plan(0, Plan::Turn);
        world.plan(0, Plan::Call);
        world.connection(connection::Event::Enable);
        world
    }

    fn plan(&mut self, delay: u64, plan: Plan) {
        self.numbers += 1;
        let entry = (self.now + Millis(delay), self.numbers, plan);
        self.plans.push(Reverse(entry));
    }

    /// xorshift: the same seed plays the same world.
    fn moment(&mut self) -> Moment {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.numbers += 1;
        Moment {
            now: self.now,
            jitter: Jitter(self.random),
            attempt: AttemptId(self.numbers),
        }
    }

    fn run_until(&mut self, end: Mono) {
        loop {
            let connection = connection::deadline(&self.connection, &POLICY());
            let listen = listen::deadline(&self.listen, &stream::Policy::default());
            let at = |deadline: Option<Deadline>| deadline.map_or(Mono(u64::MAX), |due| due.at);
            let planned = self.plans.peek().map_or(Mono(u64::MAX), |plan| plan.0.0);
            let next = at(connection).min(at(listen)).min(planned);
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if planned == next {
                let Reverse((_, _, plan)) = self.plans.pop().unwrap();
                self.happen(plan);
            } else if at(connection) == next {
                let last_answer = self.last_answer;
                self.connection(connection::Event::Due { last_answer });
            } else {
                self.listen(listen::Event::Due);
            }
        }
    }

    fn happen(&mut self, plan: Plan) {
        match plan {
            Plan::Turn => self.turn(),
            Plan::Attempt(attempt) => self.end_attempt(attempt),
            Plan::Cut(generation) => {
                let fault = Fault::new(Kind::Network, "cut");
                self.connection(connection::Event::Lost { generation, fault });
            }
            Plan::Health(generation) => self.ask(generation),
            Plan::Call => {
                if let connection::State::Connected { generation, .. } = self.connection {
                    match self.weather {
                        // One call that fails condemns nothing.
                        Weather::Down | Weather::BlackHole => {
                            self.connection(connection::Event::Doubt { generation });
                        }
                        Weather::Fine
                        | Weather::Busy { .. }
                        | Weather::Drops { .. }
                        | Weather::Forgetful
                        | Weather::Cuts { .. }
                        | Weather::NoStream(_)
                        | Weather::WantsSignIn
                        | Weather::Redirects => self.ask(generation),
                    }
                }
                self.plan(3_000, Plan::Call);
            }
            Plan::Get(attempt) => self.end_get(attempt),
            Plan::GetEnds(attempt) => {
                let how = Break::CleanEnd;
                self.listen(listen::Event::Broken { attempt, how });
            }
            Plan::Person => match self.connection {
                connection::State::AwaitingSignIn { .. } => {
                    self.connection(connection::Event::SignedIn);
                }
                connection::State::Misconfigured { .. } => {
                    self.connection(connection::Event::Reload);
                }
                connection::State::Disabled
                | connection::State::Connecting { .. }
                | connection::State::Connected { .. }
                | connection::State::Retrying { .. } => {}
            },
        }
    }

    fn turn(&mut self) {
        let (lasts, weather) = self.forecast.pop_front().unwrap_or((0, Weather::Fine));
        self.weather = weather;
        self.plan(1_000, Plan::Person);
        if weather == Weather::Down {
            self.sessions.clear();
            if let connection::State::Connected { generation, .. } = self.connection {
                self.plan(3, Plan::Cut(generation));
            }
        }
        if let listen::State::Open { attempt, .. } = self.listen {
            self.plan(5, Plan::GetEnds(attempt));
        }
        if lasts > 0 {
            self.plan(lasts, Plan::Turn);
        }
    }

    fn end_attempt(&mut self, attempt: AttemptId) {
        let fault = match self.weather {
            Weather::BlackHole => return,
            Weather::Down => Fault::new(Kind::Network, "refused"),
            Weather::Busy { retry_after } => {
                Fault::new(Kind::RateLimited, "429").after(retry_after.map(Millis))
            }
            Weather::WantsSignIn => Fault::new(Kind::SignInRequired, "401"),
            Weather::Redirects => Fault::new(Kind::Redirected, "308"),
            Weather::Fine
            | Weather::Drops { .. }
            | Weather::Forgetful
            | Weather::Cuts { .. }
            | Weather::NoStream(_) => {
                self.numbers += 1;
                let generation = Generation(self.numbers);
                let id = SessionId::new(format!("S{}", generation.0));
                self.sessions.insert(generation, id);
                if let Weather::Drops { after } = self.weather {
                    self.plan(after, Plan::Cut(generation));
                }
                self.connection(connection::Event::Opened {
                    attempt,
                    generation,
                });
                return;
            }
        };
        self.connection(connection::Event::Failed { attempt, fault });
    }

    /// A request goes out on this opening: a call, or a health check.
    fn ask(&mut self, generation: Generation) {
        let fault = match self.weather {
            Weather::Forgetful => return self.refuse(generation),
            Weather::Down => Fault::new(Kind::Network, "refused"),
            Weather::BlackHole => Fault::new(Kind::Timeout, "no answer"),
            Weather::Fine
            | Weather::Busy { .. }
            | Weather::Drops { .. }
            | Weather::Cuts { .. }
            | Weather::NoStream(_)
            | Weather::WantsSignIn
            | Weather::Redirects => {
                if !self.sessions.contains_key(&generation) {
                    return self.refuse(generation);
                }
                self.last_answer = Some(self.now);
                return;
            }
        };
        self.connection(connection::Event::Lost { generation, fault });
    }

    fn refuse(&mut self, generation: Generation) {
        self.sessions.remove(&generation);
        // Two calls at a time are refused.
        for _ in 0..2 {
            self.session(session::Event::Refused {
                generation,
                rule: "404",
            });
        }
    }

    fn end_get(&mut self, attempt: AttemptId) {
        let retry_after = None;
        match self.weather {
            Weather::BlackHole => {}
            Weather::Down | Weather::Busy { .. } => self.listen(listen::Event::Failed {
                attempt,
                retry_after,
            }),
            Weather::NoStream(status) => self.listen(listen::Event::Refused { attempt, status }),
            Weather::WantsSignIn | Weather::Redirects | Weather::Forgetful => {
                let status = Some(404);
                self.listen(listen::Event::Refused { attempt, status });
            }
            Weather::Fine | Weather::Drops { .. } => self.listen(listen::Event::Opened { attempt }),
            Weather::Cuts { after, event } => {
                self.listen(listen::Event::Opened { attempt });
                if event {
                    let retry = Some(Millis(after));
                    self.listen(listen::Event::Received { id: None, retry });
                    self.listen(listen::Event::Received {
                        id: None,
                        retry: None,
                    });
                }
                self.plan(after, Plan::GetEnds(attempt));
            }
        }
    }

    fn connection(&mut self, event: connection::Event) {
        let before = self.connection.clone();
        let step = Connection::step(before.clone(), event, self.moment(), &POLICY());
        self.connection = step.state;
        for action in step.actions {
            match action {
                connection::Action::Open { attempt, .. } => {
                    self.opens.push(self.now);
                    self.plan(20, Plan::Attempt(attempt));
                }
                connection::Action::Abandon { .. } => {}
                connection::Action::Close { generation } => {
                    self.session(session::Event::Closed {
                        generation,
                        reachable: self.weather != Weather::Down,
                    });
                }
                connection::Action::CheckHealth { generation, .. } => {
                    let slow = self.weather == Weather::BlackHole;
                    self.plan(if slow { 60_000 } else { 5 }, Plan::Health(generation));
                }
            }
        }
        let generation = |state: &connection::State| match state {
            connection::State::Connected { generation, .. } => Some(*generation),
            connection::State::Disabled
            | connection::State::Misconfigured { .. }
            | connection::State::Connecting { .. }
            | connection::State::Retrying { .. }
            | connection::State::AwaitingSignIn { .. } => None,
        };
        let (old, new) = (generation(&before), generation(&self.connection));
        if old == new {
            return;
        }
        if old.is_some() {
            self.listen(listen::Event::SessionClosed);
        }
        if let Some(generation) = new {
            let id = self.sessions.get(&generation).cloned();
            self.session(session::Event::Opened { generation, id });
            self.listen(listen::Event::SessionOpened { new: true });
        }
    }

    fn session(&mut self, event: session::Event) {
        let policy = session::Policy::default();
        let step = Session::step(self.session.clone(), event, self.moment(), &policy);
        self.session = step.state;
        for action in step.actions {
            match action {
                session::Action::Rebuild { lost, fault }
                | session::Action::Rest { lost, fault } => {
                    let generation = lost;
                    self.connection(connection::Event::Lost { generation, fault });
                }
                session::Action::Delete { id } => {
                    if let session::State::Open { id: live, .. } = &self.session {
                        assert_ne!(Some(&id), live.as_ref(), "the live session was deleted");
                    }
                    self.sessions.retain(|_, known| *known != id);
                }
            }
        }
    }

    fn listen(&mut self, event: listen::Event) {
        let policy = stream::Policy::default();
        let step = Listen::step(self.listen.clone(), event, self.moment(), &policy);
        self.listen = step.state;
        for action in step.actions {
            match action {
                listen::Action::Open { attempt, .. } => {
                    self.gets.push(self.now);
                    self.plan(10, Plan::Get(attempt));
                }
                listen::Action::Close => {}
                listen::Action::Doubt => {
                    if let connection::State::Connected { generation, .. } = self.connection {
                        self.connection(connection::Event::Doubt { generation });
                    }
                }
            }
        }
    }
}

/// The largest number of times within any `window`.
fn most(times: &[Mono], window: Millis) -> usize {
    (0..times.len())
        .map(|first| {
            let within = |at: &&Mono| at.since(times[first]) < window;
            times[first..].iter().take_while(within).count()
        })
        .max()
        .unwrap_or(0)
}

/// From the last fault on: an attempt under way runs into its limit, the longest delay passes, and a
/// wait that the server or the session machine asked for.
const BACK: Millis = Millis::mins(4 + 5 + 2);
/// The GET stream may have to wait for the end of the hour, and for one recheck.
const LISTENING: Millis = Millis::mins(60 + 11);

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn once_faults_stop_everything_comes_back_and_nothing_ever_spins(
        forecast in vec((50..200_000_u64, weather()), 1..12),
        seed in any::<u32>(),
    ) {
        let mut world = World::new(forecast.clone(), seed);
        let faults_end = world.now + Millis(forecast.iter().map(|(lasts, _)| lasts).sum());
        world.run_until(faults_end + BACK);
        prop_assert_eq!(world.connection.name(), "connected", "{:?}", world.connection);
        prop_assert_eq!(world.session.name(), "open");

        let opens = world.opens.len();
        world.run_until(faults_end + BACK + LISTENING);
        prop_assert_eq!(world.opens.len(), opens, "it stays connected");
        if !world.listen.memory().declined {
            prop_assert_eq!(world.listen.name(), "open", "{:?}", world.listen);
        }
        prop_assert_eq!(world.sessions.len(), 1, "sessions left behind: {:?}", world.sessions);

        prop_assert!(most(&world.gets, stream::BURST_WINDOW) <= stream::BURST);
        prop_assert!(most(&world.gets, Millis::mins(60)) <= 2 * stream::HOURLY as usize);
        // Five sessions are rebuilt at once in a minute; a connection that held for ten seconds is
        // opened again at once; each is followed by delays that double.
        prop_assert!(most(&world.opens, Millis::mins(1)) <= 20, "{:?}", world.opens);
    }
}

#[test]
fn a_server_that_restarts_is_back_within_one_step_and_one_handshake() {
    let down = 30_000;
    let mut world = World::new(vec![(60_000, Weather::Fine), (down, Weather::Down)], 7);
    world.run_until(Mono(1_000 + 60_000 + down));
    assert_eq!(world.connection.name(), "retrying");
    let connection::State::Retrying { due, .. } = world.connection else {
        unreachable!()
    };
    let step = due.since(world.now);
    world.run_until(due + Millis(20));
    assert!(step <= Millis::secs(32), "{step:?}");
    assert_eq!(world.connection.name(), "connected");
}

/// OP-03 in numbers: a server that accepts, answers `initialize` and then drops after 200 ms.
#[test]
fn op_03_accept_and_drop_is_not_a_hot_loop() {
    let drops = Weather::Drops { after: 200 };
    let mut world = World::new(vec![(600_000, drops)], 7);
    world.run_until(Mono(601_000));
    assert!(
        most(&world.opens, Millis::mins(1)) <= 8,
        "{:?}",
        world.opens
    );
    world.run_until(Mono(601_000) + BACK);
    assert_eq!(world.connection.name(), "connected");
}
