//! The ledger: append-only, by compare-and-swap, and found by what an identical call has in common.

use steadfast_core::operation::{Decider, Evidence, Fact, Said, State, Trail};
use steadfast_core::{OperationId, Wall};

use super::samples::operation;
use crate::operations::{HeldCount, OperationFilter, OperationRecord};
use crate::store::SharedStore;
use crate::swap::{Swap, Version};
use crate::vault::Sealed;

fn fact(at: i64, state: &State) -> Fact {
    Fact {
        at: Wall(at),
        evidence: Evidence::Interrupted,
        state: state.clone(),
        decision: format!("number {at}"),
    }
}

fn held() -> State {
    State::Held {
        trail: Trail::default(),
        why: "no contract".to_owned(),
    }
}

fn no_effect() -> State {
    State::NoEffect {
        trail: Trail::default(),
        by: Decider::Wire,
        repeat: false,
    }
}

async fn intend(store: &SharedStore, number: u8) -> OperationRecord {
    let mut put = operation(number);
    let first = fact(1, &put.state);
    put.version = match store.intend(&put, &[first]).await.unwrap() {
        Swap::Stored(version) => version,
        Swap::Lost(present) => panic!("lost against {present:?}"),
    };
    put
}

/// Moves it to a state, and out of the hands of its driver.
async fn enter(store: &SharedStore, record: &mut OperationRecord, state: State) {
    record.state = state;
    record.driver = None;
    let appended = fact(2, &record.state);
    match store.advance(record, &[appended]).await.unwrap() {
        Swap::Stored(version) => record.version = version,
        Swap::Lost(present) => panic!("lost against {present:?}"),
    }
}

async fn find(store: &SharedStore, id: &OperationId) -> OperationRecord {
    store.operation(id).await.unwrap().unwrap()
}

/// Every field, with and without a value.
pub async fn operations_come_back_as_they_were_put(store: SharedStore) {
    let mut put = intend(&store, 1).await;
    assert_eq!(put.version, Version(1));
    assert_eq!(find(&store, &put.id).await, put);

    put.state = held();
    put.undelivered = true;
    put.driver = None;
    put.leg_hash = Some([8; 32]);
    put.wake_at = Some(Wall(9));
    put.changed_at = Wall(10);
    put.result = Some(Sealed::from(b"result".to_vec()));
    let appended = fact(2, &put.state);
    assert!(store.advance(&put, &[appended]).await.unwrap().is_stored());
    put.version = Version(2);
    assert_eq!(find(&store, &put.id).await, put);
    let by_leg = store.operation_of_leg(&[8; 32]).await.unwrap();
    assert_eq!(by_leg, Some(put));
    assert_eq!(store.operation(&"op_other".into()).await.unwrap(), None);
}

/// What was meant cannot be changed afterwards.
pub async fn what_was_meant_never_changes(store: SharedStore) {
    let mut changed = intend(&store, 1).await;
    let before = changed.clone();
    changed.tool = "another".to_owned();
    changed.digest = [99; 32];
    changed.contract.lookup = None;
    changed.contract.duplicate_key = None;
    changed.sealed = Sealed::from(b"forged".to_vec());
    assert!(store.advance(&changed, &[]).await.unwrap().is_stored());
    let found = find(&store, &changed.id).await;
    assert_eq!(
        found,
        OperationRecord {
            version: Version(2),
            ..before
        }
    );
}

/// Of two who read the same version, the first one wins, and the facts of the other are not there.
pub async fn facts_are_appended_by_whoever_read_the_latest_version(store: SharedStore) {
    let mut first = intend(&store, 1).await;
    let mut second = first.clone();
    enter(&store, &mut first, held()).await;
    second.state = no_effect();
    let lost = store.advance(&second, &[fact(3, &second.state)]).await;
    assert_eq!(lost.unwrap(), Swap::Lost(Some(Box::new(first.clone()))));
    let facts = store.operation_facts(&first.id).await.unwrap();
    assert_eq!(facts.len(), 2);
    assert_eq!(
        facts.iter().map(|fact| fact.at.0).collect::<Vec<_>>(),
        [1, 2]
    );
    assert_eq!(facts.last().unwrap().state, first.state);
    let none = store.operation_facts(&"op_other".into()).await.unwrap();
    assert_eq!(none, []);
}

/// What need not survive a loss of power is written by the same rules.
pub async fn what_is_written_lazily_is_there_and_loses_against_a_later_version(store: SharedStore) {
    let stale = intend(&store, 1).await;
    let mut record = stale.clone();
    record.state = held();
    let appended = fact(2, &record.state);
    let stored = store.advance_lazily(&record, &[appended]).await.unwrap();
    assert!(stored.is_stored());
    assert_eq!(find(&store, &record.id).await.state, held());
    let facts = store.operation_facts(&record.id).await.unwrap();
    assert_eq!(facts.len(), 2);
    let lost = store.advance_lazily(&stale, &[]).await.unwrap();
    assert!(matches!(lost, Swap::Lost(Some(_))), "{lost:?}");
}

/// Whoever has changed it since has the last word, and what is kept for a key is kept.
pub async fn an_answer_that_was_given_leaves_nothing_to_tell(store: SharedStore) {
    let mut answered = Vec::new();
    for number in 1..=3 {
        let mut put = operation(number);
        put.key_hash = (number == 2).then_some([9; 32]);
        let stored = store.intend(&put, &[]).await.unwrap();
        assert!(stored.is_stored());
        put.version = Version::NONE.next();
        put.undelivered = true;
        put.result = Some(Sealed::from(vec![1]));
        put.state = State::Observed {
            trail: Trail::default(),
            said: Said::Result,
            late: false,
        };
        assert!(store.advance_lazily(&put, &[]).await.unwrap().is_stored());
        answered.push((put.id, put.version.next()));
    }
    let [first, keyed, changed] = &mut answered[..] else {
        panic!("{answered:?}");
    };
    changed.1 = changed.1.next();
    let given = [first.clone(), keyed.clone(), changed.clone()];
    store.answers_given(&given).await.unwrap();
    for (given, is_told, is_kept) in [
        (first, true, false),
        (keyed, true, true),
        (changed, false, true),
    ] {
        let found = find(&store, &given.0).await;
        assert_eq!(found.undelivered, !is_told, "{found:?}");
        assert_eq!(found.driver.is_none(), is_told, "{found:?}");
        assert_eq!(found.result.is_some(), is_kept, "{found:?}");
        assert_eq!(found.is_open(), !is_told, "{found:?}");
    }
}

/// A key names one operation, until it is proven that nothing happened.
pub async fn one_key_is_one_operation_unless_it_had_no_effect(store: SharedStore) {
    let keyed = |number| OperationRecord {
        key_hash: Some([3; 32]),
        ..operation(number)
    };
    let first = keyed(1);
    assert!(store.intend(&first, &[]).await.unwrap().is_stored());
    let lost = store.intend(&keyed(2), &[]).await.unwrap();
    let Swap::Lost(Some(present)) = lost else {
        panic!("{lost:?}");
    };
    assert_eq!(present.id, first.id);
    assert_eq!(store.operation(&keyed(2).id).await.unwrap(), None);
    // The key of another agent is another key.
    let other = OperationRecord {
        agent: "other".into(),
        ..keyed(3)
    };
    assert!(store.intend(&other, &[]).await.unwrap().is_stored());
    let mut present = *present;
    enter(&store, &mut present, no_effect()).await;
    assert!(store.intend(&keyed(4), &[]).await.unwrap().is_stored());
}

/// Those in flight, unresolved, or with something to tell, and the one with the same key.
pub async fn similar_operations_are_open_and_identical_or_of_the_same_key(store: SharedStore) {
    let mut settled = intend(&store, 1).await;
    enter(&store, &mut settled, no_effect()).await;
    let in_flight = intend(&store, 2).await;
    let mut unresolved = intend(&store, 3).await;
    enter(&store, &mut unresolved, held()).await;
    let mut untold = intend(&store, 4).await;
    untold.undelivered = true;
    enter(&store, &mut untold, no_effect()).await;
    let mut of_key = operation(5);
    of_key.call_digest = [77; 32];
    of_key.key_hash = Some([3; 32]);
    store.intend(&of_key, &[]).await.unwrap();
    let mut of_other = operation(6);
    of_other.agent = "other".into();
    store.intend(&of_other, &[]).await.unwrap();

    let similar = |key: Option<[u8; 32]>, limit| {
        let store = &store;
        let like = in_flight.clone();
        async move {
            let found = store.similar_operations(
                &like.agent,
                &like.server,
                &like.call_digest,
                key.as_ref(),
                limit,
            );
            let found = found.await.unwrap().into_iter();
            found.map(|record| record.id).collect::<Vec<_>>()
        }
    };
    let ids = |records: &[&OperationRecord]| {
        let ids = records.iter().map(|record| record.id.clone());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(
        similar(None, 9).await,
        ids(&[&untold, &unresolved, &in_flight])
    );
    assert_eq!(similar(None, 1).await, ids(&[&untold]));
    assert_eq!(
        similar(Some([3; 32]), 9).await,
        ids(&[&of_key, &untold, &unresolved, &in_flight])
    );
}

/// By agent, server and state, and in parts.
pub async fn operations_are_listed_newest_first_and_in_parts(store: SharedStore) {
    for number in 1..=5 {
        intend(&store, number).await;
    }
    let mut third = find(&store, &operation(3).id).await;
    enter(&store, &mut third, held()).await;
    let list = |filter: OperationFilter, limit| {
        let store = &store;
        async move {
            let found = store.operations(&filter, limit).await.unwrap();
            found
                .into_iter()
                .map(|record| record.id)
                .collect::<Vec<_>>()
        }
    };
    let ids = |numbers: &[u8]| {
        let ids = numbers.iter().map(|number| operation(*number).id);
        ids.collect::<Vec<_>>()
    };
    let all = OperationFilter::default();
    assert_eq!(list(all.clone(), 3).await, ids(&[5, 4, 3]));
    let rest = OperationFilter {
        before: Some(operation(3).id),
        ..all.clone()
    };
    assert_eq!(list(rest, 3).await, ids(&[2, 1]));
    let of_state = OperationFilter {
        state: Some("held".to_owned()),
        ..all.clone()
    };
    assert_eq!(list(of_state, 9).await, ids(&[3]));
    let like = operation(1);
    let of_connection = OperationFilter {
        agent: Some(like.agent.clone()),
        server: Some(like.server.clone()),
        ..all.clone()
    };
    assert_eq!(list(of_connection.clone(), 9).await, ids(&[5, 4, 3, 2, 1]));
    let of_server = OperationFilter {
        agent: None,
        ..of_connection.clone()
    };
    assert_eq!(list(of_server, 1).await, ids(&[5]));
    let of_nobody = OperationFilter {
        agent: Some("nobody".into()),
        ..all
    };
    assert_eq!(list(of_nobody, 9).await, ids(&[]));
}

/// In the order in which their time came.
pub async fn due_operations_are_those_whose_time_has_come(store: SharedStore) {
    assert_eq!(store.next_operation_wake().await.unwrap(), None);
    for (number, wake_at) in [(1, 30), (2, 10), (3, 20)] {
        let record = OperationRecord {
            wake_at: Some(Wall(wake_at)),
            ..operation(number)
        };
        store.intend(&record, &[]).await.unwrap();
    }
    assert_eq!(store.next_operation_wake().await.unwrap(), Some(Wall(10)));
    let due = store.due_operations(Wall(20), 9).await.unwrap();
    assert_eq!(due, [operation(2).id, operation(3).id]);
    let first = store.due_operations(Wall(99), 1).await.unwrap();
    assert_eq!(first, [operation(2).id]);
}

/// So that whoever comes after a daemon that died finds what it was at work on.
pub async fn operations_are_found_by_the_daemon_that_drives_them(store: SharedStore) {
    let mut mine = intend(&store, 1).await;
    let mut other = operation(2);
    other.driver = Some("daemon-2".to_owned());
    store.intend(&other, &[]).await.unwrap();
    let drivers = store.operation_drivers().await.unwrap();
    assert_eq!(drivers, ["daemon-1", "daemon-2"]);
    let driven = store.driven_operations("daemon-1", 9).await.unwrap();
    assert_eq!(driven, [mine.clone()]);
    enter(&store, &mut mine, held()).await;
    assert_eq!(store.operation_drivers().await.unwrap(), ["daemon-2"]);
}

/// Per connection.
pub async fn held_operations_are_counted(store: SharedStore) {
    for number in 1..=3 {
        let mut record = intend(&store, number).await;
        if number < 3 {
            enter(&store, &mut record, held()).await;
        }
    }
    let like = operation(1);
    let counts = store.held_operations().await.unwrap();
    assert_eq!(
        counts,
        [HeldCount {
            agent: like.agent,
            server: like.server,
            count: 2
        }]
    );
}

/// The ledger tells what happened, also of those who are not configured any more.
pub async fn an_operation_outlives_its_agent_and_its_server(store: SharedStore) {
    let record = intend(&store, 1).await;
    store.remove_agent(&record.agent).await.unwrap();
    store.remove_server(&record.server).await.unwrap();
    assert_eq!(find(&store, &record.id).await, record);
}
