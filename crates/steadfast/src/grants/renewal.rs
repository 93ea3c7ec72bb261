//! One renewal: stands in line at the issuer, takes the lease, reads the store again, presents the refresh token,
//! and lets go. It runs in a task of its own: whoever asked for it may go away, and a rotated token is not lost
//! with them (architecture, grants 1).

use std::pin::Pin;
use std::sync::Arc;

use steadfast_core::grant::{Action, Event, Failure, Found, Tokens, schedule};
use steadfast_core::oauth::client::Auth;
use steadfast_core::oauth::discovery::{Identity, identity};
use steadfast_core::quirks::sanitise;
use steadfast_core::{Fault, Kind, Millis};
use steadfast_store::{
    ClientOrigin, ExposeSecret as _, GrantRecord, GrantSecrets, LastRenewal, Lease, LeaseKey, Taken,
};
use tokio::sync::Semaphore;
use url::Url;

use super::machine::Wish;
use super::{Along, Edit, Fed, Grants, Owner, tokens};
use crate::clock;
use crate::config;
use crate::measure;
use crate::perform::discovery::{issuer_metadata, resource_metadata};
use crate::perform::fetch::Fetcher;
use crate::perform::token::{Granted, refresh};

impl Grants {
    /// Stands in line; once, however often it is asked for. What asks while a turn is under way gets another one: the
    /// server may refuse a token the moment after it was renewed.
    pub(super) fn stand_in_line(self: &Arc<Self>, owner: &Owner, record: &GrantRecord) {
        let was_in_line = {
            let mut in_line = self.in_line.lock();
            let again = in_line.contains_key(owner);
            in_line.insert(owner.clone(), again);
            again
        };
        if was_in_line {
            return;
        }
        // Where the issuer is not known yet its server stands for it: that is who is asked first.
        let turns = if record.issuer.is_empty() {
            self.turns_of(&format!("server {}", owner.1))
        } else {
            self.turns_of(&record.issuer)
        };
        tokio::spawn(Arc::clone(self).in_its_turn(owner.clone(), turns));
    }

    /// Boxed: what follows from a renewal may stand in line again.
    fn in_its_turn(
        self: Arc<Self>,
        owner: Owner,
        turns: Arc<Semaphore>,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            loop {
                // First come, first served: tokio's semaphores are fair.
                let turn = Arc::clone(&turns).acquire_owned().await;
                let Ok(_under_way) = self.under_way.acquire().await else {
                    return;
                };
                self.in_line.lock().insert(owner.clone(), false);
                let outcome = self.take_turn(&owner).await;
                drop(turn);
                if let Err(error) = &outcome {
                    tracing::warn!(%error, agent = %owner.0, server = %owner.1, "a renewal was put off");
                }
                let mut in_line = self.in_line.lock();
                if outcome.is_err() || in_line.get(&owner) != Some(&true) {
                    in_line.remove(&owner);
                    break;
                }
            }
            self.look.notify_one();
        })
    }

    fn turns_of(&self, place: &str) -> Arc<Semaphore> {
        let permits = self.settings.per_issuer_concurrency.max(1) as usize;
        let mut turns = self.turns.lock();
        let of = turns.entry(place.to_owned());
        Arc::clone(of.or_insert_with(|| Arc::new(Semaphore::new(permits))))
    }

    async fn take_turn(self: &Arc<Self>, owner: &Owner) -> Result<(), steadfast_store::Error> {
        let key = LeaseKey::Renewal {
            agent: owner.0.clone(),
            server: owner.1.clone(),
        };
        let lease = match self.take_lease(&key).await? {
            Taken::Yes(lease) => lease,
            Taken::No { until, .. } => {
                let left = until.0.saturating_sub(clock::wall().0);
                let wait = Millis(left.max(0).unsigned_abs());
                let until = clock::mono() + wait;
                self.feed(owner, |_| Event::Leased { until }, Along::default())
                    .await?;
                return Ok(());
            }
        };
        let outcome = self.with_lease(owner, &lease).await;
        let _ = self.store.release_lease(&lease).await?;
        outcome
    }

    /// The lease is held. The event names the generation that the store has now, not the one that was due when
    /// this task began to wait (RT-04).
    async fn with_lease(
        self: &Arc<Self>,
        owner: &Owner,
        lease: &Lease,
    ) -> Result<(), steadfast_store::Error> {
        let turn = |record: Option<&GrantRecord>| Event::Turn {
            generation: record.map(|record| record.generation).unwrap_or_default(),
        };
        let mut fed = self.feed(owner, turn, Along::default()).await?;
        let mut found = None;
        // At most: asked, not found, rediscovered, asked elsewhere.
        while let Some(next) = self.next_event(owner, &fed, &mut found).await? {
            // Its answer may have taken long; nobody else began meanwhile if the lease is still ours.
            let until = self.lease_end(clock::wall());
            let _ = self.store.renew_lease(lease, until).await?;
            fed = self.feed_outcome(owner, next).await?;
            self.follow(owner, &fed);
        }
        Ok(())
    }

    /// Performs what the step asks for; its outcome.
    async fn next_event(
        &self,
        owner: &Owner,
        fed: &Fed,
        found: &mut Option<Wish>,
    ) -> Result<Option<Outcome>, steadfast_store::Error> {
        for action in &fed.actions {
            match action {
                Action::Renew { attempt } => {
                    let outcome = self.renew(owner, &fed.record, found.as_ref()).await?;
                    let ended = match &outcome {
                        Ok(_) => "renewed",
                        Err(failure) => failure.fault().kind.as_str(),
                    };
                    measure::renewal(&owner.1, ended);
                    return Ok(Some(match outcome {
                        Ok(renewed) => Outcome::Renewed(*attempt, Box::new(renewed)),
                        Err(failure) => Outcome::Other(Event::Failed {
                            attempt: *attempt,
                            failure,
                        }),
                    }));
                }
                Action::Rediscover { attempt } => {
                    let (what, edit) = self.rediscover(owner, &fed.record, found).await;
                    return Ok(Some(Outcome::Found(
                        Event::Rediscovered {
                            attempt: *attempt,
                            found: what,
                        },
                        edit,
                    )));
                }
                Action::AwaitTurn { .. }
                | Action::Register
                | Action::Use { .. }
                | Action::Tell { .. }
                | Action::LetGo => {}
            }
        }
        Ok(None)
    }

    /// Writes an outcome down, with the tokens that it brought, in one write.
    async fn feed_outcome(
        &self,
        owner: &Owner,
        outcome: Outcome,
    ) -> Result<Fed, steadfast_store::Error> {
        match outcome {
            Outcome::Renewed(attempt, renewed) => {
                let Renewed {
                    tokens,
                    secrets,
                    auth,
                } = *renewed;
                let issued_at = tokens.issued_at;
                let event = move |_: Option<&GrantRecord>| Event::Renewed {
                    attempt,
                    tokens: tokens.clone(),
                };
                let along = Along {
                    secrets: Some(secrets),
                    edit: Some(Box::new(move |record| {
                        record.client.auth = auth;
                        record.last_renewal = Some(LastRenewal {
                            at: issued_at,
                            outcome: "renewed".to_owned(),
                        });
                    })),
                };
                self.feed(owner, event, along).await
            }
            Outcome::Found(event, edit) => {
                let along = Along {
                    secrets: None,
                    edit,
                };
                self.feed(owner, |_| event.clone(), along).await
            }
            Outcome::Other(event) => {
                let failed = match &event {
                    Event::Failed { failure, .. } => Some(failure.fault().kind.as_str().to_owned()),
                    _ => None,
                };
                let at = clock::wall();
                let along = Along {
                    secrets: None,
                    edit: failed.map(|outcome| -> Edit {
                        Box::new(move |record| {
                            let outcome = outcome.clone();
                            record.last_renewal = Some(LastRenewal { at, outcome });
                        })
                    }),
                };
                self.feed(owner, |_| event.clone(), along).await
            }
        }
    }

    async fn renew(
        &self,
        owner: &Owner,
        record: &GrantRecord,
        found: Option<&Wish>,
    ) -> Result<Result<Renewed, Failure>, steadfast_store::Error> {
        let Some(server) = self.server(owner) else {
            let fault = Fault::new(
                Kind::RenewalDelayed,
                "the server is not configured any more",
            );
            return Ok(Err(Failure::Temporary(fault)));
        };
        if let Some(oauth) = server.machine().filter(|_| record.client.for_itself) {
            return self.ask_for_itself(record, &server, oauth, found).await;
        }
        let secrets = self.vault.open_grant(record)?;
        let Some((secrets, refresh_token)) =
            secrets.and_then(|secrets| Some((secrets.clone(), secrets.refresh_token?)))
        else {
            let fault = Fault::new(Kind::SignInRequired, "there is no refresh token");
            return Ok(Err(Failure::Grant(fault)));
        };
        let endpoint = record.token_endpoint.as_deref();
        let Some(endpoint) = endpoint.and_then(|endpoint| endpoint.parse::<Url>().ok()) else {
            let fault = Fault::new(Kind::TokenEndpointMoved, "no token endpoint is known");
            return Ok(Err(Failure::Moved(fault)));
        };
        let kept = secrets.client_secret.as_ref();
        let client = match self.client_of(&record.client, &record.issuer, &server, kept) {
            Ok(client) => client,
            Err(fault) => return Ok(Err(Failure::Temporary(fault))),
        };
        let dead_codes = server
            .oauth
            .as_ref()
            .map_or(&[][..], |oauth| &oauth.dead_codes);
        let fetcher = self.fetcher(&server);
        let granted = refresh(
            &fetcher,
            &endpoint,
            &client,
            refresh_token.expose_secret(),
            record.resource.as_deref(),
            dead_codes,
        )
        .await;
        let is_configured = record.client.origin == ClientOrigin::Configured;
        Ok(match granted {
            Ok(granted) => Ok(self.renewed(record, secrets, granted)),
            Err(failure) if is_configured => Err(failure.of_configured_client(false)),
            Err(failure) => Err(failure),
        })
    }

    /// What an answer omits stays as it was: refresh token and scope (architecture, grants 3). The expiry does not: it is
    /// that of another token.
    fn renewed(&self, record: &GrantRecord, old: GrantSecrets, granted: Granted) -> Renewed {
        let Granted { issued, auth } = granted;
        let issued_at = clock::wall();
        let before = record.state.tokens();
        let assumed = self.settings.assumed_lifetime.0;
        let expires_at = schedule::expires_at(issued_at, issued.expires_in, assumed);
        let scopes = issued
            .scope
            .or_else(|| before.map(|tokens| tokens.scopes.clone()))
            .unwrap_or_default();
        let secrets = GrantSecrets {
            access_token: issued.access_token.into(),
            refresh_token: issued.refresh_token.map(Into::into).or(old.refresh_token),
            client_secret: old.client_secret,
        };
        let generation = record.generation.next();
        Renewed {
            tokens: tokens(generation, issued_at, expires_at, &secrets, scopes),
            secrets,
            auth,
        }
    }

    /// Where the issuer's token endpoint is now. Only ever the issuer's that issued the grant: what the server names
    /// by now is told, and gets nothing (architecture, grants 4; DS-02, DS-07).
    async fn rediscover(
        &self,
        owner: &Owner,
        record: &GrantRecord,
        wish: &mut Option<Wish>,
    ) -> (Found, Option<Edit>) {
        let Some(server) = self.server(owner) else {
            let fault = Fault::new(
                Kind::RenewalDelayed,
                "the server is not configured any more",
            );
            return (Found::Nothing(fault), None);
        };
        // What is kept says where the endpoint was.
        let fetcher = self.fetcher(&server).anew();
        if let Some(oauth) = server.machine().filter(|_| record.client.for_itself)
            && record.sealed.is_none()
        {
            return match self.discover_for_itself(&fetcher, &server, oauth).await {
                Ok((found, edit)) => {
                    *wish = Some(found);
                    (Found::Elsewhere, Some(edit))
                }
                Err(fault) => (Found::Nothing(fault), None),
            };
        }
        let mut notes = Vec::new();
        let metadata = issuer_metadata(&fetcher, &record.issuer, &mut notes).await;
        tracing::debug!(?notes, agent = %owner.0, server = %owner.1, "rediscovered");
        match metadata {
            Ok(Some(metadata)) => match metadata.token_endpoint {
                Some(endpoint) if Some(endpoint.as_str()) != record.token_endpoint.as_deref() => {
                    let edit: Edit = Box::new(move |record| {
                        record.token_endpoint = Some(endpoint.as_str().to_owned());
                    });
                    (Found::Elsewhere, Some(edit))
                }
                Some(_) | None => (Found::Same, None),
            },
            Ok(None) | Err(_) => {
                let fault = self.what_the_server_names(&fetcher, &server, record).await;
                (Found::Nothing(fault), None)
            }
        }
    }

    /// The issuer says nothing: whether the server relies on another one by now. That one is not asked for anything.
    async fn what_the_server_names(
        &self,
        fetcher: &Fetcher,
        server: &config::Server,
        record: &GrantRecord,
    ) -> Fault {
        let issuer = &record.issuer;
        let found = resource_metadata(fetcher, &server.url, None, &mut Vec::new()).await;
        let found = found.ok().flatten();
        let named = found.map_or_else(Vec::new, |found| found.authorization_servers);
        let is_ours = |one: &String| identity(issuer, one) != Identity::Different;
        match named.first() {
            Some(other) if !named.iter().any(is_ours) => Fault::new(
                Kind::IssuerChanged,
                format!(
                    "the server names another authorization server, {}; {issuer} cannot be reached",
                    sanitise(other)
                ),
            ),
            Some(_) | None => Fault::new(
                Kind::TokenEndpointMoved,
                format!("the authorization server {issuer} cannot be reached"),
            ),
        }
    }

    pub(super) fn server(&self, owner: &Owner) -> Option<config::Server> {
        self.configured.server_of(owner)
    }

    pub(super) fn fetcher(&self, server: &config::Server) -> Fetcher {
        Fetcher::for_server(
            &self.dialer,
            &server.url,
            server.allow_private_network,
            self.request_limit,
        )
        .with_documents(Arc::clone(&self.store))
    }
}

/// What came of an action.
enum Outcome {
    Renewed(steadfast_core::AttemptId, Box<Renewed>),
    Found(Event, Option<Edit>),
    Other(Event),
}

/// What a renewal brought.
pub(super) struct Renewed {
    /// Of the generation after that which was presented: where other tokens came in meanwhile, those stay (RT-04).
    pub(super) tokens: Tokens,
    pub(super) secrets: GrantSecrets,
    pub(super) auth: Auth,
}
