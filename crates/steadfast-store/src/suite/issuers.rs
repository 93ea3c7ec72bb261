//! What was learned about authorization servers.

use steadfast_core::Wall;

use crate::issuers::IssuerRecord;
use crate::store::SharedStore;

/// The latest counts, for each on its own.
pub async fn what_was_learned_is_kept_per_issuer(store: SharedStore) {
    let learned = |no_offline_access, at| IssuerRecord {
        issuer: "https://as.example".to_owned(),
        no_offline_access,
        learned_at: Wall(at),
    };
    assert_eq!(store.issuer("https://as.example").await.unwrap(), None);
    for record in [learned(true, 10), learned(false, 20)] {
        store.put_issuer(&record).await.unwrap();
        let found = store.issuer("https://as.example").await.unwrap();
        assert_eq!(found, Some(record));
    }
    assert_eq!(store.issuer("https://as.example/").await.unwrap(), None);
}
