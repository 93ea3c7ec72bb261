//! Clients that ask for tokens for themselves, for agents without a person (RFC 6749 section 4.4; the extension
//! `io.modelcontextprotocol/oauth-client-credentials`). Nobody signs in: that such a client is configured is enough.

use std::sync::Arc;

use steadfast_core::grant::{Event, Failure, State, Tokens, schedule};
use steadfast_core::oauth::client::{auth, may_be_used_at};
use steadfast_core::oauth::discovery::canonical;
use steadfast_core::oauth::scopes;
use steadfast_core::quirks::sanitise;
use steadfast_core::{Fault, Kind};
use steadfast_store::{ClientOrigin, Error, GrantClient, GrantRecord, GrantSecrets};
use url::Url;

use super::renewal::Renewed;
use super::sign_in::challenged;
use super::{Along, Edit, Grants, Owner};
use crate::clock;
use crate::config::{Oauth, Server};
use crate::perform::discovery::discover;
use crate::perform::fetch::Fetcher;
use crate::perform::token::{Granted, own_token};

/// When a client's own grant is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Where there is none, or one of another client.
    Missing,
    /// Also where somebody signed out: it is asked for explicitly.
    SignedOut,
    /// In any case: its configuration changed.
    Anew,
}

/// What discovery found to ask for, besides where.
pub(super) struct Wish {
    scopes: Vec<String>,
}

impl Grants {
    /// Begins the grant of a client that asks for itself, where one is configured. Nothing else is said of it but that
    /// it is wanted: the machine sees to the rest as to every renewal.
    pub(crate) async fn want(self: &Arc<Self>, owner: &Owner, want: Want) {
        // What is held is being given back; it is begun afterwards.
        if self.leaving.borrow().contains(owner) {
            return;
        }
        let server = self.server(owner).filter(|server| server.enabled);
        let Some(oauth) = server.as_ref().and_then(Server::machine) else {
            return;
        };
        if let Err(error) = self.begin_for_itself(owner, oauth, want).await {
            tracing::warn!(%error, agent = %owner.0, server = %owner.1, "a grant cannot be begun");
        }
    }

    async fn begin_for_itself(
        self: &Arc<Self>,
        owner: &Owner,
        oauth: &Oauth,
        want: Want,
    ) -> Result<(), Error> {
        let before = self.store.grant(&owner.0, &owner.1).await?;
        if !is_wanted(before.as_ref(), oauth, want) {
            return Ok(());
        }
        // Of several daemons that see the same, one begins.
        let generation = before
            .map(|record| record.generation)
            .unwrap_or_default()
            .next();
        let client = GrantClient {
            for_itself: true,
            ..GrantClient::new(
                oauth.client_id.clone().unwrap_or_default(),
                auth(oauth.credential(), None),
                ClientOrigin::Configured,
            )
        };
        let along = Along {
            secrets: None,
            edit: Some(Box::new(move |record| {
                *record = GrantRecord {
                    client: client.clone(),
                    // Everything that is known of the issuer belongs to the tokens before.
                    issuer: String::new(),
                    token_endpoint: None,
                    resource: None,
                    last_renewal: None,
                    sealed: None,
                    ..record.clone()
                };
            })),
        };
        let fed = self
            .feed(owner, |_| Event::Wanted { generation }, along)
            .await?;
        self.follow(owner, &fed);
        Ok(())
    }

    /// Where the server's authorization server is, by the same ways and rules as for a sign-in, and what to ask for.
    pub(super) async fn discover_for_itself(
        &self,
        fetcher: &Fetcher,
        server: &Server,
        oauth: &Oauth,
    ) -> Result<(Wish, Edit), Fault> {
        let headers = self.secrets.headers_of(server)?;
        let challenged = challenged(fetcher, &server.url, headers).await;
        let metadata = challenged.metadata.as_deref();
        let found = discover(fetcher, &server.url, metadata, oauth.issuer.as_deref()).await?;
        let issuer = &found.issuer;
        belongs_here(oauth, oauth.issuer.as_deref(), &issuer.issuer)?;
        let endpoint = issuer.token_endpoint.clone().ok_or_else(|| {
            let issuer = sanitise(&issuer.issuer);
            let message = format!("the authorization server {issuer} has no token endpoint");
            Fault::new(Kind::ProtocolMismatch, message)
        })?;
        let scopes = scopes::to_ask(&scopes::Known {
            configured: &oauth.scopes,
            challenged: challenged.scopes.as_deref(),
            resource: found.resource_scopes.as_deref(),
            // There is no refresh token that it could be good for (RFC 6749 section 4.4.3).
            no_offline_access: true,
            ..scopes::Known::default()
        });
        let method = auth(
            oauth.credential(),
            issuer.token_endpoint_auth_methods_supported.as_deref(),
        );
        let (audience, resource) = (issuer.issuer.clone(), found.resource);
        let edit: Edit = Box::new(move |record| {
            canonical(&audience).clone_into(&mut record.issuer);
            record.token_endpoint = Some(endpoint.as_str().to_owned());
            record.resource = Some(resource.clone());
            record.client.auth = method;
            record.client.audience = Some(audience.clone());
        });
        let scopes = scopes.unwrap_or_default();
        Ok((Wish { scopes }, edit))
    }

    /// Asks for the next token. Before the first one nothing is known but the server: what to ask for, and where, is
    /// discovered in the same turn.
    pub(super) async fn ask_for_itself(
        &self,
        record: &GrantRecord,
        server: &Server,
        oauth: &Oauth,
        found: Option<&Wish>,
    ) -> Result<Result<Renewed, Failure>, Error> {
        let endpoint = record.token_endpoint.as_deref();
        let endpoint = endpoint.and_then(|endpoint| endpoint.parse::<Url>().ok());
        let is_first = record.sealed.is_none();
        let Some(endpoint) = endpoint.filter(|_| !is_first || found.is_some()) else {
            let fault = Fault::new(Kind::TokenEndpointMoved, "no token endpoint is known yet");
            return Ok(Err(Failure::Moved(fault)));
        };
        let client = match self.client_of(&record.client, &record.issuer, server, None) {
            Ok(client) => client,
            Err(fault) => return Ok(Err(Failure::Temporary(fault))),
        };
        let granted = record.state.tokens().map(|tokens| &tokens.scopes);
        let scopes = match (found, granted) {
            (Some(found), _) => &found.scopes,
            (None, _) if !oauth.scopes.is_empty() => &oauth.scopes,
            (None, granted) => granted.unwrap_or(&oauth.scopes),
        };
        let fetcher = self.fetcher(server);
        let resource = record.resource.as_deref();
        let answer = match &oauth.identity {
            Some(identity) => {
                let at = (&fetcher, &endpoint, &client);
                self.vouched_token(identity, record, at, scopes, &oauth.dead_codes)
                    .await
            }
            None => {
                let dead_codes = &oauth.dead_codes;
                own_token(&fetcher, &endpoint, &client, scopes, resource, dead_codes).await
            }
        };
        Ok(match answer {
            Ok(granted) => Ok(self.own_tokens(record, scopes, granted)),
            Err(failure) => Err(failure.of_configured_client(true)),
        })
    }

    /// A refresh token in the answer is not used: the credential is there, and outlives it (RFC 6749 section 4.4.3).
    fn own_tokens(&self, record: &GrantRecord, asked: &[String], granted: Granted) -> Renewed {
        let Granted { issued, auth } = granted;
        let issued_at = clock::wall();
        let assumed = self.settings.assumed_lifetime.0;
        Renewed {
            tokens: Tokens {
                generation: record.generation.next(),
                issued_at,
                expires_at: schedule::expires_at(issued_at, issued.expires_in, assumed),
                renewable: true,
                // RFC 6749 section 5.1: omitted where it is what was asked for.
                scopes: issued.scope.unwrap_or_else(|| asked.to_vec()),
            },
            secrets: GrantSecrets {
                access_token: issued.access_token.into(),
                refresh_token: None,
                client_secret: None,
            },
            auth,
        }
    }
}

/// Whether what is stored is something else than the grant of this client.
fn is_wanted(before: Option<&GrantRecord>, oauth: &Oauth, want: Want) -> bool {
    let Some(before) = before.filter(|_| want != Want::Anew) else {
        return true;
    };
    let client = &before.client;
    let is_ours = client.for_itself
        && Some(&client.id) == oauth.client_id.as_ref()
        && (before.issuer.is_empty() || may_be_used_at(&before.issuer, oauth.issuer.as_deref()));
    !is_ours || (before.state == State::None && want == Want::SignedOut)
}

/// That a configured client may be used at this issuer. `known` is where it belongs, if that is known.
///
/// # Errors
///
/// Where it belongs instead.
pub(super) fn belongs_here(oauth: &Oauth, known: Option<&str>, issuer: &str) -> Result<(), Fault> {
    if may_be_used_at(issuer, known) {
        return Ok(());
    }
    let message = format!(
        "the client {} is registered at {}, and the server names {} by now: set `oauth.issuer` to the one where it is registered",
        oauth.client_id.as_deref().unwrap_or_default(),
        known.unwrap_or_default(),
        sanitise(issuer)
    );
    Err(Fault::new(Kind::Misconfigured, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::GrantType;
    use crate::grants::import;

    fn machine() -> Oauth {
        Oauth {
            grant: GrantType::ClientCredentials,
            client_id: Some("app".to_owned()),
            ..Oauth::default()
        }
    }

    #[test]
    fn a_grant_is_begun_where_it_is_not_the_clients_own() {
        let owner: Owner = ("a".into(), "s".into());
        let mut record = import::blank(&owner);
        assert!(is_wanted(None, &machine(), Want::Missing));
        assert!(is_wanted(Some(&record), &machine(), Want::Missing));
        record.client.id = "app".to_owned();
        record.client.for_itself = true;
        record.issuer = "https://as.test".to_owned();
        // Somebody signed out: it stays so until it is asked for.
        assert!(!is_wanted(Some(&record), &machine(), Want::Missing));
        assert!(is_wanted(Some(&record), &machine(), Want::SignedOut));
        let tokens = Tokens::none_yet(record.generation.next(), clock::wall());
        record.state = State::Unrenewable { tokens };
        assert!(!is_wanted(Some(&record), &machine(), Want::SignedOut));
        assert!(is_wanted(Some(&record), &machine(), Want::Anew));
        let mut elsewhere = machine();
        elsewhere.issuer = Some("https://other.test".to_owned());
        assert!(is_wanted(Some(&record), &elsewhere, Want::Missing));
    }
}
