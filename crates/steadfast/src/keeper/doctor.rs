//! Examinations: of a connection, or of an address that nobody is connected to.

use std::sync::Arc;

use steadfast_core::{Fault, Kind};
use steadfast_store::Error;
use url::Url;

use super::Keeper;
use crate::config;
use crate::doctor::{Examination, Instruments, Patient, examine};
use crate::grants::Doors;
use crate::link::Link;

/// Why nothing was examined.
#[derive(Debug, thiserror::Error)]
pub enum NotExamined {
    /// The server left the configuration a moment ago.
    #[error("the server is not configured any more")]
    Gone,
    /// It is no address of a server.
    #[error(transparent)]
    Address(Fault),
    /// The store refuses.
    #[error(transparent)]
    Store(#[from] Error),
}

impl Keeper {
    /// Examines an agent's connection, and changes nothing.
    ///
    /// # Errors
    ///
    /// Where the store refuses, or the server is gone.
    pub async fn examine(
        &self,
        link: &Arc<Link>,
        doors: &Doors,
    ) -> Result<Examination, NotExamined> {
        let servers = &self.inner.configured.servers;
        let config = servers.lock().get(&link.server).cloned();
        let patient = Patient {
            link: Some(Arc::clone(link)),
            config: config.ok_or(NotExamined::Gone)?,
            doors: doors.clone(),
        };
        self.walk(patient).await
    }

    /// Examines an address, as one that is not configured.
    ///
    /// # Errors
    ///
    /// Where it is no http or https address.
    pub async fn examine_address(
        &self,
        url: Url,
        doors: &Doors,
    ) -> Result<Examination, NotExamined> {
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            let message = "the address of a server begins with http:// or https://";
            let fault = Fault::new(Kind::Misconfigured, message);
            return Err(NotExamined::Address(fault));
        }
        let patient = Patient {
            link: None,
            config: config::Server::at(url),
            doors: doors.clone(),
        };
        self.walk(patient).await
    }

    /// Goes on when whoever asked goes away: a session that was opened must be ended.
    async fn walk(&self, patient: Patient) -> Result<Examination, NotExamined> {
        let inner = &self.inner;
        let instruments = Instruments {
            settings: inner.settings.clone(),
            retry: Arc::clone(&inner.shared.retry),
            dialer: Arc::clone(&inner.dialer),
            fleet: Arc::clone(&inner.shared.fleet),
            grants: Arc::clone(&inner.grants),
            secrets: Arc::clone(&inner.secrets),
            ids: Arc::clone(&inner.ids),
            slept: inner.grants.look_at_clocks().1,
        };
        let walking = tokio::spawn(async move { examine(&instruments, patient).await });
        match walking.await {
            Ok(examined) => Ok(examined?),
            Err(_) => Err(NotExamined::Gone),
        }
    }
}
