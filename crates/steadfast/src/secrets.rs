//! The secrets that the configuration names, open in memory: a request takes them as they are when it leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use http::header::{HeaderName, HeaderValue};
use parking_lot::RwLock;
use steadfast_core::reference::Template;
use steadfast_core::{Fault, Kind};
use steadfast_store::{Error, ExposeSecret as _, SecretString, SharedStore, Vault};

use crate::config;

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
    client_secret: Option<Template>,
}

#[derive(Debug)]
struct Header {
    name: HeaderName,
    /// As it is written in the configuration.
    place: String,
    value: Template,
}

const CLIENT_SECRET: &str = "oauth.client_secret";

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

    /// Takes note of the client's secret.
    pub(crate) fn add_client(&mut self, server: &config::Server) -> Result<(), Fault> {
        self.client_secret = client_template(server)?;
        Ok(())
    }

    /// Whether the configuration names none at all.
    pub(crate) fn are_none(&self) -> bool {
        self.headers.is_empty() && self.client_secret.is_none()
    }

    /// Whether this header names secrets.
    pub(crate) fn has_header(&self, name: &HeaderName) -> bool {
        self.headers.iter().any(|header| header.name == name)
    }

    /// Whether one of these secrets is among them.
    pub(crate) fn name_any_of(&self, secrets: &BTreeSet<String>) -> bool {
        let headers = self.headers.iter().map(|header| &header.value);
        let mut all = headers.chain(&self.client_secret);
        all.any(|template| template.names().any(|name| secrets.contains(name)))
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
        match &self.client_secret {
            Some(template) => secrets.fill(template, CLIENT_SECRET).map(drop),
            None => Ok(()),
        }
    }
}

impl Secrets {
    /// The configured secret of a server's OAuth client, as it is now.
    ///
    /// # Errors
    ///
    /// Where it names a secret that is not there.
    pub(crate) fn of_client(&self, server: &config::Server) -> Result<Option<String>, Fault> {
        let template = client_template(server)?;
        template
            .map(|template| self.fill(&template, CLIENT_SECRET))
            .transpose()
    }
}

fn client_template(server: &config::Server) -> Result<Option<Template>, Fault> {
    let oauth = server.oauth.as_ref();
    oauth
        .and_then(|oauth| oauth.client_secret.as_deref())
        .map(|secret| read(secret, CLIENT_SECRET))
        .transpose()
}

fn read(value: &str, place: &str) -> Result<Template, Fault> {
    Template::read(value).map_err(|bad| Fault::new(Kind::VaultReference, format!("{place}: {bad}")))
}
