//! One example per rule of the tables, and what holds for all orders of events.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::*;
use crate::revision::Era;
use crate::step::Outcome;

struct Rig {
    state: State,
    policy: Policy,
    now: Mono,
    outcome: Outcome,
}

impl Rig {
    /// A list of this size, fetched on the first opening.
    fn with(size: usize, life: Life) -> Self {
        let mut rig = Self {
            state: State::default(),
            policy: Policy::default(),
            now: Mono(1_000_000),
            outcome: Outcome::Used,
        };
        rig.reopen(1);
        assert_eq!(rig.fetch(size, life), [Action::Enforce]);
        rig
    }

    fn feed(&mut self, event: Event) -> Vec<Action> {
        let cx = Context {
            now: Now {
                mono: self.now,
                wall: Wall(5),
            },
            policy: &self.policy,
        };
        let step = step(self.state.clone(), event, &cx);
        assert_eq!(step.deadline, None, "never polled");
        self.state = step.state;
        self.outcome = step.outcome;
        step.actions
    }

    fn reopen(&mut self, generation: u64) {
        let generation = Generation(generation);
        self.feed(Event::Reopened { generation });
    }

    fn ask(&mut self) -> Vec<Action> {
        let generation = self.state.generation;
        self.feed(Event::Asked { generation })
    }

    fn answer(&mut self, size: usize, life: Life) -> Vec<Action> {
        let generation = self.state.generation;
        self.feed(Event::Fetched {
            generation,
            size,
            life,
        })
    }

    fn fetch(&mut self, size: usize, life: Life) -> Vec<Action> {
        assert_eq!(self.ask(), [Action::Fetch]);
        self.answer(size, life)
    }

    fn wait(&mut self, millis: u64) {
        self.now = self.now + Millis(millis);
    }

    fn need(&self) -> Need {
        need(&self.state, self.now)
    }

    fn size(&self) -> usize {
        match &self.state.standing {
            Standing::Unseen => 0,
            Standing::Complete(complete) | Standing::Held { complete, .. } => complete.size,
        }
    }
}

#[test]
fn a_list_that_announces_its_changes_is_asked_for_once() {
    let mut rig = Rig::with(6, Life::UntilNews);
    rig.wait(100_000_000);
    assert_eq!(rig.need(), Need::Nothing);
    rig.feed(Event::Changed);
    assert_eq!(rig.need(), Need::Ask);
    rig.fetch(1, Life::UntilNews);
    assert_eq!((rig.need(), rig.size()), (Need::Nothing, 1));
}

#[test]
fn what_may_have_been_missed_makes_it_stale() {
    for event in [Event::Deaf, Event::Doubted] {
        let mut rig = Rig::with(6, Life::UntilNews);
        rig.feed(event);
        assert_eq!(rig.need(), Need::Ask);
    }
    let mut rig = Rig::with(6, Life::Never);
    assert_eq!(rig.need(), Need::Ask, "it is asked for at each use");
    rig.fetch(6, Life::Never);
    assert_eq!(rig.need(), Need::Ask);
}

#[test]
fn ca_02_a_new_opening_makes_it_stale_and_an_earlier_one_answers_in_vain() {
    let mut rig = Rig::with(6, Life::UntilNews);
    rig.feed(Event::Doubted);
    rig.ask();
    rig.reopen(2);
    assert_eq!(rig.need(), Need::Ask);
    let generation = Generation(1);
    let late = Event::Fetched {
        generation,
        size: 9,
        life: Life::UntilNews,
    };
    assert_eq!(rig.feed(late), []);
    assert!(matches!(rig.outcome, Outcome::Ignored { .. }));
    assert_eq!(rig.feed(Event::Asked { generation }), []);
    assert_eq!(rig.size(), 6);
    assert_eq!(rig.fetch(5, Life::UntilNews), [Action::Enforce]);
    rig.reopen(1);
    assert_eq!(rig.need(), Need::Nothing, "an earlier opening is no news");
}

#[test]
fn ca_03_a_modern_list_is_fresh_for_its_ttl() {
    let mut rig = Rig::with(6, Life::Never);
    let life = Life::Until(rig.now + Millis(2_000));
    rig.fetch(6, life);
    rig.feed(Event::Deaf);
    rig.wait(1_999);
    assert_eq!(rig.need(), Need::Nothing);
    rig.wait(1);
    assert_eq!(rig.need(), Need::Ask);
    let life = Life::Until(rig.now + Millis(2_000));
    rig.fetch(6, life);
    rig.feed(Event::Changed);
    assert_eq!(rig.need(), Need::Ask, "a notification comes before the ttl");
    rig.fetch(6, life);
    rig.reopen(2);
    assert_eq!(rig.need(), Need::Ask);
}

#[test]
fn ca_03_hints_that_are_missing_or_wrong_mean_stale_and_private() {
    for (result, ttl, scope) in [
        (
            r#"{"ttlMs":2000,"cacheScope":"public"}"#,
            2_000,
            Scope::Public,
        ),
        (
            r#"{"ttlMs":2000,"cacheScope":"private"}"#,
            2_000,
            Scope::Private,
        ),
        (
            r#"{"ttlMs":-5,"cacheScope":"everybody"}"#,
            0,
            Scope::Private,
        ),
        (r#"{"ttlMs":"2000","cacheScope":7}"#, 0, Scope::Private),
        (r#"{"ttlMs":2.5}"#, 0, Scope::Private),
        ("{}", 0, Scope::Private),
    ] {
        let hints = Hints::read(result.as_bytes());
        assert_eq!((hints.ttl, hints.scope), (Millis(ttl), scope), "{result}");
    }
    let page = |ttl, scope| Hints {
        ttl: Millis(ttl),
        scope,
    };
    let both = page(5, Scope::Public).and(page(9, Scope::Private));
    assert_eq!(both, page(5, Scope::Private));
    let at = Mono(7);
    let hints = page(5, Scope::Private);
    assert_eq!(hints.life(Era::Modern, true, at), Life::Until(Mono(12)));
    assert_eq!(hints.life(Era::Legacy, true, at), Life::UntilNews);
    assert_eq!(hints.life(Era::Legacy, false, at), Life::Never);
    assert_eq!(Hints::default().life(Era::Modern, true, at), Life::Never);
}

#[test]
fn a_change_while_it_is_asked_for_is_not_lost() {
    let mut rig = Rig::with(6, Life::UntilNews);
    rig.feed(Event::Doubted);
    rig.ask();
    assert_eq!(rig.need(), Need::Join);
    assert_eq!(rig.ask(), [], "one question at a time");
    rig.feed(Event::Changed);
    assert_eq!(rig.need(), Need::Wait);
    // The server said so before it answered: a short list is believed.
    assert_eq!(rig.answer(1, Life::UntilNews), [Action::Enforce]);
    assert_eq!(rig.need(), Need::Ask);
}

#[test]
fn an_unannounced_sharp_shrink_is_held_and_believed_later() {
    let mut rig = Rig::with(6, Life::UntilNews);
    rig.reopen(2);
    assert_eq!(rig.fetch(2, Life::UntilNews), [Action::Hold]);
    assert_eq!((rig.need(), rig.size()), (Need::Nothing, 6));
    // Whoever asks all the same, at another opening, does not prolong the hold.
    rig.wait(30_000);
    rig.reopen(3);
    assert_eq!(rig.fetch(0, Life::UntilNews), [Action::Hold]);
    assert_eq!(rig.need(), Need::Nothing);
    rig.wait(30_000);
    assert_eq!(rig.need(), Need::Ask);
    assert_eq!(rig.fetch(2, Life::UntilNews), [Action::Enforce]);
    assert_eq!((rig.need(), rig.size()), (Need::Nothing, 2));
}

#[test]
fn a_hold_ends_with_a_whole_list_or_an_announcement() {
    for announced in [true, false] {
        let mut rig = Rig::with(6, Life::Never);
        assert_eq!(rig.fetch(2, Life::Never), [Action::Hold]);
        if announced {
            rig.feed(Event::Changed);
        }
        assert_eq!(rig.need() == Need::Ask, announced);
        let size = if announced { 2 } else { 5 };
        assert_eq!(rig.fetch(size, Life::Never), [Action::Enforce]);
    }
}

#[test]
fn half_of_a_list_is_no_sharp_shrink() {
    for (before, after, action) in [
        (2, 1, Action::Enforce),
        (6, 3, Action::Enforce),
        (7, 4, Action::Enforce),
        (7, 3, Action::Hold),
        (1, 0, Action::Hold),
        (0, 0, Action::Enforce),
    ] {
        let mut rig = Rig::with(before, Life::Never);
        assert_eq!(
            rig.fetch(after, Life::Never),
            [action],
            "{before} to {after}"
        );
    }
    let mut rig = Rig::with(6, Life::Never);
    rig.policy.shrink_hold = Millis::ZERO;
    assert_eq!(rig.fetch(1, Life::Never), [Action::Enforce]);
}

#[test]
fn a_failure_changes_nothing_but_that_it_is_over() {
    let mut rig = Rig::with(6, Life::UntilNews);
    rig.feed(Event::Changed);
    rig.ask();
    let generation = rig.state.generation;
    rig.feed(Event::Failed { generation });
    assert_eq!((rig.need(), rig.size()), (Need::Ask, 6));
    assert_eq!(
        rig.fetch(1, Life::UntilNews),
        [Action::Enforce],
        "the announcement still counts"
    );
    rig.feed(Event::Failed { generation });
    assert!(matches!(rig.outcome, Outcome::Ignored { .. }));
}

#[test]
fn ca_01_many_announcements_make_one_question() {
    let first = Mono(1_000);
    let last = first + Millis::secs(1);
    assert_eq!(refresh_at(first, last), last + Millis(500));
    let endless = first + Millis::mins(5);
    assert_eq!(refresh_at(first, endless), first + Millis::secs(3));
}

#[test]
fn what_a_server_offers_is_read_from_its_hello() {
    let hello = br#"{"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":false},"resources":{}}}"#;
    let offer = |offered, announced| Offer { offered, announced };
    assert_eq!(List::Tools.offer(hello), offer(true, true));
    assert_eq!(List::Prompts.offer(hello), offer(true, false));
    assert_eq!(List::Templates.offer(hello), offer(true, false));
    assert_eq!(List::Tools.offer(b"{}"), offer(false, false));
}

#[test]
fn methods_and_lists_belong_together() {
    for list in List::ALL {
        assert_eq!(List::of_method(list.method()), Some(list));
        assert!(List::of_changed(list.changed()).any(|changed| changed == list));
    }
    assert_eq!(List::of_method("tools/call"), None);
    assert_eq!(List::of_changed("notifications/message").count(), 0);
}

fn any_event() -> impl Strategy<Value = Event> {
    let generation = || (1u64..4).prop_map(Generation);
    let life = prop_oneof![
        Just(Life::UntilNews),
        Just(Life::Never),
        (1_000_000u64..1_300_000).prop_map(|at| Life::Until(Mono(at))),
    ];
    prop_oneof![
        generation().prop_map(|generation| Event::Reopened { generation }),
        Just(Event::Changed),
        Just(Event::Deaf),
        Just(Event::Doubted),
        generation().prop_map(|generation| Event::Asked { generation }),
        (generation(), 0usize..12, life).prop_map(|(generation, size, life)| Event::Fetched {
            generation,
            size,
            life
        }),
        generation().prop_map(|generation| Event::Failed { generation }),
    ]
}

proptest! {
    /// Whatever happens: only the answer to the question that is under way replaces a list, nothing else
    /// changes its size, a sharp shrink needs an announcement or the hold, and facts replay.
    #[test]
    fn only_a_believable_answer_replaces_a_complete_list(
        events in prop::collection::vec((any_event(), 0u64..40_000), 0..60),
    ) {
        let mut rig = Rig::with(8, Life::UntilNews);
        let mut replayed = rig.state.clone();
        let mut announced = false;
        let mut short_since: Option<Mono> = None;
        for (event, pause) in events {
            rig.wait(pause);
            let before = rig.state.clone();
            let size = rig.size();
            announced |= event == Event::Changed;
            let cx = Context {
                now: Now { mono: rig.now, wall: Wall(0) },
                policy: &rig.policy.clone(),
            };
            let stepped = step(before.clone(), event.clone(), &cx);
            for fact in &stepped.facts {
                replayed = replay(replayed, fact);
            }
            prop_assert_eq!(&replayed, &stepped.state);
            rig.state = stepped.state;
            let enforced = stepped.actions.contains(&Action::Enforce);
            let held = stepped.actions.contains(&Action::Hold);
            if let (Event::Fetched { generation, size: answered, .. }, true) = (&event, enforced || held) {
                prop_assert_eq!(*generation, before.generation);
                prop_assert!(before.asked.is_some());
                let sharp = answered * 2 < size;
                if held {
                    prop_assert!(sharp);
                    short_since.get_or_insert(rig.now);
                } else {
                    let waited = short_since.is_some_and(|at| rig.now.since(at) >= rig.policy.shrink_hold);
                    prop_assert!(!sharp || announced || waited);
                    short_since = None;
                }
                // An announcement that came before the question is used up; a later one is not.
                if before.asked != Some(News::Announced) {
                    announced = false;
                }
            }
            if !enforced {
                prop_assert_eq!(rig.size(), size);
            }
            prop_assert!(rig.state.generation >= before.generation);
        }
    }

    /// Once a change was announced, no use of the list does without a question that was asked afterwards.
    #[test]
    fn an_announced_change_is_seen_by_the_next_use(
        events in prop::collection::vec((any_event(), 0u64..40_000), 0..60),
    ) {
        let mut rig = Rig::with(8, Life::UntilNews);
        for (event, pause) in events {
            rig.wait(pause);
            let changed = event == Event::Changed;
            rig.feed(event);
            if changed {
                prop_assert!(matches!(rig.need(), Need::Ask | Need::Wait));
            }
        }
    }
}
