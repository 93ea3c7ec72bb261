use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use steadfast_core::Wall;
use tempfile::TempDir;

use super::source::KEY_FILE;
use super::*;
use crate::memory::MemoryRecords;
use crate::records::Records as _;
use crate::suite::samples::{client, grant, secret, secrets, sign_in, sign_in_secrets};
use crate::vault_entries::VaultEntries as _;

fn slots() -> Vec<Slot> {
    let grant = |agent: &str, server: &str, generation| Slot::Grant {
        agent: agent.into(),
        server: server.into(),
        generation: steadfast_core::identity::GrantGeneration(generation),
    };
    let client = |issuer: &str, uri: &str| Slot::Client {
        issuer: issuer.to_owned(),
        redirect_uri: uri.to_owned(),
    };
    let notice = |agent: &str, number: u64| Slot::Notice {
        agent: agent.into(),
        server: "crm".into(),
        number,
    };
    let name = |name: &str| Slot::Entry {
        name: name.to_owned(),
    };
    vec![
        grant("a", "crm", 1),
        grant("a", "crm", 2),
        grant("b", "crm", 1),
        grant("ac", "rm", 1),
        client("a", "crm"),
        client("ac", "rm"),
        Slot::of_sign_in(&sign_in("a", 1)),
        Slot::of_sign_in(&sign_in("a", 2)),
        name("a"),
        name("acrm"),
        notice("a", 1),
        notice("a", 2),
        notice("acrm", 1),
        Slot::Operation { id: "a".into() },
        Slot::Operation { id: "b".into() },
        Slot::OperationResult { id: "a".into() },
        Slot::Check,
    ]
}

#[test]
fn a_value_opens_in_its_own_place_and_in_no_other() {
    let vault = Vault::ephemeral().unwrap();
    for home in slots() {
        let sealed = vault.seal(&home, b"secret").unwrap();
        for place in slots() {
            let opened = vault.unseal(&place, &sealed);
            if place == home {
                assert_eq!(opened.unwrap().as_slice(), b"secret");
            } else {
                let error = opened.unwrap_err();
                assert_eq!(error.problem(), Problem::Tampered, "{home} in {place}");
                assert!(error.to_string().contains(&place.to_string()), "{error}");
            }
        }
    }
}

#[test]
fn a_value_that_was_changed_anywhere_is_an_error_that_names_its_place() {
    let vault = Vault::ephemeral().unwrap();
    let mut record = grant("support", "booking");
    vault.seal_grant(&mut record, &secrets(1)).unwrap();
    let whole = record.sealed.clone().unwrap().as_bytes().to_vec();
    let mut damaged: Vec<Vec<u8>> = (0..whole.len()).map(|end| whole[..end].to_vec()).collect();
    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        damaged.push(bytes);
    }
    damaged.push([&*whole, &[0]].concat());
    for bytes in damaged {
        record.sealed = Some(Sealed::from(bytes));
        let error = vault.open_grant(&record).unwrap_err();
        assert!(
            matches!(
                error.problem(),
                Problem::Tampered | Problem::Key | Problem::Newer
            ),
            "{error}"
        );
        let text = error.to_string();
        assert!(
            text.contains("the grant of agent support for server booking"),
            "{text}"
        );
    }
    record.sealed = Some(Sealed::from(whole));
    assert!(vault.open_grant(&record).unwrap().is_some());
}

#[test]
fn a_form_of_a_later_version_is_told_from_damage() {
    let vault = Vault::ephemeral().unwrap();
    let error = vault
        .unseal(&Slot::Check, &Sealed::from(vec![2; 99]))
        .unwrap_err();
    assert_eq!(error.problem(), Problem::Newer);
}

#[test]
fn secrets_come_back_as_they_were_sealed() {
    let vault = Vault::ephemeral().unwrap();
    let mut record = grant("a", "crm");
    for (refresh_token, client_secret) in [
        (None, None),
        (Some(""), Some("ü")),
        (Some("refresh"), None),
        (None, Some("client")),
    ] {
        let put = GrantSecrets {
            access_token: "access".into(),
            refresh_token: refresh_token.map(SecretString::from),
            client_secret: client_secret.map(SecretString::from),
        };
        vault.seal_grant(&mut record, &put).unwrap();
        let read = vault.open_grant(&record).unwrap().unwrap();
        let text = |secret: &Option<SecretString>| {
            let secret = secret.as_ref();
            secret.map(|secret| secret.expose_secret().to_owned())
        };
        assert_eq!(read.access_token.expose_secret(), "access");
        assert_eq!(text(&read.refresh_token).as_deref(), refresh_token);
        assert_eq!(text(&read.client_secret).as_deref(), client_secret);
    }
    let mut registered = client("https://as.example", "uri");
    vault.seal_client(&mut registered, None).unwrap();
    assert_eq!(registered.sealed, None);
    assert!(vault.open_client(&registered).unwrap().is_none());
    record.sealed = None;
    assert!(vault.open_grant(&record).unwrap().is_none());
}

/// Made with libsodium.
const KNOWN: &str = "AfY6vrNVY2ADAAECAwQFBgcICQoLDA0ODxAREhMUFRYX/5nnlaLVhc5E9noIBz6KKjgaNKZ00A==";

#[test]
fn a_known_value_opens() {
    // So that no later version changes the form, or what is authenticated, without a new number for it.
    let key = Key::parse(&"42".repeat(32)).unwrap();
    assert_eq!(key.id().to_string(), "f63abeb355636003");
    let vault = Vault::new(KeyRing::of(key), KeySource::Nowhere);
    let sealed = Sealed::from(STANDARD.decode(KNOWN).unwrap());
    let slot = &slots()[1];
    assert_eq!(vault.unseal(slot, &sealed).unwrap().as_slice(), b"secret");
}

/// All texts that the vault and its values can print, with what went wrong.
fn everything_printed(vault: &Vault, key: &Key) -> Vec<String> {
    let mut record = grant("a", "crm");
    vault.seal_grant(&mut record, &secrets(1)).unwrap();
    let mut registered = client("https://as.example", "uri");
    vault
        .seal_client(&mut registered, Some(&secret("client")))
        .unwrap();
    let mut attempt = sign_in("a", 1);
    vault
        .seal_sign_in(&mut attempt, &sign_in_secrets())
        .unwrap();
    let entry = VaultEntry {
        name: "KEY".to_owned(),
        sealed: vault.seal_entry("KEY", &secret("named")).unwrap(),
        set_at: Wall(1),
    };
    let stranger = Vault::ephemeral().unwrap();
    let mut errors = vec![
        stranger.open_grant(&record).unwrap_err(),
        stranger.open_client(&registered).unwrap_err(),
        stranger.open_sign_in(&attempt).unwrap_err(),
        stranger.open_entry(&entry).unwrap_err(),
    ];
    let mut moved = record.clone();
    moved.agent = "b".into();
    errors.push(vault.open_grant(&moved).unwrap_err());
    let hex = key.to_hex();
    for keys in [&hex[..63], &format!("{},{}", *hex, &hex[1..])] {
        let source = KeySource::Environment(keys.into());
        errors.push(source.load().unwrap_err());
    }
    let mut printed: Vec<String> = errors
        .iter()
        .flat_map(|error| [error.to_string(), format!("{error:?}")])
        .collect();
    printed.extend([
        format!("{vault:?} {key:?} {:?}", vault.ring()),
        format!("{record:?} {registered:?} {attempt:?} {entry:?}"),
        format!("{:?} {:?}", secrets(1), sign_in_secrets()),
        format!("{:?}", vault.open_grant(&record).unwrap()),
        format!("{:?}", KeySource::Environment(hex.as_str().into())),
        KeySource::Environment(hex.as_str().into()).to_string(),
    ]);
    printed
}

#[test]
fn sec_01_nothing_prints_eight_characters_of_a_secret() {
    let key = Key::draw().unwrap();
    let hex = key.to_hex();
    let keys = SecretString::from(hex.as_str());
    let vault = Vault::new(KeyRing::of(key.clone()), KeySource::Environment(keys));
    let printed = everything_printed(&vault, &key);
    let canaries = [
        hex.to_string(),
        secrets(1).access_token.expose_secret().to_owned(),
        secret("refresh-1").expose_secret().to_owned(),
        secret("client").expose_secret().to_owned(),
        secret("named").expose_secret().to_owned(),
        secret("verifier").expose_secret().to_owned(),
        secret("link").expose_secret().to_owned(),
    ];
    for canary in &canaries {
        for slice in canary.as_bytes().windows(8) {
            let slice = std::str::from_utf8(slice).unwrap();
            for text in &printed {
                assert!(!text.contains(slice), "{slice} is in {text}");
            }
        }
    }
}

#[test]
fn the_same_secret_is_sealed_differently_each_time() {
    let vault = Vault::ephemeral().unwrap();
    let one = vault.seal(&Slot::Check, b"a secret").unwrap();
    let two = vault.seal(&Slot::Check, b"a secret").unwrap();
    assert_ne!(one, two);
    let plain = one.as_bytes().windows(8).any(|part| part == b"a secret");
    assert!(!plain);
}

#[test]
fn keys_are_read_as_people_write_them() {
    let bytes = [0xfb; 32];
    let hex = "fb".repeat(32);
    let standard = STANDARD.encode(bytes);
    let url_safe = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
    assert!(standard.contains('+') && url_safe.contains('-'));
    let unpadded = standard.trim_end_matches('=');
    let spaced = format!(" {hex}\n");
    for text in [
        &hex,
        &hex.to_uppercase(),
        &standard,
        unpadded,
        &url_safe,
        &spaced,
    ] {
        assert_eq!(Key::parse(text).unwrap().bytes(), &bytes, "{text}");
    }
    for text in ["", "fb", &hex[2..], &format!("{hex}fb"), &"zz".repeat(32)] {
        assert!(Key::parse(text).is_none(), "{text}");
    }
    assert_eq!(*Key::parse(&hex).unwrap().to_hex(), hex);
}

fn place() -> (TempDir, KeySource, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let path = data.join(KEY_FILE);
    (folder, KeySource::choose(None, &data), path)
}

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn the_key_file_is_made_once_and_only_its_owner_may_read_it() {
    let (_folder, source, path) = place();
    let store = MemoryRecords::new();
    let first = Vault::open(&store, source.clone()).await.unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let sealed = first.seal(&Slot::Check, b"1").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let again = Vault::open(&store, source).await.unwrap();
    assert_eq!(mode(&path), 0o600);
    again.unseal(&Slot::Check, &sealed).unwrap();
    assert_eq!(names_beside(&path), [KEY_FILE], "nothing is left over");
}

fn names_beside(path: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(path.parent().unwrap()).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn those_who_start_together_agree_on_one_key() {
    let (_folder, source, _) = place();
    let ids: Vec<KeyId> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| source.make().unwrap().active().id()))
            .collect();
        let ids = starts.into_iter().map(|start| start.join().unwrap());
        ids.collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[tokio::test]
async fn a_key_that_is_gone_is_an_error_and_no_new_one_is_made() {
    let (_folder, source, path) = place();
    let store = MemoryRecords::new();
    Vault::open(&store, source.clone()).await.unwrap();
    fs::remove_file(&path).unwrap();
    let error = Vault::open(&store, source.clone()).await.unwrap_err();
    assert_eq!(error.problem(), Problem::Key);
    assert_eq!(error.code(), steadfast_core::code::VAULT_KEY);
    assert!(
        error.to_string().contains(&path.display().to_string()),
        "{error}"
    );
    assert!(!path.exists());

    for text in ["", "# nothing\n", "not a key\n"] {
        fs::write(&path, text).unwrap();
        let error = Vault::open(&store, source.clone()).await.unwrap_err();
        assert_eq!(error.problem(), Problem::Key, "{text}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    fs::write(&path, [0xff, 0xfe]).unwrap();
    let error = Vault::open(&store, source).await.unwrap_err();
    assert_eq!(error.problem(), Problem::Key);
}

#[tokio::test]
async fn another_key_is_refused_before_anything_is_sealed_with_it() {
    let store = MemoryRecords::new();
    let keys = [Key::draw().unwrap(), Key::draw().unwrap()].map(|key| key.to_hex());
    let [old, new] = keys.each_ref().map(|key| key.as_str());
    let environment = |keys: &str| KeySource::Environment(keys.into());
    Vault::open(&store, environment(old)).await.unwrap();
    let error = Vault::open(&store, environment(new)).await.unwrap_err();
    assert_eq!(error.problem(), Problem::Key);
    assert!(error.to_string().contains("STEADFAST_KEY"), "{error}");

    // The operator's way to a new key: before the old one, reseal, and the old one can go.
    let both = Vault::open(&store, environment(&format!("{new}, {old}")));
    let both = both.await.unwrap();
    let refused = both.rotate(&store).await.unwrap_err();
    assert_eq!(refused.problem(), Problem::Key);
    both.reseal(&store).await.unwrap();
    Vault::open(&store, environment(new)).await.unwrap();
    let error = Vault::open(&store, environment(old)).await.unwrap_err();
    assert_eq!(error.problem(), Problem::Key);
}

async fn set(store: &MemoryRecords, vault: &Vault, name: &str) {
    let entry = VaultEntry {
        name: name.to_owned(),
        sealed: vault.seal_entry(name, &secret(name)).unwrap(),
        set_at: Wall(1),
    };
    store.put_vault_entry(&entry).await.unwrap();
}

async fn assert_set(store: &MemoryRecords, vault: &Vault, names: &[&str]) {
    for name in names {
        let entry = store.vault_entry(name).await.unwrap().unwrap();
        let read = vault.open_entry(&entry).unwrap();
        assert_eq!(read.expose_secret(), secret(name).expose_secret());
    }
}

fn keys_in(path: &std::path::Path) -> usize {
    let text = fs::read_to_string(path).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).count()
}

#[tokio::test]
async fn a_change_of_the_key_reaches_other_processes_and_drops_what_is_no_longer_needed() {
    let (_folder, source, path) = place();
    let store = MemoryRecords::new();
    let one = Vault::open(&store, source.clone()).await.unwrap();
    let other = Vault::open(&store, source.clone()).await.unwrap();
    set(&store, &one, "FIRST").await;
    let rotation = one.rotate(&store).await.unwrap();
    assert_eq!(rotation.resealed, 1);
    assert_ne!(one.key_id(), other.key_id());
    assert_eq!(keys_in(&path), 2);
    assert_eq!(mode(&path), 0o600);
    assert_eq!(names_beside(&path), [KEY_FILE, "vault.key.lock"]);
    // The other process seals with the key before, until it meets the new one.
    set(&store, &other, "SECOND").await;
    assert_set(&store, &one, &["FIRST", "SECOND"]).await;
    assert_set(&store, &other, &["FIRST", "SECOND"]).await;
    assert_eq!(one.key_id(), other.key_id());

    // The next change reseals what came late, before it drops the oldest key.
    let rotation = other.rotate(&store).await.unwrap();
    assert_eq!(rotation.resealed, 2);
    assert_eq!(keys_in(&path), 2);
    let fresh = Vault::open(&store, source).await.unwrap();
    assert_set(&store, &fresh, &["FIRST", "SECOND"]).await;
    assert_set(&store, &one, &["FIRST", "SECOND"]).await;
}

#[tokio::test]
async fn a_change_that_was_cut_off_is_finished_by_the_next() {
    let (_folder, source, path) = place();
    let store = MemoryRecords::new();
    let vault = Vault::open(&store, source.clone()).await.unwrap();
    set(&store, &vault, "FIRST").await;
    // The new key is on disk, and nothing is resealed yet.
    let ring = vault.ring().with_new(Key::draw().unwrap());
    source.replace(&ring).unwrap();
    let restarted = Vault::open(&store, source.clone()).await.unwrap();
    assert_set(&store, &restarted, &["FIRST"]).await;
    restarted.rotate(&store).await.unwrap();
    assert_eq!(keys_in(&path), 2);
    let fresh = Vault::open(&store, source).await.unwrap();
    assert_set(&store, &fresh, &["FIRST"]).await;
}

#[tokio::test]
async fn keys_are_kept_for_what_does_not_open() {
    let (_folder, source, path) = place();
    let store = MemoryRecords::new();
    let vault = Vault::open(&store, source).await.unwrap();
    let moved = VaultEntry {
        name: "MOVED".to_owned(),
        sealed: vault.seal_entry("FIRST", &secret("FIRST")).unwrap(),
        set_at: Wall(1),
    };
    store.put_vault_entry(&moved).await.unwrap();
    for keys in [2, 3] {
        let rotation = vault.rotate(&store).await.unwrap();
        assert_eq!(rotation.failed.len(), 1);
        assert_eq!(keys_in(&path), keys);
    }
}

#[tokio::test]
async fn two_changes_at_the_same_time_do_not_lose_a_key() {
    let (_folder, source, path) = place();
    let store = MemoryRecords::new();
    let vault = Vault::open(&store, source.clone()).await.unwrap();
    let before = fs::read(&path).unwrap();
    let held = source.lock().unwrap();
    let error = vault.rotate(&store).await.unwrap_err();
    assert_eq!(error.problem(), Problem::Locked);
    assert_eq!(fs::read(&path).unwrap(), before);
    drop(held);
    vault.rotate(&store).await.unwrap();
    assert_eq!(mode(&path.with_extension("key.lock")), 0o600);
}

#[tokio::test]
async fn a_damaged_check_value_is_an_error() {
    let (_folder, source, _) = place();
    let store = MemoryRecords::new();
    Vault::open(&store, source.clone()).await.unwrap();
    for text in ["", "AQ==", "?"] {
        store.put_meta(CHECK, text).await.unwrap();
        let error = Vault::open(&store, source.clone()).await.unwrap_err();
        assert_eq!(error.problem(), Problem::Tampered, "{text}");
    }
}
