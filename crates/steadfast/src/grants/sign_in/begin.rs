//! The link: who the authorization server is, which scopes to ask for, as which client.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use sha2::{Digest as _, Sha256};
use steadfast_core::oauth::client::may_come_back_to;
use steadfast_core::oauth::discovery::{Identity, canonical, identity};
use steadfast_core::oauth::scopes::{self, OFFLINE_ACCESS};
use steadfast_core::wire::challenge;
use steadfast_core::wire::token::scopes as scopes_of;
use steadfast_core::{Fault, Kind, Wall};
use steadfast_store::vault::Sealed;
use steadfast_store::{
    ExposeSecret as _, GrantRecord, SecretString, SignInRecord, SignInSecrets, Started, hash_state,
};
use url::Url;

use super::client::{Chosen, Wanted};
use super::{Doors, NotOffered, Offer, random_text};
use crate::clock;
use crate::config;
use crate::grants::{Grants, Owner, Want};
use crate::perform::discovery::{Discovered, discover};
use crate::perform::fetch::Fetcher;

/// What the first character of `state` says: whether the issuer announced that it names itself in its answer
/// (RFC 9207 section 3). It comes back unchanged, or the attempt is not found.
pub(super) const ISS_ANNOUNCED: char = 'i';
const ISS_NOT_ANNOUNCED: char = 'n';

/// What the server's 401 asks for.
#[derive(Default)]
pub(in crate::grants) struct Challenged {
    pub(in crate::grants) metadata: Option<String>,
    pub(in crate::grants) scopes: Option<Vec<String>>,
}

/// The ends of a sign-in that are discovered.
struct Ends {
    authorize: Url,
    token: Url,
}

impl Grants {
    /// A link to sign in with. The same as long as an attempt is open, from every daemon; with `restart` a new one.
    pub(crate) async fn begin_sign_in(
        self: &Arc<Self>,
        owner: &Owner,
        restart: bool,
    ) -> Result<Offer, NotOffered> {
        let server = self.server(owner).ok_or_else(|| {
            let message = "the server is not configured any more";
            Fault::new(Kind::Misconfigured, message)
        })?;
        if server.machine().is_some() {
            self.want(owner, Want::SignedOut).await;
            let message = "its client asks for tokens by itself (`oauth.grant`): nobody signs in, and `reload` asks again";
            return Err(Fault::new(Kind::Misconfigured, message).into());
        }
        let doors = self.doors.read().clone().ok_or_else(|| {
            let message = "nobody has said where browsers reach this daemon";
            Fault::new(Kind::Misconfigured, message)
        })?;
        self.left(owner).await;
        self.withdraw_dead_link(owner).await?;
        let now = clock::wall();
        let grant = self.store.grant(&owner.0, &owner.1).await?;
        let (mut is_too_narrow, mut led_nowhere) = (false, false);
        if let Some(before) = self.store.sign_in(&owner.0, &owner.1).await? {
            let is_open = before.expires_at.0 > now.0;
            is_too_narrow = is_open && !covers(&before, grant.as_ref());
            if is_open && !is_too_narrow && !restart {
                return Ok(self.offer(owner, &before)?);
            }
            led_nowhere = !is_open;
            if !is_too_narrow {
                // It ended without a callback: its client may be unknown to the issuer by now (CR-02).
                self.doubt_client(&before).await?;
            }
        }
        let mut fetcher = self.fetcher(&server);
        if led_nowhere {
            // What is kept of the authorization server may be what led there.
            fetcher = fetcher.anew();
        }
        let prepared = self.prepare(owner, &server, &doors, &fetcher, grant.as_ref());
        let (sign_in, now) = prepared.await?;
        let restart = restart || is_too_narrow;
        match self.store.start_sign_in(&sign_in, now, restart).await? {
            Started::New => Ok(self.offer(owner, &sign_in)?),
            Started::Open(open) => Ok(self.offer(owner, &open)?),
        }
    }

    /// Everything up to the link.
    pub(super) async fn prepare(
        &self,
        owner: &Owner,
        server: &config::Server,
        doors: &Doors,
        fetcher: &Fetcher,
        grant: Option<&GrantRecord>,
    ) -> Result<(SignInRecord, Wall), NotOffered> {
        if !may_come_back_to(&doors.callback) {
            let message = format!(
                "a browser would come back by plain http to {}: `gateway.public_url` must be https, or on loopback",
                doors.callback.authority()
            );
            return Err(Fault::new(Kind::Misconfigured, message).into());
        }
        if let Some(grant) = grant {
            self.forget_dead_client(grant).await?;
        }
        let headers = self.secrets.headers_of(server)?;
        let challenged = challenged(fetcher, &server.url, headers).await;
        let known_issuer = grant.map(|grant| grant.issuer.as_str());
        let found = discover(
            fetcher,
            &server.url,
            challenged.metadata.as_deref(),
            known_issuer.filter(|issuer| !issuer.is_empty()),
        )
        .await?;
        if !found.notes.is_empty() {
            tracing::info!(agent = %owner.0, server = %owner.1, notes = ?found.notes, "discovery");
        }
        let ends = ends(&found)?;
        let scopes = self
            .scopes_to_ask(server, &challenged, &found, grant)
            .await?;
        let wanted = Wanted {
            server,
            found: &found,
            token_endpoint: &ends.token,
            doors,
            scopes: scopes.as_deref().unwrap_or_default(),
            before: grant,
        };
        let chosen = self.choose_client(fetcher, &wanted).await?;
        let now = clock::wall();
        let sign_in = self.record(owner, &wanted, &ends, scopes.as_deref(), chosen, now)?;
        Ok((sign_in, now))
    }

    async fn scopes_to_ask(
        &self,
        server: &config::Server,
        challenged: &Challenged,
        found: &Discovered,
        grant: Option<&GrantRecord>,
    ) -> Result<Option<Vec<String>>, steadfast_store::Error> {
        let issuer = canonical(&found.issuer.issuer);
        let known = self.store.issuer(issuer).await?;
        // What another issuer granted has no meaning at this one (DS-07); what the server wants has.
        let of_issuer =
            grant.filter(|grant| identity(&grant.issuer, issuer) != Identity::Different);
        let granted = of_issuer.and_then(|grant| grant.state.tokens());
        let granted = granted.map_or(&[][..], |tokens| &tokens.scopes);
        let requested = of_issuer.map_or(&[][..], |grant| &grant.step_up.requested);
        let configured = server.oauth.as_ref().map(|oauth| oauth.scopes.as_slice());
        Ok(scopes::to_ask(&scopes::Known {
            configured: configured.unwrap_or_default(),
            challenged: challenged.scopes.as_deref(),
            resource: found.resource_scopes.as_deref(),
            issuer: &found.issuer.scopes_supported,
            before: &[granted, requested],
            wanted: grant.map_or(&[][..], |grant| &grant.step_up.wanted),
            no_offline_access: known.is_some_and(|known| known.no_offline_access),
        }))
    }

    fn record(
        &self,
        owner: &Owner,
        wanted: &Wanted<'_>,
        ends: &Ends,
        scopes: Option<&[String]>,
        chosen: Chosen,
        now: Wall,
    ) -> Result<SignInRecord, NotOffered> {
        let found = wanted.found;
        let announced = if found.issuer.authorization_response_iss_parameter_supported {
            ISS_ANNOUNCED
        } else {
            ISS_NOT_ANNOUNCED
        };
        let state = format!("{announced}{}", random_text()?);
        let verifier = random_text()?;
        let redirect_uri = wanted.doors.callback.as_str();
        let link = link(
            &ends.authorize,
            &chosen.client.id,
            redirect_uri,
            (&state, &verifier),
            scopes,
            &found.resource,
        );
        let lifetime = self.attempt_lifetime.0;
        let mut sign_in = SignInRecord {
            agent: owner.0.clone(),
            server: owner.1.clone(),
            id: random_text()?,
            state_hash: hash_state(&state),
            issuer: found.issuer.issuer.clone(),
            token_endpoint: ends.token.as_str().to_owned(),
            redirect_uri: redirect_uri.to_owned(),
            client: chosen.client,
            scopes: scopes.unwrap_or_default().to_vec(),
            resource: Some(found.resource.clone()),
            sealed: Sealed::from(Vec::new()),
            started_at: now,
            expires_at: Wall(now.0.saturating_add_unsigned(lifetime.0)),
        };
        let secrets = SignInSecrets {
            verifier: SecretString::from(verifier),
            link: SecretString::from(link),
            client_secret: chosen.secret,
        };
        self.vault.seal_sign_in(&mut sign_in, &secrets)?;
        Ok(sign_in)
    }

    /// Shows an open attempt, also in the connection object.
    fn offer(
        &self,
        owner: &Owner,
        sign_in: &SignInRecord,
    ) -> Result<Offer, steadfast_store::Error> {
        let secrets = self.vault.open_sign_in(sign_in)?;
        let offer = Offer {
            url: secrets.link.expose_secret().to_owned(),
            attempt: sign_in.id.clone(),
            expires_at: sign_in.expires_at,
        };
        self.show_offer(owner, Some(offer.clone()));
        Ok(offer)
    }

    /// An attempt that was open when this daemon started, or that another one began.
    pub(in crate::grants) async fn read_offer(&self, owner: &Owner) {
        let found = match self.store.sign_in(&owner.0, &owner.1).await {
            Ok(Some(sign_in)) if sign_in.expires_at.0 > clock::wall().0 => {
                self.offer(owner, &sign_in).map(|_| ())
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = found {
            tracing::warn!(%error, "an open sign-in cannot be read");
        }
    }
}

/// Whether an attempt asks for all that refused calls want by now.
fn covers(sign_in: &SignInRecord, grant: Option<&GrantRecord>) -> bool {
    let wanted = grant.map_or(&[][..], |grant| &grant.step_up.wanted);
    wanted.iter().all(|scope| sign_in.scopes.contains(scope))
}

/// What the server says to a request without a credential; nothing where it cannot be asked.
pub(in crate::grants) async fn challenged(
    fetcher: &Fetcher,
    server: &Url,
    headers: HeaderMap,
) -> Challenged {
    let Ok(fetched) = fetcher.knock(server, headers).await else {
        return Challenged::default();
    };
    if fetched.status != 401 {
        return Challenged::default();
    }
    let lines = fetched.challenges.iter().map(String::as_str);
    let Some(challenge) = challenge::bearer(lines) else {
        return Challenged::default();
    };
    Challenged {
        metadata: challenge.param("resource_metadata").map(str::to_owned),
        scopes: challenge.param("scope").map(scopes_of),
    }
}

/// What of the issuer keeps a person from signing in.
pub(crate) fn obstacle(found: &Discovered) -> Option<Fault> {
    ends(found).err()
}

/// The endpoints, if the issuer can be signed in at safely.
fn ends(found: &Discovered) -> Result<Ends, Fault> {
    let refused = |why: &str| {
        let issuer = steadfast_core::quirks::sanitise(&found.issuer.issuer);
        let message = format!("the authorization server {issuer} {why}");
        Fault::new(Kind::ProtocolMismatch, message)
    };
    let methods = found.issuer.code_challenge_methods_supported.as_deref();
    // 2026-07-28 basic/authorization, "Authorization Code Protection": where the metadata does not say so, clients
    // MUST refuse to proceed.
    if !methods.is_some_and(|methods| methods.iter().any(|method| method == "S256")) {
        return Err(refused("does not announce PKCE with S256"));
    }
    let metadata = &found.issuer;
    match (&metadata.authorization_endpoint, &metadata.token_endpoint) {
        (Some(authorize), Some(token)) => Ok(Ends {
            authorize: authorize.clone(),
            token: token.clone(),
        }),
        (None, _) => Err(refused("has no authorization endpoint")),
        (_, None) => Err(refused("has no token endpoint")),
    }
}

/// The authorization request (RFC 6749 section 4.1.1, RFC 7636 section 4.3, RFC 8707 section 2.1).
fn link(
    authorize: &Url,
    client_id: &str,
    redirect_uri: &str,
    (state, verifier): (&str, &str),
    scopes: Option<&[String]>,
    resource: &str,
) -> String {
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    let mut url = authorize.clone();
    {
        // RFC 6749 section 3.1: what the endpoint's own query says stays.
        let mut query = url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", client_id)
            .append_pair("redirect_uri", redirect_uri)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("state", state)
            .append_pair("resource", resource);
        if let Some(scopes) = scopes {
            query.append_pair("scope", &scopes.join(" "));
            // OpenID Connect Core 1.0 section 11: without it providers ignore the scope.
            if scopes.iter().any(|scope| scope == OFFLINE_ACCESS) {
                query.append_pair("prompt", "consent");
            }
        }
    }
    url.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_keeps_the_query_of_the_endpoint() {
        let authorize: Url = "https://as.test/authorize?tenant=a".parse().unwrap();
        let scopes = ["read".to_owned(), OFFLINE_ACCESS.to_owned()];
        let link = link(
            &authorize,
            "c 1",
            "http://127.0.0.1:1/oauth/callback",
            // RFC 7636 appendix B.
            ("s", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            Some(&scopes),
            "https://rs.test/mcp",
        );
        let link: Url = link.parse().unwrap();
        let pair = |name: &str| {
            let mut pairs = link.query_pairs();
            pairs
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.into_owned())
        };
        assert_eq!(pair("tenant").as_deref(), Some("a"));
        assert_eq!(pair("client_id").as_deref(), Some("c 1"));
        assert_eq!(pair("scope").as_deref(), Some("read offline_access"));
        assert_eq!(pair("prompt").as_deref(), Some("consent"));
        assert_eq!(
            pair("code_challenge").as_deref(),
            Some("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")
        );
    }
}
