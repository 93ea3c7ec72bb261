//! Who changed what.

use steadfast_core::Wall;

use crate::audit::{AuditRecord, Via};
use crate::store::SharedStore;

fn change(at: i64, via: Via) -> AuditRecord {
    AuditRecord {
        at: Wall(at),
        who: "admin".to_owned(),
        via,
        action: "put_server".to_owned(),
        target: format!("booking-{at}"),
        detail: "url, \"tools\"".to_owned(),
    }
}

/// As they were put on record, the newest first and in parts, whatever the clock said.
pub async fn changes_come_back_newest_first(store: SharedStore) {
    assert_eq!(store.audit(None, 10).await.unwrap(), []);
    for (at, via) in [5, 9, 1, 7, 3, 2].into_iter().zip(Via::ALL) {
        store.append_audit(&change(at, via)).await.unwrap();
    }
    let all = store.audit(None, 10).await.unwrap();
    let found: Vec<_> = all.iter().map(|entry| entry.record.clone()).collect();
    let put = [5, 9, 1, 7, 3, 2].into_iter().zip(Via::ALL);
    let mut put: Vec<_> = put.map(|(at, via)| change(at, via)).collect();
    put.reverse();
    assert_eq!(found, put);
    let first = store.audit(None, 2).await.unwrap();
    let second = store.audit(Some(first[1].number), 2).await.unwrap();
    assert_eq!([first, second].concat(), all[..4]);
    let none = store.audit(Some(all[5].number), 2).await.unwrap();
    assert_eq!(none, []);
}

/// Those that are older than they must be kept. The others keep their numbers, and no number comes twice.
pub async fn old_changes_are_forgotten(store: SharedStore) {
    for at in [10, 20, 30] {
        store.append_audit(&change(at, Via::Api)).await.unwrap();
    }
    let last = store.audit(None, 1).await.unwrap()[0].number;
    assert_eq!(store.remove_old_audit(Wall(20)).await.unwrap(), 1);
    assert_eq!(store.audit(None, 10).await.unwrap().len(), 2);
    assert_eq!(store.remove_old_audit(Wall(99)).await.unwrap(), 2);
    store.append_audit(&change(40, Via::Api)).await.unwrap();
    assert!(store.audit(None, 1).await.unwrap()[0].number > last);
}
