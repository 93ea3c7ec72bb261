//! Leases: one holder at a time, and takeover after the end.

use steadfast_core::Wall;

use crate::leases::{Lease, LeaseKey, Taken};
use crate::store::SharedStore;

fn renewal(agent: &str) -> LeaseKey {
    LeaseKey::Renewal {
        agent: agent.into(),
        server: "crm".into(),
    }
}

async fn take(store: &SharedStore, holder: &str, now: i64, until: i64) -> Option<Lease> {
    let key = renewal("a");
    let taken = store.take_lease(&key, holder, Wall(now), Wall(until));
    match taken.await.unwrap() {
        Taken::Yes(lease) => Some(lease),
        Taken::No { .. } => None,
    }
}

/// Neither another daemon nor another task of the same one.
pub async fn a_lease_has_one_holder_at_a_time(store: SharedStore) {
    let key = renewal("a");
    assert_eq!(store.lease_holder(&key).await.unwrap(), None);
    let lease = take(&store, "one", 0, 30).await.unwrap();
    for holder in ["two", "one"] {
        let taken = store.take_lease(&key, holder, Wall(29), Wall(90)).await;
        let expected = Taken::No {
            holder: "one".to_owned(),
            until: Wall(30),
        };
        assert_eq!(taken.unwrap(), expected);
    }
    let held = Some(("one".to_owned(), Wall(30)));
    assert_eq!(store.lease_holder(&key).await.unwrap(), held);
    assert!(store.release_lease(&lease).await.unwrap());
    assert!(!store.release_lease(&lease).await.unwrap());
    assert!(take(&store, "two", 1, 30).await.is_some());
}

/// A holder that lives moves the end; one that died is taken over from, and cannot come back.
pub async fn a_lease_is_renewed_or_taken_over_after_its_end(store: SharedStore) {
    let first = take(&store, "one", 0, 30).await.unwrap();
    assert!(store.renew_lease(&first, Wall(60)).await.unwrap());
    assert_eq!(take(&store, "two", 59, 90).await, None);
    // Late, and nobody was faster.
    assert!(store.renew_lease(&first, Wall(70)).await.unwrap());

    let second = take(&store, "two", 70, 100).await.unwrap();
    assert!(!store.renew_lease(&first, Wall(500)).await.unwrap());
    assert!(!store.release_lease(&first).await.unwrap());
    let held = Some(("two".to_owned(), Wall(100)));
    assert_eq!(store.lease_holder(&renewal("a")).await.unwrap(), held);

    // Not even once it is free, or in the hands of the same daemon again.
    assert!(store.release_lease(&second).await.unwrap());
    assert!(!store.renew_lease(&first, Wall(500)).await.unwrap());
    let third = take(&store, "one", 71, 100).await.unwrap();
    assert!(!store.renew_lease(&first, Wall(500)).await.unwrap());
    assert!(!store.release_lease(&first).await.unwrap());
    assert!(store.renew_lease(&third, Wall(120)).await.unwrap());
}

/// Different things do not get in each other's way.
pub async fn leases_of_different_things_are_independent(store: SharedStore) {
    let registration = |issuer: &str, uri: &str| LeaseKey::Registration {
        issuer: issuer.to_owned(),
        redirect_uri: uri.to_owned(),
    };
    let keys = [
        renewal("a"),
        renewal("b"),
        registration("a", "crm"),
        registration("crm", "a"),
    ];
    for key in &keys {
        let taken = store.take_lease(key, "one", Wall(0), Wall(9)).await;
        assert!(matches!(taken.unwrap(), Taken::Yes(_)), "{key:?}");
    }
}

/// Of many at once, one.
pub async fn one_of_many_concurrent_takers_gets_a_lease(store: SharedStore) {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let store = store.clone();
        tasks.spawn(async move { take(&store, &number.to_string(), 0, 30).await });
    }
    let mut leases = Vec::new();
    while let Some(done) = tasks.join_next().await {
        leases.extend(done.unwrap());
    }
    assert_eq!(leases.len(), 1);
    assert!(store.release_lease(&leases[0]).await.unwrap());
}
