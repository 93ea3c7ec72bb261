//! Sign-ins under way.

use steadfast_core::Wall;

use super::samples::{agent, server, sign_in};
use crate::keys::IdHash;
use crate::sign_ins::{SignInRecord, Started};
use crate::store::SharedStore;

async fn find(store: &SharedStore, agent: &str) -> Option<SignInRecord> {
    store.sign_in(&agent.into(), &"crm".into()).await.unwrap()
}

async fn start(store: &SharedStore, put: &SignInRecord, now: i64, restart: bool) -> Started {
    store.start_sign_in(put, Wall(now), restart).await.unwrap()
}

/// One at a time for a connection: whoever asks gets the same, until it is over or started anew.
pub async fn a_connection_has_one_sign_in_at_a_time(store: SharedStore) {
    let (first, second) = (sign_in("a", 1), sign_in("a", 2));
    assert_eq!(find(&store, "a").await, None);
    assert_eq!(start(&store, &first, 0, false).await, Started::New);
    assert_eq!(find(&store, "a").await, Some(first.clone()));
    let before_its_end = first.expires_at.0 - 1;
    let open = start(&store, &second, before_its_end, false).await;
    assert_eq!(open, Started::Open(Box::new(first.clone())));
    let other = sign_in("b", 3);
    assert_eq!(start(&store, &other, 0, false).await, Started::New);

    assert_eq!(start(&store, &second, 0, true).await, Started::New);
    assert_eq!(find(&store, "a").await, Some(second.clone()));
    // The callback of the one before leads nowhere.
    let taken = store.take_sign_in(&first.state_hash).await.unwrap();
    assert_eq!(taken, None);
    let at_its_end = second.expires_at.0;
    assert_eq!(start(&store, &first, at_its_end, false).await, Started::New);
    assert_eq!(find(&store, "a").await, Some(first));
    assert_eq!(find(&store, "b").await, Some(other));
}

/// However many people or daemons start it together, they are shown one link.
pub async fn concurrent_sign_ins_of_a_connection_become_one(store: SharedStore) {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..12 {
        let store = store.clone();
        tasks.spawn(async move {
            let mine = sign_in("a", number);
            match start(&store, &mine, 0, false).await {
                Started::New => (mine.id, true),
                Started::Open(open) => (open.id, false),
            }
        });
    }
    let mut ids = Vec::new();
    let mut started = 0;
    while let Some(done) = tasks.join_next().await {
        let (id, new) = done.unwrap();
        started += usize::from(new);
        ids.push(id);
    }
    assert_eq!(started, 1);
    ids.dedup();
    assert_eq!(ids.len(), 1);
}

/// The code of a callback is redeemed once, whichever daemons the browser reaches.
pub async fn a_sign_in_is_taken_exactly_once(store: SharedStore) {
    let put = sign_in("a", 1);
    start(&store, &put, 0, false).await;
    let unknown: IdHash = [0; 32];
    assert_eq!(store.take_sign_in(&unknown).await.unwrap(), None);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let store = store.clone();
        tasks.spawn(async move { store.take_sign_in(&put.state_hash).await.unwrap() });
    }
    let mut taken = Vec::new();
    while let Some(done) = tasks.join_next().await {
        taken.extend(done.unwrap());
    }
    assert_eq!(taken, [sign_in("a", 1)]);
    assert_eq!(find(&store, "a").await, None);
}

/// Each of them once, and not those that still have time.
pub async fn sign_ins_without_a_callback_are_taken_after_their_end(store: SharedStore) {
    let mut all = [sign_in("c", 1), sign_in("a", 2), sign_in("b", 3)];
    all[1].expires_at = Wall(50);
    all[2].expires_at = Wall(49);
    all[0].expires_at = Wall(48);
    for put in &all {
        start(&store, put, 0, false).await;
    }
    let taken = store.take_expired_sign_ins(Wall(50)).await.unwrap();
    assert_eq!(taken, [all[2].clone(), all[0].clone()]);
    let taken = store.take_expired_sign_ins(Wall(50)).await.unwrap();
    assert_eq!(taken, []);
    assert_eq!(find(&store, "a").await, Some(all[1].clone()));
}

/// A connection that is no more has no link.
pub async fn the_sign_in_of_one_connection_is_removed(store: SharedStore) {
    for (agent, number) in [("a", 1), ("b", 2)] {
        start(&store, &sign_in(agent, number), 0, false).await;
    }
    for was_there in [true, false] {
        let removed = store.remove_sign_in(&"a".into(), &"crm".into()).await;
        assert_eq!(removed.unwrap(), was_there);
    }
    assert_eq!(find(&store, "a").await, None);
    assert!(find(&store, "b").await.is_some());
}

/// Nobody could use what it leads to.
pub async fn sign_ins_go_with_their_agent_and_their_server(store: SharedStore) {
    for name in ["a", "b", "c"] {
        store.put_agent(&agent(name)).await.unwrap();
    }
    store.put_server(&server("crm")).await.unwrap();
    let mut elsewhere = sign_in("c", 3);
    elsewhere.server = "mail".into();
    for put in [&sign_in("a", 1), &sign_in("b", 2), &elsewhere] {
        start(&store, put, 0, false).await;
    }
    store.remove_agent(&"a".into()).await.unwrap();
    assert_eq!(find(&store, "a").await, None);
    assert!(find(&store, "b").await.is_some());
    store.remove_server(&"crm".into()).await.unwrap();
    assert_eq!(find(&store, "b").await, None);
    let found = store.sign_in(&"c".into(), &"mail".into()).await.unwrap();
    assert_eq!(found, Some(elsewhere));
}
