//! One example per rule. The properties that hold for all orders of events are at the end.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::*;
use crate::fault::Kind;
use crate::step::Outcome;

const HOUR: i64 = 3_600_000;

struct Rig {
    state: State,
    policy: Policy,
    now: Now,
    attempts: u64,
    slept: Option<Slept>,
    outcome: Outcome,
    facts: Vec<Fact>,
}

impl Rig {
    fn new() -> Self {
        Self {
            state: State::None,
            policy: Policy::default(),
            now: Now {
                mono: Mono(1_000_000),
                wall: Wall(1_700_000_000_000),
            },
            attempts: 0,
            slept: None,
            outcome: Outcome::Used,
            facts: Vec::new(),
        }
    }

    /// With tokens of one hour that were just issued.
    fn signed_in() -> Self {
        let mut rig = Self::new();
        let tokens = rig.tokens(1, HOUR);
        rig.feed(Event::Loaded { tokens });
        rig
    }

    fn tokens(&self, generation: u64, lifetime: i64) -> Tokens {
        Tokens {
            generation: GrantGeneration(generation),
            issued_at: self.now.wall,
            expires_at: Wall(self.now.wall.0 + lifetime),
            renewable: true,
            scopes: vec!["bookings".to_owned()],
        }
    }

    fn feed(&mut self, event: Event) -> Vec<Action> {
        let step = step(
            self.state.clone(),
            event,
            &Context {
                now: self.now,
                jitter: Jitter(0),
                attempt: AttemptId(self.attempts + 1),
                slept: self.slept,
                policy: &self.policy,
            },
        );
        for action in &step.actions {
            if let Action::Renew { attempt } = action {
                self.attempts = self.attempts.max(attempt.0);
            }
        }
        self.state = step.state;
        self.outcome = step.outcome;
        self.facts.extend(step.facts);
        step.actions
    }

    fn pass(&mut self, millis: u64) {
        self.now.mono = self.now.mono + Millis(millis);
        self.now.wall.0 += i64::try_from(millis).unwrap();
    }

    /// The machine sleeps, and says so when it wakes.
    fn sleep(&mut self, millis: u64) {
        let from = self.now.wall;
        self.pass(millis);
        self.slept = Some(Slept {
            from,
            to: self.now.wall,
            length: Millis(millis),
        });
    }

    /// The event of a clock that is set back.
    fn set_back(&mut self, by: Millis) -> Event {
        self.now.wall.0 -= i64::try_from(by.0).unwrap();
        Event::ClockSetBack { by }
    }

    /// Waits for the deadline and feeds it.
    fn wait(&mut self) -> Vec<Action> {
        let due = deadline(&self.state, self.now).expect("a deadline");
        self.pass(due.at.since(self.now.mono).0);
        self.feed(Event::Due)
    }

    fn generation(&self) -> GrantGeneration {
        self.state.tokens().unwrap().generation
    }

    /// Waits until it is due, and gives it its turn.
    fn begin(&mut self) -> AttemptId {
        let generation = self.generation();
        assert!(
            self.wait().contains(&Action::AwaitTurn { generation }),
            "{:?}",
            self.state
        );
        self.turn()
    }

    fn turn(&mut self) -> AttemptId {
        let generation = self.generation();
        match self.feed(Event::Turn { generation })[..] {
            [Action::Renew { attempt }] => attempt,
            ref other => panic!("{other:?}"),
        }
    }

    fn renewed(&mut self, attempt: AttemptId, generation: u64, lifetime: i64) -> Vec<Action> {
        let tokens = self.tokens(generation, lifetime);
        self.feed(Event::Renewed { attempt, tokens })
    }

    fn fails(&mut self, attempt: AttemptId, failure: Failure) -> Vec<Action> {
        self.feed(Event::Failed { attempt, failure })
    }

    fn recheck(&self) -> Recheck {
        match &self.state {
            State::Refused { recheck, .. } => *recheck,
            other => panic!("{other:?}"),
        }
    }
}

fn fault(kind: Kind) -> Fault {
    Fault::new(kind, "as it is")
}

fn invalid_grant() -> Failure {
    Failure::Grant(fault(Kind::GrantRefused))
}

fn temporary() -> Failure {
    Failure::Temporary(fault(Kind::RenewalDelayed))
}

fn told(actions: &[Action]) -> bool {
    actions
        .iter()
        .any(|action| matches!(action, Action::Tell { .. }))
}

#[test]
fn ex_03_an_idle_grant_is_renewed_ahead_of_its_expiry_for_ever() {
    let mut rig = Rig::signed_in();
    for generation in 2..50 {
        let attempt = rig.begin();
        let left = rig.state.tokens().unwrap().expires_at.0 - rig.now.wall.0;
        assert_eq!(left, 20 * 60_000);
        let actions = rig.renewed(attempt, generation, HOUR);
        assert!(actions.contains(&Action::Use {
            generation: GrantGeneration(generation)
        }));
        assert_eq!(rig.state.name(), "valid");
    }
}

#[test]
fn ex_01_tokens_that_expired_while_nobody_was_there_are_renewed_first() {
    let mut rig = Rig::new();
    let mut tokens = rig.tokens(1, HOUR);
    rig.pass(2 * 3_600_000);
    tokens.scopes.clear();
    let actions = rig.feed(Event::Loaded { tokens });
    assert!(actions.contains(&Action::AwaitTurn {
        generation: GrantGeneration(1)
    }));
    assert!(!rig.state.tokens().unwrap().good(rig.now.wall));
}

#[test]
fn rt_02_a_failure_of_an_older_set_leaves_the_newer_one_alone() {
    let mut rig = Rig::signed_in();
    let attempt = rig.begin();
    rig.renewed(attempt, 2, HOUR);
    let before = rig.state.clone();
    assert!(rig.fails(attempt, invalid_grant()).is_empty());
    rig.feed(Event::TokenRefused {
        generation: GrantGeneration(1),
    });
    assert_eq!(rig.state, before);
}

#[test]
fn rt_03_another_daemon_renews_while_this_one_waits() {
    let mut rig = Rig::signed_in();
    rig.wait();
    let until = rig.now.mono + Millis::secs(30);
    assert!(rig.feed(Event::Leased { until }).is_empty());
    let tokens = rig.tokens(2, HOUR);
    let actions = rig.feed(Event::Loaded { tokens });
    assert_eq!(
        actions,
        [
            Action::LetGo,
            Action::Use {
                generation: GrantGeneration(2)
            }
        ]
    );
    assert_eq!(rig.state.name(), "valid");
}

#[test]
fn rt_03_a_lease_whose_daemon_died_is_taken_over() {
    let mut rig = Rig::signed_in();
    rig.wait();
    let until = rig.now.mono + Millis::secs(30);
    rig.feed(Event::Leased { until });
    let actions = rig.wait();
    assert_eq!(rig.now.mono, until);
    assert!(actions.contains(&Action::AwaitTurn {
        generation: GrantGeneration(1)
    }));
}

#[test]
fn rt_04_what_a_sign_in_brought_replaces_a_renewal_under_way() {
    let mut rig = Rig::signed_in();
    let attempt = rig.begin();
    let tokens = rig.tokens(9, HOUR);
    assert!(rig.feed(Event::Loaded { tokens }).contains(&Action::LetGo));
    rig.fails(attempt, invalid_grant());
    assert_eq!(
        (rig.state.name(), rig.generation()),
        ("valid", GrantGeneration(9))
    );
}

#[test]
fn a_renewal_that_was_given_up_and_succeeded_after_all_is_not_lost() {
    let mut rig = Rig::signed_in();
    let attempt = rig.begin();
    rig.wait();
    assert_eq!(rig.state.name(), "delayed");
    assert_eq!(rig.state.fault().unwrap().kind, Kind::RenewalOutcomeLost);
    rig.renewed(attempt, 2, HOUR);
    assert_eq!(
        (rig.state.name(), rig.generation()),
        ("valid", GrantGeneration(2))
    );
}

#[test]
fn te_01_faults_that_time_mends_delay_it_and_change_nothing_else() {
    let mut rig = Rig::signed_in();
    let before = rig.state.tokens().cloned();
    let mut waited = Vec::new();
    for failure in [
        temporary(),
        temporary(),
        Failure::OutcomeLost(fault(Kind::RenewalOutcomeLost)),
        temporary(),
    ] {
        let attempt = rig.begin();
        let actions = rig.fails(attempt, failure);
        assert!(actions.contains(&Action::LetGo) && !told(&actions));
        assert_eq!(rig.state.name(), "delayed");
        assert_eq!(rig.state.tokens().cloned(), before);
        let due = deadline(&rig.state, rig.now).unwrap().at;
        waited.push(due.since(rig.now.mono).0);
    }
    assert_eq!(waited, [2_500, 5_000, 10_000, 20_000]);
    let attempt = rig.begin();
    rig.renewed(attempt, 2, HOUR);
    assert_eq!(rig.state.name(), "valid");
}

#[test]
fn te_02_what_the_provider_asked_for_is_waited_for() {
    let mut rig = Rig::signed_in();
    let attempt = rig.begin();
    let asked = fault(Kind::RenewalDelayed).after(Some(Millis::secs(90)));
    rig.fails(attempt, Failure::Temporary(asked));
    let due = deadline(&rig.state, rig.now).unwrap().at;
    assert_eq!(due.since(rig.now.mono), Millis::secs(90));
}

#[test]
fn a_moved_token_endpoint_is_looked_for_once_and_the_grant_is_kept() {
    let mut rig = Rig::signed_in();
    let attempt = rig.begin();
    let moved = || Failure::Moved(fault(Kind::TokenEndpointMoved));
    assert_eq!(
        rig.fails(attempt, moved()),
        [Action::Rediscover { attempt }]
    );
    let found = Found::Elsewhere;
    assert_eq!(
        rig.feed(Event::Rediscovered { attempt, found }),
        [Action::Renew { attempt }]
    );
    rig.fails(attempt, moved());
    assert_eq!(rig.state.name(), "delayed");
    let attempt = rig.begin();
    rig.fails(attempt, moved());
    rig.feed(Event::Rediscovered {
        attempt,
        found: Found::Same,
    });
    assert_eq!(rig.state.name(), "delayed");
    assert_eq!(rig.state.fault().unwrap().kind, Kind::TokenEndpointMoved);
    assert!(rig.state.tokens().unwrap().renewable);
}

#[test]
fn ds_07_another_issuer_is_told_and_the_grant_is_kept() {
    let mut rig = Rig::signed_in();
    let attempt = rig.begin();
    rig.fails(attempt, Failure::Moved(fault(Kind::TokenEndpointMoved)));
    let found = Found::Nothing(fault(Kind::IssuerChanged));
    let actions = rig.feed(Event::Rediscovered { attempt, found });
    assert!(told(&actions));
    assert_eq!(rig.state.name(), "delayed");
}

#[test]
fn te_04_a_refusal_while_the_token_is_good_is_tried_once_at_expiry_and_then_never() {
    let mut rig = Rig::signed_in();
    let attempt = rig.begin();
    assert!(told(&rig.fails(attempt, invalid_grant())));
    assert_eq!(
        (rig.state.name(), rig.recheck()),
        ("refused", Recheck::AtExpiry)
    );
    let expires_at = rig.state.tokens().unwrap().expires_at;
    let attempt = rig.begin();
    assert_eq!(rig.now.wall, expires_at);
    assert!(told(&rig.fails(attempt, invalid_grant())));
    assert_eq!(rig.recheck(), Recheck::Never);
    assert_eq!(deadline(&rig.state, rig.now), None, "nor at its end");
    assert!(rig.state.tokens().unwrap().renewable, "nothing is deleted");
}

#[test]
fn a_refused_grant_that_is_renewed_at_its_expiry_is_good_again() {
    let mut rig = Rig::signed_in();
    let attempt = rig.begin();
    rig.fails(attempt, invalid_grant());
    let attempt = rig.begin();
    rig.renewed(attempt, 2, HOUR);
    assert_eq!(rig.state.name(), "valid");
}

#[test]
fn reload_tries_a_refused_grant_once() {
    let mut rig = Rig::signed_in();
    rig.policy.recheck_at_expiry = false;
    let attempt = rig.begin();
    rig.fails(attempt, invalid_grant());
    assert_eq!(rig.recheck(), Recheck::Never);
    let generation = rig.generation();
    assert_eq!(rig.feed(Event::Reload), [Action::AwaitTurn { generation }]);
    let attempt = rig.turn();
    rig.fails(attempt, invalid_grant());
    assert_eq!(rig.recheck(), Recheck::Never);
}

#[test]
fn probes_are_spaced_and_bounded() {
    let mut rig = Rig::signed_in();
    rig.policy.recheck_at_expiry = false;
    rig.policy.probes = 2;
    let attempt = rig.begin();
    rig.fails(attempt, invalid_grant());
    for _ in 0..2 {
        let before = rig.now.mono;
        let attempt = rig.begin();
        assert_eq!(rig.now.mono.since(before), rig.policy.probe_every);
        rig.fails(attempt, invalid_grant());
    }
    assert_eq!(rig.recheck(), Recheck::Never);
}

#[test]
fn other_structured_errors_count_only_when_they_are_spaced_and_repeated() {
    let mut rig = Rig::signed_in();
    for _ in 0..2 {
        let attempt = rig.begin();
        let failure = Failure::Structured(fault(Kind::GrantRefused));
        assert!(!told(&rig.fails(attempt, failure)));
        assert_eq!(rig.state.name(), "suspect");
    }
    let attempt = rig.begin();
    let failure = Failure::Structured(fault(Kind::GrantRefused));
    assert!(told(&rig.fails(attempt, failure)));
    assert_eq!(rig.state.name(), "refused");
}

#[test]
fn cr_01_a_registration_that_is_gone_is_made_anew_once_and_a_person_signs_in() {
    let mut rig = Rig::signed_in();
    let attempt = rig.begin();
    let actions = rig.fails(attempt, Failure::Client(fault(Kind::SignInRequired)));
    let registrations = actions
        .iter()
        .filter(|action| **action == Action::Register)
        .count();
    assert_eq!(registrations, 1);
    assert!(told(&actions));
    assert_eq!(
        (rig.state.name(), rig.recheck()),
        ("refused", Recheck::Never)
    );
    rig.feed(Event::Reload);
    let attempt = rig.turn();
    let actions = rig.fails(attempt, Failure::Client(fault(Kind::SignInRequired)));
    assert!(
        !actions.contains(&Action::Register),
        "not before the next sign-in"
    );
}

#[test]
fn au_02_ten_refusals_lead_to_one_renewal() {
    let mut rig = Rig::signed_in();
    rig.pass(600_000);
    let generation = rig.generation();
    let asked: usize = (0..10)
        .map(|_| rig.feed(Event::TokenRefused { generation }).len())
        .sum();
    assert_eq!(asked, 1);
    assert!(!rig.state.tokens().unwrap().good(rig.now.wall));
    let attempt = rig.turn();
    rig.renewed(attempt, 2, HOUR);
    assert_eq!(rig.state.name(), "valid");
}

#[test]
fn fresh_tokens_that_are_refused_twice_make_a_dead_grant() {
    let mut rig = Rig::signed_in();
    rig.pass(600_000);
    rig.feed(Event::TokenRefused {
        generation: GrantGeneration(1),
    });
    for generation in 2..=3 {
        let attempt = rig.turn();
        rig.renewed(attempt, generation, HOUR);
        rig.feed(Event::TokenRefused {
            generation: GrantGeneration(generation),
        });
    }
    assert_eq!(rig.state.name(), "refused");
    assert_eq!(rig.state.fault().unwrap().kind, Kind::FreshTokenRefused);
}

#[test]
fn a_fresh_token_that_is_accepted_forgives_the_one_before() {
    let mut rig = Rig::signed_in();
    rig.feed(Event::TokenRefused {
        generation: GrantGeneration(1),
    });
    let attempt = rig.turn();
    rig.renewed(attempt, 2, HOUR);
    rig.feed(Event::TokenAccepted {
        generation: GrantGeneration(2),
    });
    rig.feed(Event::TokenRefused {
        generation: GrantGeneration(2),
    });
    assert_eq!(rig.state.name(), "due");
}

#[test]
fn au_03_a_suspicion_renews_an_old_token_once_and_a_fresh_one_never() {
    let mut rig = Rig::signed_in();
    rig.feed(Event::Suspected {
        generation: GrantGeneration(1),
    });
    assert_eq!(rig.state.name(), "valid", "it was just issued");
    rig.pass(600_000);
    rig.feed(Event::Suspected {
        generation: GrantGeneration(1),
    });
    assert_eq!(rig.state.name(), "suspect");
    let attempt = rig.begin();
    rig.renewed(attempt, 2, HOUR);
    rig.feed(Event::Suspected {
        generation: GrantGeneration(2),
    });
    assert_eq!(rig.state.name(), "valid");
}

#[test]
fn sc_03_a_grant_without_a_refresh_token_is_never_renewed_and_its_end_is_told() {
    let mut rig = Rig::new();
    let mut tokens = rig.tokens(1, HOUR);
    tokens.renewable = false;
    rig.feed(Event::Loaded { tokens });
    assert_eq!(rig.state.name(), "unrenewable");
    assert!(rig.feed(Event::Reload).is_empty());
    assert!(told(&rig.wait()));
    assert_eq!(
        (rig.state.name(), rig.recheck()),
        ("refused", Recheck::Never)
    );
    assert!(rig.feed(Event::Reload).is_empty());
}

#[test]
fn the_end_of_the_access_token_of_a_refused_grant_is_an_event_of_its_own() {
    for probes in [0, 1] {
        let mut rig = Rig::signed_in();
        rig.policy.recheck_at_expiry = false;
        rig.policy.probes = probes;
        rig.policy.probe_every = Millis::mins(60);
        let attempt = rig.begin();
        rig.fails(attempt, invalid_grant());
        let facts = rig.facts.len();
        assert!(rig.wait().is_empty());
        assert_eq!(rig.now.wall, rig.state.tokens().unwrap().expires_at);
        assert_eq!((rig.state.name(), rig.facts.len()), ("refused", facts + 1));
        let next = deadline(&rig.state, rig.now).map(|next| next.reason);
        let probe = (probes > 0).then_some(crate::deadline::Reason::RecheckGrant);
        assert_eq!(next, probe);
    }
}

#[test]
fn a_refused_grant_whose_token_the_server_refuses_has_ended() {
    let mut rig = Rig::signed_in();
    rig.policy.recheck_at_expiry = false;
    let attempt = rig.begin();
    rig.fails(attempt, invalid_grant());
    let generation = rig.generation();
    assert!(rig.feed(Event::TokenRefused { generation }).is_empty());
    assert!(!rig.state.tokens().unwrap().good(rig.now.wall));
    assert_eq!(deadline(&rig.state, rig.now), None);
}

#[test]
fn a_grant_that_is_refused_after_a_sleep_through_its_window_says_so() {
    let mut rig = Rig::signed_in();
    rig.sleep(2 * 3_600_000);
    let slept = rig.slept.unwrap().to_string();
    rig.feed(Event::Due);
    // Waking up again and again meanwhile changes nothing in that.
    let attempt = rig.turn();
    rig.fails(attempt, temporary());
    rig.sleep(60_000);
    let attempt = rig.begin();
    assert!(told(&rig.fails(attempt, invalid_grant())));
    let message = &rig.state.fault().unwrap().message;
    assert_eq!(
        *message,
        format!("{slept}, renewal window missed; as it is")
    );
    // Nor is it said twice, nor of the next set of tokens.
    rig.feed(Event::Reload);
    let attempt = rig.turn();
    rig.fails(attempt, invalid_grant());
    let again = &rig.state.fault().unwrap().message;
    assert_eq!(again.matches("asleep").count(), 1, "{again}");
    rig.feed(Event::Reload);
    let attempt = rig.turn();
    rig.renewed(attempt, 2, HOUR);
    let attempt = rig.begin();
    rig.fails(attempt, invalid_grant());
    assert_eq!(rig.state.fault().unwrap().message, "as it is");
}

#[test]
fn a_sleep_that_left_time_to_renew_is_no_excuse() {
    let mut rig = Rig::signed_in();
    rig.sleep(HOUR.unsigned_abs() - 1);
    rig.feed(Event::Due);
    let attempt = rig.turn();
    rig.fails(attempt, invalid_grant());
    assert_eq!(rig.state.fault().unwrap().message, "as it is");
}

#[test]
fn a_grant_that_could_not_be_renewed_and_ended_in_a_sleep_says_so() {
    let mut rig = Rig::new();
    let mut tokens = rig.tokens(1, HOUR);
    tokens.renewable = false;
    rig.feed(Event::Loaded { tokens });
    rig.sleep(2 * 3_600_000);
    assert!(told(&rig.feed(Event::Due)));
    let message = &rig.state.fault().unwrap().message;
    assert!(message.starts_with("asleep from "), "{message}");
}

#[test]
fn a_clock_that_is_set_back_puts_no_renewal_off() {
    let mut rig = Rig::signed_in();
    let due = deadline(&rig.state, rig.now).unwrap();
    let event = rig.set_back(Millis::mins(600));
    assert!(rig.feed(event).is_empty());
    assert_eq!(deadline(&rig.state, rig.now), Some(due));
    let attempt = rig.begin();
    assert_eq!(rig.now.mono, due.at);
    rig.fails(attempt, temporary());
    let due = deadline(&rig.state, rig.now).unwrap();
    let event = rig.set_back(Millis::mins(600));
    rig.feed(event);
    assert_eq!(deadline(&rig.state, rig.now), Some(due));
    let left = rig.state.tokens().unwrap().expires_at.0 - rig.now.wall.0;
    assert_eq!(left, 20 * 60_000);
}

#[test]
fn a_clock_that_is_set_ahead_leads_to_one_renewal_and_not_to_a_storm() {
    let mut rig = Rig::signed_in();
    rig.now.wall.0 += 30 * 24 * HOUR;
    assert_eq!(rig.feed(Event::Due).len(), 1);
    let attempt = rig.turn();
    rig.renewed(attempt, 2, HOUR);
    assert!(rig.feed(Event::Due).is_empty());
    let next = deadline(&rig.state, rig.now).unwrap();
    assert_eq!(next.at.since(rig.now.mono), Millis::mins(40));
}

// Properties.

fn any_fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        Just(fault(Kind::RenewalDelayed)),
        Just(fault(Kind::RenewalDelayed).after(Some(Millis::secs(40)))),
        Just(fault(Kind::GrantRefused)),
        Just(fault(Kind::IssuerChanged)),
    ]
}

#[test]
fn a_client_that_asks_for_itself_gets_its_first_token_by_a_renewal() {
    let mut rig = Rig::new();
    let generation = GrantGeneration(1);
    let wanted = Event::Wanted { generation };
    assert_eq!(
        rig.feed(wanted.clone()),
        [Action::AwaitTurn { generation }],
        "nobody is told: there is nothing to sign in for"
    );
    assert!(!rig.state.tokens().unwrap().good(rig.now.wall));
    assert!(rig.feed(wanted).is_empty(), "asked for once");
    let attempt = rig.turn();
    let unknown = Failure::Moved(fault(Kind::TokenEndpointMoved));
    assert_eq!(
        rig.fails(attempt, unknown),
        [Action::Rediscover { attempt }]
    );
    let found = Found::Elsewhere;
    rig.feed(Event::Rediscovered { attempt, found });
    rig.renewed(attempt, 2, HOUR);
    assert_eq!(rig.state.name(), "valid");
    // From here on it is like any other; only the operator can mend what the provider refuses.
    let attempt = rig.begin();
    let refused = Failure::Grant(fault(Kind::GrantRefused)).of_configured_client(true);
    rig.fails(attempt, refused);
    assert_eq!(rig.state.fault().unwrap().kind, Kind::ClientRefused);
    let generation = GrantGeneration(2);
    assert_eq!(rig.feed(Event::Reload), [Action::AwaitTurn { generation }]);
}

#[test]
fn what_is_wanted_replaces_what_a_person_gave_and_nothing_newer() {
    let mut rig = Rig::signed_in();
    rig.feed(Event::Wanted {
        generation: GrantGeneration(1),
    });
    assert_eq!(rig.state.name(), "valid");
    let generation = GrantGeneration(2);
    rig.feed(Event::Wanted { generation });
    assert_eq!((rig.state.name(), rig.generation()), ("due", generation));
}

#[test]
fn a_refusal_of_a_configured_client_is_for_its_operator() {
    let of = |failure: Failure, for_itself| failure.of_configured_client(for_itself);
    let client = || Failure::Client(fault(Kind::SignInRequired));
    let grant = || Failure::Grant(fault(Kind::GrantRefused));
    let refused = fault(Kind::ClientRefused);
    assert_eq!(of(client(), false), Failure::Client(refused.clone()));
    assert_eq!(of(grant(), false), grant(), "that is what the person gave");
    assert_eq!(of(grant(), true), Failure::Client(refused.clone()));
    let other = Failure::Structured(fault(Kind::GrantRefused));
    assert_eq!(of(other, true), Failure::Structured(refused));
    let moment = Failure::Temporary(fault(Kind::RenewalDelayed));
    assert_eq!(of(moment.clone(), true), moment);
}

#[test]
fn what_an_identity_provider_says_is_not_taken_for_the_issuers_word() {
    let at = |failure: Failure| failure.at_another("the identity provider");
    let moved = at(Failure::Moved(fault(Kind::TokenEndpointMoved)));
    assert!(matches!(moved, Failure::Temporary(_)), "{moved:?}");
    let refused = at(Failure::Grant(fault(Kind::GrantRefused)));
    assert!(matches!(refused, Failure::Grant(_)), "{refused:?}");
    let message = &refused.fault().message;
    assert!(message.starts_with("the identity provider: "), "{message}");
}

#[derive(Clone, Debug)]
enum Happening {
    Wait,
    Pass(u64),
    Turn,
    Leased(u64),
    Renewed {
        stale: bool,
        lifetime: i64,
        renewable: bool,
    },
    Failed(Failure),
    Rediscovered(Found),
    Loaded {
        renewable: bool,
    },
    Wanted,
    Removed,
    SetBack(u64),
    Sleep(u64),
    Reload,
    TokenRefused {
        stale: bool,
    },
    Suspected,
    Accepted,
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::{
        Accepted, Failed, Leased, Loaded, Pass, Rediscovered, Reload, Removed, Renewed, SetBack,
        Sleep, Suspected, TokenRefused, Turn, Wait, Wanted,
    };
    let failure = any_fault().prop_flat_map(|fault| {
        prop_oneof![
            Just(Failure::Temporary(fault.clone())),
            Just(Failure::Moved(fault.clone())),
            Just(Failure::OutcomeLost(fault.clone())),
            Just(Failure::Grant(fault.clone())),
            Just(Failure::Structured(fault.clone())),
            Just(Failure::Client(fault)),
        ]
    });
    let found = any_fault().prop_flat_map(|fault| {
        prop_oneof![
            Just(Found::Elsewhere),
            Just(Found::Same),
            Just(Found::Nothing(fault))
        ]
    });
    prop_oneof![
        4 => Just(Wait),
        2 => (0..4_000_000u64).prop_map(Pass),
        4 => Just(Turn),
        1 => (0..60_000u64).prop_map(Leased),
        3 => (any::<bool>(), 0..HOUR, any::<bool>())
            .prop_map(|(stale, lifetime, renewable)| Renewed { stale, lifetime, renewable }),
        3 => failure.prop_map(Failed),
        1 => found.prop_map(Rediscovered),
        1 => any::<bool>().prop_map(|renewable| Loaded { renewable }),
        1 => Just(Wanted),
        1 => (1_000..7_200_000u64).prop_map(SetBack),
        1 => (0..7_200_000u64).prop_map(Sleep),
        1 => Just(Removed),
        1 => Just(Reload),
        1 => any::<bool>().prop_map(|stale| TokenRefused { stale }),
        1 => Just(Suspected),
        1 => Just(Accepted),
    ]
}

impl Rig {
    fn happens(&mut self, happening: Happening) -> Vec<Action> {
        let held = self.state.tokens().map_or(0, |tokens| tokens.generation.0);
        let generation = GrantGeneration(held);
        let attempt = AttemptId(self.attempts);
        let event = match happening {
            Happening::Wait => {
                if let Some(due) = deadline(&self.state, self.now) {
                    self.pass(due.at.since(self.now.mono).0);
                }
                Event::Due
            }
            Happening::Pass(millis) => {
                self.pass(millis);
                Event::Due
            }
            Happening::Turn => Event::Turn { generation },
            Happening::Leased(millis) => Event::Leased {
                until: self.now.mono + Millis(millis),
            },
            Happening::Renewed {
                stale,
                lifetime,
                renewable,
            } => {
                let mut tokens = self.tokens(held + u64::from(!stale), lifetime);
                tokens.renewable = renewable;
                Event::Renewed { attempt, tokens }
            }
            Happening::Failed(failure) => Event::Failed { attempt, failure },
            Happening::Rediscovered(found) => Event::Rediscovered { attempt, found },
            Happening::Loaded { renewable } => {
                let mut tokens = self.tokens(held + 1, HOUR);
                tokens.renewable = renewable;
                Event::Loaded { tokens }
            }
            Happening::Wanted => Event::Wanted {
                generation: GrantGeneration(held + 1),
            },
            Happening::SetBack(millis) => self.set_back(Millis(millis)),
            Happening::Sleep(millis) => {
                self.sleep(millis);
                Event::Due
            }
            Happening::Removed => Event::Removed,
            Happening::Reload => Event::Reload,
            Happening::TokenRefused { stale } => Event::TokenRefused {
                generation: GrantGeneration(held.saturating_sub(u64::from(stale))),
            },
            Happening::Suspected => Event::Suspected { generation },
            Happening::Accepted => Event::TokenAccepted { generation },
        };
        self.feed(event)
    }
}

proptest! {
    #[test]
    fn facts_fold_to_the_state_and_nothing_is_left_without_a_wake_up(
        happenings in prop::collection::vec(happening(), 1..60)
    ) {
        let mut rig = Rig::new();
        let mut folded = State::None;
        for happening in happenings {
            rig.facts.clear();
            let before = rig.state.tokens().map(|tokens| tokens.generation);
            let actions = rig.happens(happening);
            for fact in &rig.facts {
                folded = replay(folded, fact);
            }
            prop_assert_eq!(&folded, &rig.state);
            let is_violation = matches!(rig.outcome, Outcome::Violation { .. });
            prop_assert!(!is_violation);
            // A generation never goes back.
            let after = rig.state.tokens().map(|tokens| tokens.generation);
            prop_assert!(after.is_none() || after >= before);
            // A renewal begins only while it is on record as under way.
            if actions.iter().any(|action| matches!(action, Action::Renew { .. })) {
                prop_assert_eq!(rig.state.name(), "renewing");
            }
            // Another process, on another clock, wakes up at the same time.
            let there = Now { mono: Mono(77), wall: rig.now.wall };
            let at = wake_at(&rig.state, rig.now);
            let restored = restore(rig.state.clone(), at, there);
            prop_assert_eq!(wake_at(&restored, there), at.map(|at| at.max(there.wall)));
            prop_assert_eq!(restored.name(), rig.state.name());
            let wakes = deadline(&rig.state, rig.now).is_some();
            let waits_for_a_person = matches!(
                rig.state,
                State::None | State::Refused { recheck: Recheck::Never, ended: true, .. }
            );
            prop_assert_eq!(wakes, !waits_for_a_person);
        }
    }

    #[test]
    fn once_the_provider_answers_again_every_grant_that_it_did_not_refuse_becomes_valid(
        happenings in prop::collection::vec(happening(), 0..40)
    ) {
        let mut rig = Rig::signed_in();
        for happening in happenings {
            rig.happens(happening);
        }
        if matches!(
            rig.state,
            State::None | State::Unrenewable { .. } | State::Refused { recheck: Recheck::Never, .. }
        ) {
            return Ok(());
        }
        for _ in 0..8 {
            if rig.state.name() == "valid" {
                break;
            }
            if let State::Renewing { attempt, .. } = rig.state {
                let generation = rig.generation().0 + 1;
                rig.renewed(attempt, generation, HOUR);
                continue;
            }
            rig.wait();
            let generation = rig.generation();
            rig.feed(Event::Turn { generation });
        }
        prop_assert_eq!(rig.state.name(), "valid");
    }

    #[test]
    fn a_provider_that_always_fails_is_not_asked_in_a_loop(failure in any_fault()) {
        let mut rig = Rig::signed_in();
        let mut asked = 0;
        let begin = rig.now.mono;
        while rig.now.mono.since(begin) < Millis::mins(120) {
            if deadline(&rig.state, rig.now).is_none() {
                break;
            }
            rig.wait();
            let generation = rig.generation();
            for action in rig.feed(Event::Turn { generation }) {
                if let Action::Renew { attempt } = action {
                    asked += 1;
                    rig.fails(attempt, Failure::Temporary(failure.clone()));
                }
            }
        }
        prop_assert!(asked <= 50, "{} requests in two hours", asked);
    }
}
