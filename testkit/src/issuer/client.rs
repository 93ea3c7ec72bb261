//! Clients, and how they prove at the token endpoint who they are.

use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

use super::State;
use super::assertion;
use super::book::Refusal;
use super::policy::Policy;
use crate::client;
use crate::log::{Parameters, Request};

/// A client that the server knows.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its id.
    pub id: String,
    /// Its secret.
    pub secret: Option<String>,
    /// Its public keys (RFC 7517).
    pub keys: Vec<Value>,
    /// Where it may be redirected to.
    pub redirect_uris: Vec<String>,
    /// When it is forgotten.
    pub(super) ends: Option<Instant>,
}

impl Client {
    /// A client without a secret.
    #[must_use]
    pub fn public(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            secret: None,
            keys: Vec::new(),
            redirect_uris: Vec::new(),
            ends: None,
        }
    }

    /// A client with a secret.
    #[must_use]
    pub fn confidential(id: &str, secret: &str) -> Self {
        let client = Self::public(id);
        Self {
            secret: Some(secret.to_owned()),
            ..client
        }
    }

    /// A client with a public key, for `private_key_jwt`: a JSON Web Key of ES256, RS256 or Ed25519.
    #[must_use]
    pub fn with_key(id: &str, key: Value) -> Self {
        let client = Self::public(id);
        Self {
            keys: vec![key],
            ..client
        }
    }

    /// A client with a new key of P-256, and that key as PEM.
    #[must_use]
    pub fn with_new_key(id: &str) -> (Self, String) {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let pkcs8 = made.expect("the system has random numbers");
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random);
        let pair = pair.expect("what was just made is a key");
        // SEC 1 section 2.3.3: a 4, then both coordinates.
        let point = pair.public_key().as_ref();
        let (x, y) = point[1..].split_at(32);
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let key = json!({"kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y)});
        let text = STANDARD.encode(pkcs8.as_ref());
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
        (Self::with_key(id, key), pem)
    }

    /// May be redirected there.
    #[must_use]
    pub fn redirect(mut self, uri: &str) -> Self {
        self.redirect_uris.push(uri.to_owned());
        self
    }

    /// Whether a redirect URI is one of the registered ones: character by character, but for the port of a loopback
    /// address where that is free (RFC 8252 section 7.3).
    pub(super) fn allows(&self, uri: &str, loopback_port_free: bool) -> bool {
        let without_port = |uri: &str| {
            let mut url = Url::parse(uri).ok()?;
            let is_loopback = matches!(url.host_str(), Some("127.0.0.1" | "[::1]"));
            (is_loopback && url.set_port(None).is_ok()).then_some(url)
        };
        self.redirect_uris.iter().any(|registered| {
            let same_but_port = || {
                let (registered, uri) = (without_port(registered), without_port(uri));
                registered.is_some() && registered == uri
            };
            registered == uri || (loopback_port_free && same_but_port())
        })
    }

    pub(super) fn is_known(&self) -> bool {
        self.ends.is_none_or(|end| Instant::now() < end)
    }

    /// What a client's metadata says (RFC 7591 section 2).
    pub(super) fn described(id: &str, metadata: &Value) -> Self {
        let list = |pointer: &str| metadata.pointer(pointer).and_then(Value::as_array);
        let uris = list("/redirect_uris").into_iter().flatten();
        Self {
            keys: list("/jwks/keys").cloned().unwrap_or_default(),
            redirect_uris: uris.filter_map(Value::as_str).map(str::to_owned).collect(),
            ..Self::public(id)
        }
    }
}

/// A client as it presents itself.
enum Proof {
    None,
    Basic(String),
    Post(String),
    Assertion(String),
}

impl Proof {
    fn method(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic(_) => "client_secret_basic",
            Self::Post(_) => "client_secret_post",
            Self::Assertion(_) => "private_key_jwt",
        }
    }
}

/// Finds out which client makes a request to the token or revocation endpoint.
pub(super) async fn authenticate(
    state: &State,
    policy: &Policy,
    request: &Request,
) -> Result<Client, Refusal> {
    let refusal = |why: &str| Refusal::new("invalid_client", why);
    let (id, proof) =
        presented(request).ok_or_else(|| refusal("the client does not say who it is"))?;
    let client = find(state, policy, &id)
        .await
        .ok_or_else(|| refusal("unknown client"))?;
    let registration = &policy.registration;
    let accepted = registration
        .accepts_auth
        .as_ref()
        .unwrap_or(&registration.auth_methods);
    if !accepted.iter().any(|method| method == proof.method()) {
        return Err(refusal("this method of client authentication is not taken"));
    }
    let proven = match &proof {
        Proof::None => client.secret.is_none() && client.keys.is_empty(),
        Proof::Basic(secret) | Proof::Post(secret) => client.secret.as_ref() == Some(secret),
        Proof::Assertion(jwt) => {
            let audiences = [state.identifier.clone(), state.url(&policy.paths.token)];
            let id = assertion::verify(&client, jwt, &audiences).map_err(|why| refusal(&why))?;
            if !state.book.lock().assertions.insert(id) {
                return Err(refusal("the assertion was used before"));
            }
            true
        }
    };
    if proven {
        Ok(client)
    } else {
        Err(refusal("the client has not proven who it is"))
    }
}

fn presented(request: &Request) -> Option<(String, Proof)> {
    let form = request.form();
    if let Some(basic) = request
        .header("authorization")
        .and_then(|value| value.strip_prefix("Basic "))
    {
        let text = String::from_utf8(STANDARD.decode(basic).ok()?).ok()?;
        let (id, secret) = text.split_once(':')?;
        // RFC 6749 section 2.3.1: both are form-encoded before they are joined.
        return Some((form_decoded(id), Proof::Basic(form_decoded(secret))));
    }
    if let Some(jwt) = form.get("client_assertion") {
        let id = assertion::subject(jwt).or(form.get("client_id").map(str::to_owned))?;
        return Some((id, Proof::Assertion(jwt.to_owned())));
    }
    let id = form.get("client_id")?.to_owned();
    let proof = match form.get("client_secret") {
        Some(secret) => Proof::Post(secret.to_owned()),
        None => Proof::None,
    };
    Some((id, proof))
}

fn form_decoded(text: &str) -> String {
    let pair = format!("v={text}");
    let mut values = form_urlencoded::parse(pair.as_bytes());
    values
        .next()
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}

/// A client by its id: registered, or described by the document that its id is the address of.
pub(super) async fn find(state: &State, policy: &Policy, id: &str) -> Option<Client> {
    let registered = state.book.lock().clients.get(id).cloned();
    if let Some(client) = registered {
        return client.is_known().then_some(client);
    }
    if !policy.registration.documents || !id.contains("://") {
        return None;
    }
    let document = match policy.registration.known_documents.get(id) {
        Some(document) => document.clone(),
        None => fetch(id).await?,
    };
    (document["client_id"] == id).then(|| Client::described(id, &document))
}

/// A document from an address of the loopback without TLS; others must be known beforehand.
async fn fetch(address: &str) -> Option<Value> {
    let url = Url::parse(address)
        .ok()
        .filter(|url| url.scheme() == "http")?;
    let socket = url.socket_addrs(|| None).ok()?.into_iter().next()?;
    let sent = client::send(socket, "GET", url.path(), &[], b"")
        .await
        .ok()?;
    let mut response = sent.response().await.ok()?;
    response.json().await.ok()
}

/// Every secret that a request carries, for an answer that repeats them.
pub(super) fn secrets(form: &Parameters) -> String {
    let names = ["refresh_token", "code", "code_verifier", "client_secret"];
    let found = names.iter().filter_map(|name| form.get(name));
    found.collect::<Vec<_>>().join(" ")
}
