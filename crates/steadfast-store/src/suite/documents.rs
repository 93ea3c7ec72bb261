//! Metadata documents.

use steadfast_core::Wall;

use crate::documents::DocumentRecord;
use crate::store::SharedStore;

fn document(url: &str, fetched_at: i64) -> DocumentRecord {
    DocumentRecord {
        url: url.to_owned(),
        // Not even UTF-8: it is kept as it came.
        body: b"{\"issuer\":\"\xff\"}".to_vec(),
        etag: Some("\"v1\"".to_owned()),
        fetched_at: Wall(fetched_at),
        fresh_until: Wall(fetched_at + 5),
    }
}

/// By their address, byte by byte, fresh or not.
pub async fn documents_come_back_as_they_were_fetched(store: SharedStore) {
    let url = "https://as.example/.well-known/oauth-authorization-server";
    assert_eq!(store.document(url).await.unwrap(), None);
    store.put_document(&document(url, 10)).await.unwrap();
    let found = store.document(url).await.unwrap();
    assert_eq!(found, Some(document(url, 10)));
    let mut next = document(url, 20);
    next.etag = None;
    next.body = Vec::new();
    store.put_document(&next).await.unwrap();
    assert_eq!(store.document(url).await.unwrap(), Some(next));
    assert_eq!(store.document("https://as.example").await.unwrap(), None);
    assert!(store.remove_document(url).await.unwrap());
    assert!(!store.remove_document(url).await.unwrap());
    assert_eq!(store.document(url).await.unwrap(), None);
}

/// Those that nobody has asked for since.
pub async fn old_documents_are_forgotten(store: SharedStore) {
    for (url, at) in [("a", 10), ("b", 20), ("c", 30)] {
        store.put_document(&document(url, at)).await.unwrap();
    }
    assert_eq!(store.remove_old_documents(Wall(20)).await.unwrap(), 1);
    assert_eq!(store.document("a").await.unwrap(), None);
    assert!(store.document("b").await.unwrap().is_some());
    assert_eq!(store.remove_old_documents(Wall(20)).await.unwrap(), 0);
}
