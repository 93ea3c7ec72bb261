//! What a client signs to prove who it is (`private_key_jwt`: RFC 7523 sections 2.2 and 3). The signature is not made
//! here.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use crate::now::{Millis, Wall};

/// The value of `client_assertion_type` (RFC 7523 section 2.2).
pub const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// How long an assertion is good: for one request, on clocks that do not quite agree.
const LIFETIME: Millis = Millis::mins(5);

/// How it is signed (RFC 7518 section 3.1, RFC 8037 section 3.1). It follows from the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// ECDSA with P-384 and SHA-384.
    Es384,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// As a header writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Rs256 => "RS256",
            Self::EdDsa => "EdDSA",
        }
    }
}

/// What an assertion says.
#[derive(Clone, Copy, Debug)]
pub struct Claims<'a> {
    /// The client: issuer and subject in one (RFC 7523 section 3, items 1 and 2).
    pub client_id: &'a str,
    /// Whom it is meant for. The issuer identifier of the authorization server, and nothing else beside it: another
    /// server that is shown the assertion must not be able to use it (draft-ietf-oauth-rfc7523bis, section 3).
    pub audience: &'a str,
    /// A number that was never used before (`jti`).
    pub id: &'a str,
    /// When it is made.
    pub at: Wall,
}

/// The text to be signed (RFC 7515 section 5.1): header and claims. `key_id` says which key it is, where the issuer
/// knows several.
#[must_use]
pub fn signing_input(algorithm: Algorithm, key_id: Option<&str>, claims: &Claims<'_>) -> String {
    let mut header = json!({ "alg": algorithm.as_str(), "typ": "JWT" });
    if let Some(key_id) = key_id {
        header["kid"] = key_id.into();
    }
    let at = claims.at.0.div_euclid(1_000);
    let claims = json!({
        "iss": claims.client_id,
        "sub": claims.client_id,
        "aud": claims.audience,
        "jti": claims.id,
        "iat": at,
        "exp": at.saturating_add_unsigned(LIFETIME.0 / 1_000),
    });
    let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(&header), part(&claims))
}

/// The assertion as it is sent.
#[must_use]
pub fn signed(input: &str, signature: &[u8]) -> String {
    format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn an_assertion_is_about_its_client_and_meant_for_one_issuer() {
        let claims = Claims {
            client_id: "app",
            audience: "https://as.test/",
            id: "n1",
            at: Wall(1_700_000_000_999),
        };
        let input = signing_input(Algorithm::Es256, Some("k1"), &claims);
        let assertion = signed(&input, b"\xff\xfe");
        let mut parts = assertion.split('.');
        let mut read = || -> Value {
            let bytes = URL_SAFE_NO_PAD.decode(parts.next().unwrap()).unwrap();
            serde_json::from_slice(&bytes).unwrap()
        };
        assert_eq!(read(), json!({"alg": "ES256", "typ": "JWT", "kid": "k1"}));
        assert_eq!(
            read(),
            json!({
                "iss": "app", "sub": "app", "aud": "https://as.test/", "jti": "n1",
                "iat": 1_700_000_000, "exp": 1_700_000_300
            })
        );
        assert_eq!(parts.next(), Some("__4"));
    }
}
