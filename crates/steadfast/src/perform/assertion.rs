//! Signs what a client proves itself with (`private_key_jwt`). What is signed is
//! [`steadfast_core::oauth::assertion`]'s business.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;
use steadfast_core::oauth::assertion::{Algorithm, Claims, signed, signing_input};

use crate::clock;

/// A private key. It does not print.
#[derive(Clone)]
pub(crate) struct Key(Arc<Pair>);

enum Pair {
    Ecdsa(Algorithm, EcdsaKeyPair),
    Rsa(RsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.algorithm().as_str())
    }
}

impl Key {
    /// Reads a key in PEM.
    ///
    /// # Errors
    ///
    /// Why it is none; says nothing of its text.
    pub(crate) fn read(pem: &str) -> Result<Self, &'static str> {
        const UNKNOWN: &str =
            "the key is of no kind that is known: RSA of 2048 bits or more, P-256, P-384, Ed25519";
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| "it is no private key in PEM (`-----BEGIN PRIVATE KEY-----`)")?;
        let pair = match &key {
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der())
                .ok()
                .map(Pair::Rsa),
            PrivateKeyDer::Pkcs8(der) => of_pkcs8(der.secret_pkcs8_der()),
            PrivateKeyDer::Sec1(_) => {
                return Err(
                    "the key must be in PKCS #8: `openssl pkcs8 -topk8 -nocrypt` makes it so",
                );
            }
            _ => None,
        };
        pair.map(|pair| Self(Arc::new(pair))).ok_or(UNKNOWN)
    }

    fn algorithm(&self) -> Algorithm {
        match &*self.0 {
            Pair::Ecdsa(algorithm, _) => *algorithm,
            Pair::Rsa(_) => Algorithm::Rs256,
            Pair::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    fn sign(&self, input: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match &*self.0 {
            Pair::Ecdsa(_, pair) => {
                let signature = pair.sign(&random, input).ok()?;
                Some(signature.as_ref().to_vec())
            }
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, input, &mut signature)
                    .ok()?;
                Some(signature)
            }
            Pair::Ed25519(pair) => Some(pair.sign(input).as_ref().to_vec()),
        }
    }
}

fn of_pkcs8(der: &[u8]) -> Option<Pair> {
    let random = SystemRandom::new();
    let ecdsa = |algorithm, signing| {
        let pair = EcdsaKeyPair::from_pkcs8(signing, der, &random).ok()?;
        Some(Pair::Ecdsa(algorithm, pair))
    };
    ecdsa(Algorithm::Es256, &ECDSA_P256_SHA256_FIXED_SIGNING)
        .or_else(|| ecdsa(Algorithm::Es384, &ECDSA_P384_SHA384_FIXED_SIGNING))
        .or_else(|| RsaKeyPair::from_pkcs8(der).ok().map(Pair::Rsa))
        .or_else(|| {
            // OpenSSL writes no public key beside it.
            let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok()?;
            Some(Pair::Ed25519(pair))
        })
}

/// What makes a client's assertions.
#[derive(Clone, Debug)]
pub(crate) struct Signer {
    pub(crate) key: Key,
    pub(crate) key_id: Option<String>,
    pub(crate) audience: String,
}

impl Signer {
    /// An assertion for one request, made now; `None` where the system has no random numbers.
    pub(crate) fn assertion(&self, client_id: &str) -> Option<String> {
        let mut id = [0; 16];
        SystemRandom::new().fill(&mut id).ok()?;
        let claims = Claims {
            client_id,
            audience: &self.audience,
            id: &URL_SAFE_NO_PAD.encode(id),
            at: clock::wall(),
        };
        let input = signing_input(self.key.algorithm(), self.key_id.as_deref(), &claims);
        let signature = self.key.sign(input.as_bytes())?;
        Some(signed(&input, &signature))
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use ring::signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, KeyPair as _,
        RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
    };
    use serde_json::Value;

    use super::*;

    const RSA: &str = include_str!("../../testdata/rsa-2048.pem");

    /// The assertion of a new signer with this key.
    fn assertion(pem: &str) -> (Value, String) {
        let signer = Signer {
            key: Key::read(pem).unwrap(),
            key_id: None,
            audience: "https://as.test".to_owned(),
        };
        let assertion = signer.assertion("app").unwrap();
        let (header, _) = assertion.split_once('.').unwrap();
        let header = URL_SAFE_NO_PAD.decode(header).unwrap();
        (serde_json::from_slice(&header).unwrap(), assertion)
    }

    fn verify(algorithm: &'static dyn VerificationAlgorithm, public: &[u8], assertion: &str) {
        let (input, signature) = assertion.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let key = UnparsedPublicKey::new(algorithm, public);
        key.verify(input.as_bytes(), &signature).unwrap();
    }

    fn pem(pkcs8: &[u8]) -> String {
        let text = STANDARD.encode(pkcs8);
        format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")
    }

    #[test]
    fn every_kind_of_key_makes_its_kind_of_signature() {
        let random = SystemRandom::new();
        for (alg, signing, verifying) in [
            (
                "ES256",
                &ECDSA_P256_SHA256_FIXED_SIGNING,
                &ECDSA_P256_SHA256_FIXED,
            ),
            (
                "ES384",
                &ECDSA_P384_SHA384_FIXED_SIGNING,
                &ECDSA_P384_SHA384_FIXED,
            ),
        ] {
            let made = EcdsaKeyPair::generate_pkcs8(signing, &random).unwrap();
            let pair = EcdsaKeyPair::from_pkcs8(signing, made.as_ref(), &random).unwrap();
            let (header, assertion) = assertion(&pem(made.as_ref()));
            assert_eq!(header["alg"], alg);
            verify(verifying, pair.public_key().as_ref(), &assertion);
        }
        let made = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(made.as_ref()).unwrap();
        let (header, assertion_) = assertion(&pem(made.as_ref()));
        assert_eq!(header["alg"], "EdDSA");
        verify(&ED25519, pair.public_key().as_ref(), &assertion_);
        let der = PrivateKeyDer::from_pem_slice(RSA.as_bytes()).unwrap();
        let pair = RsaKeyPair::from_pkcs8(der.secret_der()).unwrap();
        let (header, assertion_) = assertion(RSA);
        assert_eq!(header["alg"], "RS256");
        let public = pair.public_key().as_ref();
        verify(&RSA_PKCS1_2048_8192_SHA256, public, &assertion_);
        assert_ne!(assertion(RSA).1, assertion_, "each has a number of its own");
    }

    #[test]
    fn what_is_no_key_is_named_without_being_quoted() {
        let sec1 = "-----BEGIN EC PRIVATE KEY-----\nY2FuYXJ5\n-----END EC PRIVATE KEY-----\n";
        let other = "-----BEGIN PRIVATE KEY-----\nY2FuYXJ5\n-----END PRIVATE KEY-----\n";
        for (pem, named) in [
            ("canary", "PEM"),
            ("", "PEM"),
            (sec1, "PKCS #8"),
            (other, "no kind"),
        ] {
            let why = Key::read(pem).unwrap_err();
            assert!(why.contains(named) && !why.contains("canary"), "{why}");
        }
    }
}
