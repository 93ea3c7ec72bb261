//! The callback: what the authorization server's answer is worth, and the tokens that it leads to.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use steadfast_core::grant::{Event, Failure, schedule};
use steadfast_core::oauth::client::Auth;
use steadfast_core::oauth::discovery::{canonical, issuer_metadata_urls, response_is_from};
use steadfast_core::oauth::scopes::OFFLINE_ACCESS;
use steadfast_core::quirks::sanitise;
use steadfast_core::{AgentName, Fault, Kind, ServerName, Wall};
use steadfast_store::{
    ClientOrigin, Error, ExposeSecret as _, GrantRecord, GrantSecrets, IssuerRecord, SignInRecord,
    SignInSecrets, hash_state,
};
use url::Url;

use super::begin::ISS_ANNOUNCED;
use super::{NotOffered, Offer};
use crate::clock;
use crate::grants::{Along, Grants, Owner, tokens};
use crate::perform::token::{Granted, exchange_code};

/// The answer that a browser brings (RFC 6749 sections 4.1.2 and 4.1.2.1, RFC 9207). No `Debug`: it holds a code.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Callback {
    state: String,
    code: Option<String>,
    error: Option<String>,
    iss: Option<String>,
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callback").finish_non_exhaustive()
    }
}

/// Somebody is signed in.
#[derive(Clone, Debug)]
pub struct SignedIn {
    /// Who.
    pub agent: AgentName,
    /// Where.
    pub server: ServerName,
    /// When that ends, where it cannot be renewed (SC-03).
    pub ends_at: Option<Wall>,
}

/// What the answer of an authorization server led to.
#[derive(Clone, Debug)]
pub enum Finished {
    /// Somebody is signed in.
    SignedIn(SignedIn),
    /// It refused a scope that can be done without: the browser goes on to this link.
    GoesOn(Offer),
}

/// Nobody is.
#[derive(Debug, thiserror::Error)]
pub enum NotSignedIn {
    /// No attempt belongs to it, or it was taken before.
    #[error("this sign-in is not known: it was finished before, or replaced by a newer one")]
    Unknown,
    /// It came too late.
    #[error("this sign-in took too long and has expired")]
    Expired,
    /// It does not come from the authorization server that the person was sent to (RFC 9207 section 2.4).
    #[error("the answer does not come from the authorization server that was asked")]
    OtherIssuer,
    /// The authorization server refused, with this code.
    #[error("the authorization server answered `{0}`")]
    Declined(String),
    /// The code could not be redeemed.
    #[error(transparent)]
    Fault(Fault),
    /// The store refuses.
    #[error(transparent)]
    Store(#[from] Error),
}

impl From<NotOffered> for NotSignedIn {
    fn from(error: NotOffered) -> Self {
        match error {
            NotOffered::Fault(fault) => Self::Fault(fault),
            NotOffered::Store(error) => Self::Store(error),
        }
    }
}

impl Grants {
    /// Takes the answer of an authorization server. Of several who bring it, one gets through.
    pub(crate) async fn finish_sign_in(
        self: &Arc<Self>,
        callback: Callback,
    ) -> Result<Finished, NotSignedIn> {
        let hash = hash_state(&callback.state);
        let taken = self.store.take_sign_in(&hash).await?;
        let sign_in = taken.ok_or(NotSignedIn::Unknown)?;
        let owner = (sign_in.agent.clone(), sign_in.server.clone());
        let outcome = self.redeem(&owner, &sign_in, callback).await;
        // Another link is shown already.
        if !matches!(outcome, Ok(Finished::GoesOn(_))) {
            self.show_offer(&owner, None);
        }
        if let Err(error) = &outcome {
            tracing::warn!(%error, agent = %owner.0, server = %owner.1, "nobody was signed in");
        }
        outcome
    }

    async fn redeem(
        self: &Arc<Self>,
        owner: &Owner,
        sign_in: &SignInRecord,
        callback: Callback,
    ) -> Result<Finished, NotSignedIn> {
        // Before anything else in it is believed, an error included (RFC 9207 section 2.4).
        let announced = callback.state.starts_with(ISS_ANNOUNCED);
        if !response_is_from(&sign_in.issuer, announced, callback.iss.as_deref()) {
            return Err(NotSignedIn::OtherIssuer);
        }
        if sign_in.expires_at.0 <= clock::wall().0 {
            return Err(NotSignedIn::Expired);
        }
        if let Some(error) = callback.error {
            if self.is_offline_access_refused(sign_in, &error).await? {
                return Ok(Finished::GoesOn(self.begin_sign_in(owner, true).await?));
            }
            return Err(NotSignedIn::Declined(sanitise(&error)));
        }
        let Some(code) = callback.code else {
            return Err(NotSignedIn::Declined("no code".to_owned()));
        };
        let (secrets, granted) = match self.exchange(owner, sign_in, &code).await? {
            Ok(exchanged) => exchanged,
            Err(failure) => {
                match &failure {
                    Failure::Client(_) => self.doubt_client(sign_in).await?,
                    Failure::Moved(_) => self.forget_metadata(&sign_in.issuer).await?,
                    Failure::Temporary(_)
                    | Failure::OutcomeLost(_)
                    | Failure::Grant(_)
                    | Failure::Structured(_) => {}
                }
                return Err(NotSignedIn::Fault(failure.fault().clone()));
            }
        };
        let signed_in = self.keep(owner, sign_in, secrets, granted).await?;
        Ok(Finished::SignedIn(signed_in))
    }

    /// Whether the provider refuses the scope `offline_access`, which its metadata offers: then it is not asked for again,
    /// and the sign-in goes on without. Where it refuses the other scopes as well, it was not that one.
    async fn is_offline_access_refused(
        &self,
        sign_in: &SignInRecord,
        error: &str,
    ) -> Result<bool, Error> {
        // RFC 6749 section 4.1.2.1.
        if error != "invalid_scope" {
            return Ok(false);
        }
        let was_asked = sign_in.scopes.iter().any(|scope| scope == OFFLINE_ACCESS);
        let learned = IssuerRecord {
            issuer: canonical(&sign_in.issuer).to_owned(),
            no_offline_access: was_asked,
            learned_at: clock::wall(),
        };
        self.store.put_issuer(&learned).await?;
        Ok(was_asked)
    }

    /// The metadata led to an endpoint that is not there: the next sign-in asks for it anew.
    async fn forget_metadata(&self, issuer: &str) -> Result<(), Error> {
        let Ok(issuer) = issuer.parse() else {
            return Ok(());
        };
        for url in issuer_metadata_urls(&issuer) {
            self.store.remove_document(url.as_str()).await?;
        }
        Ok(())
    }

    async fn exchange(
        &self,
        owner: &Owner,
        sign_in: &SignInRecord,
        code: &str,
    ) -> Result<Result<(SignInSecrets, Granted), Failure>, NotSignedIn> {
        let server = self.server(owner).ok_or(NotSignedIn::Unknown)?;
        let endpoint: Url = sign_in
            .token_endpoint
            .parse()
            .map_err(|_| NotSignedIn::Unknown)?;
        let secrets = self.vault.open_sign_in(sign_in)?;
        let kept = secrets.client_secret.as_ref();
        let client = self
            .client_of(&sign_in.client, &sign_in.issuer, &server, kept)
            .map_err(NotSignedIn::Fault)?;
        let redeemed = (
            code,
            secrets.verifier.expose_secret(),
            sign_in.redirect_uri.as_str(),
        );
        let resource = sign_in.resource.as_deref();
        let fetcher = self.fetcher(&server);
        let answer = exchange_code(&fetcher, &endpoint, &client, redeemed, resource).await;
        Ok(match answer {
            Ok(granted) => Ok((secrets, granted)),
            Err(failure) if sign_in.client.origin == ClientOrigin::Configured => {
                Err(failure.of_configured_client(false))
            }
            Err(failure) => Err(failure),
        })
    }

    /// Stores the tokens in place of what is held.
    async fn keep(
        self: &Arc<Self>,
        owner: &Owner,
        sign_in: &SignInRecord,
        secrets: SignInSecrets,
        granted: Granted,
    ) -> Result<SignedIn, NotSignedIn> {
        self.left(owner).await;
        let Granted { issued, auth } = granted;
        if !issued.is_bearer() {
            let message = "the provider issued a token that is no bearer token: it wants a proof of possession";
            return Err(NotSignedIn::Fault(Fault::new(
                Kind::ProtocolMismatch,
                message,
            )));
        }
        let issued_at = clock::wall();
        let assumed = self.settings.assumed_lifetime.0;
        let expires_at = schedule::expires_at(issued_at, issued.expires_in, assumed);
        // RFC 6749 section 5.1: omitted where it is what was asked for.
        let scopes = issued.scope.unwrap_or_else(|| sign_in.scopes.clone());
        let held = GrantSecrets {
            access_token: issued.access_token.into(),
            refresh_token: issued.refresh_token.map(Into::into),
            client_secret: secrets.client_secret,
        };
        let is_renewable = held.refresh_token.is_some();
        let fresh = held.clone();
        let of = sign_in.clone();
        let granted = scopes.clone();
        let event = move |record: Option<&GrantRecord>| {
            let generation = record.map(|record| record.generation).unwrap_or_default();
            let scopes = scopes.clone();
            Event::Loaded {
                tokens: tokens(generation.next(), issued_at, expires_at, &fresh, scopes),
            }
        };
        let along = Along {
            secrets: Some(held),
            edit: Some(Box::new(move |record| {
                signed_in_as(record, &of, auth);
                record.step_up.signed_in(&of.scopes, &granted);
            })),
        };
        let fed = self.feed(owner, event, along).await?;
        self.follow(owner, &fed);
        self.leave_if_gone(owner);
        Ok(SignedIn {
            agent: owner.0.clone(),
            server: owner.1.clone(),
            ends_at: (!is_renewable).then_some(expires_at),
        })
    }
}

/// The grant is bound to issuer, resource and client of the sign-in.
fn signed_in_as(record: &mut GrantRecord, sign_in: &SignInRecord, auth: Auth) {
    canonical(&sign_in.issuer).clone_into(&mut record.issuer);
    record.token_endpoint = Some(sign_in.token_endpoint.clone());
    record.resource.clone_from(&sign_in.resource);
    record.client = sign_in.client.clone();
    record.client.auth = auth;
    record.last_renewal = None;
}
