//! What the vault keeps, and the change of its key.

use secrecy::ExposeSecret as _;
use steadfast_core::Wall;

use super::filling::fill_grants;
use super::samples::{
    client, grant, operation, operation_secrets, secret, secrets, sign_in, sign_in_secrets,
};
use crate::error::Problem;
use crate::resealing::Resealed;
use crate::store::SharedStore;
use crate::vault::{Key, KeyRing, KeySource, Sealed, SlotKind, Vault};
use crate::vault_entries::VaultEntry;

fn entry(name: &str, sealed: &str) -> VaultEntry {
    VaultEntry {
        name: name.to_owned(),
        sealed: Sealed::from(sealed.as_bytes().to_vec()),
        set_at: Wall(1),
    }
}

/// By their names; the last value counts.
pub async fn vault_entries_come_back_as_they_were_put(store: SharedStore) {
    for (name, value) in [("B", "1"), ("A", "2"), ("B", "3")] {
        store.put_vault_entry(&entry(name, value)).await.unwrap();
    }
    let all = store.vault_entries().await.unwrap();
    assert_eq!(all, [entry("A", "2"), entry("B", "3")]);
    let one = store.vault_entry("B").await.unwrap();
    assert_eq!(one, Some(entry("B", "3")));
    assert_eq!(store.vault_entry("b").await.unwrap(), None);
    assert!(store.remove_vault_entry("B").await.unwrap());
    assert!(!store.remove_vault_entry("B").await.unwrap());
    assert_eq!(store.vault_entry("B").await.unwrap(), None);
}

const GRANTS: usize = 600;
const RESULT: &[u8] = br#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

/// One of each kind that is sealed, and of grants more than one step's worth.
async fn fill(store: &SharedStore, vault: &Vault) {
    let grants = (0..GRANTS).map(|number| {
        let mut put = grant(&format!("a-{number:03}"), "crm");
        vault.seal_grant(&mut put, &secrets(1)).unwrap();
        put
    });
    fill_grants(store, grants).await.unwrap();
    let mut registered = client("https://as.example", "http://127.0.0.1/cb");
    vault
        .seal_client(&mut registered, Some(&secret("client")))
        .unwrap();
    store.swap_client(&registered).await.unwrap();
    let mut attempt = sign_in("a", 1);
    vault
        .seal_sign_in(&mut attempt, &sign_in_secrets())
        .unwrap();
    let started = store.start_sign_in(&attempt, Wall(0), false).await;
    started.unwrap();
    let mut recorded = operation(1);
    recorded.sealed = vault
        .seal_operation(&recorded.id, &operation_secrets())
        .unwrap();
    recorded.result = Some(vault.seal_result(&recorded.id, RESULT).unwrap());
    store.intend(&recorded, &[]).await.unwrap();
    let mut named = entry("KEY", "");
    named.sealed = vault.seal_entry("KEY", &secret("named")).unwrap();
    store.put_vault_entry(&named).await.unwrap();
}

async fn assert_readable(store: &SharedStore, vault: &Vault) {
    let grants = store.grants(None, usize::MAX).await.unwrap();
    assert_eq!(grants.len(), GRANTS);
    for grant in grants {
        let read = vault.open_grant(&grant).unwrap().unwrap();
        let token = read.access_token.expose_secret();
        assert_eq!(token, secrets(1).access_token.expose_secret());
        assert_eq!(grant.version.0, 1, "the record says the same as before");
    }
    let registered = store.client("https://as.example", "http://127.0.0.1/cb");
    let registered = registered.await.unwrap().unwrap();
    let read = vault.open_client(&registered).unwrap().unwrap();
    assert_eq!(read.expose_secret(), secret("client").expose_secret());
    let attempt = store.sign_in(&"a".into(), &"crm".into()).await.unwrap();
    let read = vault.open_sign_in(&attempt.unwrap()).unwrap();
    let verifier = sign_in_secrets().verifier;
    assert_eq!(read.verifier.expose_secret(), verifier.expose_secret());
    let recorded = store.operation(&operation(1).id).await.unwrap().unwrap();
    let read = vault.open_operation(&recorded).unwrap();
    let params = operation_secrets().params;
    assert_eq!(read.params.expose_secret(), params.expose_secret());
    let result = vault.open_result(&recorded).unwrap().unwrap();
    assert_eq!(*result, RESULT);
    let named = store.vault_entry("KEY").await.unwrap().unwrap();
    let read = vault.open_entry(&named).unwrap();
    assert_eq!(read.expose_secret(), secret("named").expose_secret());
}

/// Everything that is sealed is sealed anew; the key before is no longer needed.
pub async fn a_change_of_the_key_reseals_everything(store: SharedStore) {
    let old = Key::draw().unwrap();
    let before = Vault::new(KeyRing::of(old.clone()), KeySource::Nowhere);
    fill(&store, &before).await;
    let new = Key::draw().unwrap();
    let ring = KeyRing::of(old).with_new(new.clone());
    let during = Vault::new(ring, KeySource::Nowhere);
    let rotation = during.reseal(&*store).await.unwrap();
    assert_eq!(rotation.resealed, GRANTS as u64 + 5);
    assert!(rotation.failed.is_empty(), "{:?}", rotation.failed);
    let after = Vault::new(KeyRing::of(new), KeySource::Nowhere);
    assert_readable(&store, &after).await;
    let again = during.reseal(&*store).await.unwrap();
    assert_eq!(again.resealed, 0);
    let mut of_old = store.vault_entry("KEY").await.unwrap().unwrap();
    of_old.sealed = Sealed::from(of_old.sealed.as_bytes().to_vec());
    let refused = before.open_entry(&of_old).unwrap_err();
    assert_eq!(refused.problem(), Problem::Key);
}

/// What does not open is named, and keeps nobody else from being resealed.
pub async fn a_change_of_the_key_names_what_does_not_open(store: SharedStore) {
    let old = Key::draw().unwrap();
    let before = Vault::new(KeyRing::of(old.clone()), KeySource::Nowhere);
    fill(&store, &before).await;
    let mut damaged = entry("BROKEN", "");
    // Of another name: it was moved.
    damaged.sealed = before.seal_entry("KEY", &secret("moved")).unwrap();
    store.put_vault_entry(&damaged).await.unwrap();
    let ring = KeyRing::of(old).with_new(Key::draw().unwrap());
    let during = Vault::new(ring, KeySource::Nowhere);
    let rotation = during.reseal(&*store).await.unwrap();
    assert_eq!(rotation.resealed, GRANTS as u64 + 5);
    assert_eq!(rotation.failed.len(), 1);
    let error = rotation.failed[0].to_string();
    assert!(error.contains("the secret BROKEN"), "{error}");
    let left = store.vault_entry("BROKEN").await.unwrap();
    assert_eq!(left, Some(damaged));
}

/// A value that was renewed meanwhile is not replaced by an older one.
pub async fn resealing_replaces_only_what_was_read(store: SharedStore) {
    let vault = Vault::ephemeral().unwrap();
    let mut first = entry("KEY", "");
    first.sealed = vault.seal_entry("KEY", &secret("old")).unwrap();
    store.put_vault_entry(&first).await.unwrap();
    let other = Vault::ephemeral().unwrap();
    let found = store.sealed_under_others(SlotKind::Entries, other.key_id(), None, 9);
    let (slot, from) = found.await.unwrap().remove(0);
    assert_eq!(from, first.sealed);
    let own = store.sealed_under_others(SlotKind::Entries, vault.key_id(), None, 9);
    assert_eq!(own.await.unwrap(), []);

    let mut set = first.clone();
    set.sealed = vault.seal_entry("KEY", &secret("new")).unwrap();
    store.put_vault_entry(&set).await.unwrap();
    let late = Resealed {
        slot,
        from,
        to: Sealed::from(b"late".to_vec()),
    };
    assert_eq!(store.reseal(&[late]).await.unwrap(), 0);
    assert_eq!(store.vault_entry("KEY").await.unwrap(), Some(set));
}
