//! A signed token, taken apart (RFC 7519 section 7.2, RFC 7515 section 5.2). The signature is not verified here.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::{Claims, Refusal};

/// How a token may be signed: with a private key that its issuer alone has. `none` is none of them, and neither is
/// any algorithm with a shared secret: a public key that somebody presents as one is then no key at all (RFC 8725
/// sections 2.1 and 3.1; RFC 9068 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named by RFC 7518 section 3.1 and RFC 8037")]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    /// As a header writes it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            // RFC 9864 gives the curve a name of its own.
            "EdDSA" | "Ed25519" => Self::EdDsa,
            _ => return None,
        })
    }
}

/// A token whose signature is still to be verified.
pub struct Jwt<'t> {
    /// How it says that it is signed.
    pub algorithm: Algorithm,
    /// With which key (`kid`).
    pub key_id: Option<String>,
    /// Its kind (`typ`).
    pub kind: Option<String>,
    /// What it says.
    pub claims: Claims,
    /// What is signed.
    pub signed: &'t str,
    /// The signature.
    pub signature: Vec<u8>,
}

impl<'t> Jwt<'t> {
    /// Takes a token apart; `None` where it is no JWT, but a text that only its issuer understands.
    ///
    /// # Errors
    ///
    /// Where it is one that must not be accepted, whoever signed it.
    pub fn read(token: &'t str) -> Option<Result<Self, Refusal>> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header = object(header)?;
        let claims = object(claims)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        Some(Self::checked(&header, claims, signed, signature))
    }

    fn checked(
        header: &Map<String, Value>,
        claims: Map<String, Value>,
        signed: &'t str,
        signature: Vec<u8>,
    ) -> Result<Self, Refusal> {
        let text = |name| header.get(name).and_then(Value::as_str);
        // RFC 7515 section 4.1.11: what is critical and not understood makes it invalid.
        if header.contains_key("crit") {
            return Err(Refusal::Malformed);
        }
        let algorithm = text("alg").and_then(Algorithm::parse);
        Ok(Self {
            algorithm: algorithm.ok_or(Refusal::Algorithm)?,
            key_id: text("kid").map(str::to_owned),
            kind: text("typ").map(str::to_owned),
            claims: Claims(claims),
            signed,
            signature,
        })
    }

    /// Whether it says that it is an access token (RFC 9068 section 4: `at+jwt`, also written in full).
    #[must_use]
    pub fn is_access_token(&self) -> bool {
        self.kind.as_deref().is_some_and(|kind| {
            kind.eq_ignore_ascii_case("at+jwt") || kind.eq_ignore_ascii_case("application/at+jwt")
        })
    }
}

impl std::fmt::Debug for Jwt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jwt")
            .field("algorithm", &self.algorithm)
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

fn object(part: &str) -> Option<Map<String, Value>> {
    let decoded = URL_SAFE_NO_PAD.decode(part).ok()?;
    serde_json::from_slice(&decoded).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn token(header: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.c2ln", part(header), part(&json!({"iss": "i"})))
    }

    #[test]
    fn only_signatures_of_private_keys_are_looked_at() {
        for alg in ["none", "None", "HS256", "HS512", "RSA-OAEP", "ES512", ""] {
            let token = token(&json!({"alg": alg, "typ": "at+jwt"}));
            let refused = Jwt::read(&token).unwrap().unwrap_err();
            assert_eq!(refused, Refusal::Algorithm, "{alg}");
        }
        let unsigned = token(&json!({"typ": "at+jwt"}));
        assert_eq!(
            Jwt::read(&unsigned).unwrap().unwrap_err(),
            Refusal::Algorithm
        );
        let critical = token(&json!({"alg": "ES256", "crit": ["exp"]}));
        assert_eq!(
            Jwt::read(&critical).unwrap().unwrap_err(),
            Refusal::Malformed
        );
    }

    #[test]
    fn a_token_says_its_kind_and_key() {
        for (typ, expected) in [
            (json!("at+jwt"), true),
            (json!("AT+JWT"), true),
            (json!("application/at+jwt"), true),
            (json!("JWT"), false),
            (json!("id+jwt"), false),
            (Value::Null, false),
        ] {
            let text = token(&json!({"alg": "EdDSA", "typ": typ, "kid": "k1"}));
            let jwt = Jwt::read(&text).unwrap().unwrap();
            assert_eq!(jwt.is_access_token(), expected, "{typ}");
            assert_eq!(jwt.key_id.as_deref(), Some("k1"));
            assert_eq!(jwt.signature, b"sig");
            assert_eq!(Some(jwt.signed), text.strip_suffix(".c2ln"));
        }
    }

    #[test]
    fn what_is_no_jwt_is_for_its_issuer_to_explain() {
        for text in ["", "opaque", "a.b", "a.b.c", "e30.e30", "e30.W10.c2ln", "…"] {
            assert!(Jwt::read(text).is_none(), "{text}");
        }
    }
}
