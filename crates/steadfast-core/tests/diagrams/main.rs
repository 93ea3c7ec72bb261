//! Draws `docs/machines/*.md` from the machines themselves: every kind of event is fed to every kind of
//! state, and the page is what came out. `cargo xtask diagrams` (UPDATE_DIAGRAMS=1) writes the pages;
//! without it the test compares.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../common/mod.rs"]
mod common;
mod page;

use common::{Answer, Catalog, Connection, Grant, Listen, Moment, Session, Subscription};
use page::{article, compare, drawn, variant};
use steadfast_core::stream::{self, Break, Budget, answer, listen, subscription};
use steadfast_core::{
    AttemptId, EventCursor, Fault, Generation, GrantGeneration, Jitter, Kind, Millis, Mono,
    SessionId, Wall, catalog, connection, grant, session,
};

/// All states are drawn at this moment: what is due in them is due now.
const NOW: Mono = Mono(10_000_000);
/// Long enough ago for everything: limits are over, and an opening is stable.
const LONG_AGO: Mono = Mono(0);
/// The attempt and the opening that the states know. Events of older ones are ignored, and not drawn.
const ATTEMPT: AttemptId = AttemptId(1);
const GENERATION: Generation = Generation(1);

/// Fails to compile where a variant is missing, and fails where none of it is drawn.
macro_rules! all_of {
    ($type:ident: $($variant:ident)|+, $values:expr) => {
        let _ = |value: &$type| match value {
            $($type::$variant { .. })|+ => (),
        };
        let names: Vec<String> = $values.map(variant).collect();
        for name in [$(stringify!($variant)),+] {
            assert!(names.iter().any(|drawn| drawn == name), "{name} is not drawn");
        }
    };
}

// After the macro, which it uses.
mod operation;

fn fault(kind: Kind) -> Fault {
    Fault::new(kind, "seen")
}

fn connected(since: Mono, health_due: Option<Mono>) -> connection::State {
    connection::State::Connected {
        generation: GENERATION,
        since,
        tries: 1,
        health_due,
        asked: None,
    }
}

#[test]
fn diagram_of_connection() {
    use connection::{Event, State};
    let retrying = |fault| State::Retrying {
        fault,
        tries: 1,
        due: NOW,
        held: false,
    };
    let held = State::Retrying {
        fault: fault(Kind::Network),
        tries: 1,
        due: NOW,
        held: true,
    };
    let connecting = |fault| State::Connecting {
        attempt: ATTEMPT,
        tries: 1,
        since: LONG_AGO,
        fault,
    };
    let limited = fault(Kind::RateLimited).after(Some(Millis::secs(9)));
    let states = [
        drawn("", State::Disabled),
        drawn("for the first time", connecting(None)),
        drawn("again", connecting(Some(fault(Kind::Network)))),
        drawn("stable", connected(LONG_AGO, Some(NOW))),
        drawn("not yet stable", connected(NOW - Millis(1), Some(NOW))),
        drawn("stable, health checks off", connected(LONG_AGO, None)),
        drawn("no delay named", retrying(fault(Kind::Network))),
        drawn("the server named a delay", retrying(limited.clone())),
        drawn("held by the gate", held),
        drawn(
            "",
            State::AwaitingSignIn {
                fault: fault(Kind::SignInRequired),
            },
        ),
        drawn(
            "",
            State::Misconfigured {
                fault: fault(Kind::Redirected),
            },
        ),
    ];
    let failed = |kind| Event::Failed {
        attempt: ATTEMPT,
        fault: fault(kind),
    };
    let lost = |fault| Event::Lost {
        generation: GENERATION,
        fault,
    };
    let events = [
        ("enable", Event::Enable),
        ("disable", Event::Disable),
        (
            "misconfigure",
            Event::Misconfigure(fault(Kind::Misconfigured)),
        ),
        ("reload", Event::Reload),
        ("signed in", Event::SignedIn),
        ("woke", Event::Woke),
        (
            "opened",
            Event::Opened {
                attempt: ATTEMPT,
                generation: GENERATION,
            },
        ),
        ("failed, time mends it", failed(Kind::Network)),
        ("failed, sign-in required", failed(Kind::SignInRequired)),
        ("failed, redirected", failed(Kind::Redirected)),
        (
            "held",
            Event::Held {
                attempt: ATTEMPT,
                until: NOW,
            },
        ),
        ("lost, time mends it", lost(fault(Kind::Network))),
        ("lost, with a delay", lost(limited)),
        ("lost, session refused", lost(fault(Kind::SessionLost))),
        ("lost, sign-in required", lost(fault(Kind::SignInRequired))),
        ("lost, redirected", lost(fault(Kind::Redirected))),
        (
            "doubt",
            Event::Doubt {
                generation: GENERATION,
            },
        ),
        ("due", Event::Due { last_answer: None }),
        (
            "due, heard of meanwhile",
            Event::Due {
                last_answer: Some(NOW),
            },
        ),
    ];
    all_of!(Event: Enable | Disable | Misconfigure | Reload | SignedIn | Woke | Opened | Failed | Held | Lost | Doubt | Due, events.iter().map(|(_, event)| event));
    all_of!(State: Disabled | Misconfigured | Connecting | Connected | Retrying | AwaitingSignIn, states.iter().map(|state| &state.it));
    let page = article::<Connection>(&states, &events, &Default::default());
    compare("connection", &page);
}

#[test]
fn diagram_of_session() {
    use session::{Event, State};
    let open = |id: Option<&str>, lost| State::Open {
        generation: GENERATION,
        id: id.map(SessionId::from),
        lost,
    };
    let states = [
        drawn("", State::None { lost: Vec::new() }),
        drawn("with an id", open(Some("S1"), Vec::new())),
        drawn("with an id, lost often", open(Some("S1"), vec![NOW; 5])),
        drawn("without an id", open(None, Vec::new())),
        drawn(
            "",
            State::Rebuilding {
                generation: GENERATION,
                lost: vec![NOW],
            },
        ),
        drawn(
            "",
            State::Unstable {
                generation: GENERATION,
                until: NOW,
                lost: vec![NOW; 6],
            },
        ),
    ];
    let opened = |id: Option<&str>| Event::Opened {
        generation: GENERATION.next(),
        id: id.map(SessionId::from),
    };
    let closed = |reachable| Event::Closed {
        generation: GENERATION,
        reachable,
    };
    let events = [
        ("opened", opened(Some("S2"))),
        ("opened with the same id", opened(Some("S1"))),
        ("opened without an id", opened(None)),
        (
            "refused",
            Event::Refused {
                generation: GENERATION,
                rule: "404",
            },
        ),
        ("closed, server reachable", closed(true)),
        ("closed, server unreachable", closed(false)),
    ];
    all_of!(Event: Opened | Refused | Closed, events.iter().map(|(_, event)| event));
    all_of!(State: None | Open | Rebuilding | Unstable, states.iter().map(|state| &state.it));
    let page = article::<Session>(&states, &events, &Default::default());
    compare("session", &page);
}

fn full_budget() -> Budget {
    Budget {
        openings: vec![NOW; stream::BURST],
        ..Budget::default()
    }
}

fn spent_budget() -> Budget {
    Budget {
        hour: (NOW, stream::HOURLY),
        ..Budget::default()
    }
}

#[test]
fn diagram_of_catalog() {
    use catalog::{Complete, Event, Life, News, Standing, State};
    let complete = |news| Complete {
        size: 6,
        life: Life::UntilNews,
        news,
    };
    let state = |standing, asked| State {
        generation: GENERATION,
        standing,
        asked,
    };
    let asked = Some(News::Quiet);
    let whole = || Standing::Complete(complete(News::Quiet));
    let held = |until, news| Standing::Held {
        complete: complete(news),
        until,
    };
    let announced = Standing::Complete(complete(News::Announced));
    let later = NOW + Millis(1);
    let states = [
        drawn("not asked for", state(Standing::Unseen, None)),
        drawn("asked for", state(Standing::Unseen, asked)),
        drawn("not asked for", state(whole(), None)),
        drawn("asked for", state(whole(), asked)),
        drawn("a change announced, asked for", state(announced, asked)),
        drawn("not asked for", state(held(later, News::Quiet), None)),
        drawn("asked for", state(held(later, News::Quiet), asked)),
        drawn(
            "a change announced, asked for",
            state(held(later, News::Announced), asked),
        ),
        drawn(
            "asked for after the hold",
            state(held(NOW, News::Quiet), asked),
        ),
    ];
    let generation = GENERATION;
    let fetched = |size| Event::Fetched {
        generation,
        size,
        life: Life::UntilNews,
    };
    let events = [
        (
            "opened again",
            Event::Reopened {
                generation: GENERATION.next(),
            },
        ),
        ("change announced", Event::Changed),
        ("server's stream broke", Event::Deaf),
        ("doubted", Event::Doubted),
        ("wanted and stale", Event::Asked { generation }),
        ("answered", fetched(6)),
        ("answered, less than half of it", fetched(2)),
        ("failed", Event::Failed { generation }),
    ];
    all_of!(Event: Reopened | Changed | Deaf | Doubted | Asked | Fetched | Failed, events.iter().map(|(_, event)| event));
    all_of!(Standing: Unseen | Complete | Held, states.iter().map(|state| &state.it.standing));
    let page = article::<Catalog>(&states, &events, &Default::default());
    compare("catalog", &page);
}

#[test]
fn diagram_of_listen() {
    use listen::{Event, Memory, State};
    let memory = Memory::default;
    let full = || Memory {
        budget: full_budget(),
        ..memory()
    };
    let spent = || Memory {
        budget: spent_budget(),
        ..memory()
    };
    let declined = || Memory {
        declined: true,
        ..memory()
    };
    let waiting = |memory| State::Waiting { due: NOW, memory };
    let states = [
        drawn("within the limits", State::Off(memory())),
        drawn("declined in this session", State::Off(declined())),
        drawn("opened too often", State::Off(full())),
        drawn("the hour's openings spent", State::Off(spent())),
        drawn(
            "",
            State::Opening {
                attempt: ATTEMPT,
                since: LONG_AGO,
                memory: memory(),
            },
        ),
        drawn(
            "",
            State::Open {
                attempt: ATTEMPT,
                since: LONG_AGO,
                fruitful: false,
                memory: memory(),
            },
        ),
        drawn("within the limits", waiting(memory())),
        drawn("opened too often", waiting(full())),
        drawn("the hour's openings spent", waiting(spent())),
        drawn(
            "with a recheck",
            State::NotOffered {
                recheck: Some(NOW),
                memory: memory(),
            },
        ),
        drawn(
            "not in this session",
            State::NotOffered {
                recheck: None,
                memory: memory(),
            },
        ),
    ];
    let refused = |status| Event::Refused {
        attempt: ATTEMPT,
        status,
    };
    let events = [
        ("session opened", Event::SessionOpened { new: true }),
        ("same session again", Event::SessionOpened { new: false }),
        ("session closed", Event::SessionClosed),
        ("opened", Event::Opened { attempt: ATTEMPT }),
        ("refused, 405", refused(Some(405))),
        ("refused, 404", refused(Some(404))),
        ("refused, another status", refused(Some(501))),
        ("refused, no event stream", refused(None)),
        (
            "failed",
            Event::Failed {
                attempt: ATTEMPT,
                retry_after: None,
            },
        ),
        (
            "received",
            Event::Received {
                id: Some(EventCursor::from("e1")),
                retry: None,
            },
        ),
        (
            "broken",
            Event::Broken {
                attempt: ATTEMPT,
                how: Break::CleanEnd,
            },
        ),
        ("due", Event::Due),
    ];
    all_of!(Event: SessionOpened | SessionClosed | Opened | Refused | Failed | Received | Broken | Due, events.iter().map(|(_, event)| event));
    all_of!(State: Off | Opening | Open | Waiting | NotOffered, states.iter().map(|state| &state.it));
    let page = article::<Listen>(&states, &events, &Default::default());
    compare("listen", &page);
}

#[test]
fn diagram_of_subscription() {
    use subscription::{Event, Filter, Held, Memory, State};
    let held = |attempt| Held {
        attempt,
        since: LONG_AGO,
        fruitful: false,
        asked: Filter::all_lists(),
        honoured: Filter::all_lists(),
    };
    let wants = |wanted: Filter| Memory {
        wanted,
        ..Memory::default()
    };
    let memory = || wants(Filter::all_lists());
    let full = || Memory {
        budget: full_budget(),
        ..memory()
    };
    let spent = || Memory {
        budget: spent_budget(),
        ..memory()
    };
    let opening = |before| State::Opening {
        attempt: ATTEMPT,
        since: LONG_AGO,
        asked: Filter::all_lists(),
        before,
        memory: memory(),
    };
    let open = |renew_at, memory| State::Open {
        held: held(ATTEMPT),
        renew_at,
        memory,
    };
    let waiting = |memory| State::Waiting { due: NOW, memory };
    let states = [
        drawn("", State::Off(Memory::default())),
        drawn("", State::Idle(Memory::default())),
        drawn("nothing open", opening(None)),
        drawn("an older stream open", opening(Some(held(AttemptId(0))))),
        drawn("as wanted", open(None, memory())),
        drawn(
            "nothing wanted any more",
            open(Some(NOW), Memory::default()),
        ),
        drawn("something else wanted", open(Some(NOW), memory())),
        drawn("opened too often", open(Some(NOW), full())),
        drawn("within the limits", waiting(memory())),
        drawn("opened too often", waiting(full())),
        drawn("the hour's openings spent", waiting(spent())),
        drawn(
            "",
            State::Resting {
                due: NOW,
                memory: memory(),
            },
        ),
        drawn("", State::NotOffered(memory())),
    ];
    let attempt = ATTEMPT;
    let refused = |unknown| Event::Refused { attempt, unknown };
    let tools = || Filter {
        tools: true,
        ..Filter::default()
    };
    let events = [
        (
            "connected",
            Event::Connected {
                wanted: Filter::all_lists(),
            },
        ),
        (
            "connected, nothing wanted",
            Event::Connected {
                wanted: Filter::default(),
            },
        ),
        ("disconnected", Event::Disconnected),
        ("something else wanted", Event::Wanted(tools())),
        ("nothing wanted", Event::Wanted(Filter::default())),
        (
            "acknowledged",
            Event::Acknowledged {
                attempt,
                honoured: Filter::all_lists(),
            },
        ),
        ("refused, method unknown", refused(true)),
        ("refused", refused(false)),
        (
            "failed",
            Event::Failed {
                attempt,
                retry_after: None,
            },
        ),
        ("received", Event::Received { attempt }),
        ("broken", Event::Broken { attempt }),
        ("ended", Event::Ended { attempt }),
        ("due", Event::Due),
    ];
    all_of!(Event: Connected | Disconnected | Wanted | Acknowledged | Refused | Failed | Received | Broken | Ended | Due, events.iter().map(|(_, event)| event));
    all_of!(State: Off | Idle | Opening | Open | Waiting | Resting | NotOffered, states.iter().map(|state| &state.it));
    let page = article::<Subscription>(&states, &events, &Default::default());
    compare("subscription", &page);
}

#[test]
fn diagram_of_answer() {
    use answer::{Event, Memory, State};
    let cursor = || EventCursor::from("e1");
    let memory = |fruitless| Memory {
        cursor: Some(cursor()),
        fruitless,
        broke: (fruitless > 0).then_some(Break::Reset),
        ..Memory::default()
    };
    let reading = |memory| State::Reading {
        memory,
        heard: LONG_AGO,
    };
    let resuming = |fruitless| State::Resuming {
        attempt: ATTEMPT,
        since: LONG_AGO,
        cursor: cursor(),
        memory: memory(fruitless),
    };
    let states = [
        drawn("without a cursor", reading(Memory::default())),
        drawn("with a cursor", reading(memory(0))),
        drawn("resumed", reading(memory(1))),
        drawn("the last resume", reading(memory(5))),
        drawn(
            "",
            State::Waiting {
                due: NOW,
                cursor: cursor(),
                memory: memory(1),
            },
        ),
        drawn("with resumes left", resuming(1)),
        drawn("the last resume", resuming(5)),
        drawn("", State::Answered),
        drawn(
            "",
            State::NotObserved {
                evidence: "seen".to_owned(),
            },
        ),
    ];
    let attempt = ATTEMPT;
    let events = [
        ("heard", Event::Heard),
        (
            "received",
            Event::Received {
                id: Some(EventCursor::from("e2")),
                retry: None,
            },
        ),
        ("answered", Event::Answered),
        (
            "broken",
            Event::Broken {
                how: Break::CleanEnd,
            },
        ),
        ("resumed", Event::Resumed { attempt }),
        (
            "resume refused",
            Event::ResumeRefused {
                attempt,
                why: "405".to_owned(),
            },
        ),
        (
            "resume failed",
            Event::ResumeFailed {
                attempt,
                retry_after: None,
            },
        ),
        ("session lost", Event::SessionLost),
        ("due", Event::Due),
    ];
    all_of!(Event: Heard | Received | Answered | Broken | Resumed | ResumeRefused | ResumeFailed | SessionLost | Due, events.iter().map(|(_, event)| event));
    all_of!(State: Reading | Waiting | Resuming | Answered | NotObserved, states.iter().map(|state| &state.it));
    let page = article::<Answer>(&states, &events, &Default::default());
    compare("answer", &page);
}

/// The moment of [`NOW`] on the other clock.
fn wall() -> Wall {
    let moment = Moment {
        now: NOW,
        jitter: Jitter(0),
        attempt: ATTEMPT,
    };
    moment.clocks().wall
}

fn tokens(generation: u64, life: i64, renewable: bool) -> grant::Tokens {
    grant::Tokens {
        generation: GrantGeneration(generation),
        issued_at: Wall(wall().0 - 7_200_000),
        expires_at: Wall(wall().0 + life),
        renewable,
        scopes: Vec::new(),
    }
}

fn grant_states() -> Vec<page::Drawn<grant::State>> {
    use grant::{Recheck, Stage, State, Strikes};
    const GOOD: i64 = 60_000;
    let strikes = Strikes::default();
    let held = |life| tokens(2, life, true);
    let renewing = |stage, structured| State::Renewing {
        tokens: held(GOOD),
        attempt: ATTEMPT,
        until: NOW,
        stage,
        strikes: Strikes {
            structured,
            ..strikes
        },
        fault: None,
    };
    let refused = |life, recheck| State::Refused {
        tokens: held(life),
        fault: fault(Kind::GrantRefused),
        at: wall(),
        ended: life <= 0 && recheck != Recheck::AtExpiry,
        recheck,
        strikes,
    };
    let valid = |fresh| State::Valid {
        tokens: held(GOOD),
        renew_at: wall(),
        strikes: Strikes { fresh, ..strikes },
    };
    let fault = || fault(Kind::RenewalDelayed);
    vec![
        drawn("", State::None),
        drawn("accepted before", valid(0)),
        drawn("the token before it was refused", valid(1)),
        drawn(
            "",
            State::Due {
                tokens: held(GOOD),
                since: wall(),
                ask_again: NOW,
                strikes,
                fault: None,
            },
        ),
        drawn("asking", renewing(Stage::Asking, 0)),
        drawn(
            "asking, after two structured refusals",
            renewing(Stage::Asking, 2),
        ),
        drawn("rediscovering", renewing(Stage::Rediscovering, 0)),
        drawn("asking elsewhere", renewing(Stage::AskingElsewhere, 0)),
        drawn(
            "",
            State::Delayed {
                tokens: held(GOOD),
                fault: fault(),
                due: NOW,
                strikes,
            },
        ),
        drawn(
            "",
            State::Suspect {
                tokens: held(GOOD),
                fault: fault(),
                due: NOW,
                strikes,
            },
        ),
        drawn("the access token is good", refused(GOOD, Recheck::AtExpiry)),
        drawn(
            "the access token has expired",
            refused(0, Recheck::AtExpiry),
        ),
        drawn(
            "the access token has just ended",
            State::Refused {
                tokens: held(0),
                fault: fault(),
                at: wall(),
                ended: false,
                recheck: Recheck::Never,
                strikes,
            },
        ),
        drawn("a probe is left", refused(0, Recheck::Probe { due: NOW })),
        drawn("no try is left", refused(0, Recheck::Never)),
        drawn(
            "",
            State::Unrenewable {
                tokens: tokens(2, 0, false),
            },
        ),
    ]
}

#[test]
fn diagram_of_grant() {
    use grant::{Event, Failure, Found, State};
    let states = grant_states();
    let (attempt, generation) = (ATTEMPT, GrantGeneration(2));
    let failed = |failure: fn(Fault) -> Failure, kind| Event::Failed {
        attempt,
        failure: failure(fault(kind)),
    };
    let rediscovered = |found| Event::Rediscovered { attempt, found };
    let loaded = |life, renewable| Event::Loaded {
        tokens: tokens(3, life, renewable),
    };
    let events = [
        ("good tokens came in", loaded(3_600_000, true)),
        ("tokens that have expired came in", loaded(-1, true)),
        (
            "tokens without a refresh token came in",
            loaded(3_600_000, false),
        ),
        (
            "the client asks for itself",
            Event::Wanted {
                generation: GrantGeneration(3),
            },
        ),
        ("removed", Event::Removed),
        ("due", Event::Due),
        (
            "the clock was set back",
            Event::ClockSetBack {
                by: Millis::mins(60),
            },
        ),
        ("reload", Event::Reload),
        ("its turn", Event::Turn { generation }),
        (
            "another daemon holds the lease",
            Event::Leased {
                until: NOW + Millis::secs(30),
            },
        ),
        (
            "renewed",
            Event::Renewed {
                attempt,
                tokens: tokens(3, 3_600_000, true),
            },
        ),
        (
            "failed, time mends it",
            failed(Failure::Temporary, Kind::RenewalDelayed),
        ),
        (
            "answer not observed",
            failed(Failure::OutcomeLost, Kind::RenewalOutcomeLost),
        ),
        (
            "no token endpoint there",
            failed(Failure::Moved, Kind::TokenEndpointMoved),
        ),
        ("refused", failed(Failure::Grant, Kind::GrantRefused)),
        (
            "refused with another code",
            failed(Failure::Structured, Kind::GrantRefused),
        ),
        (
            "client not known",
            failed(Failure::Client, Kind::SignInRequired),
        ),
        ("found elsewhere", rediscovered(Found::Elsewhere)),
        ("found at the same address", rediscovered(Found::Same)),
        (
            "not found",
            rediscovered(Found::Nothing(fault(Kind::RenewalDelayed))),
        ),
        (
            "another issuer",
            rediscovered(Found::Nothing(fault(Kind::IssuerChanged))),
        ),
        ("401 from the server", Event::TokenRefused { generation }),
        ("suspected", Event::Suspected { generation }),
        (
            "accepted by the server",
            Event::TokenAccepted { generation },
        ),
    ];
    all_of!(Event: Loaded | Wanted | Removed | Due | ClockSetBack | Reload | Turn | Leased | Renewed | Failed | Rediscovered | TokenRefused | Suspected | TokenAccepted, events.iter().map(|(_, event)| event));
    all_of!(State: None | Valid | Due | Renewing | Delayed | Suspect | Refused | Unrenewable, states.iter().map(|state| &state.it));
    let page = article::<Grant>(&states, &events, &Default::default());
    compare("grant", &page);
}
