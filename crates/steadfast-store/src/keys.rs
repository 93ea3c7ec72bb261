//! Agent keys, and the hashes under which keys and session ids are kept. Neither is ever stored itself.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use steadfast_core::SessionId;
use subtle::ConstantTimeEq as _;

use crate::error::Error;
use crate::random;

/// What every agent key begins with, so that people and secret scanners recognise one.
pub const KEY_PREFIX: &str = "sfk_";

const KEY_BYTES: usize = 32;

/// The key of an agent: shown once, when it is made, and stored only as its [`KeyHash`].
pub struct AgentKey(String);

impl AgentKey {
    /// The text, to be shown once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AgentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AgentKey(…)")
    }
}

/// The SHA-256 of an agent key. A key has 256 random bits, so that a plain hash cannot be searched.
#[derive(Clone, Copy)]
pub struct KeyHash(pub [u8; 32]);

impl KeyHash {
    /// The hash of what an agent presented.
    #[must_use]
    pub fn of(presented: &str) -> Self {
        Self(Sha256::digest(presented.as_bytes()).into())
    }
}

/// Takes the same time wherever the two differ.
impl PartialEq for KeyHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for KeyHash {}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(…)")
    }
}

/// Makes a key for an agent.
///
/// # Errors
/// When the operating system gives no random bytes.
pub fn make_key() -> Result<(AgentKey, KeyHash), Error> {
    let mut bytes = [0; KEY_BYTES];
    random::fill(&mut bytes)?;
    let key = format!("{KEY_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
    let hash = KeyHash::of(&key);
    Ok((AgentKey(key), hash))
}

/// The SHA-256 of a session id.
pub type IdHash = [u8; 32];

/// The hash under which a session of an agent is kept: whoever reads the store cannot act in the session
/// (2025-11-25 transports, session management: "MUST handle the session ID in a secure manner").
#[must_use]
pub fn hash_id(id: &SessionId) -> IdHash {
    Sha256::digest(id.as_str().as_bytes()).into()
}

/// The hash under which a parked call is kept: whoever reads the store cannot go on with the call.
#[must_use]
pub fn hash_state(request_state: &str) -> IdHash {
    Sha256::digest(request_state.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_documented_form_and_its_hash() {
        let (key, hash) = make_key().unwrap();
        let (other, other_hash) = make_key().unwrap();
        assert_eq!(key.reveal().len(), 4 + 43);
        let random = key.reveal().strip_prefix("sfk_").unwrap();
        assert_eq!(URL_SAFE_NO_PAD.decode(random).unwrap().len(), 32);
        assert_eq!(KeyHash::of(key.reveal()), hash);
        assert_ne!(key.reveal(), other.reveal());
        assert_ne!(hash, other_hash);
    }

    #[test]
    fn the_hash_is_sha_256() {
        // FIPS 180-2, appendix B.1: the digest of "abc".
        let abc = [
            0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae,
            0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61,
            0xf2, 0x00, 0x15, 0xad,
        ];
        assert_eq!(KeyHash::of("abc"), KeyHash(abc));
        assert_eq!(hash_id(&SessionId::from("abc")), abc);
        assert_eq!(hash_state("abc"), abc);
    }

    #[test]
    fn neither_key_nor_hash_prints() {
        let (key, hash) = make_key().unwrap();
        let random = key.reveal().strip_prefix("sfk_").unwrap();
        let printed = format!("{key:?} {hash:?}");
        assert!(!printed.contains(random));
        assert_eq!(printed, "AgentKey(…) KeyHash(…)");
    }
}
