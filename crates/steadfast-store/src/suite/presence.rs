//! Presence: as long as the daemon, and no longer.

use crate::store::SharedStore;

/// So that whoever comes after it knows at once.
pub async fn a_daemon_is_present_as_long_as_it_lives(store: SharedStore) {
    assert!(!store.is_present("one").await.unwrap());
    let one = store.appear("one").await.unwrap();
    let two = store.appear("two").await.unwrap();
    assert!(store.is_present("one").await.unwrap());
    drop(one);
    assert!(!store.is_present("one").await.unwrap());
    assert!(store.is_present("two").await.unwrap());
    drop(two);
}
