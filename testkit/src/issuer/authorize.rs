//! The authorization endpoint (RFC 6749 section 4.1, RFC 7636, RFC 8707, RFC 9207).

use std::time::Instant;

use url::Url;

use super::State;
use super::book::{Code, Consented};
use super::client;
use super::policy::{Consent, Iss, Policy, RefreshTokens};
use crate::exchange::Exchange;
use crate::log::Parameters;
use crate::wire::Flow;

/// An error that the client is told by a redirect (RFC 6749 section 4.1.2.1).
struct Denial {
    error: String,
    description: String,
}

fn denial<T>(error: &str, description: &str) -> Result<T, Denial> {
    Err(Denial {
        error: error.to_owned(),
        description: description.to_owned(),
    })
}

pub(super) async fn answer(exchange: &mut Exchange<'_>, state: &State, policy: &Policy) -> Flow {
    if exchange.request.method == "POST" {
        return pressed(exchange, state, policy).await;
    }
    let asked = exchange.request.query();
    state.book.lock().authorizations.push(asked.clone());
    let id = asked.get("client_id").unwrap_or_default();
    let Some(client) = client::find(state, policy, id).await else {
        let status = policy.authorization.unknown_client_status;
        return page(exchange, status, "Unknown client", "").await;
    };
    // RFC 6749 section 4.1.2.1: nobody is redirected to an address that is not registered.
    let redirect_uri = asked.get("redirect_uri").unwrap_or_default();
    if !client.allows(redirect_uri, policy.authorization.loopback_port_free) {
        return page(exchange, 400, "Redirect URI is not registered", "").await;
    }
    let outcome = match check(policy, &asked) {
        Err(denial) => Err(denial),
        Ok(()) => match &policy.authorization.consent {
            Consent::Approves => Ok(code(state, policy, &asked)),
            Consent::Denies(error) => denial(error, "the person refused"),
            Consent::Form => return form(exchange, state, policy, asked).await,
            Consent::Abandons => return page(exchange, 200, "Wait here", "").await,
        },
    };
    redirect(exchange, state, policy, &asked, outcome).await
}

/// The button of the form was pressed.
async fn pressed(exchange: &mut Exchange<'_>, state: &State, policy: &Policy) -> Flow {
    let sent = exchange.request.form();
    let form = sent.get("form").unwrap_or_default();
    let asked = state.book.lock().forms.remove(form);
    let Some(asked) = asked else {
        return page(exchange, 400, "This form is not open", "").await;
    };
    let outcome = if sent.get("decision") == Some("approve") {
        Ok(code(state, policy, &asked))
    } else {
        denial("access_denied", "the person refused")
    };
    redirect(exchange, state, policy, &asked, outcome).await
}

fn check(policy: &Policy, asked: &Parameters) -> Result<(), Denial> {
    let settings = &policy.authorization;
    if asked.get("response_type") != Some("code") {
        return denial("unsupported_response_type", "only code is supported");
    }
    let challenge = asked
        .get("code_challenge")
        .filter(|value| value.len() == 43);
    let is_s256 = challenge.is_some() && asked.get("code_challenge_method") == Some("S256");
    if settings.pkce && !is_s256 {
        return denial("invalid_request", "an S256 code challenge is required");
    }
    match (asked.get("resource"), &settings.resources) {
        (None, _) if settings.resource_required => {
            return denial("invalid_target", "a resource is required");
        }
        (Some(resource), Some(known)) if !known.iter().any(|known| known == resource) => {
            return denial("invalid_target", "this resource is not served here");
        }
        (Some(_) | None, _) => {}
    }
    match settings.refused_scope(&asked.list("scope")) {
        Some(scope) => denial("invalid_scope", &format!("{scope} is not supported")),
        None => Ok(()),
    }
}

/// Makes a code for what was asked.
fn code(state: &State, policy: &Policy, asked: &Parameters) -> String {
    let owned = |name: &str| asked.get(name).map(str::to_owned);
    let scopes = policy.authorization.grants(&asked.list("scope"));
    let refresh = match &policy.tokens.refresh {
        RefreshTokens::Always => true,
        RefreshTokens::Never => false,
        RefreshTokens::WithOfflineAccess => scopes.iter().any(|scope| scope == "offline_access"),
        RefreshTokens::WithParameter(name, value) => asked.get(name) == Some(value),
    };
    let code = Code {
        client: owned("client_id").unwrap_or_default(),
        redirect_uri: owned("redirect_uri").unwrap_or_default(),
        challenge: owned("code_challenge"),
        consented: Consented {
            scopes,
            resource: owned("resource"),
            refresh,
        },
        made: Instant::now(),
        redeemed: None,
    };
    let mut book = state.book.lock();
    let value = book.name("code", policy.tokens.unguessable);
    book.codes.insert(value.clone(), code);
    value
}

async fn redirect(
    exchange: &mut Exchange<'_>,
    state: &State,
    policy: &Policy,
    asked: &Parameters,
    outcome: Result<String, Denial>,
) -> Flow {
    let Some(target) = target(state, policy, asked, &outcome) else {
        return page(exchange, 400, "Redirect URI is no URL", "").await;
    };
    exchange.wire.header("location", target.as_str());
    exchange.wire.header("cache-control", "no-store");
    // After a POST the browser must go on with a GET.
    exchange.empty(303).await
}

/// The redirect URI with the response in its query.
fn target(
    state: &State,
    policy: &Policy,
    asked: &Parameters,
    outcome: &Result<String, Denial>,
) -> Option<Url> {
    let mut target = Url::parse(asked.get("redirect_uri")?).ok()?;
    let mut query = target.query_pairs_mut();
    match outcome {
        Ok(code) => query.append_pair("code", code),
        Err(denial) => query
            .append_pair("error", &denial.error)
            .append_pair("error_description", &denial.description),
    };
    if let Some(value) = asked.get("state") {
        query.append_pair("state", value);
    }
    match &policy.authorization.iss {
        Iss::Sent => query.append_pair("iss", &state.identifier),
        Iss::Is(other) => query.append_pair("iss", other),
        Iss::Omitted => &mut query,
    };
    drop(query);
    Some(target)
}

async fn form(
    exchange: &mut Exchange<'_>,
    state: &State,
    policy: &Policy,
    asked: Parameters,
) -> Flow {
    let form = {
        let mut book = state.book.lock();
        let form = book.name("form", policy.tokens.unguessable);
        book.forms.insert(form.clone(), asked);
        form
    };
    let action = state.url(&policy.paths.authorize);
    let buttons = format!(
        "<form method=\"post\" action=\"{action}\">\
         <input type=\"hidden\" name=\"form\" value=\"{form}\">\
         <button id=\"approve\" name=\"decision\" value=\"approve\">Approve</button>\
         <button id=\"deny\" name=\"decision\" value=\"deny\">Deny</button>\
         </form>"
    );
    page(exchange, 200, "Allow access?", &buttons).await
}

async fn page(exchange: &mut Exchange<'_>, status: u16, title: &str, body: &str) -> Flow {
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title><h1>{title}</h1>{body}</html>\n"
    );
    exchange
        .content(status, "text/html; charset=utf-8", html.as_bytes())
        .await
}
