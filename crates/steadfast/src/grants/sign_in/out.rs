//! Signing out: the provider is told, and the grant is forgotten here in any case.

use steadfast_core::{Fault, Kind};
use steadfast_store::{Error, ExposeSecret as _, GrantRecord, GrantSecrets, LeaseKey, Swap};

use crate::config;
use crate::grants::{Grants, Owner};
use crate::perform::discovery::issuer_metadata;
use crate::perform::token;

/// Whether the provider forgot the grant, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// It did.
    Yes,
    /// It could not be told, or did not agree.
    No,
    /// It has no revocation endpoint (RFC 7009), or nothing was held.
    NotSupported,
    /// Its revocation endpoint is at an address that this server may lead nobody to.
    RefusedAddress,
}

impl Revoked {
    /// As the API writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::NotSupported => "not_supported",
            Self::RefusedAddress => "refused_address",
        }
    }
}

/// Nothing is held here any more.
#[derive(Clone, Debug)]
pub struct SignedOut {
    /// What the provider knows of it.
    pub revoked: Revoked,
    /// One sentence.
    pub message: String,
}

impl SignedOut {
    /// There was nothing to forget.
    pub(crate) fn nobody() -> Self {
        Self::new(Revoked::NotSupported, "nobody was signed in")
    }

    fn new(revoked: Revoked, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { revoked, message }
    }
}

impl Grants {
    /// Revokes the grant and forgets it, after a renewal under way has ended: what that one brings is revoked, too.
    pub(crate) async fn sign_out(
        &self,
        owner: &Owner,
        server: &config::Server,
    ) -> Result<SignedOut, Error> {
        let key = LeaseKey::Renewal {
            agent: owner.0.clone(),
            server: owner.1.clone(),
        };
        let lease = self.await_lease(&key).await?;
        let outcome = self.sign_out_with_lease(owner, server).await;
        let _ = self.store.release_lease(&lease).await?;
        outcome
    }

    async fn sign_out_with_lease(
        &self,
        owner: &Owner,
        server: &config::Server,
    ) -> Result<SignedOut, Error> {
        let mut outcome = SignedOut::nobody();
        // A sign-in that ends meanwhile replaces the grant: that one is revoked as well.
        while let Some(record) = self.store.grant(&owner.0, &owner.1).await? {
            outcome = match self.vault.open_grant(&record) {
                Ok(Some(secrets)) => self.revoke(server, &record, &secrets).await,
                Ok(None) => break,
                // Nobody can use them here, and nobody can give them back.
                Err(error) => SignedOut::new(Revoked::No, error.to_string()),
            };
            let removed = self.store.remove_grant(&owner.0, &owner.1, record.version);
            if let Swap::Stored(_) = removed.await? {
                break;
            }
        }
        self.read_again(owner).await;
        Ok(outcome)
    }

    async fn revoke(
        &self,
        server: &config::Server,
        record: &GrantRecord,
        secrets: &GrantSecrets,
    ) -> SignedOut {
        let fetcher = self.fetcher(server);
        let issuer = &record.issuer;
        // At the endpoint that the issuer itself names now, and nowhere else.
        let metadata = issuer_metadata(&fetcher, issuer, &mut Vec::new()).await;
        let endpoint = match metadata {
            Ok(Some(metadata)) => metadata.revocation_endpoint,
            Ok(None) => None,
            Err(fault) => return not_asked(issuer, &fault),
        };
        let Some(endpoint) = endpoint else {
            let message =
                format!("{issuer} has no revocation endpoint: its tokens end by themselves");
            return SignedOut::new(Revoked::NotSupported, message);
        };
        let kept = secrets.client_secret.as_ref();
        let client = match self.client_of(&record.client, issuer, server, kept) {
            Ok(client) => client,
            Err(fault) => return SignedOut::new(Revoked::No, fault.message),
        };
        let (value, hint) = match &secrets.refresh_token {
            // With it go the access tokens (RFC 7009 section 2.1).
            Some(refresh_token) => (refresh_token, "refresh_token"),
            None => (&secrets.access_token, "access_token"),
        };
        match token::revoke(&fetcher, &endpoint, &client, value.expose_secret(), hint).await {
            Ok(()) => SignedOut::new(Revoked::Yes, format!("{issuer} has revoked the grant")),
            Err(why) => {
                let message = format!("{issuer} did not revoke the grant: {why}");
                SignedOut::new(Revoked::No, message)
            }
        }
    }
}

fn not_asked(issuer: &str, fault: &Fault) -> SignedOut {
    let revoked = if fault.kind == Kind::Misconfigured {
        Revoked::RefusedAddress
    } else {
        Revoked::No
    };
    let message = format!("{issuer} could not be told: {}", fault.message);
    SignedOut::new(revoked, message)
}
