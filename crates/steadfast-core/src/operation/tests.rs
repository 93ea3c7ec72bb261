//! The decision procedure for a lost answer, step by step.

use super::*;
use crate::identity::RpcId;
use crate::step::Outcome;
use std::collections::BTreeMap;

const START: Now = Now {
    mono: Mono(1_000),
    wall: Wall(1_700_000_000_000),
};

fn key() -> KeyContract {
    KeyContract {
        present: true,
        retention: Millis::mins(60),
        atomic: true,
        payload_bound: true,
        account_scoped: true,
        propagated: true,
    }
}

fn with_key() -> Contract {
    Contract {
        duplicate_key: Some(key()),
        lookup: None,
    }
}

fn with_lookup(absent_is_definitive: bool) -> Contract {
    Contract {
        duplicate_key: None,
        lookup: Some(LookupContract {
            tool: "find".into(),
            arguments: BTreeMap::new(),
            accepted: "$.found".into(),
            must_equal: [("$.room".into(), "$.arguments.room".into())].into(),
            absent_is_definitive,
            settle_after: Millis::secs(30),
        }),
    }
}

/// One operation with its contract and the clock.
struct Played {
    state: State,
    facts: Vec<Fact>,
    contract: Contract,
    policy: Policy,
    now: Now,
}

impl Played {
    fn new(contract: Contract) -> Self {
        Self {
            state: State::intended(),
            facts: Vec::new(),
            contract,
            policy: Policy::default(),
            now: START,
        }
    }

    /// One that has left.
    fn sent(contract: Contract) -> Self {
        let mut played = Self::new(contract);
        assert_eq!(played.leave(), [Action::Send { attempt: 1 }]);
        played
    }

    fn feed(&mut self, event: Event) -> (Vec<Action>, Outcome) {
        let step = step(
            self.state.clone(),
            event,
            &Context {
                now: self.now,
                jitter: Jitter(7),
                contract: &self.contract,
                policy: &self.policy,
            },
        );
        self.state = step.state;
        self.facts.extend(step.facts);
        (step.actions, step.outcome)
    }

    fn used(&mut self, event: Event) -> Vec<Action> {
        let (actions, outcome) = self.feed(event);
        assert_eq!(outcome, Outcome::Used);
        actions
    }

    fn ignored(&mut self, event: Event) {
        let before = self.state.clone();
        let (actions, outcome) = self.feed(event);
        assert!(matches!(outcome, Outcome::Ignored { .. }), "{outcome:?}");
        assert_eq!((self.state.clone(), actions), (before, vec![]));
    }

    fn leave(&mut self) -> Vec<Action> {
        self.used(Event::Leave {
            rpc_id: RpcId::Integer(17),
        })
    }

    fn lose(&mut self) -> Vec<Action> {
        self.used(lost())
    }

    fn pass(&mut self, time: Millis) {
        self.now.mono = self.now.mono + time;
        self.now.wall = Wall(self.now.wall.0.saturating_add_unsigned(time.0));
    }

    /// Waits until it wakes up by itself.
    fn wake(&mut self) -> Vec<Action> {
        let due = deadline(&self.state).unwrap().at;
        self.pass(due.since(self.now.mono));
        self.used(Event::Due)
    }

    fn look_up(&mut self, finding: Finding) -> Vec<Action> {
        let actions = self.wake();
        let [Action::LookUp { tries }] = actions[..] else {
            panic!("{actions:?}");
        };
        self.used(Event::LookedUp { tries, finding })
    }
}

fn lost() -> Event {
    Event::Lost {
        bytes_sent: 412,
        evidence: "the stream ended before the response".into(),
        retry_after: None,
    }
}

fn settle(verdict: Verdict) -> Event {
    Event::Settle {
        verdict,
        name: "ops".into(),
        note: Some("asked by telephone".into()),
    }
}

#[test]
fn an_answer_settles_it_whatever_it_says() {
    for said in [Said::Result, Said::ToolError, Said::RpcError] {
        let mut played = Played::sent(Contract::default());
        let awaited = true;
        assert_eq!(
            played.used(Event::Answered { said, awaited }),
            [Action::Settled]
        );
        assert_eq!(played.state.name(), "observed");
        assert_eq!(played.state.executed(), Executed::Yes);
    }
}

#[test]
fn without_a_contract_a_lost_answer_is_held_for_a_person() {
    let mut played = Played::sent(Contract::default());
    assert_eq!(played.lose(), [Action::Tell]);
    assert_eq!(played.state.name(), "held");
    assert_eq!(played.state.executed(), Executed::Unknown);
    assert_eq!(played.state.trail().bytes_sent, 412);
    assert_eq!(deadline(&played.state), None);
}

#[test]
fn a_refused_attempt_may_leave_again_and_else_had_no_effect() {
    let mut played = Played::sent(Contract::default());
    let refused = || Event::Refused {
        bytes_sent: 0,
        proof: "the session was refused".into(),
    };
    assert_eq!(played.used(refused()), []);
    assert_eq!(played.state.name(), "intended");
    assert_eq!(played.leave(), [Action::Send { attempt: 2 }]);
    played.used(refused());
    played.used(Event::GivenUp {
        why: "the server is down".into(),
    });
    assert_eq!(played.state.name(), "no_effect");
    assert_eq!(played.state.executed(), Executed::No);
}

#[test]
fn a_refused_repeat_proves_nothing_about_the_first_attempt() {
    let mut played = Played::sent(with_key());
    assert_eq!(played.lose(), [Action::Repeat]);
    played.leave();
    let refused = played.used(Event::Refused {
        bytes_sent: 0,
        proof: "401".into(),
    });
    // A server that was restarted refuses the old session: the contract covers the next try as well.
    assert_eq!(refused, [Action::Repeat]);
    assert_eq!(played.state.name(), "not_observed");
    assert_eq!(played.state.executed(), Executed::Unknown);
    played.used(Event::GivenUp {
        why: "the server is not available".into(),
    });
    assert_eq!(played.state.name(), "held");
}

#[test]
fn under_a_key_contract_it_is_repeated_within_bounds() {
    let mut played = Played::sent(with_key());
    for repeat in 0..played.policy.again_limit {
        assert_eq!(played.lose(), [Action::Repeat], "repeat {repeat}");
        assert_eq!(played.state.name(), "not_observed");
        let due = deadline(&played.state).unwrap().at;
        assert!(due > played.now.mono, "not at once");
        played.pass(due.since(played.now.mono));
        played.leave();
    }
    assert_eq!(played.lose(), [Action::Tell]);
    assert_eq!(played.state.name(), "held");
    assert_eq!(played.state.trail().attempts, 4);
}

#[test]
fn the_provider_is_given_the_time_that_it_asks_for_unless_it_forgets_the_key_by_then() {
    let slow = |retry_after| Event::Lost {
        bytes_sent: 1,
        evidence: "503".into(),
        retry_after: Some(retry_after),
    };
    let mut played = Played::sent(with_key());
    played.used(slow(Millis::secs(20)));
    let due = deadline(&played.state).unwrap().at;
    assert!(due.since(played.now.mono) >= Millis::secs(20));
    let mut played = Played::sent(Contract {
        duplicate_key: Some(KeyContract {
            retention: Millis::secs(10),
            ..key()
        }),
        lookup: None,
    });
    assert_eq!(played.used(slow(Millis::secs(20))), [Action::Tell]);
    assert_eq!(played.state.name(), "held");
}

#[test]
fn a_repeat_that_does_not_leave_is_held() {
    let mut played = Played::sent(with_key());
    played.lose();
    played.used(Event::GivenUp {
        why: "the server is down".into(),
    });
    assert_eq!(played.state.name(), "held");
}

#[test]
fn a_record_at_the_provider_confirms_it() {
    let mut played = Played::sent(with_lookup(false));
    assert_eq!(played.lose(), []);
    assert_eq!(played.state.name(), "reconciling");
    let found = Finding::Found {
        record: "{}".into(),
    };
    assert_eq!(played.look_up(found), [Action::Settled]);
    assert_eq!(played.state.name(), "confirmed");
    assert!(played.now.mono.since(START.mono) >= Millis::secs(30));
}

#[test]
fn what_is_not_found_is_no_proof_unless_the_provider_documents_it() {
    let mut played = Played::sent(with_lookup(false));
    played.lose();
    for _ in 1..played.policy.lookup_tries {
        assert_eq!(played.look_up(Finding::Absent), []);
        assert_eq!(played.state.name(), "reconciling");
    }
    assert_eq!(played.look_up(Finding::Absent), [Action::Tell]);
    assert_eq!(played.state.name(), "held");

    let mut played = Played::sent(with_lookup(true));
    played.lose();
    assert_eq!(played.look_up(Finding::Absent), [Action::Settled]);
    assert_eq!(played.state.name(), "no_effect");
}

#[test]
fn asked_for_too_early_nothing_is_definitive() {
    let mut played = Played::sent(with_lookup(true));
    played.lose();
    let asked = played.used(Event::Reconcile { name: "ops".into() });
    assert_eq!(asked, [Action::LookUp { tries: 0 }]);
    played.used(Event::LookedUp {
        tries: 0,
        finding: Finding::Absent,
    });
    assert_eq!(played.state.name(), "reconciling");
}

#[test]
fn an_unclear_or_impossible_lookup_is_tried_again_and_then_held() {
    let mut played = Played::sent(with_lookup(true));
    played.lose();
    played.look_up(Finding::Unclear {
        why: "2 records match".into(),
    });
    assert_eq!(played.state.name(), "reconciling");
    let fault = Fault::new(crate::Kind::Network, "connection refused");
    played.look_up(Finding::Unreachable { fault });
    assert_eq!(played.state.name(), "reconciling");
}

#[test]
fn a_lookup_that_hangs_is_over_after_its_limit() {
    let mut played = Played::sent(with_lookup(true));
    played.lose();
    assert_eq!(played.wake(), [Action::LookUp { tries: 0 }]);
    assert_eq!(played.wake(), []);
    assert_eq!(played.state.name(), "reconciling");
    played.ignored(Event::LookedUp {
        tries: 0,
        finding: Finding::Absent,
    });
}

#[test]
fn a_late_answer_settles_what_was_held_or_decided() {
    let late = Event::Answered {
        said: Said::Result,
        awaited: false,
    };
    let mut held = Played::sent(Contract::default());
    held.lose();
    let mut abandoned = Played::sent(Contract::default());
    abandoned.lose();
    abandoned.used(settle(Verdict::Abandoned));
    let mut reconciling = Played::sent(with_lookup(false));
    reconciling.lose();
    for mut played in [held, abandoned, reconciling] {
        assert_eq!(played.used(late.clone()), [Action::Settled]);
        let State::Observed { late, .. } = played.state else {
            panic!("{:?}", played.state);
        };
        assert!(late);
    }
}

#[test]
fn an_agent_that_goes_away_ends_nothing() {
    let mut played = Played::sent(Contract::default());
    played.used(Event::AgentLeft);
    played.ignored(Event::AgentLeft);
    assert_eq!(played.state.name(), "sent");
    assert!(played.state.trail().agent_left);
    played.used(Event::Answered {
        said: Said::Result,
        awaited: false,
    });
    assert_eq!(played.state.name(), "observed");
}

#[test]
fn after_a_restart_nothing_is_sent_by_itself() {
    let mut intended = Played::new(with_key());
    assert_eq!(intended.used(Event::Interrupted), [Action::Settled]);
    assert_eq!(intended.state.name(), "no_effect");
    let mut sent = Played::sent(with_key());
    assert_eq!(sent.used(Event::Interrupted), [Action::Tell]);
    assert_eq!(sent.state.name(), "held");
    let mut repeating = Played::sent(with_key());
    repeating.lose();
    assert_eq!(repeating.used(Event::Interrupted), [Action::Tell]);
    assert_eq!(repeating.state.name(), "held");
    let mut looked_up = Played::sent(with_lookup(false));
    assert_eq!(looked_up.used(Event::Interrupted), []);
    assert_eq!(looked_up.state.name(), "reconciling");
}

#[test]
fn a_task_is_followed_instead_of_repeated() {
    let mut played = Played::sent(with_key());
    played.used(Event::TaskStarted {
        task: "task-1".into(),
    });
    assert_eq!(played.lose(), []);
    assert_eq!(played.state.name(), "reconciling");
    assert_eq!(played.wake(), [Action::LookUp { tries: 0 }]);
}

#[test]
fn a_task_is_followed_for_as_long_as_its_server_is_at_work_on_it() {
    let mut played = Played::sent(Contract::default());
    let task = "task-1".into();
    played.used(Event::TaskStarted { task });
    played.lose();
    let working = |seconds| Finding::Working {
        again_after: Some(Millis::secs(seconds)),
    };
    for _ in 0..3 * played.policy.lookup_tries {
        assert_eq!(played.look_up(working(20)), []);
        let wait = deadline(&played.state).unwrap().at.since(played.now.mono);
        assert!(wait >= Millis::secs(20), "{wait:?}");
        assert!(wait <= played.policy.lookup_max, "{wait:?}");
    }
    assert_eq!(played.state.name(), "reconciling");
    // A server that asks for nothing, or for next to nothing, is not asked without end.
    played.look_up(working(0));
    let wait = deadline(&played.state).unwrap().at.since(played.now.mono);
    assert!(wait >= played.policy.lookup_first, "{wait:?}");
    let unclear = || Finding::Unclear {
        why: "the task is gone".into(),
    };
    for _ in 1..played.policy.lookup_tries {
        played.look_up(unclear());
    }
    assert_eq!(played.look_up(unclear()), [Action::Tell]);
}

#[test]
fn legs_of_one_call_are_one_operation() {
    let mut played = Played::sent(Contract::default());
    let asked = Event::Answered {
        said: Said::InputRequired,
        awaited: true,
    };
    played.used(asked.clone());
    assert_eq!(played.state.name(), "observed");
    assert_eq!(played.leave(), [Action::Send { attempt: 2 }]);
    assert_eq!(played.state.name(), "sent");
    // What was answered before is not undone by a leg that was refused.
    played.used(Event::Refused {
        bytes_sent: 0,
        proof: "401".into(),
    });
    assert_eq!(played.state.executed(), Executed::Yes);
    assert_eq!(played.leave(), [Action::Send { attempt: 3 }]);
    assert_eq!(played.lose(), [Action::Tell]);
}

#[test]
fn a_person_settles_what_is_held_and_nothing_else() {
    for (verdict, name) in [
        (Verdict::Confirmed, "confirmed"),
        (Verdict::NoEffect { repeat: false }, "no_effect"),
        (Verdict::Abandoned, "abandoned"),
    ] {
        let mut played = Played::sent(Contract::default());
        played.ignored(settle(verdict));
        played.lose();
        assert_eq!(played.used(settle(verdict)), [Action::Settled]);
        assert_eq!(played.state.name(), name);
    }
    let mut observed = Played::sent(Contract::default());
    observed.used(Event::Answered {
        said: Said::Result,
        awaited: true,
    });
    observed.ignored(settle(Verdict::Abandoned));
}

#[test]
fn a_person_may_have_it_sent_again() {
    let mut played = Played::sent(Contract::default());
    played.lose();
    let again = settle(Verdict::NoEffect { repeat: true });
    assert_eq!(played.used(again), [Action::Settled, Action::Repeat]);
    assert_eq!(played.leave(), [Action::Send { attempt: 2 }]);
    played.lose();
    assert_eq!(played.state.name(), "held");
}

#[test]
fn a_person_who_asks_gets_a_lookup_at_once_where_there_is_one() {
    let mut played = Played::sent(with_lookup(false));
    played.lose();
    for _ in 0..played.policy.lookup_tries {
        played.look_up(Finding::Absent);
    }
    assert_eq!(played.state.name(), "held");
    let ask = Event::Reconcile { name: "ops".into() };
    assert_eq!(played.used(ask.clone()), [Action::LookUp { tries: 0 }]);
    let mut without = Played::sent(Contract::default());
    without.lose();
    without.ignored(ask);
}

#[test]
fn nothing_leaves_once_it_is_unresolved_or_settled() {
    let leave = || Event::Leave {
        rpc_id: RpcId::Integer(18),
    };
    let mut held = Played::sent(Contract::default());
    held.lose();
    let mut looked_up = Played::sent(with_lookup(false));
    looked_up.lose();
    let mut observed = Played::sent(Contract::default());
    observed.used(Event::Answered {
        said: Said::Result,
        awaited: true,
    });
    for mut played in [held, looked_up, observed] {
        played.ignored(leave());
    }
}

#[test]
fn the_facts_fold_to_the_state_also_from_disk() {
    let mut played = Played::sent(with_lookup(false));
    played.lose();
    played.look_up(Finding::Absent);
    played.used(settle(Verdict::Confirmed));
    let stored: Vec<String> = played
        .facts
        .iter()
        .map(|fact| serde_json::to_string(fact).unwrap())
        .collect();
    let folded = stored
        .iter()
        .map(|fact| serde_json::from_str::<Fact>(fact).unwrap())
        .fold(State::intended(), |state, fact| replay(state, &fact));
    assert_eq!(folded, played.state);
}

#[test]
fn a_wait_survives_a_restart_on_the_wall_clock() {
    let mut played = Played::sent(with_lookup(false));
    played.lose();
    let wake = wake_at(&played.state, played.now);
    let later = Now {
        mono: Mono(5),
        wall: Wall(START.wall.0 + 10_000),
    };
    let restored = restore(played.state, wake, later);
    assert_eq!(deadline(&restored).unwrap().at, Mono(5 + 20_000));
}
