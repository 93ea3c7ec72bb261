//! The token endpoint (RFC 6749 sections 4.1.3, 4.4 and 6) and the revocation endpoint (RFC 7009).

use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};
use url::form_urlencoded;

use super::State;
use super::book::{Consented, Handed, Refusal};
use super::client::{self, Client};
use super::policy::{Answers, Errors, ExpiresIn, FormEncoded, Policy, Scope};
use crate::exchange::Exchange;
use crate::log::{Parameters, Request};
use crate::wire::Flow;

pub(super) async fn answer(exchange: &mut Exchange<'_>, state: &State, policy: &Policy) -> Flow {
    let _under_way = state.token_requests.enter();
    let limit = policy.answers.rate_limit;
    let throttled = state.book.lock().throttles(Instant::now(), limit);
    if throttled {
        exchange.wire.header("retry-after", "1");
        return exchange
            .json(429, &json!({ "error": "rate_limited" }))
            .await;
    }
    let request = exchange.request.clone();
    let outcome = match decide(state, policy, &request).await {
        Ok(handed) => Ok(success(policy, &handed)),
        Err(refusal) => Err(refusal),
    };
    exchange.wire.pause(policy.answers.delay).await?;
    exchange.wire.header("cache-control", "no-store");
    let (status, body) = match outcome {
        Ok(body) => (200, body),
        Err(refusal) => failure(&policy.answers, &refusal, &request.form()),
    };
    if status == 401 && request.header("authorization").is_some() {
        // RFC 6749 section 5.2: the challenge matches the scheme that the client used.
        exchange
            .wire
            .header("www-authenticate", "Basic realm=\"testkit\"");
    }
    send(exchange, &policy.answers, status, body).await
}

pub(super) async fn revoke(exchange: &mut Exchange<'_>, state: &State, policy: &Policy) -> Flow {
    let request = exchange.request.clone();
    match client::authenticate(state, policy, &request).await {
        Ok(client) => {
            let form = request.form();
            let token = form.get("token").unwrap_or_default();
            state.book.lock().revoke(&client.id, token);
            // RFC 7009 section 2.2: a token that is unknown is as good as revoked.
            exchange.empty(200).await
        }
        Err(refusal) => {
            let (status, body) = failure(&policy.answers, &refusal, &request.form());
            send(exchange, &policy.answers, status, body).await
        }
    }
}

async fn decide(state: &State, policy: &Policy, request: &Request) -> Result<Handed, Refusal> {
    let form = request.form();
    if let Some(value) = form.get("refresh_token") {
        state.book.lock().presented.push(value.to_owned());
    }
    let client = client::authenticate(state, policy, request).await?;
    if policy.authorization.resource_required && form.get("resource").is_none() {
        return Err(Refusal::new("invalid_target", "a resource is required"));
    }
    match form.get("grant_type") {
        Some("authorization_code") => redeem(state, policy, &client, &form),
        Some("refresh_token") => {
            let value = form.get("refresh_token").unwrap_or_default();
            let scopes = form.list("scope");
            let mut book = state.book.lock();
            book.refresh(policy, &client.id, value, scopes, form.get("resource"))
        }
        Some("client_credentials") => credentials(state, policy, &client, &form),
        Some(_) | None => Err(Refusal::new(
            "unsupported_grant_type",
            "this grant type is not supported",
        )),
    }
}

fn redeem(
    state: &State,
    policy: &Policy,
    client: &Client,
    form: &Parameters,
) -> Result<Handed, Refusal> {
    let value = form.get("code").unwrap_or_default();
    let mut book = state.book.lock();
    let code = book.codes.get(value);
    let code = code.ok_or_else(|| Refusal::grant("unknown code"))?;
    if code.client != client.id {
        return Err(Refusal::grant("the code is another client's"));
    }
    if form.get("redirect_uri") != Some(&code.redirect_uri) {
        return Err(Refusal::grant("the redirect URI is another one"));
    }
    // RFC 7636 section 4.6.
    let verifier = form.get("code_verifier");
    let hashed =
        verifier.map(|verifier| URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes())));
    if code.challenge != hashed {
        return Err(Refusal::grant("the code verifier does not match"));
    }
    // RFC 8707 section 2.2.
    let asked = form.get("resource");
    if asked.is_some() && asked != code.consented.resource.as_deref() {
        return Err(Refusal::new(
            "invalid_target",
            "the resource is another one",
        ));
    }
    book.redeem(policy, &client.id, value)
}

/// A grant without a person: the client must have proven who it is.
fn credentials(
    state: &State,
    policy: &Policy,
    client: &Client,
    form: &Parameters,
) -> Result<Handed, Refusal> {
    if client.secret.is_none() && client.keys.is_empty() {
        let why = "a public client has no credentials";
        return Err(Refusal::new("unauthorized_client", why));
    }
    let asked = form.list("scope");
    if let Some(scope) = policy.authorization.refused_scope(&asked) {
        let why = format!("{scope} is not supported");
        return Err(Refusal::new("invalid_scope", why));
    }
    let consented = Consented {
        scopes: policy.authorization.grants(&asked),
        resource: form.get("resource").map(str::to_owned),
        // RFC 6749 section 4.4.3.
        refresh: false,
    };
    let mut book = state.book.lock();
    Ok(book.begin(policy, &client.id, None, &consented))
}

fn success(policy: &Policy, handed: &Handed) -> Map<String, Value> {
    let answers = &policy.answers;
    let mut body = Map::new();
    let mut add = |member: &str, value: Value| body.insert(member.to_owned(), value);
    add("access_token", handed.access.value.clone().into());
    add("token_type", answers.token_type.clone().into());
    match (&answers.expires_in, policy.tokens.lifetime) {
        (ExpiresIn::True, Some(lifetime)) => {
            add("expires_in", lifetime.as_secs().max(1).into());
        }
        (ExpiresIn::Is(value), _) => {
            add("expires_in", value.clone());
        }
        (ExpiresIn::Omitted, _) | (ExpiresIn::True, None) => {}
    }
    if let Some(value) = &handed.refresh {
        add("refresh_token", value.clone().into());
    }
    match &answers.scope {
        Scope::True if handed.access.scopes.is_empty() => {}
        Scope::True => {
            add("scope", handed.access.scopes.join(" ").into());
        }
        Scope::Is(value) => {
            add("scope", value.clone().into());
        }
        Scope::Omitted => {}
    }
    body.extend(answers.extra.clone());
    body
}

fn failure(answers: &Answers, refusal: &Refusal, form: &Parameters) -> (u16, Map<String, Value>) {
    let mut description = refusal.description.clone();
    if answers.echoes {
        description = format!("{description}: {}", client::secrets(form));
    }
    let name = answers.error_names.get(refusal.error);
    let mut body = Map::new();
    if answers.errors == Errors::NotOk {
        body.insert("ok".to_owned(), false.into());
    }
    let name = name.map_or(refusal.error, String::as_str);
    body.insert("error".to_owned(), name.into());
    body.insert("error_description".to_owned(), description.into());
    let status = match answers.errors {
        Errors::WithStatus200 | Errors::NotOk => 200,
        Errors::Standard if refusal.error == "invalid_client" => answers.invalid_client_status,
        Errors::Standard => 400,
    };
    (status, body)
}

async fn send(
    exchange: &mut Exchange<'_>,
    answers: &Answers,
    status: u16,
    body: Map<String, Value>,
) -> Flow {
    let accept = exchange.request.header("accept").unwrap_or_default();
    let as_form = match answers.form_encoded {
        FormEncoded::Never => false,
        FormEncoded::Always => true,
        FormEncoded::UnlessJsonAccepted => !accept.contains("application/json"),
    };
    if !as_form {
        return exchange.json(status, &Value::Object(body)).await;
    }
    let form = form_encoded(&body);
    exchange
        .content(status, &answers.form_content_type, form.as_bytes())
        .await
}

fn form_encoded(body: &Map<String, Value>) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    for (name, value) in body {
        match value {
            Value::String(text) => form.append_pair(name, text),
            other => form.append_pair(name, &other.to_string()),
        };
    }
    form.finish()
}
