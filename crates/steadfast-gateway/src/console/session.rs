//! Who is signed in to the console, and that a form comes from one of our own pages.

use std::collections::HashMap;

use askama::Template;
use axum::extract::{Form, FromRequestParts, State as Given};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{COOKIE, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use steadfast_core::{Millis, Mono, code};
use steadfast_store::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

use super::Shared;
use super::frame::{Frame, Trouble, page};
use crate::clock;
use crate::problem::Problem;

/// How long somebody who does nothing stays signed in.
const IDLE: Millis = Millis::secs(12 * 3_600);
/// How many wrong tokens may be tried in a minute, by all together: there is one token, and nobody types faster.
const TRIES: u32 = 10;
const TRIES_IN: Millis = Millis::secs(60);
/// How many may be signed in; the one that was idle for longest goes first.
const MOST: usize = 1_000;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/sign-in", get(form).post(enter))
        .route("/sign-out", post(leave))
}

/// Those who are signed in, by the hash of their cookie. A restart signs everybody out.
#[derive(Debug)]
pub(super) struct Sessions {
    /// The name of the cookie.
    cookie: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    seen: HashMap<[u8; 32], Mono>,
    tries: u32,
    tries_since: Option<Mono>,
}

/// Somebody who is signed in.
#[derive(Clone, Debug)]
pub(super) struct Session {
    hash: [u8; 32],
}

impl Session {
    /// What a form of this session carries: no other site can know it.
    pub(super) fn csrf(&self) -> String {
        let token = Sha256::new()
            .chain_update(b"form of ")
            .chain_update(self.hash)
            .finalize();
        URL_SAFE_NO_PAD.encode(token)
    }

    /// Whether a form comes from a page of this session.
    pub(super) fn check(&self, csrf: &str) -> Result<(), Trouble> {
        if self.csrf().as_bytes().ct_eq(csrf.as_bytes()).into() {
            return Ok(());
        }
        let detail = "this form is not from a page of this session: open the page again";
        Err(Problem::new(StatusCode::FORBIDDEN, code::FORBIDDEN, detail).into())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Session {
    type Rejection = Redirect;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Redirect> {
        Extension::<Self>::from_request_parts(parts, state)
            .await
            .map(|Extension(session)| session)
            .map_err(|_| Redirect::to("/sign-in"))
    }
}

impl Sessions {
    /// Cookies do not tell ports apart (RFC 6265 section 8.5): the name does, so that two daemons on one machine sign
    /// nobody out of each other.
    pub(super) fn new(port: u16) -> Self {
        Self {
            cookie: format!("steadfast_console_{port}"),
            state: Mutex::default(),
        }
    }

    /// Whose request it is.
    pub(super) fn of(&self, headers: &HeaderMap) -> Option<Session> {
        let hash = cookie(&self.cookie, headers)?;
        let now = clock::mono();
        let mut state = self.state.lock();
        let seen = state.seen.get_mut(&hash)?;
        if now.since(*seen) > IDLE {
            state.seen.remove(&hash);
            return None;
        }
        *seen = now;
        Some(Session { hash })
    }

    /// Whether another token may be tried now.
    fn may_try(&self) -> bool {
        let now = clock::mono();
        let mut state = self.state.lock();
        if state
            .tries_since
            .is_none_or(|since| now.since(since) > TRIES_IN)
        {
            state.tries_since = Some(now);
            state.tries = 0;
        }
        state.tries < TRIES
    }

    fn failed(&self) {
        self.state.lock().tries += 1;
    }

    /// The cookie of somebody new.
    fn open(&self) -> Result<SecretString, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        let secret = URL_SAFE_NO_PAD.encode(secret);
        let now = clock::mono();
        let mut state = self.state.lock();
        state.seen.retain(|_, seen| now.since(*seen) <= IDLE);
        if state.seen.len() >= MOST
            && let Some(oldest) = state.seen.iter().min_by_key(|(_, seen)| seen.0)
        {
            let oldest = *oldest.0;
            state.seen.remove(&oldest);
        }
        state.seen.insert(Sha256::digest(&secret).into(), now);
        Ok(SecretString::from(secret))
    }

    fn close(&self, session: &Session) {
        self.state.lock().seen.remove(&session.hash);
    }
}

fn cookie(name: &str, headers: &HeaderMap) -> Option<[u8; 32]> {
    let all = headers.get_all(COOKIE).iter();
    let mut pairs = all
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'));
    let value = pairs.find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))?;
    Some(Sha256::digest(value).into())
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    frame: Frame,
    refused: Option<&'static str>,
}

async fn form() -> Response {
    asked(StatusCode::OK, None)
}

fn asked(status: StatusCode, refused: Option<&'static str>) -> Response {
    let frame = Frame::outside("Sign in");
    page(status, &SignIn { frame, refused })
}

/// Without `Debug`: it cannot print.
#[derive(Deserialize)]
struct Entering {
    token: String,
}

async fn enter(Given(console): Given<Shared>, Form(form): Form<Entering>) -> Response {
    if !console.sessions.may_try() {
        let wait = "Too many wrong tokens: try again in a minute.";
        return asked(StatusCode::TOO_MANY_REQUESTS, Some(wait));
    }
    let settings = &console.admin.settings;
    let token = form.token.trim();
    if !settings.admin_token.accepts(token.as_bytes()) {
        console.sessions.failed();
        tracing::warn!("a wrong admin token was tried at the console");
        return asked(
            StatusCode::UNAUTHORIZED,
            Some("This is not the admin token."),
        );
    }
    let secure = settings
        .public_url
        .as_ref()
        .is_some_and(|url| url.scheme() == "https");
    match console.sessions.open() {
        Ok(secret) => {
            let secret = secret.expose_secret();
            let secure = if secure { "; Secure" } else { "" };
            let name = &console.sessions.cookie;
            let cookie = format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict{secure}");
            ([(SET_COOKIE, cookie)], Redirect::to("/")).into_response()
        }
        Err(_) => asked(
            StatusCode::INTERNAL_SERVER_ERROR,
            Some("The system has no random numbers for a session."),
        ),
    }
}

#[derive(Deserialize)]
struct Leaving {
    csrf: String,
}

async fn leave(
    Given(console): Given<Shared>,
    headers: HeaderMap,
    Form(form): Form<Leaving>,
) -> Result<Response, Trouble> {
    if let Some(session) = console.sessions.of(&headers) {
        session.check(&form.csrf)?;
        console.sessions.close(&session);
    }
    let name = &console.sessions.cookie;
    let gone = format!("{name}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0");
    Ok(([(SET_COOKIE, gone)], Redirect::to("/sign-in")).into_response())
}
