//! The public keys of an issuer (RFC 7517), and when to ask for them again.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::jwt::Algorithm;
use crate::now::{Millis, Mono};

/// A public key, of a kind that tokens are signed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    id: Option<String>,
    /// The only algorithm that it is for, where it says so (RFC 7517 section 4.4).
    algorithm: Option<Algorithm>,
    /// The key itself.
    pub material: Material,
}

/// What a key is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Material {
    /// RSA: modulus and exponent.
    Rsa {
        /// Big-endian.
        n: Vec<u8>,
        /// Big-endian.
        e: Vec<u8>,
    },
    /// A point on P-256, uncompressed (SEC 1 section 2.3.3).
    P256(Vec<u8>),
    /// A point on P-384, uncompressed.
    P384(Vec<u8>),
    /// Ed25519.
    Ed25519(Vec<u8>),
}

impl Key {
    /// `None` for a key of a kind that is not known or must not be used here (RFC 7517 section 5: implementations
    /// ignore these). A shared secret (`oct`) is never among an issuer's public keys.
    fn read(key: &Value) -> Option<Self> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let bytes = |name: &str| {
            URL_SAFE_NO_PAD
                .decode(text(name)?.trim_end_matches('='))
                .ok()
        };
        let point = |size: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            let fits = x.len() == size && y.len() == size;
            fits.then(|| [&[4], x.as_slice(), y.as_slice()].concat())
        };
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => Material::Rsa {
                n: bytes("n")?,
                e: bytes("e")?,
            },
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes("x")?),
            _ => return None,
        };
        let algorithm = match text("alg") {
            Some(named) => Some(Algorithm::parse(named)?),
            None => None,
        };
        Some(Self {
            id: text("kid").map(str::to_owned),
            algorithm,
            material,
        })
    }

    /// Whether it makes signatures of this kind. The key decides, not the token (RFC 8725 section 3.1).
    #[must_use]
    pub fn makes(&self, algorithm: Algorithm) -> bool {
        use Algorithm::{EdDsa, Es256, Es384, Ps256, Ps384, Ps512, Rs256, Rs384, Rs512};
        let fits = match self.material {
            Material::Rsa { .. } => match algorithm {
                Rs256 | Rs384 | Rs512 | Ps256 | Ps384 | Ps512 => true,
                Es256 | Es384 | EdDsa => false,
            },
            Material::P256(_) => algorithm == Es256,
            Material::P384(_) => algorithm == Es384,
            Material::Ed25519(_) => algorithm == EdDsa,
        };
        fits && self.algorithm.is_none_or(|only| only == algorithm)
    }
}

/// All keys of an issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys(Vec<Key>);

impl Keys {
    /// Reads a key set (RFC 7517 section 5). `None` where it is none.
    #[must_use]
    pub fn read(document: &[u8]) -> Option<Self> {
        let document: Value = serde_json::from_slice(document).ok()?;
        let keys = document.get("keys")?.as_array()?;
        Some(Self(keys.iter().filter_map(Key::read).collect()))
    }

    /// Those that may have signed a token: the one that it names, or all where it names none.
    pub fn candidates(
        &self,
        key_id: Option<&str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &Key> {
        self.0.iter().filter(move |key| {
            let is_named = key_id.is_none_or(|id| key.id.as_deref() == Some(id));
            is_named && key.makes(algorithm)
        })
    }
}

/// What is known about when the keys of an issuer were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// When they were asked for last, whatever came of it.
    pub asked_at: Option<Mono>,
    /// Until when what came may be used without asking (RFC 9111); none where nothing ever came.
    pub fresh_until: Option<Mono>,
}

/// Whether to ask for an issuer's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Before the token is judged.
    First,
    /// Beside it: those that are there are good for this token.
    Beside,
    /// Not now.
    Not,
}

/// Decides it for a token. `is_known` says whether a key that is there made its signature. However many tokens
/// come, the issuer is asked at most once per `pause`: anybody can write a key id into a token. And whatever becomes of
/// that, keys that were good stay so: an issuer that is down takes nobody's access.
#[must_use]
pub fn ask(looked: Looked, is_known: bool, now: Mono, pause: Millis) -> Ask {
    let rests = looked.asked_at.is_some_and(|at| now.since(at) < pause);
    let is_fresh = looked.fresh_until.is_some_and(|until| now < until);
    match (is_known, rests) {
        (_, true) => Ask::Not,
        (true, false) if is_fresh => Ask::Not,
        (true, false) => Ask::Beside,
        (false, false) => Ask::First,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn keys(keys: &Value) -> Keys {
        Keys::read(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_key_is_used_for_its_own_kind_of_signature_only() {
        let point = URL_SAFE_NO_PAD.encode([1; 32]);
        let keys = keys(&json!([
            {"kty": "RSA", "kid": "r", "n": "AQ", "e": "AQAB"},
            {"kty": "RSA", "kid": "p", "n": "AQ", "e": "AQAB", "alg": "PS256"},
            {"kty": "EC", "kid": "e", "crv": "P-256", "x": point, "y": point},
            {"kty": "OKP", "kid": "o", "crv": "Ed25519", "x": point},
        ]));
        for (id, algorithm, expected) in [
            (Some("r"), Algorithm::Rs256, 1),
            (Some("r"), Algorithm::Es256, 0),
            (Some("p"), Algorithm::Rs256, 0),
            (Some("p"), Algorithm::Ps256, 1),
            (Some("e"), Algorithm::Es256, 1),
            (Some("e"), Algorithm::Es384, 0),
            (Some("o"), Algorithm::EdDsa, 1),
            (Some("x"), Algorithm::Rs256, 0),
            (None, Algorithm::Ps256, 2),
            (None, Algorithm::EdDsa, 1),
        ] {
            let found = keys.candidates(id, algorithm).count();
            assert_eq!(found, expected, "{id:?} {algorithm:?}");
        }
    }

    #[test]
    fn what_is_no_public_key_of_ours_is_passed_over() {
        let keys = keys(&json!([
            {"kty": "oct", "kid": "k", "k": "c2VjcmV0"},
            {"kty": "oct", "kid": "k", "k": "c2VjcmV0", "alg": "HS256"},
            {"kty": "RSA", "kid": "k", "n": "AQ", "e": "AQAB", "use": "enc"},
            {"kty": "RSA", "kid": "k", "n": "AQ", "e": "AQAB", "alg": "HS256"},
            {"kty": "EC", "kid": "k", "crv": "P-256", "x": "AQ", "y": "AQ"},
            {"kty": "EC", "kid": "k", "crv": "P-521", "x": "AQ", "y": "AQ"},
            "nonsense",
        ]));
        assert_eq!(keys, Keys::default());
        for text in ["", "[]", "{}", r#"{"keys":{}}"#] {
            assert_eq!(Keys::read(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn an_issuer_is_asked_once_per_pause_and_an_outage_changes_nothing() {
        let pause = Millis::secs(30);
        let looked = |asked: u64, fresh: u64| Looked {
            asked_at: Some(Mono(asked)),
            fresh_until: Some(Mono(fresh)),
        };
        for (looked, is_known, now, expected) in [
            (Looked::default(), false, 1_000, Ask::First),
            (looked(1_000, 90_000), true, 60_000, Ask::Not),
            (looked(1_000, 90_000), true, 90_000, Ask::Beside),
            // A key that was never seen: once, and then not again for a while.
            (looked(1_000, 90_000), false, 2_000, Ask::Not),
            (looked(1_000, 90_000), false, 31_000, Ask::First),
            // Asked in vain: what is there is used on.
            (looked(100_000, 90_000), true, 100_001, Ask::Not),
            (looked(100_000, 90_000), true, 130_000, Ask::Beside),
        ] {
            let found = ask(looked, is_known, Mono(now), pause);
            assert_eq!(found, expected, "{looked:?} {is_known} {now}");
        }
    }
}
