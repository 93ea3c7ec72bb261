//! Examples, and what holds for every order of askers.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const START: Mono = Mono(1_000_000);

fn policy() -> Policy {
    Policy {
        burst: 3,
        places: 2,
        ..Policy::new(Millis::secs(1), 0)
    }
}

fn server(name: &str) -> Arc<str> {
    Arc::from(name)
}

/// Asks without a jitter; the ticket.
fn queue(gate: &mut Gate, name: &str, claim: Claim, now: Mono) -> Ticket {
    match gate.ask(&server(name), claim, now, Jitter(0)) {
        Answer::Queued(ticket) => ticket,
        Answer::Held { until } => panic!("held until {until:?}"),
    }
}

fn held(gate: &mut Gate, name: &str, now: Mono) -> Option<Millis> {
    match gate.ask(&server(name), Claim::Again, now, Jitter(0)) {
        Answer::Queued(_) => None,
        Answer::Held { until } => Some(until.since(now)),
    }
}

#[test]
fn the_limits_scale_with_the_first_delay() {
    let policy = Policy::new(Millis::secs(1), 8);
    assert_eq!((policy.places, policy.burst), (8, 64));
    assert_eq!(policy.interval, Millis(500), "120 a minute");
    let policy = Policy::new(Millis::ZERO, 0);
    assert_eq!((policy.places, policy.interval), (1, Millis(1)));
}

#[test]
fn a_burst_passes_and_then_each_gets_a_turn_of_its_own() {
    let mut gate = Gate::new(policy());
    let waits: Vec<_> = (0..6).map(|_| held(&mut gate, "a", START)).collect();
    let turn = |n: u64| Some(Millis(500 * n));
    assert_eq!(waits, [None, None, None, turn(1), turn(2), turn(3)]);
    assert_eq!(held(&mut gate, "b", START), None, "another server");
    // Who has waited for the turn is not held again, and who comes anew is behind all of them.
    let later = START + Millis(500);
    assert_eq!(held(&mut gate, "a", later), Some(Millis(1_500)));
    queue(&mut gate, "a", Claim::Turn, later);
    // Left alone it recovers.
    let recovered = later + Millis::mins(1);
    assert_eq!(held(&mut gate, "a", recovered), None);
}

#[test]
fn the_burst_is_as_large_as_the_fleet() {
    let mut gate = Gate::new(policy());
    let members = 10;
    for _ in 0..members {
        gate.join(&server("a"));
    }
    for _ in 0..members {
        assert_eq!(held(&mut gate, "a", START), None);
    }
    assert!(held(&mut gate, "a", START).is_some());
}

#[test]
fn first_openings_and_reloads_pass_the_cap_and_still_count() {
    let mut gate = Gate::new(policy());
    for _ in 0..3 {
        queue(&mut gate, "a", Claim::First, START);
    }
    assert_eq!(held(&mut gate, "a", START), Some(Millis(500)));
    queue(&mut gate, "a", Claim::First, START);
    queue(&mut gate, "a", Claim::Asked, START);
    // They took nothing from those who wait for a turn.
    assert_eq!(held(&mut gate, "a", START), Some(Millis(1_000)));
}

#[test]
fn places_are_bounded_and_lent_for_a_while() {
    let mut gate = Gate::new(policy());
    let tickets: Vec<_> = (0..4)
        .map(|_| queue(&mut gate, "stuck", Claim::First, START))
        .collect();
    assert_eq!(gate.deadline(), Some(START));
    assert_eq!(gate.admit(START).len(), 2);
    assert_eq!(gate.deadline(), Some(START + Millis(500)));
    assert!(gate.admit(START + Millis(499)).is_empty());
    gate.done(&tickets[0]);
    assert_eq!(gate.admit(START + Millis(499)), [tickets[2].number()]);
    // The second one never ends, and does not keep its place.
    assert_eq!(gate.admit(START + Millis(500)), [tickets[3].number()]);
    assert_eq!(gate.deadline(), None);
}

#[test]
fn the_queue_of_one_server_holds_up_no_other() {
    let mut gate = Gate::new(policy());
    for _ in 0..50 {
        queue(&mut gate, "stuck", Claim::First, START);
    }
    let healthy = queue(&mut gate, "healthy", Claim::First, START);
    assert!(gate.admit(START).contains(&healthy.number()));
}

#[test]
fn a_reload_goes_before_everybody() {
    let mut gate = Gate::new(policy());
    for _ in 0..4 {
        queue(&mut gate, "a", Claim::First, START);
    }
    gate.admit(START);
    let asked = queue(&mut gate, "a", Claim::Asked, START);
    let free = START + policy().hold;
    assert_eq!(gate.admit(free).first(), Some(&asked.number()));
}

#[test]
fn those_who_come_back_together_are_spread() {
    let mut gate = Gate::new(policy());
    let most = Jitter(u32::MAX);
    let first = gate.ask(&server("a"), Claim::Again, START, most);
    assert!(
        matches!(first, Answer::Queued(Ticket { not_before, .. }) if not_before == START),
        "who comes alone need not wait"
    );
    let second = gate.ask(&server("a"), Claim::Again, START, most);
    assert!(matches!(second, Answer::Queued(Ticket { not_before, .. }) if not_before > START));
    assert_eq!(gate.admit(START).len(), 1);
    let due = gate.deadline().unwrap();
    assert!(due.since(START) < policy().spread);
    assert_eq!(gate.admit(due).len(), 1);
}

#[test]
fn nothing_is_left_behind() {
    let mut gate = Gate::new(policy());
    gate.join(&server("a"));
    let mut tickets: Vec<_> = (0..9)
        .map(|n| queue(&mut gate, ["a", "b", "c"][n % 3], Claim::First, START))
        .collect();
    tickets.push(queue(&mut gate, "a", Claim::Asked, START));
    gate.admit(START);
    for ticket in &tickets {
        gate.done(ticket);
    }
    assert_eq!(gate.servers.len(), 1, "only the one that is still there");
    gate.part(&server("a"));
    assert!(gate.servers.is_empty() && gate.rotation.is_empty() && gate.asked.is_empty());
    assert_eq!((gate.places.len(), gate.deadline()), (0, None));
}

/// One asker: after how long it comes, where to, with which claim, and how long its attempt takes.
type Asker = (u64, usize, bool, u64);

/// What became of them.
#[derive(Default)]
struct Played {
    /// When they passed the cap, by server.
    passed: [Vec<Mono>; 3],
    /// When they got their places.
    admitted: Vec<Mono>,
    /// The most places that were held at a time.
    most: usize,
}

/// Plays askers against a gate in virtual time: who is held comes back at its turn.
fn play(askers: &[Asker], jitter: u32) -> Played {
    let names = [server("a"), server("b"), server("c")];
    let mut gate = Gate::new(policy());
    for name in &names {
        gate.join(name);
    }
    let mut now = START;
    let mut plans: BTreeMap<(Mono, u64), (usize, Claim, u64)> = BTreeMap::new();
    for (number, (after, to, first, takes)) in (0..).zip(askers) {
        now = now + Millis(*after);
        let claim = if *first { Claim::First } else { Claim::Again };
        plans.insert((now, number), (*to, claim, *takes));
    }
    let mut waiting = BTreeMap::new();
    let mut ends: BTreeSet<(Mono, Ticket)> = BTreeSet::new();
    let mut played = Played::default();
    loop {
        let planned = plans.keys().next().map(|(at, _)| *at);
        let ended = ends.first().map(|(at, _)| *at);
        let Some(next) = [planned, ended, gate.deadline()]
            .into_iter()
            .flatten()
            .min()
        else {
            assert!(waiting.is_empty(), "left waiting: {waiting:?}");
            return played;
        };
        now = next.max(START);
        while let Some(((at, number), (to, claim, takes))) = plans.pop_first() {
            if at > now {
                plans.insert((at, number), (to, claim, takes));
                break;
            }
            match gate.ask(&names[to], claim, now, Jitter(jitter)) {
                Answer::Queued(ticket) => {
                    played.passed[to].push(now);
                    waiting.insert(ticket.number(), (ticket, takes));
                }
                Answer::Held { until } => {
                    assert!(until > now && claim == Claim::Again, "held for nothing");
                    plans.insert((until, number), (to, Claim::Turn, takes));
                }
            }
        }
        while ends.first().is_some_and(|(at, _)| *at <= now) {
            let (_, ticket) = ends.pop_first().unwrap();
            gate.done(&ticket);
        }
        for number in gate.admit(now) {
            let (ticket, takes) = waiting.remove(&number).unwrap();
            played.admitted.push(now);
            ends.insert((now + Millis(takes), ticket));
        }
        played.most = played.most.max(gate.places.len());
    }
}

proptest! {
    #[test]
    fn everybody_is_admitted_within_the_limits(
        askers in vec((0..400_u64, 0..3_usize, Just(false), 0..2_000_u64), 1..150),
        jitter in any::<u32>(),
    ) {
        let played = play(&askers, jitter);
        prop_assert!(played.most <= policy().places);
        prop_assert_eq!(played.admitted.len(), askers.len());
        for times in &played.passed {
            for (index, from) in times.iter().enumerate() {
                for (count, to) in (1..).zip(&times[index..]) {
                    let within = to.since(*from);
                    let allowed = u64::from(policy().burst) + within.0 / policy().interval.0;
                    prop_assert!(count <= allowed, "{count} within {within:?}");
                }
            }
        }
    }

    #[test]
    fn a_fleet_that_opens_for_the_first_time_waits_for_places_only(
        askers in vec((Just(0_u64), 0..3_usize, Just(true), 0..400_u64), 1..100),
    ) {
        let played = play(&askers, 0);
        prop_assert!(played.most <= policy().places);
        let last = played.admitted.last().unwrap();
        let work: u64 = askers.iter().map(|(.., takes)| takes).sum();
        prop_assert!(last.since(START).0 <= work / policy().places as u64 + 400);
    }
}
