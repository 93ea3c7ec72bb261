//! Changing the key of the vault. A change has three steps, and may be cut off after any of them and begun again:
//!
//! 1. a new key is put before the others, so that everything sealed from now on is sealed under it;
//! 2. everything that is sealed under another key is sealed anew, a part at a time;
//! 3. keys are dropped that nothing is sealed under.
//!
//! The key before stays for one more change: another process may seal with it until it meets a value that it
//! cannot open, and reads the keys again.

use super::sealed::PLACE;
use super::{CHECK, Key, KeySource, Sealed, Slot, SlotKind, Vault};
use crate::error::{Error, Problem};
use crate::resealing::Resealed;
use crate::store::Store;

/// How many values are sealed anew in one transaction.
const STEP: usize = 256;

/// What a change of the key did.
#[derive(Debug)]
pub struct Rotation {
    /// How many values are under the new key now.
    pub resealed: u64,
    /// What could not be opened, each with its place. Where there is any, every key was kept.
    pub failed: Vec<Error>,
}

impl Vault {
    /// Changes the key: a new one seals from now on, and everything in the store is sealed anew.
    ///
    /// Keys of the environment are the operator's: put a new one before the others, start again, then
    /// [`reseal`](Self::reseal); afterwards the others can go.
    ///
    /// # Errors
    /// When the store or the key file fails, or another process changes the key. What was done until then stays, and a
    /// further change goes on with it.
    pub async fn rotate(&self, store: &dyn Store) -> Result<Rotation, Error> {
        if matches!(self.source, KeySource::Environment(_)) {
            return Err(Error::new(
                Problem::Key,
                self.source.to_string(),
                "its keys are the operator's to change: put a new key, and a comma, before the present one",
            ));
        }
        let _lock = self.source.lock()?;
        self.reload()?;
        // On disk before anything is sealed under it.
        let ring = self.ring().with_new(Key::draw()?);
        self.source.replace(&ring)?;
        *self.ring.write() = ring.into();

        let rotation = self.reseal(store).await?;
        if rotation.failed.is_empty() {
            let ring = self.ring().without_oldest();
            self.source.replace(&ring)?;
            *self.ring.write() = ring.into();
        }
        Ok(rotation)
    }

    /// Seals everything anew that is sealed under another key than the active one.
    ///
    /// # Errors
    /// When the store fails. What was done until then stays.
    pub async fn reseal(&self, store: &dyn Store) -> Result<Rotation, Error> {
        let mut rotation = Rotation {
            resealed: 0,
            failed: Vec::new(),
        };
        for kind in SlotKind::ALL {
            let mut after = None;
            loop {
                let found = store
                    .sealed_under_others(kind, self.key_id(), after.as_ref(), STEP)
                    .await?;
                let Some((last, _)) = found.last() else {
                    break;
                };
                after = Some(last.clone());
                let values = self.anew(found, &mut rotation.failed);
                rotation.resealed += store.reseal(&values).await?;
            }
        }
        self.reseal_check(store).await?;
        Ok(rotation)
    }

    fn anew(&self, found: Vec<(Slot, Sealed)>, failed: &mut Vec<Error>) -> Vec<Resealed> {
        let mut values = Vec::with_capacity(found.len());
        for (slot, from) in found {
            let opened = self.unseal(&slot, &from);
            match opened.and_then(|plain| self.seal(&slot, &plain)) {
                Ok(to) => values.push(Resealed { slot, from, to }),
                Err(error) => failed.push(error),
            }
        }
        values
    }

    async fn reseal_check(&self, store: &dyn Store) -> Result<(), Error> {
        match store.meta(CHECK).await? {
            Some(text) => self.verify(&text)?,
            None => {
                tracing::warn!(
                    place = PLACE,
                    "the store had no check value; it has one now"
                );
            }
        }
        self.put_check(store).await
    }
}
