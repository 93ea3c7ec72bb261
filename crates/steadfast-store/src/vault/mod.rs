//! The vault: secrets are sealed before they reach a backend, so that a backend holds bytes that say nothing.
//!
//! - A value is sealed with XChaCha20-Poly1305 under a random nonce. With 192 bits, nonces can be drawn at random for
//!   as long as a key lives (draft-irtf-cfrg-xchacha, section 2.1).
//! - The place of a value, its [`Slot`], is authenticated with it: a value that was moved to another row, or that
//!   belongs to an older set of tokens, does not open.
//! - Keys are in a [`KeyRing`]: the first one seals, the others open what has not been resealed yet ([`rotation`]).
//! - Secrets in memory are [`SecretString`]s: they do not print, and are overwritten when they are dropped.

pub mod key;
pub mod rotation;
pub mod sealed;
pub mod secrets;
pub mod source;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::RwLock;
use secrecy::{ExposeSecret as _, SecretString};
use steadfast_core::OperationId;
use zeroize::Zeroizing;

use crate::clients::ClientRecord;
use crate::error::{Error, Problem};
use crate::grants::GrantRecord;
use crate::notices::NoticeRecord;
use crate::operations::OperationRecord;
use crate::sign_ins::SignInRecord;
use crate::store::Store;
use crate::vault_entries::VaultEntry;

pub use key::{Key, KeyId, KeyRing};
pub use rotation::Rotation;
pub use sealed::{Sealed, Slot, SlotKind};
pub use secrets::{GrantSecrets, OperationSecrets, SignInSecrets};
pub use source::KeySource;

/// The setting that tells whether the keys are those of this store.
const CHECK: &str = "vault_check";
const CHECK_TEXT: &[u8] = b"steadfast";

/// Seals and opens secrets.
#[derive(Debug)]
pub struct Vault {
    ring: RwLock<Arc<KeyRing>>,
    source: KeySource,
}

impl Vault {
    /// Opens the vault of a store. Its key file is made at the first start.
    ///
    /// # Errors
    /// When the key is missing or is not the one that sealed this store: a new key is never made for a store
    /// that holds what an older one has sealed.
    pub async fn open(store: &dyn Store, source: KeySource) -> Result<Self, Error> {
        let check = store.meta(CHECK).await?;
        let ring = match source.load()? {
            Some(ring) => ring,
            None if check.is_none() => source.make()?,
            None => return Err(source.missing()),
        };
        let vault = Self::new(ring, source);
        match check {
            Some(text) => vault.verify(&text)?,
            None => vault.put_check(store).await?,
        }
        Ok(vault)
    }

    /// A vault with these keys, for a store of which nothing is known.
    #[must_use]
    pub fn new(ring: KeyRing, source: KeySource) -> Self {
        Self {
            ring: RwLock::new(Arc::new(ring)),
            source,
        }
    }

    /// A vault with a key of its own that nobody can bring back: for tests, and for a store in memory.
    ///
    /// # Errors
    /// When the operating system gives no random bytes.
    pub fn ephemeral() -> Result<Self, Error> {
        Ok(Self::new(KeyRing::of(Key::draw()?), KeySource::Nowhere))
    }

    /// The key that seals.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        self.ring().active().id()
    }

    /// Seals a value for its place.
    ///
    /// # Errors
    /// When the operating system gives no random bytes.
    pub fn seal(&self, slot: &Slot, plain: &[u8]) -> Result<Sealed, Error> {
        sealed::seal(self.ring().active(), slot, plain)
    }

    /// Opens a value that was found in its place.
    ///
    /// # Errors
    /// When its key is not there, or when the value was changed or belongs elsewhere. The error names the place.
    pub fn unseal(&self, slot: &Slot, value: &Sealed) -> Result<Zeroizing<Vec<u8>>, Error> {
        let id = sealed::key_id(slot, value)?;
        let ring = self.ring();
        if let Some(key) = ring.find(id) {
            return sealed::open(key, slot, value);
        }
        // Another process may have rotated the key.
        self.reload()?;
        match self.ring().find(id) {
            Some(key) => sealed::open(key, slot, value),
            None => Err(Error::new(
                Problem::Key,
                sealed::PLACE,
                format!(
                    "{slot} is sealed under the key {id}, which is not in {}",
                    self.source
                ),
            )),
        }
    }

    /// Reads the keys again.
    fn reload(&self) -> Result<(), Error> {
        if let Some(ring) = self.source.load()? {
            *self.ring.write() = Arc::new(ring);
        }
        Ok(())
    }

    fn ring(&self) -> Arc<KeyRing> {
        Arc::clone(&self.ring.read())
    }

    fn verify(&self, text: &str) -> Result<(), Error> {
        let bytes = STANDARD
            .decode(text)
            .map_err(|_| sealed::tampered(&Slot::Check))?;
        self.unseal(&Slot::Check, &Sealed::from(bytes)).map(|_| ())
    }

    async fn put_check(&self, store: &dyn Store) -> Result<(), Error> {
        let check = self.seal(&Slot::Check, CHECK_TEXT)?;
        store
            .put_meta(CHECK, &STANDARD.encode(check.as_bytes()))
            .await
    }
}

/// What is sealed where.
impl Vault {
    /// Seals the tokens of a grant, of its present generation, and puts them into it.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn seal_grant(&self, grant: &mut GrantRecord, secrets: &GrantSecrets) -> Result<(), Error> {
        let plain = secrets.write();
        grant.sealed = Some(self.seal(&Slot::of_grant(grant), &plain)?);
        Ok(())
    }

    /// The tokens of a grant; `None` where it was removed.
    ///
    /// # Errors
    /// As [`unseal`](Self::unseal).
    pub fn open_grant(&self, grant: &GrantRecord) -> Result<Option<GrantSecrets>, Error> {
        let Some(sealed) = &grant.sealed else {
            return Ok(None);
        };
        let slot = Slot::of_grant(grant);
        let plain = self.unseal(&slot, sealed)?;
        GrantSecrets::read(&plain)
            .map(Some)
            .ok_or_else(|| sealed::tampered(&slot))
    }

    /// Seals the secret of a registered client and puts it into its record.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn seal_client(
        &self,
        client: &mut ClientRecord,
        secret: Option<&SecretString>,
    ) -> Result<(), Error> {
        let slot = Slot::of_client(client);
        client.sealed = secret
            .map(|secret| self.seal(&slot, secret.expose_secret().as_bytes()))
            .transpose()?;
        Ok(())
    }

    /// The secret of a registered client; `None` for a public client.
    ///
    /// # Errors
    /// As [`unseal`](Self::unseal).
    pub fn open_client(&self, client: &ClientRecord) -> Result<Option<SecretString>, Error> {
        let slot = Slot::of_client(client);
        client
            .sealed
            .as_ref()
            .map(|sealed| self.unseal_text(&slot, sealed))
            .transpose()
    }

    /// Seals what an attempt to sign in needs at its end, and puts it into its record.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn seal_sign_in(
        &self,
        sign_in: &mut SignInRecord,
        secrets: &SignInSecrets,
    ) -> Result<(), Error> {
        sign_in.sealed = self.seal(&Slot::of_sign_in(sign_in), &secrets.write())?;
        Ok(())
    }

    /// What an attempt to sign in needs at its end.
    ///
    /// # Errors
    /// As [`unseal`](Self::unseal).
    pub fn open_sign_in(&self, sign_in: &SignInRecord) -> Result<SignInSecrets, Error> {
        let slot = Slot::of_sign_in(sign_in);
        let plain = self.unseal(&slot, &sign_in.sealed)?;
        SignInSecrets::read(&plain).ok_or_else(|| sealed::tampered(&slot))
    }

    /// Seals a secret that has a name.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn seal_entry(&self, name: &str, secret: &SecretString) -> Result<Sealed, Error> {
        let slot = Slot::Entry { name: name.into() };
        self.seal(&slot, secret.expose_secret().as_bytes())
    }

    /// A secret that has a name.
    ///
    /// # Errors
    /// As [`unseal`](Self::unseal).
    pub fn open_entry(&self, entry: &VaultEntry) -> Result<SecretString, Error> {
        let name = entry.name.clone();
        self.unseal_text(&Slot::Entry { name }, &entry.sealed)
    }

    /// Seals what a consequential call says.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn seal_operation(
        &self,
        id: &OperationId,
        secrets: &OperationSecrets,
    ) -> Result<Sealed, Error> {
        let id = id.clone();
        self.seal(&Slot::Operation { id }, &secrets.write())
    }

    /// What a consequential call says.
    ///
    /// # Errors
    /// As [`unseal`](Self::unseal).
    pub fn open_operation(&self, operation: &OperationRecord) -> Result<OperationSecrets, Error> {
        let id = operation.id.clone();
        let slot = Slot::Operation { id };
        let plain = self.unseal(&slot, &operation.sealed)?;
        OperationSecrets::read(&plain).ok_or_else(|| sealed::tampered(&slot))
    }

    /// Seals the answer to a consequential call: one JSON-RPC response.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn seal_result(&self, id: &OperationId, response: &[u8]) -> Result<Sealed, Error> {
        let id = id.clone();
        self.seal(&Slot::OperationResult { id }, response)
    }

    /// The answer to a consequential call, where it is kept.
    ///
    /// # Errors
    /// As [`unseal`](Self::unseal).
    pub fn open_result(
        &self,
        operation: &OperationRecord,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        let id = operation.id.clone();
        let slot = Slot::OperationResult { id };
        let sealed = operation.result.as_ref();
        sealed.map(|sealed| self.unseal(&slot, sealed)).transpose()
    }

    /// What makes the link of a notice one of ours: nobody can guess it, and it is good for this opening of the notice
    /// alone.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub fn sign_notice(&self, notice: &NoticeRecord) -> Result<String, Error> {
        let sealed = self.seal(&Slot::of_notice(notice), b"")?;
        Ok(URL_SAFE_NO_PAD.encode(sealed.as_bytes()))
    }

    /// Whether a link was made for this notice.
    #[must_use]
    pub fn has_signed_notice(&self, notice: &NoticeRecord, signature: &str) -> bool {
        let sealed = URL_SAFE_NO_PAD.decode(signature).map(Sealed::from);
        sealed.is_ok_and(|sealed| self.unseal(&Slot::of_notice(notice), &sealed).is_ok())
    }

    fn unseal_text(&self, slot: &Slot, sealed: &Sealed) -> Result<SecretString, Error> {
        let plain = self.unseal(slot, sealed)?;
        std::str::from_utf8(&plain)
            .map(SecretString::from)
            .map_err(|_| sealed::tampered(slot))
    }
}
