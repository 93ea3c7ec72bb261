//! The secrets that the configuration names, open in memory: a request takes them as they are when it leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use parking_lot::RwLock;
use steadfast_core::reference::Template;
use steadfast_core::{Fault, Kind};
use steadfast_store::{Error, ExposeSecret as _, SecretString, SharedStore, Vault};

use crate::config;
use crate::perform::assertion::Key;

/// The secrets of the vault, by name.
#[derive(Debug)]
pub(crate) struct Secrets {
    pub(crate) store: SharedStore,
    pub(crate) vault: Arc<Vault>,
    open: RwLock<BTreeMap<String, SecretString>>,
}

impl Secrets {
    /// With what the store holds.
    pub(crate) async fn load(store: SharedStore, vault: Arc<Vault>) -> Result<Self, Error> {
        let secrets = Self {
            store,
            vault,
            open: RwLock::default(),
        };
        secrets.refresh().await?;
        Ok(secrets)
    }

    /// Reads the store again, where another daemon may have changed a secret. The names of those that changed.
    pub(crate) async fn refresh(&self) -> Result<BTreeSet<String>, Error> {
        let mut found = BTreeMap::new();
        for entry in self.store.vault_entries().await? {
            match self.vault.open_entry(&entry) {
                Ok(value) => {
                    found.insert(entry.name, value);
                }
                Err(error) => tracing::error!(%error, "a secret cannot be opened"),
            }
        }
        let mut open = self.open.write();
        let is_same = |name: &str| match (open.get(name), found.get(name)) {
            (Some(before), Some(after)) => before.expose_secret() == after.expose_secret(),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let names = open.keys().chain(found.keys());
        let changed = names.filter(|name| !is_same(name)).cloned().collect();
        *open = found;
        Ok(changed)
    }

    /// A value with its secrets in their places. `place` is said where one is missing.
    fn fill(&self, template: &Template, place: &str) -> Result<String, Fault> {
        let open = self.open.read();
        template
            .fill(|name| open.get(name).map(|value| value.expose_secret()))
            .map_err(|name| {
                let message = format!("{place} needs the secret {name}, which is not in the vault");
                Fault::new(Kind::VaultReference, message)
            })
    }
}

/// What of a server's configuration names secrets.
#[derive(Debug, Default)]
pub(crate) struct References {
    headers: Vec<Header>,
    client: Option<(Proof, Template)>,
    /// What an identity provider is asked with, and where it is written.
    identity: Vec<(&'static str, Template)>,
}

#[derive(Debug)]
struct Header {
    name: HeaderName,
    /// As it is written in the configuration.
    place: String,
    value: Template,
}

/// What a configured client proves itself with.
#[derive(Clone, Copy, Debug)]
enum Proof {
    Secret,
    Key,
}

impl Proof {
    /// As it is written in the configuration.
    const fn place(self) -> &'static str {
        match self {
            Self::Secret => "oauth.client_secret",
            Self::Key => "oauth.private_key",
        }
    }
}

/// The same, with its secrets in their places. No `Debug`.
pub(crate) enum Proven {
    /// It is a public client.
    Nothing,
    /// By a secret.
    Secret(String),
    /// By a key.
    Key(Key),
}

/// What an identity provider is asked with. No `Debug`.
pub(crate) struct Vouched {
    /// What it issued when the person signed in.
    pub(crate) assertion: String,
    /// The secret of our client there.
    pub(crate) client_secret: Option<String>,
}

const ASSERTION: &str = "oauth.identity.assertion";
const IDENTITY_SECRET: &str = "oauth.identity.client_secret";

impl References {
    /// Takes note of a header that names secrets. Whether it does.
    pub(crate) fn add_header(
        &mut self,
        name: &HeaderName,
        (written, value): (&str, &str),
    ) -> Result<bool, Fault> {
        let place = format!("the header {written}");
        let value = read(value, &place)?;
        let names_any = value.names().next().is_some();
        if names_any {
            let name = name.clone();
            self.headers.push(Header { name, place, value });
        }
        Ok(names_any)
    }

    /// Takes note of what the client proves itself with.
    pub(crate) fn add_client(&mut self, server: &config::Server) -> Result<(), Fault> {
        let checked = server.oauth.as_ref().map_or(Ok(()), config::Oauth::check);
        checked
            .map_err(|(key, why)| Fault::new(Kind::Misconfigured, format!("oauth.{key} {why}")))?;
        self.client = client_template(server)?;
        let identity = server.oauth.as_ref();
        if let Some(identity) = identity.and_then(|oauth| oauth.identity.as_ref()) {
            let secret = identity.client_secret.as_deref();
            let secret = secret.map(|secret| (IDENTITY_SECRET, secret));
            for (place, written) in [(ASSERTION, &*identity.assertion)]
                .into_iter()
                .chain(secret)
            {
                self.identity.push((place, read(written, place)?));
            }
        }
        Ok(())
    }

    /// Whether the configuration names none at all.
    pub(crate) fn are_none(&self) -> bool {
        self.headers.is_empty() && self.client.is_none() && self.identity.is_empty()
    }

    /// Whether this header names secrets.
    pub(crate) fn has_header(&self, name: &HeaderName) -> bool {
        self.headers.iter().any(|header| header.name == name)
    }

    /// Whether one of these secrets is among them.
    pub(crate) fn name_any_of(&self, secrets: &BTreeSet<String>) -> bool {
        let mut headers = self.headers.iter().map(|header| &header.value);
        headers.any(|value| names_any(value, secrets)) || self.client_names_any_of(secrets)
    }

    /// Whether tokens are asked for with one of these secrets.
    pub(crate) fn client_names_any_of(&self, secrets: &BTreeSet<String>) -> bool {
        let client = self.client.iter().map(|(_, value)| value);
        let identity = self.identity.iter().map(|(_, value)| value);
        client
            .chain(identity)
            .any(|value| names_any(value, secrets))
    }

    /// The headers as they are sent now.
    pub(crate) fn headers<'r>(
        &'r self,
        secrets: &'r Secrets,
    ) -> impl Iterator<Item = Result<(HeaderName, HeaderValue), Fault>> + 'r {
        self.headers.iter().map(|header| {
            let place = &header.place;
            let value = secrets.fill(&header.value, place)?;
            let mut value = HeaderValue::try_from(value).map_err(|_| {
                let message =
                    format!("a secret of {place} has characters that a header cannot carry");
                Fault::new(Kind::Misconfigured, message)
            })?;
            value.set_sensitive(true);
            Ok((header.name.clone(), value))
        })
    }

    /// That every one of them is there.
    ///
    /// # Errors
    ///
    /// Which one is not, and what needs it.
    pub(crate) fn check(&self, secrets: &Secrets) -> Result<(), Fault> {
        for header in self.headers(secrets) {
            header?;
        }
        for (place, template) in &self.identity {
            secrets.fill(template, place)?;
        }
        match &self.client {
            // Before every request: whether a key is one is seen when something is signed with it.
            Some((proof, template)) => secrets.fill(template, proof.place()).map(drop),
            None => Ok(()),
        }
    }
}

fn names_any(template: &Template, secrets: &BTreeSet<String>) -> bool {
    template.names().any(|name| secrets.contains(name))
}

impl Secrets {
    /// A setting of the daemon with its secrets in their places. `place` is how the configuration calls it.
    ///
    /// # Errors
    ///
    /// Where it names a secret that is not there.
    pub(crate) fn of_setting(&self, value: &str, place: &str) -> Result<String, Fault> {
        self.fill(&read(value, place)?, place)
    }

    /// What a server's configured OAuth client proves itself with, as it is now.
    ///
    /// # Errors
    ///
    /// Where it names a secret that is not there, and where a key is none.
    pub(crate) fn of_client(&self, server: &config::Server) -> Result<Proven, Fault> {
        match client_template(server)? {
            Some((proof, template)) => self.prove(proof, &template),
            None => Ok(Proven::Nothing),
        }
    }

    /// What the identity provider of a server's organisation is asked with, as it is now.
    ///
    /// # Errors
    ///
    /// Where it names a secret that is not there.
    pub(crate) fn of_identity(&self, identity: &config::Identity) -> Result<Vouched, Fault> {
        let fill = |written: &str, place| self.fill(&read(written, place)?, place);
        let secret = identity.client_secret.as_deref();
        Ok(Vouched {
            assertion: fill(&identity.assertion, ASSERTION)?,
            client_secret: secret
                .map(|secret| fill(secret, IDENTITY_SECRET))
                .transpose()?,
        })
    }

    fn prove(&self, proof: Proof, template: &Template) -> Result<Proven, Fault> {
        let place = proof.place();
        let value = self.fill(template, place)?;
        match proof {
            Proof::Secret => Ok(Proven::Secret(value)),
            Proof::Key => Key::read(&value).map(Proven::Key).map_err(|why| {
                Fault::new(
                    Kind::Misconfigured,
                    format!("{place} cannot be used: {why}"),
                )
            }),
        }
    }
}

impl Secrets {
    /// The configured headers of a server, as they are sent now.
    ///
    /// # Errors
    ///
    /// Where one names a secret that is not there, or cannot be sent.
    pub(crate) fn headers_of(&self, server: &config::Server) -> Result<HeaderMap, Fault> {
        let mut headers = HeaderMap::with_capacity(server.headers.len());
        for (written, value) in &server.headers {
            let place = format!("the header {written}");
            let value = self.fill(&read(value, &place)?, &place)?;
            let (Ok(name), Ok(mut value)) = (
                HeaderName::try_from(written.as_str()),
                HeaderValue::try_from(value),
            ) else {
                let message = format!("{place} cannot be sent: check its name and value");
                return Err(Fault::new(Kind::Misconfigured, message));
            };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
    }
}

fn client_template(server: &config::Server) -> Result<Option<(Proof, Template)>, Fault> {
    let Some(oauth) = &server.oauth else {
        return Ok(None);
    };
    let key = oauth.private_key.as_deref().map(|key| (Proof::Key, key));
    let secret = oauth.client_secret.as_deref();
    let written = key.or(secret.map(|secret| (Proof::Secret, secret)));
    let template = written.map(|(proof, text)| Ok((proof, read(text, proof.place())?)));
    template.transpose()
}

fn read(value: &str, place: &str) -> Result<Template, Fault> {
    Template::read(value).map_err(|bad| Fault::new(Kind::VaultReference, format!("{place}: {bad}")))
}
