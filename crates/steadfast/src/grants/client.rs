//! Who asks an authorization server for tokens, and how that is proven.

use steadfast_core::Fault;
use steadfast_core::oauth::client::{Auth, Credential, auth};
use steadfast_store::{ClientOrigin, ExposeSecret as _, GrantClient, SecretString};

use super::Grants;
use crate::config;
use crate::perform::assertion::Signer;
use crate::perform::token::Client;
use crate::secrets::Proven;

impl Grants {
    /// The client that tokens were, or will be, issued to by `issuer`: a refresh token is bound to it (RFC 6749
    /// section 6). `kept` is the secret that was sealed with it, where it has one that is not in the configuration.
    pub(super) fn client_of(
        &self,
        client: &GrantClient,
        issuer: &str,
        server: &config::Server,
        kept: Option<&SecretString>,
    ) -> Result<Client, Fault> {
        let proven = match client.origin {
            ClientOrigin::Configured => self.secrets.of_client(server)?,
            ClientOrigin::MetadataDocument
            | ClientOrigin::Registered { .. }
            | ClientOrigin::Imported => kept.map_or(Proven::Nothing, |secret| {
                Proven::Secret(secret.expose_secret().to_owned())
            }),
        };
        let (secret, signer, credential) = match proven {
            Proven::Nothing => (None, None, Credential::Nothing),
            Proven::Secret(secret) => (Some(secret), None, Credential::Secret),
            Proven::Key(key) => {
                let oauth = server.oauth.as_ref();
                let audience = oauth.and_then(|oauth| oauth.audience.clone());
                let signer = Signer {
                    key,
                    key_id: oauth.and_then(|oauth| oauth.key_id.clone()),
                    audience: audience
                        .or_else(|| client.audience.clone())
                        .unwrap_or_else(|| issuer.to_owned()),
                };
                (None, Some(signer), Credential::Key)
            }
        };
        Ok(Client {
            id: client.id.clone(),
            secret,
            signer,
            auth: still(client.auth, credential),
            methods: None,
        })
    }
}

/// How a client proves itself that did so in this way when its tokens were issued: its operator may have given it
/// something else since.
fn still(before: Auth, credential: Credential) -> Auth {
    let fits = match before {
        Auth::None => credential == Credential::Nothing,
        Auth::ClientSecretBasic | Auth::ClientSecretPost => credential == Credential::Secret,
        Auth::PrivateKeyJwt => credential == Credential::Key,
    };
    if fits { before } else { auth(credential, None) }
}
