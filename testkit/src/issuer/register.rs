//! Dynamic client registration (RFC 7591).

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::State;
use super::client::Client;
use super::policy::Policy;
use crate::exchange::Exchange;
use crate::wire::Flow;

pub(super) async fn answer(exchange: &mut Exchange<'_>, state: &State, policy: &Policy) -> Flow {
    let metadata = exchange.request.json.clone().filter(Value::is_object);
    let registered = match metadata {
        Some(metadata) => register(state, policy, metadata),
        None => Err("the body is no JSON object"),
    };
    exchange.wire.header("cache-control", "no-store");
    match registered {
        Ok(answer) => exchange.json(201, &answer).await,
        Err(why) => {
            let error = json!({ "error": "invalid_client_metadata", "error_description": why });
            exchange.json(400, &error).await
        }
    }
}

fn register(state: &State, policy: &Policy, mut metadata: Value) -> Result<Value, &'static str> {
    let asked = metadata["token_endpoint_auth_method"].as_str();
    // RFC 7591 section 2: without a method it is client_secret_basic.
    let method = policy
        .registration
        .assigns_auth
        .as_deref()
        .or(asked)
        .unwrap_or("client_secret_basic")
        .to_owned();
    if !policy.registration.auth_methods.contains(&method) {
        return Err("this method of client authentication is not supported");
    }
    let mut book = state.book.lock();
    let unguessable = policy.tokens.unguessable;
    let id = book.name("C", unguessable);
    let mut client = Client::described(&id, &metadata);
    if method.starts_with("client_secret") {
        let secret = book.name("secret", unguessable);
        metadata["client_secret"] = secret.clone().into();
        client.secret = Some(secret);
    }
    let lifetime = policy.registration.lifetime;
    client.ends = lifetime.map(|lifetime| Instant::now() + lifetime);
    // RFC 7591 section 3.2.1: seconds since 1970, 0 for a secret that does not expire.
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    metadata["client_id"] = id.clone().into();
    metadata["client_id_issued_at"] = now.as_secs().into();
    metadata["token_endpoint_auth_method"] = method.into();
    if client.secret.is_some() || lifetime.is_some() {
        let end = lifetime.map_or(0, |lifetime| (now + lifetime).as_secs());
        metadata["client_secret_expires_at"] = end.into();
    }
    book.clients.insert(id, client);
    book.counts.registrations += 1;
    Ok(metadata)
}
