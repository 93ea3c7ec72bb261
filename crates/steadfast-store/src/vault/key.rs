//! Keys, and how people write them.

use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize as _, Zeroizing};

use crate::error::Error;
use crate::random;

const LENGTH: usize = 32;

/// Which key: the beginning of a hash of it. A key has 256 random bits, so that it says nothing about the key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; Self::LENGTH]);

impl KeyId {
    /// Its length in bytes.
    pub const LENGTH: usize = 8;
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// A key of 256 bits.
#[derive(Clone)]
pub struct Key([u8; LENGTH]);

impl Key {
    /// A new one.
    ///
    /// # Errors
    /// When the operating system gives no random bytes.
    pub fn draw() -> Result<Self, Error> {
        let mut key = Self([0; LENGTH]);
        random::fill(&mut key.0)?;
        Ok(key)
    }

    /// Reads a key: 64 hexadecimal digits, or base64 of either alphabet, of 32 bytes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let bytes = Zeroizing::new(if text.len() == 2 * LENGTH {
            unhex(text)?
        } else {
            let engine = if text.contains(['-', '_']) {
                &URL_SAFE
            } else {
                &STANDARD
            };
            engine.decode(text).ok()?
        });
        <[u8; LENGTH]>::try_from(bytes.as_slice()).ok().map(Self)
    }

    /// As the key file writes it.
    #[must_use]
    pub fn to_hex(&self) -> Zeroizing<String> {
        // With its final length, so that no shorter copy is left behind in memory.
        let mut text = Zeroizing::new(String::with_capacity(2 * LENGTH));
        for byte in self.0 {
            text.extend([byte >> 4, byte & 15].map(digit));
        }
        text
    }

    /// Which key it is.
    #[must_use]
    pub fn id(&self) -> KeyId {
        let digest = Sha256::new_with_prefix(b"steadfast key id")
            .chain_update(self.0)
            .finalize();
        let mut id = [0; KeyId::LENGTH];
        id.copy_from_slice(&digest[..KeyId::LENGTH]);
        KeyId(id)
    }

    pub(super) const fn bytes(&self) -> &[u8; LENGTH] {
        &self.0
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}…)", self.id())
    }
}

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

fn digit(nibble: u8) -> char {
    char::from(match nibble {
        0..=9 => b'0' + nibble,
        _ => b'a' - 10 + nibble,
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(LENGTH));
    for pair in text.as_bytes().chunks(2) {
        let [high, low] = <[u8; 2]>::try_from(pair).ok()?.map(nibble);
        bytes.push(high? << 4 | low?);
    }
    Some(std::mem::take(&mut *bytes))
}

fn nibble(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

/// The keys of a vault. There is always one.
#[derive(Clone, Debug)]
pub struct KeyRing {
    active: Key,
    older: Vec<Key>,
}

impl KeyRing {
    /// With one key.
    #[must_use]
    pub const fn of(active: Key) -> Self {
        Self {
            active,
            older: Vec::new(),
        }
    }

    /// Keys in their order, the active one first; `None` without any.
    #[must_use]
    pub fn from_keys(keys: Vec<Key>) -> Option<Self> {
        let mut keys = keys.into_iter();
        Some(Self {
            active: keys.next()?,
            older: keys.collect(),
        })
    }

    /// The key that seals.
    #[must_use]
    pub const fn active(&self) -> &Key {
        &self.active
    }

    /// All keys, the active one first.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.active).chain(&self.older)
    }

    /// The key with this id.
    #[must_use]
    pub fn find(&self, id: KeyId) -> Option<&Key> {
        self.keys().find(|key| key.id() == id)
    }

    /// With a new active key; the present ones open from now on.
    #[must_use]
    pub fn with_new(&self, active: Key) -> Self {
        Self {
            active,
            older: self.keys().cloned().collect(),
        }
    }

    /// With the active key and the one before it, which other processes may seal with until they have read the new
    /// one.
    #[must_use]
    pub fn without_oldest(&self) -> Self {
        Self {
            active: self.active.clone(),
            older: self.older.iter().take(1).cloned().collect(),
        }
    }
}
