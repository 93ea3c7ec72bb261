//! `private_key_jwt`: an assertion that is signed with the client's key (RFC 7523 section 3).

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde_json::Value;

use super::client::Client;

/// Whom an assertion is about, unverified.
pub(super) fn subject(jwt: &str) -> Option<String> {
    Some(part(jwt.split('.').nth(1)?)?["sub"].as_str()?.to_owned())
}

/// Verifies an assertion and returns its `jti`.
pub(super) fn verify(client: &Client, jwt: &str, audiences: &[String]) -> Result<String, String> {
    let (signed, signature) = jwt.rsplit_once('.').ok_or("not a JWT")?;
    let (header, claims) = signed.split_once('.').ok_or("not a JWT")?;
    let header = part(header).ok_or("no header")?;
    let signature = decode(signature).ok_or("no signature")?;
    if !client
        .keys
        .iter()
        .any(|key| signed_with(key, &header["alg"], signed.as_bytes(), &signature))
    {
        return Err("no key of the client made the signature".to_owned());
    }
    let claims = part(claims).ok_or("no claims")?;
    if claims["iss"] != client.id || claims["sub"] != client.id {
        return Err("the assertion is about another client".to_owned());
    }
    let is_ours = |value: &Value| audiences.iter().any(|audience| value == audience);
    let audience = &claims["aud"];
    if !is_ours(audience)
        && !audience
            .as_array()
            .is_some_and(|all| all.iter().any(is_ours))
    {
        return Err(format!("the assertion is for {audience}"));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0.0, |since| since.as_secs_f64());
    if claims["exp"].as_f64().is_none_or(|end| end <= now) {
        return Err("the assertion has expired".to_owned());
    }
    let id = claims["jti"].as_str().ok_or("the assertion has no jti")?;
    Ok(id.to_owned())
}

fn signed_with(key: &Value, algorithm: &Value, signed: &[u8], signature: &[u8]) -> bool {
    let member = |name: &str| key[name].as_str().and_then(decode);
    let verified = match algorithm.as_str() {
        Some("ES256") => member("x").zip(member("y")).map(|(x, y)| {
            // SEC 1 section 2.3.3: 4 marks an uncompressed point.
            let point = [&[4], x.as_slice(), y.as_slice()].concat();
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature)
        }),
        Some("EdDSA") => {
            member("x").map(|x| UnparsedPublicKey::new(&ED25519, x).verify(signed, signature))
        }
        Some("RS256") => member("n").zip(member("e")).map(|(n, e)| {
            let key = RsaPublicKeyComponents { n, e };
            key.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
        }),
        Some(_) | None => None,
    };
    verified.is_some_and(|verified| verified.is_ok())
}

fn part(text: &str) -> Option<Value> {
    serde_json::from_slice(&decode(text)?).ok()
}

fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
