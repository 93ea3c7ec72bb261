//! The issuers of agents' access tokens: verifies a token with its issuer's keys, or asks the issuer about it. What a
//! token must say is decided in [`steadfast_core::oauth::bearer`].

mod introspection;
mod keys;

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::Wall;
use steadfast_core::oauth::bearer::{Jwt, Refusal, Rules, Source, accept};
use steadfast_core::replay::Access;
use steadfast_core::{Fault, Kind};
use steadfast_store::SharedStore;
use url::Url;

use crate::clock;
use crate::config;
use crate::config::Profile;
use crate::perform::dial::Dialer;
use crate::perform::discovery::{IssuerMetadata, issuer_metadata};
use crate::perform::fetch::Fetcher;
use crate::secrets::Secrets;
use introspection::Introspection;
use keys::KeyRing;

/// No token is larger: the headers of a request are not, either.
const LARGEST: usize = 16 << 10;

/// All issuers whose tokens agents may send.
#[derive(Debug)]
pub struct Issuers(Vec<Issuer>);

/// Why an access token does not say whose request it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAccepted {
    /// It is not acceptable.
    Refused(Refusal),
    /// Its issuer cannot be asked now, and has to be.
    Unavailable,
}

impl From<Refusal> for NotAccepted {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

#[derive(Debug)]
struct Issuer {
    config: config::Issuer,
    keys: Arc<KeyRing>,
    introspection: Option<Introspection>,
}

impl Issuers {
    /// As they are configured.
    pub(crate) fn new(
        configured: &[config::Issuer],
        dialer: &Arc<Dialer>,
        store: &SharedStore,
        secrets: &Arc<Secrets>,
        limit: Duration,
    ) -> Self {
        let issuer = |config: &config::Issuer| {
            // Where the operator sends us is no server's choice: it may be anywhere.
            let fetcher = Fetcher::for_operator(dialer, limit);
            let fetcher = fetcher.with_documents(Arc::clone(store));
            let asked = config.introspection.as_ref();
            Issuer {
                keys: Arc::new(KeyRing::new(config, fetcher.clone())),
                introspection: asked.map(|asked| {
                    Introspection::new(&config.issuer, asked, fetcher, Arc::clone(secrets))
                }),
                config: config.clone(),
            }
        };
        Self(configured.iter().map(issuer).collect())
    }

    /// Whether agents have nothing but keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their identifiers, in the order of the configuration.
    pub fn identifiers(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|issuer| &*issuer.config.issuer)
    }

    /// The scopes that tokens need, each once.
    #[must_use]
    pub fn scopes(&self) -> Vec<&str> {
        let mut scopes = Vec::new();
        for scope in self.0.iter().flat_map(|issuer| &issuer.config.scopes) {
            if !scopes.contains(&scope.as_str()) {
                scopes.push(scope);
            }
        }
        scopes
    }

    /// Whose request a token makes, and how far it reaches. `public_url` is where the gateway is reached.
    ///
    /// # Errors
    ///
    /// Why it does not say so.
    pub async fn accept(&self, token: &str, public_url: &Url) -> Result<Access, NotAccepted> {
        if token.len() > LARGEST {
            return Err(Refusal::Malformed.into());
        }
        let Some(read) = Jwt::read(token) else {
            return self.ask_all(token, public_url).await;
        };
        let jwt = read?;
        let named = jwt.claims.text("iss");
        let issuer = self.0.iter().find(|it| Some(&*it.config.issuer) == named);
        let issuer = issuer.ok_or(Refusal::Issuer)?;
        match &issuer.introspection {
            Some(introspection) => issuer.ask(introspection, token, public_url).await,
            None => issuer.verify(&jwt, public_url).await,
        }
    }

    /// What is no JWT says nothing to anybody but its issuer, which may be any that answers such questions.
    async fn ask_all(&self, token: &str, public_url: &Url) -> Result<Access, NotAccepted> {
        let mut outcome = NotAccepted::Refused(Refusal::Malformed);
        for issuer in &self.0 {
            let Some(introspection) = &issuer.introspection else {
                continue;
            };
            match issuer.ask(introspection, token, public_url).await {
                Err(NotAccepted::Refused(Refusal::Inactive)) => {
                    if outcome != NotAccepted::Unavailable {
                        outcome = Refusal::Inactive.into();
                    }
                }
                Err(NotAccepted::Unavailable) => outcome = NotAccepted::Unavailable,
                known => return known,
            }
        }
        Err(outcome)
    }
}

impl Issuer {
    fn rules<'r>(&'r self, public_url: &'r Url, source: Source) -> Rules<'r> {
        let config = &self.config;
        Rules {
            issuer: &config.issuer,
            public_url,
            audiences: &config.audiences,
            agent_claim: &config.agent_claim,
            agents: &config.agents,
            scopes: &config.scopes,
            clock_skew: config.clock_skew.0,
            source,
        }
    }

    async fn verify(&self, jwt: &Jwt<'_>, public_url: &Url) -> Result<Access, NotAccepted> {
        let source = match self.config.profile {
            Profile::Rfc9068 if !jwt.is_access_token() => return Err(Refusal::Kind.into()),
            Profile::Rfc9068 => Source::AccessToken,
            Profile::Jwt => Source::OtherJwt,
        };
        self.keys.verify(jwt).await?;
        let rules = self.rules(public_url, source);
        Ok(accept(&jwt.claims, &rules, clock::wall())?)
    }

    async fn ask(
        &self,
        introspection: &Introspection,
        token: &str,
        public_url: &Url,
    ) -> Result<Access, NotAccepted> {
        let claims = introspection.ask(token).await?;
        let rules = self.rules(public_url, Source::Introspection);
        let now: Wall = clock::wall();
        Ok(accept(&claims, &rules, now)?)
    }
}

/// What an issuer says of itself.
async fn metadata(fetcher: &Fetcher, issuer: &str) -> Result<IssuerMetadata, Fault> {
    let found = issuer_metadata(fetcher, issuer, &mut Vec::new()).await?;
    found.ok_or_else(|| Fault::new(Kind::Misconfigured, format!("{issuer} has no metadata")))
}
