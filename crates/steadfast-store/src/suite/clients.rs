//! Registered clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use steadfast_core::Wall;
use steadfast_core::oauth::client::Auth;

use super::samples::client;
use crate::clients::ClientRecord;
use crate::leases::{LeaseKey, Taken};
use crate::store::SharedStore;
use crate::swap::{Swap, Version};

const URI: &str = "http://127.0.0.1:7420/oauth/callback";

async fn find(store: &SharedStore, issuer: &str, uri: &str) -> Option<ClientRecord> {
    store.client(issuer, uri).await.unwrap()
}

/// Every field, and none of another issuer or redirect URI (DS-07, CR-03).
pub async fn clients_belong_to_their_issuer_and_redirect_uri(store: SharedStore) {
    let issuer = "https://as.example";
    let mut first = client(issuer, URI);
    let stored = store.swap_client(&first).await.unwrap();
    assert_eq!(stored, Swap::Stored(Version(1)));
    first.version = Version(1);
    assert_eq!(find(&store, issuer, URI).await, Some(first.clone()));
    assert_eq!(find(&store, "https://other.example", URI).await, None);
    let moved = "http://127.0.0.1:7421/oauth/callback";
    assert_eq!(find(&store, issuer, moved).await, None);

    first.client_id = "c2".to_owned();
    first.sealed = None;
    first.auth = Auth::None;
    first.expires_at = None;
    first.registered_at = Wall(9);
    first.doubtful = true;
    let stored = store.swap_client(&first).await.unwrap();
    assert_eq!(stored, Swap::Stored(Version(2)));
    first.version = Version(2);
    assert_eq!(find(&store, issuer, URI).await, Some(first.clone()));

    // Somebody who read an older version neither replaces nor removes it.
    let lost = store.swap_client(&client(issuer, URI)).await.unwrap();
    assert_eq!(lost, Swap::Lost(Some(Box::new(first.clone()))));
    for (version, removed) in [(Version(1), false), (Version(2), true), (Version(2), false)] {
        let answer = store.remove_client(issuer, URI, version).await.unwrap();
        assert_eq!(answer, removed, "{version:?}");
    }
    assert_eq!(find(&store, issuer, URI).await, None);
    let lost = store.swap_client(&first).await.unwrap();
    assert_eq!(lost, Swap::Lost(None));
}

/// Looks, takes the lease, looks again, and registers: as every daemon does it.
async fn register(store: &SharedStore, name: &str, registrations: &AtomicUsize) -> String {
    let issuer = "https://as.example";
    let key = LeaseKey::Registration {
        issuer: issuer.to_owned(),
        redirect_uri: URI.to_owned(),
    };
    loop {
        if let Some(client) = find(store, issuer, URI).await {
            return client.client_id;
        }
        let taken = store.take_lease(&key, name, Wall(0), Wall(9)).await;
        let Taken::Yes(lease) = taken.unwrap() else {
            tokio::task::yield_now().await;
            continue;
        };
        if find(store, issuer, URI).await.is_none() {
            registrations.fetch_add(1, Ordering::Relaxed);
            let mut mine = client(issuer, URI);
            mine.client_id = name.to_owned();
            assert!(store.swap_client(&mine).await.unwrap().is_stored());
        }
        store.release_lease(&lease).await.unwrap();
    }
}

/// However many want one at the same time.
pub async fn concurrent_registrants_make_one_registration(store: SharedStore) {
    let registrations = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..12 {
        let store = store.clone();
        let registrations = Arc::clone(&registrations);
        tasks.spawn(async move { register(&store, &number.to_string(), &registrations).await });
    }
    let mut ids = Vec::new();
    while let Some(done) = tasks.join_next().await {
        ids.push(done.unwrap());
    }
    assert_eq!(registrations.load(Ordering::Relaxed), 1);
    ids.dedup();
    assert_eq!(ids.len(), 1);
}
