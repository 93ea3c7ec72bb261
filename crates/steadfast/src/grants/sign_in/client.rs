//! Which client to be at an issuer. A registration is made once, however many daemons and people want one.

use steadfast_core::grant::{Failure, State};
use steadfast_core::oauth::client::{Auth, Choice, Credential, Known, auth, choose, is_good};
use steadfast_core::oauth::discovery::canonical;
use steadfast_core::{Fault, Kind, Wall};
use steadfast_store::{
    ClientOrigin, ClientRecord, Error, ExposeSecret as _, GrantClient, GrantRecord, LeaseKey,
    SecretString, SignInRecord, Swap, Version,
};
use url::Url;

use super::{Doors, NotOffered, random_text};
use crate::clock;
use crate::config;
use crate::grants::machine::belongs_here;
use crate::grants::{Grants, Owner};
use crate::perform::discovery::Discovered;
use crate::perform::fetch::Fetcher;
use crate::perform::registration::{Registered, register};
use crate::perform::token::{Client, exchange_code};

/// What a client is wanted for.
pub(super) struct Wanted<'a> {
    pub(super) server: &'a config::Server,
    pub(super) found: &'a Discovered,
    pub(super) token_endpoint: &'a Url,
    pub(super) doors: &'a Doors,
    pub(super) scopes: &'a [String],
    /// The grant that is held.
    pub(super) before: Option<&'a GrantRecord>,
}

/// A client, with its secret unless that is in the configuration.
pub(super) struct Chosen {
    pub(super) client: GrantClient,
    pub(super) secret: Option<SecretString>,
}

impl Wanted<'_> {
    fn issuer(&self) -> &str {
        canonical(&self.found.issuer.issuer)
    }

    fn methods(&self) -> Option<&[String]> {
        let metadata = &self.found.issuer;
        metadata.token_endpoint_auth_methods_supported.as_deref()
    }

    /// The operator's client, if there is one and it belongs to this issuer: to the one that the operator names, or at
    /// which it was used before.
    fn configured(&self) -> Result<Option<GrantClient>, Fault> {
        let Some((oauth, id)) = self
            .server
            .oauth
            .as_ref()
            .and_then(|oauth| Some((oauth, oauth.client_id.clone()?)))
        else {
            return Ok(None);
        };
        let is_the_same = |grant: &&GrantRecord| {
            grant.client.origin == ClientOrigin::Configured && grant.client.id == id
        };
        let before = self.before.filter(is_the_same);
        let before = before.map(|grant| grant.issuer.as_str());
        let known = oauth.issuer.as_deref().or(before);
        let issuer = &self.found.issuer.issuer;
        belongs_here(oauth, known.filter(|known| !known.is_empty()), issuer)?;
        let auth = auth(oauth.credential(), self.methods());
        Ok(Some(GrantClient {
            audience: Some(issuer.clone()),
            ..GrantClient::new(id, auth, ClientOrigin::Configured)
        }))
    }

    fn document(&self) -> Option<GrantClient> {
        let document = self.doors.document.as_ref();
        let document =
            document.filter(|_| self.found.issuer.client_id_metadata_document_supported)?;
        Some(GrantClient::new(
            document.as_str().to_owned(),
            Auth::None,
            ClientOrigin::MetadataDocument,
        ))
    }

    /// A public client where the issuer takes one, else the default of RFC 8414 section 2.
    fn auth_to_register(&self) -> Auth {
        let takes = |method: Auth| {
            let methods = self.methods();
            methods.is_some_and(|methods| methods.iter().any(|it| it == method.as_str()))
        };
        if takes(Auth::None) {
            Auth::None
        } else {
            auth(Credential::Secret, self.methods())
        }
    }
}

impl Grants {
    /// Chooses, and registers where that is the choice.
    pub(super) async fn choose_client(
        &self,
        fetcher: &Fetcher,
        wanted: &Wanted<'_>,
    ) -> Result<Chosen, NotOffered> {
        let (configured, document) = (wanted.configured()?, wanted.document());
        let registered = match (&configured, &document) {
            (None, None) => self.registered(fetcher, wanted).await?,
            (Some(_), _) | (_, Some(_)) => None,
        };
        let choice = choose(Known {
            configured: configured.is_some(),
            registered: registered.is_some(),
            metadata_document: document.is_some(),
            can_register: wanted.found.issuer.registration_endpoint.is_some(),
        });
        let without_secret = |client| Chosen {
            client,
            secret: None,
        };
        let chosen = match choice {
            Choice::Configured => configured.map(without_secret),
            Choice::MetadataDocument => document.map(without_secret),
            Choice::Registered => registered,
            Choice::Register => Some(self.register_once(fetcher, wanted).await?),
            Choice::Ask => None,
        };
        chosen.ok_or_else(|| {
            let message = format!(
                "{} registers no clients: set `oauth.client_id` of the server",
                steadfast_core::quirks::sanitise(wanted.issuer())
            );
            Fault::new(Kind::Misconfigured, message).into()
        })
    }

    /// Which client would be chosen, without registering one or asking anybody.
    pub(crate) async fn client_to_be(
        &self,
        server: &config::Server,
        found: &Discovered,
        doors: &Doors,
    ) -> Result<Choice, NotOffered> {
        let endpoint = found.issuer.token_endpoint.as_ref();
        let wanted = Wanted {
            server,
            found,
            token_endpoint: endpoint.unwrap_or(&server.url),
            doors,
            scopes: &[],
            before: None,
        };
        let redirect_uri = doors.callback.as_str();
        let lifetime = self.attempt_lifetime.0;
        let registered = self.store.client(wanted.issuer(), redirect_uri).await?;
        let registered =
            registered.filter(|client| is_good(client.expires_at, clock::wall(), lifetime));
        Ok(choose(Known {
            configured: wanted.configured()?.is_some(),
            registered: registered.is_some(),
            metadata_document: wanted.document().is_some(),
            can_register: found.issuer.registration_endpoint.is_some(),
        }))
    }

    /// The client that was registered before, if it is good still.
    async fn registered(
        &self,
        fetcher: &Fetcher,
        wanted: &Wanted<'_>,
    ) -> Result<Option<Chosen>, Error> {
        let redirect_uri = wanted.doors.callback.as_str();
        let found = self.store.client(wanted.issuer(), redirect_uri).await?;
        let lifetime = self.attempt_lifetime.0;
        let found = found.filter(|client| is_good(client.expires_at, clock::wall(), lifetime));
        let Some(mut record) = found else {
            return Ok(None);
        };
        let secret = self.vault.open_client(&record)?;
        if record.doubtful {
            if self
                .is_unknown(fetcher, wanted, &record, secret.as_ref())
                .await?
            {
                let version = record.version;
                let _ = self
                    .store
                    .remove_client(wanted.issuer(), redirect_uri, version)
                    .await?;
                return Ok(None);
            }
            record.doubtful = false;
            let _ = self.store.swap_client(&record).await?;
        }
        Ok(Some(chosen(record, secret)))
    }

    /// Whether the issuer does not know a client any more: a code that nobody issued tells, before a person
    /// is sent to a page that leads nowhere (CR-02).
    async fn is_unknown(
        &self,
        fetcher: &Fetcher,
        wanted: &Wanted<'_>,
        record: &ClientRecord,
        secret: Option<&SecretString>,
    ) -> Result<bool, Error> {
        let client = Client {
            id: record.client_id.clone(),
            secret: secret.map(|secret| secret.expose_secret().to_owned()),
            signer: None,
            auth: record.auth,
            methods: wanted.methods().map(<[String]>::to_vec),
        };
        let (code, verifier) = (random_text()?, random_text()?);
        let redeemed = (code.as_str(), verifier.as_str(), &*record.redirect_uri);
        let resource = Some(wanted.found.resource.as_str());
        let answer =
            exchange_code(fetcher, wanted.token_endpoint, &client, redeemed, resource).await;
        Ok(matches!(answer, Err(Failure::Client(_))))
    }

    /// Registers under the lease, after a further look: of several daemons one registers.
    async fn register_once(
        &self,
        fetcher: &Fetcher,
        wanted: &Wanted<'_>,
    ) -> Result<Chosen, NotOffered> {
        let key = LeaseKey::Registration {
            issuer: wanted.issuer().to_owned(),
            redirect_uri: wanted.doors.callback.as_str().to_owned(),
        };
        let lease = self.await_lease(&key).await?;
        let made = self.register_with_lease(fetcher, wanted).await;
        let _ = self.store.release_lease(&lease).await?;
        made
    }

    async fn register_with_lease(
        &self,
        fetcher: &Fetcher,
        wanted: &Wanted<'_>,
    ) -> Result<Chosen, NotOffered> {
        if let Some(chosen) = self.registered(fetcher, wanted).await? {
            return Ok(chosen);
        }
        let Some(endpoint) = &wanted.found.issuer.registration_endpoint else {
            let message = "the authorization server has no registration endpoint";
            return Err(Fault::new(Kind::Misconfigured, message).into());
        };
        let redirect_uri = &wanted.doors.callback;
        // Some providers hold a client to the scopes that it registered with: all that it may want one day.
        let mut scopes = wanted.scopes.to_vec();
        for scope in wanted.found.resource_scopes.iter().flatten() {
            if !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
        let joined = scopes.join(" ");
        let scopes = (!joined.is_empty()).then_some(joined.as_str());
        let auth = wanted.auth_to_register();
        let Registered {
            client_id,
            client_secret,
            auth,
            secret_expires_at,
        } = register(fetcher, endpoint, redirect_uri, scopes, auth).await?;
        let before = self
            .store
            .client(wanted.issuer(), redirect_uri.as_str())
            .await?;
        let mut record = ClientRecord {
            issuer: wanted.issuer().to_owned(),
            redirect_uri: redirect_uri.as_str().to_owned(),
            version: before.map_or(Version::NONE, |before| before.version),
            client_id,
            sealed: None,
            auth,
            expires_at: secret_expires_at,
            registered_at: clock::wall(),
            doubtful: false,
        };
        let secret = client_secret.map(SecretString::from);
        self.vault.seal_client(&mut record, secret.as_ref())?;
        match self.store.swap_client(&record).await? {
            Swap::Stored(_) => Ok(chosen(record, secret)),
            // Our lease ran out, and another daemon was faster: one registration counts.
            Swap::Lost(present) => {
                let record = present.map_or(record, |present| *present);
                let secret = self.vault.open_client(&record)?;
                Ok(chosen(record, secret))
            }
        }
    }

    /// Where the issuer does not know the client of a grant any more, the next link carries one that is
    /// registered anew (CR-01).
    pub(super) async fn forget_dead_client(&self, grant: &GrantRecord) -> Result<(), Error> {
        let is_dead = matches!(&grant.state, State::Refused { strikes, .. } if strikes.registered);
        let ClientOrigin::Registered { redirect_uri } = &grant.client.origin else {
            return Ok(());
        };
        if !is_dead {
            return Ok(());
        }
        let known = self.store.client(&grant.issuer, redirect_uri).await?;
        if let Some(known) = known.filter(|known| known.client_id == grant.client.id) {
            // Whoever was faster registered anew.
            let _ = self
                .store
                .remove_client(&grant.issuer, redirect_uri, known.version)
                .await?;
        }
        Ok(())
    }

    /// The issuer does not know the client of a grant any more. Another one is registered at once, and once, so that
    /// the next link names a client that exists (CR-01). Where that fails, the next link tries again.
    pub(in crate::grants) async fn register_anew(&self, owner: &Owner, grant: &GrantRecord) {
        let ClientOrigin::Registered { redirect_uri } = &grant.client.origin else {
            return;
        };
        let (agent, server) = (&owner.0, &owner.1);
        match self.replace_client(owner, grant, redirect_uri).await {
            Ok(()) => {
                tracing::info!(%agent, %server, "the issuer forgot our client; another one is registered")
            }
            Err(error) => {
                tracing::warn!(%error, %agent, %server, "the issuer forgot our client, and registers no other");
            }
        }
    }

    async fn replace_client(
        &self,
        owner: &Owner,
        grant: &GrantRecord,
        redirect_uri: &str,
    ) -> Result<(), NotOffered> {
        let doors = self.doors.read().clone();
        let (Some(server), Some(doors), Ok(callback)) =
            (self.server(owner), doors, redirect_uri.parse())
        else {
            return Ok(());
        };
        self.forget_dead_client(grant).await?;
        self.withdraw_dead_link(owner).await?;
        // As for a link, up to the client that it would name.
        let doors = Doors {
            callback,
            document: None,
            ..doors
        };
        let fetcher = self.fetcher(&server);
        let prepared = self.prepare(owner, &server, &doors, &fetcher, Some(grant));
        prepared.await?;
        Ok(())
    }

    /// An open link whose client is not ours any more leads nowhere.
    pub(super) async fn withdraw_dead_link(&self, owner: &Owner) -> Result<(), Error> {
        let Some(open) = self.store.sign_in(&owner.0, &owner.1).await? else {
            return Ok(());
        };
        let ClientOrigin::Registered { redirect_uri } = &open.client.origin else {
            return Ok(());
        };
        let issuer = canonical(&open.issuer);
        let known = self.store.client(issuer, redirect_uri).await?;
        if known.is_none_or(|known| known.client_id != open.client.id)
            && self.store.take_sign_in(&open.state_hash).await?.is_some()
        {
            self.show_offer(owner, None);
        }
        Ok(())
    }

    /// Ends the attempts that nobody came back from in time. How many.
    pub(crate) async fn end_sign_ins(&self, now: Wall) -> Result<usize, Error> {
        let ended = self.store.take_expired_sign_ins(now).await?;
        for sign_in in &ended {
            let (agent, server) = (&sign_in.agent, &sign_in.server);
            tracing::info!(%agent, %server, "a sign-in ended without a callback");
            self.doubt_client(sign_in).await?;
        }
        Ok(ended.len())
    }

    /// The attempt ended badly: whether its client is known still is asked before it is used again (CR-02).
    pub(super) async fn doubt_client(&self, sign_in: &SignInRecord) -> Result<(), Error> {
        let ClientOrigin::Registered { redirect_uri } = &sign_in.client.origin else {
            return Ok(());
        };
        let issuer = canonical(&sign_in.issuer);
        if let Some(mut record) = self.store.client(issuer, redirect_uri).await?
            && record.client_id == sign_in.client.id
            && !record.doubtful
        {
            record.doubtful = true;
            // Whoever was faster knows more.
            let _ = self.store.swap_client(&record).await?;
        }
        Ok(())
    }
}

fn chosen(record: ClientRecord, secret: Option<SecretString>) -> Chosen {
    let redirect_uri = record.redirect_uri;
    let origin = ClientOrigin::Registered { redirect_uri };
    Chosen {
        client: GrantClient {
            expires_at: record.expires_at,
            ..GrantClient::new(record.client_id, record.auth, origin)
        },
        secret,
    }
}
