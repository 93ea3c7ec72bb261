//! Verifies what an issuer signed. Which key may have signed it is [`steadfast_core::oauth::bearer`]'s business.

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use steadfast_core::oauth::bearer::keys::{Key, Material};
use steadfast_core::oauth::bearer::{Algorithm, Jwt};

/// Whether this key made the signature of a token.
pub(crate) fn is_signed_by(jwt: &Jwt<'_>, key: &Key) -> bool {
    let curve = |algorithm: &'static dyn VerificationAlgorithm, point: &[u8]| {
        let key = UnparsedPublicKey::new(algorithm, point);
        key.verify(jwt.signed.as_bytes(), &jwt.signature).is_ok()
    };
    match &key.material {
        Material::Rsa { n, e } => rsa(jwt.algorithm).is_some_and(|parameters| {
            let key = RsaPublicKeyComponents { n, e };
            key.verify(parameters, jwt.signed.as_bytes(), &jwt.signature)
                .is_ok()
        }),
        Material::P256(point) => curve(&ECDSA_P256_SHA256_FIXED, point),
        Material::P384(point) => curve(&ECDSA_P384_SHA384_FIXED, point),
        Material::Ed25519(point) => curve(&ED25519, point),
    }
}

/// Keys of fewer than 2048 bits verify nothing (RFC 7518 section 3.3).
fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
        Algorithm::Ps384 => &RSA_PSS_2048_8192_SHA384,
        Algorithm::Ps512 => &RSA_PSS_2048_8192_SHA512,
        Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => return None,
    })
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use ring::rand::SystemRandom;
    use ring::rsa::KeyPair;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING};
    use ring::signature::{
        EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384,
        RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding,
    };
    use rustls_pki_types::PrivateKeyDer;
    use rustls_pki_types::pem::PemObject as _;
    use serde_json::{Value, json};
    use steadfast_core::oauth::bearer::keys::Keys;

    use super::*;

    const RSA: &str = include_str!("../../testdata/rsa-2048.pem");

    fn encoded(bytes: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// A token of this algorithm, and a changed one, against the key set.
    fn check(alg: &str, key: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) {
        let header = encoded(json!({ "alg": alg }).to_string().as_bytes());
        let token = |claims: &str| format!("{header}.{}", encoded(claims.as_bytes()));
        let signature = encoded(&sign(token("{}").as_bytes()));
        let keys = Keys::read(json!({ "keys": [key] }).to_string().as_bytes()).unwrap();
        for (claims, expected) in [("{}", true), (r#"{"sub":"x"}"#, false)] {
            let text = format!("{}.{signature}", token(claims));
            let jwt = Jwt::read(&text).unwrap().unwrap();
            let mut candidates = keys.candidates(None, jwt.algorithm);
            let verified = candidates.any(|key| is_signed_by(&jwt, key));
            assert_eq!(verified, expected, "{alg} {claims}");
        }
    }

    #[test]
    fn every_kind_of_signature_is_verified_and_a_changed_token_is_not() {
        let random = SystemRandom::new();
        let der = PrivateKeyDer::from_pem_slice(RSA.as_bytes()).unwrap();
        let pair = KeyPair::from_pkcs8(der.secret_der()).unwrap();
        let public: RsaPublicKeyComponents<Vec<u8>> = pair.public().into();
        let (n, e) = (encoded(&public.n), encoded(&public.e));
        let encodings: [(&str, &'static dyn RsaEncoding); 6] = [
            ("RS256", &RSA_PKCS1_SHA256),
            ("RS384", &RSA_PKCS1_SHA384),
            ("RS512", &RSA_PKCS1_SHA512),
            ("PS256", &RSA_PSS_SHA256),
            ("PS384", &RSA_PSS_SHA384),
            ("PS512", &RSA_PSS_SHA512),
        ];
        for (alg, encoding) in encodings {
            check(alg, &json!({"kty": "RSA", "n": n, "e": e}), |signed| {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(encoding, &random, signed, &mut signature)
                    .unwrap();
                signature
            });
        }
        for (alg, crv, signing) in [
            ("ES256", "P-256", &ECDSA_P256_SHA256_FIXED_SIGNING),
            ("ES384", "P-384", &ECDSA_P384_SHA384_FIXED_SIGNING),
        ] {
            let made = EcdsaKeyPair::generate_pkcs8(signing, &random).unwrap();
            let pair = EcdsaKeyPair::from_pkcs8(signing, made.as_ref(), &random).unwrap();
            let point = &pair.public_key().as_ref()[1..];
            let (x, y) = point.split_at(point.len() / 2);
            let key = json!({"kty": "EC", "crv": crv, "x": encoded(x), "y": encoded(y)});
            check(alg, &key, |signed| {
                pair.sign(&random, signed).unwrap().as_ref().to_vec()
            });
        }
        let made = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(made.as_ref()).unwrap();
        let x = encoded(pair.public_key().as_ref());
        let key = json!({"kty": "OKP", "crv": "Ed25519", "x": x});
        check("EdDSA", &key, |signed| pair.sign(signed).as_ref().to_vec());
    }
}
