//! Access tokens that say what they are (RFC 9068): signed with a key of the issuer, and bent where a test wants it.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

/// A key that tokens are signed with: ECDSA with P-256.
pub struct SigningKey {
    id: String,
    pair: EcdsaKeyPair,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey({})", self.id)
    }
}

impl SigningKey {
    /// A new key of this id.
    #[must_use]
    pub fn new(id: &str) -> Self {
        let (signing, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let made = EcdsaKeyPair::generate_pkcs8(signing, &random).expect("there is randomness");
        let pair = EcdsaKeyPair::from_pkcs8(signing, made.as_ref(), &random);
        Self {
            id: id.to_owned(),
            pair: pair.expect("it was just made"),
        }
    }

    /// As a key set lists it (RFC 7517).
    #[must_use]
    pub fn public(&self) -> Value {
        // SEC 1 section 2.3.3: a mark, then both coordinates.
        let (x, y) = self.point()[1..].split_at(32);
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        json!({"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.id, "x": x, "y": y})
    }

    fn point(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    /// A token with these claims. `header` replaces members of the header.
    #[must_use]
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = self.input("ES256", header, claims);
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = signature.expect("there is randomness");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// The token of somebody who takes the public key for a shared secret (RFC 8725 section 2.1).
    #[must_use]
    pub fn confuse(&self, claims: &Value) -> String {
        let signed = self.input("HS256", &json!({}), claims);
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.point());
        let signature = hmac::sign(&key, signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn input(&self, algorithm: &str, bent: &Value, claims: &Value) -> String {
        let mut header = json!({"alg": algorithm, "typ": "at+jwt", "kid": self.id});
        for (name, value) in bent.as_object().into_iter().flatten() {
            header[name] = value.clone();
        }
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}", part(&header), part(claims))
    }
}

/// The claims of a good token of five minutes: of this issuer, for this client and audience.
#[must_use]
pub fn claims(issuer: &str, client: &str, audience: &Value) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs());
    json!({
        "iss": issuer, "sub": client, "client_id": client, "aud": audience,
        "iat": now, "exp": now + 300, "jti": format!("{client}-{now}"),
    })
}
