//! Asks an issuer about a token (RFC 7662).

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderMap;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use steadfast_core::oauth::bearer::{Claims, Refusal};
use steadfast_core::{Fault, Kind, Millis, Mono};
use tokio::sync::Semaphore;
use url::Url;

use super::{NotAccepted, metadata};
use crate::clock;
use crate::config;
use crate::perform::fetch::Fetcher;
use crate::perform::token::basic;
use crate::secrets::Secrets;

/// How many questions are under way together: whoever sends us nonsense must not flood the issuer.
const TOGETHER: usize = 8;

/// How many answers are kept.
const MOST: usize = 4_096;

/// How an issuer is asked.
#[derive(Debug)]
pub(super) struct Introspection {
    issuer: String,
    config: config::Introspection,
    fetcher: Fetcher,
    secrets: Arc<Secrets>,
    asking: Semaphore,
    /// What it said of tokens that are good, by their hashes.
    said: Mutex<HashMap<[u8; 32], Said>>,
}

#[derive(Debug)]
struct Said {
    claims: Claims,
    until: Mono,
}

impl Introspection {
    pub(super) fn new(
        issuer: &str,
        config: &config::Introspection,
        fetcher: Fetcher,
        secrets: Arc<Secrets>,
    ) -> Self {
        Self {
            issuer: issuer.to_owned(),
            config: config.clone(),
            fetcher,
            secrets,
            asking: Semaphore::new(TOGETHER),
            said: Mutex::default(),
        }
    }

    /// What the issuer says of a token, if it says that it is good.
    pub(super) async fn ask(&self, token: &str) -> Result<Claims, NotAccepted> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(claims) = self.said(&hash) {
            return Ok(claims);
        }
        let Ok(_permit) = self.asking.acquire().await else {
            return Err(NotAccepted::Unavailable);
        };
        // Whoever waited may find that somebody has asked.
        if let Some(claims) = self.said(&hash) {
            return Ok(claims);
        }
        let answer = self.question(token).await.map_err(|fault| {
            let issuer = &self.issuer;
            tracing::warn!(%issuer, code = %fault.kind.code(), fault = %fault.message, "an issuer cannot be asked about a token");
            NotAccepted::Unavailable
        })?;
        // RFC 7662 section 2.2: everything but `active` is optional.
        if answer.get("active") != Some(&Value::Bool(true)) {
            return Err(Refusal::Inactive.into());
        }
        let claims = Claims(answer);
        self.keep(hash, claims.clone(), self.config.cache.0);
        Ok(claims)
    }

    fn said(&self, hash: &[u8; 32]) -> Option<Claims> {
        let said = self.said.lock();
        let said = said.get(hash)?;
        (clock::mono() < said.until).then(|| said.claims.clone())
    }

    fn keep(&self, hash: [u8; 32], claims: Claims, lasting: Millis) {
        let now = clock::mono();
        let until = Mono(now.0.saturating_add(lasting.0));
        let mut said = self.said.lock();
        if said.len() >= MOST {
            said.retain(|_, said| now < said.until);
        }
        // As many good tokens at a time are asked about each time.
        if said.len() < MOST {
            said.insert(hash, Said { claims, until });
        }
    }

    async fn question(&self, token: &str) -> Result<Map<String, Value>, Fault> {
        let place = self.place().await?;
        let secret = &self.config.client_secret;
        let place_of_secret = "gateway.issuers.introspection.client_secret";
        let secret = self.secrets.of_setting(secret, place_of_secret)?;
        let mut headers = HeaderMap::new();
        basic(&mut headers, &self.config.client_id, &secret);
        let fields = [("token", token), ("token_type_hint", "access_token")];
        let answer = self.fetcher.post_form(&place, &fields, headers).await;
        let answer = answer.map_err(|not| not.fault)?;
        let refused = |message: String| Err(Fault::new(Kind::ServerError, message));
        match answer.status {
            200 => match serde_json::from_slice(&answer.body) {
                Ok(Value::Object(said)) => Ok(said),
                Ok(_) | Err(_) => refused(format!("{place} did not answer with a JSON object")),
            },
            status => refused(format!("{place} answered {status}")),
        }
    }

    async fn place(&self) -> Result<Url, Fault> {
        if let Some(place) = &self.config.endpoint {
            return Ok(place.clone());
        }
        let metadata = metadata(&self.fetcher, &self.issuer).await?;
        metadata.introspection_endpoint.ok_or_else(|| {
            let message = "the issuer's metadata names no introspection_endpoint";
            Fault::new(Kind::Misconfigured, message)
        })
    }
}
