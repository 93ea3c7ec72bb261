//! What the doctor sees of a grant. It looks, and leaves everything as it is.

use http::HeaderValue;
use steadfast_core::grant::{self, State};
use steadfast_core::{Fault, Wall};
use steadfast_store::{Error, ExposeSecret as _, GrantRecord, LastRenewal};

use super::{Grants, Owner, bearer};
use crate::clock;
use crate::config;
use crate::perform::token::Client;

/// A grant as it is kept. No `Debug`: it holds tokens.
pub(crate) struct Looked {
    pub(crate) state: State,
    pub(crate) wake_at: Option<Wall>,
    pub(crate) issuer: String,
    pub(crate) token_endpoint: Option<String>,
    pub(crate) last_renewal: Option<LastRenewal>,
    /// That calls want more than is granted.
    pub(crate) scope: Option<Fault>,
    /// The access token as a header.
    pub(crate) bearer: Option<HeaderValue>,
    /// As whom it is renewed.
    pub(crate) client: Result<Client, Fault>,
    /// What of it must not be shown.
    pub(crate) secrets: Vec<String>,
}

impl Grants {
    /// The grant of an agent for a server; `None` where there is none.
    pub(crate) async fn look(
        &self,
        owner: &Owner,
        server: &config::Server,
    ) -> Result<Option<Looked>, Error> {
        let Some(record) = self.store.grant(&owner.0, &owner.1).await? else {
            return Ok(None);
        };
        let Some(secrets) = self.vault.open_grant(&record)? else {
            return Ok(None);
        };
        let client = self.client_of(
            &record.client,
            &record.issuer,
            server,
            secrets.client_secret.as_ref(),
        );
        let hidden = [
            Some(&secrets.access_token),
            secrets.refresh_token.as_ref(),
            secrets.client_secret.as_ref(),
        ];
        let mut hidden: Vec<String> = hidden
            .into_iter()
            .flatten()
            .map(|secret| secret.expose_secret().to_owned())
            .collect();
        hidden.extend(
            client
                .as_ref()
                .ok()
                .and_then(|client| client.secret.clone()),
        );
        let GrantRecord {
            state,
            wake_at,
            issuer,
            token_endpoint,
            last_renewal,
            step_up,
            ..
        } = record;
        Ok(Some(Looked {
            state: grant::restore(state, wake_at, clock::now()),
            wake_at,
            issuer,
            token_endpoint,
            last_renewal,
            scope: step_up.fault(),
            bearer: bearer(&secrets),
            client,
            secrets: hidden,
        }))
    }

    /// The windows and limits of grants.
    pub(crate) const fn policy(&self) -> &grant::Policy {
        &self.policy
    }
}
