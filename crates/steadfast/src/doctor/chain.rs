//! The chain of a sign-in: challenge, metadata, the way in, and the token endpoint.

use steadfast_core::doctor::Check;
use steadfast_core::grant::Failure;
use steadfast_core::oauth::client::{Auth, Choice};
use steadfast_core::oauth::discovery::{Identity, identity};
use steadfast_core::wire::challenge;
use steadfast_core::wire::token::scopes;
use steadfast_core::{Fault, Kind};
use steadfast_store::Error;
use url::Url;

use super::Outcome;
use super::walk::Walk;
use crate::grants::{Doors, NotOffered, obstacle};
use crate::perform::discovery::{Discovered, discover};
use crate::perform::fetch::{Asked, Fetcher};
use crate::perform::token::{Client, knock};

const WELL_KNOWN_RESOURCE: &str = "/.well-known/oauth-protected-resource";

impl Walk<'_> {
    /// All of it. `challenged` is the `WWW-Authenticate` of the server's 401.
    pub(super) async fn chain(
        &mut self,
        challenged: Option<&str>,
        doors: &Doors,
    ) -> Result<(), Error> {
        let named = self.challenge(challenged);
        let fetcher = Fetcher::for_server(
            &self.instruments.dialer,
            &self.config.url,
            self.config.allow_private_network,
            self.instruments.retry.request_timeout.duration(),
        );
        let found = self.metadata(&fetcher, named.as_deref()).await;
        if let Some(found) = &found
            && !self.findings.for_itself
        {
            self.sign_in(found);
            self.registration(found, doors).await?;
        }
        self.token_endpoint(&fetcher, found.as_ref()).await;
        Ok(())
    }

    /// What the 401 asks for; the place of the metadata that it names.
    fn challenge(&mut self, challenged: Option<&str>) -> Option<String> {
        let asked = "WWW-Authenticate of the 401";
        let Some(challenged) = challenged else {
            // RFC 9110 section 11.6.1: a 401 MUST have one.
            let answered = "none: the metadata is looked for where it usually is";
            self.step(Check::Challenge, Outcome::Noted, asked, answered);
            return None;
        };
        let Some(bearer) = challenge::bearer([challenged]) else {
            let answered = "no Bearer challenge: the metadata is looked for where it usually is";
            self.step(Check::Challenge, Outcome::Noted, asked, answered);
            return None;
        };
        let named = bearer.param("resource_metadata").map(str::to_owned);
        let mut answered = match &named {
            Some(named) => format!("Bearer, metadata at {named}"),
            None => "Bearer, without a place of the metadata".to_owned(),
        };
        if let Some(scope) = bearer.param("scope") {
            answered.push_str(&format!(", scope {}", scopes(scope).join(" ")));
        }
        self.step(Check::Challenge, Outcome::Passed, asked, answered);
        named
    }

    async fn metadata(&mut self, fetcher: &Fetcher, named: Option<&str>) -> Option<Discovered> {
        let (fetcher, trail) = fetcher.clone().trailing();
        let known = self.looked.as_ref().map(|looked| looked.issuer.clone());
        let known = known.filter(|issuer| !issuer.is_empty());
        let found = discover(&fetcher, &self.config.url, named, known.as_deref()).await;
        let is_named = |url: &Url| {
            named.is_some_and(|named| self.config.url.join(named).is_ok_and(|it| it == *url))
        };
        let (of_resource, of_issuer): (Vec<Asked>, Vec<Asked>) =
            trail.take().into_iter().partition(|asked| {
                asked.url.path().starts_with(WELL_KNOWN_RESOURCE) || is_named(&asked.url)
            });
        match found {
            Ok(found) => {
                self.found(&found, &of_resource, &of_issuer);
                if let Some(known) = known {
                    self.compare_issuer(&known, &found.issuer.issuer);
                }
                Some(found)
            }
            Err(fault) => {
                let at = if of_issuer.is_empty() {
                    Check::ResourceMetadata
                } else {
                    let answered = "found";
                    self.lines(
                        Check::ResourceMetadata,
                        Outcome::Passed,
                        answered,
                        &of_resource,
                    );
                    Check::IssuerMetadata
                };
                let lines = if of_issuer.is_empty() {
                    &of_resource
                } else {
                    &of_issuer
                };
                self.lines(at, Outcome::Failed, &fault.message, lines);
                self.findings.sign_in = Some((at, fault));
                None
            }
        }
    }

    fn found(&mut self, found: &Discovered, of_resource: &[Asked], of_issuer: &[Asked]) {
        let has_metadata = of_resource.iter().any(|asked| asked.status == Some(200));
        let (outcome, answered) = if has_metadata {
            let resource = format!("about {}", found.resource);
            (Outcome::Passed, resource)
        } else {
            let none = "none: as before 2025-06-18, the server is its own authorization server";
            (Outcome::Noted, none.to_owned())
        };
        self.lines(Check::ResourceMetadata, outcome, &answered, of_resource);
        let answered = format!("of the issuer {}", found.issuer.issuer);
        self.lines(Check::IssuerMetadata, Outcome::Passed, &answered, of_issuer);
        for note in &found.notes {
            self.detail(note.clone());
        }
    }

    fn compare_issuer(&mut self, known: &str, named: &str) {
        if identity(known, named) != Identity::Different {
            return;
        }
        let message =
            format!("the server names the authorization server {named}; the grant is of {known}");
        self.detail(message.clone());
        self.findings.issuer_changed = Some(Fault::new(Kind::IssuerChanged, message));
    }

    fn sign_in(&mut self, found: &Discovered) {
        let asked = "PKCE with S256, an authorization endpoint and a token endpoint";
        match obstacle(found) {
            None => self.step(Check::SignIn, Outcome::Passed, asked, "announced"),
            Some(fault) => {
                self.step(Check::SignIn, Outcome::Failed, asked, &fault.message);
                self.findings.sign_in = Some((Check::SignIn, fault));
            }
        }
    }

    async fn registration(&mut self, found: &Discovered, doors: &Doors) -> Result<(), Error> {
        let asked = "as which client a person signs in";
        let grants = &self.instruments.grants;
        let choice = match grants.client_to_be(&self.config, found, doors).await {
            Ok(choice) => choice,
            Err(NotOffered::Store(error)) => return Err(error),
            Err(NotOffered::Fault(fault)) => {
                self.step(Check::Registration, Outcome::Failed, asked, &fault.message);
                let obstacle = (Check::Registration, fault);
                self.findings.sign_in.get_or_insert(obstacle);
                return Ok(());
            }
        };
        let answered = match choice {
            Choice::Configured => "as the client that is configured",
            Choice::Registered => "as the client that was registered before",
            Choice::MetadataDocument => "as the client of our metadata document",
            Choice::Register => "as one that is registered at the next sign-in",
            Choice::Ask => "the provider registers no clients, and none is configured",
        };
        if choice != Choice::Ask {
            self.step(Check::Registration, Outcome::Passed, asked, answered);
            return Ok(());
        }
        self.step(Check::Registration, Outcome::Failed, asked, answered);
        let fault = Fault::new(Kind::Misconfigured, answered);
        // What cannot be signed in to at all is said first.
        self.findings
            .sign_in
            .get_or_insert((Check::Registration, fault));
        Ok(())
    }

    /// Where the grant is renewed, or would be redeemed; and where the issuer says that it is by now.
    async fn token_endpoint(&mut self, fetcher: &Fetcher, found: Option<&Discovered>) {
        let named = found.and_then(|found| found.issuer.token_endpoint.clone());
        let of_grant = self
            .looked
            .as_ref()
            .and_then(|looked| looked.token_endpoint.clone());
        let of_grant: Option<Url> = of_grant.and_then(|endpoint| endpoint.parse().ok());
        let client = self
            .looked
            .as_ref()
            .and_then(|looked| looked.client.as_ref().ok());
        // An assertion would have to be signed, and could be spent.
        let client = client
            .filter(|client| client.auth != Auth::PrivateKeyJwt)
            .cloned();
        let holds_grant = of_grant.is_some();
        let Some(endpoint) = of_grant.or_else(|| named.clone()) else {
            let answered = "none is known";
            self.step(Check::TokenEndpoint, Outcome::Skipped, "", answered);
            return;
        };
        let fault = self.knock(fetcher, &endpoint, client.as_ref()).await;
        self.findings.token_endpoint = fault;
        // Only an endpoint of the grant's own issuer counts (architecture, grants 4).
        if let Some(named) = named.filter(|named| holds_grant && *named != endpoint)
            && self.findings.issuer_changed.is_none()
        {
            let is_there = self.knock(fetcher, &named, client.as_ref()).await.is_none();
            self.findings.endpoint_elsewhere = is_there;
            if is_there && self.findings.token_endpoint.is_some() {
                self.forgive();
                let line = "the next renewal finds it there: nobody needs to do anything";
                self.detail(line.to_owned());
            }
        }
    }

    async fn knock(
        &mut self,
        fetcher: &Fetcher,
        endpoint: &Url,
        client: Option<&Client>,
    ) -> Option<Fault> {
        let asked = format!("POST {endpoint}, for a grant that cannot be had");
        let fault = match knock(fetcher, endpoint, client).await {
            Ok(said) => {
                let answered = format!("refused, as it should be ({said})");
                self.step(Check::TokenEndpoint, Outcome::Passed, asked, answered);
                return None;
            }
            // It was asked for nothing: nothing of it was lost.
            Err(Failure::OutcomeLost(fault)) => Fault::new(Kind::RenewalDelayed, fault.message),
            Err(failure) => failure.fault().clone(),
        };
        self.step(Check::TokenEndpoint, Outcome::Failed, asked, &fault.message);
        Some(fault)
    }
}
