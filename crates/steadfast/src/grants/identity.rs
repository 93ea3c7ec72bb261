//! Tokens for a person whom an organisation's identity provider vouches for: it decides which servers its people may
//! use, and nobody signs in at each of them (the extension `io.modelcontextprotocol/enterprise-managed-authorization`;
//! draft-ietf-oauth-identity-assertion-authz-grant).

use steadfast_core::grant::Failure;
use steadfast_core::oauth::client::{Credential, auth};
use steadfast_core::quirks::sanitise;
use steadfast_core::{Fault, Kind};
use steadfast_store::GrantRecord;
use url::Url;

use super::Grants;
use crate::config::Identity;
use crate::perform::discovery::{IssuerMetadata, issuer_metadata};
use crate::perform::fetch::Fetcher;
use crate::perform::token::{Client, Granted, exchange_identity, redeem_assertion};

impl Grants {
    /// Asks the identity provider for an assertion, and with that the server's own authorization server for a token. Each
    /// renewal does both: the identity provider may think otherwise by then.
    pub(super) async fn vouched_token(
        &self,
        identity: &Identity,
        record: &GrantRecord,
        (fetcher, endpoint, client): (&Fetcher, &Url, &Client),
        scopes: &[String],
        dead_codes: &[String],
    ) -> Result<Granted, Failure> {
        // Both are found before anything is asked for.
        let audience = record.client.audience.as_deref().unwrap_or(&record.issuer);
        let resource = record.resource.as_deref().unwrap_or_default();
        // The operator names the identity provider: it may be anywhere.
        let to_provider = Fetcher::for_operator(&self.dialer, self.request_limit);
        let (metadata, at) = metadata(&to_provider, identity).await?;
        let vouched = self.secrets.of_identity(identity);
        let vouched = vouched.map_err(Failure::Temporary)?;
        let credential = match vouched.client_secret {
            Some(_) => Credential::Secret,
            None => Credential::Nothing,
        };
        let methods = metadata.token_endpoint_auth_methods_supported;
        let ours = Client {
            id: identity.client_id.clone(),
            secret: vouched.client_secret,
            signer: None,
            auth: auth(credential, methods.as_deref()),
            methods,
        };
        let subject = (&*vouched.assertion, identity.assertion_type.urn());
        let target = (audience, resource);
        let assertion = exchange_identity(&to_provider, &at, &ours, subject, target, scopes)
            .await
            .map_err(|failure| failure.at_another("the identity provider"))?;
        redeem_assertion(fetcher, endpoint, client, &assertion, resource, dead_codes).await
    }
}

/// What the identity provider says of itself, and where its token endpoint is.
async fn metadata(
    fetcher: &Fetcher,
    identity: &Identity,
) -> Result<(IssuerMetadata, Url), Failure> {
    let found = issuer_metadata(fetcher, &identity.issuer, &mut Vec::new()).await;
    let mut found = found.map_err(Failure::Temporary)?.unwrap_or_default();
    match found.token_endpoint.take() {
        Some(endpoint) => Ok((found, endpoint)),
        None => {
            let issuer = sanitise(&identity.issuer);
            let message = format!("the identity provider {issuer} has no token endpoint");
            let fault = Fault::new(Kind::RenewalDelayed, message);
            Err(Failure::Temporary(fault))
        }
    }
}
