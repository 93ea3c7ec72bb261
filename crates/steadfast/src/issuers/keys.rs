//! The keys of one issuer: fetched when they are needed, and used on when they cannot be fetched again.

use std::sync::Arc;

use parking_lot::RwLock;
use steadfast_core::oauth::bearer::keys::{Ask, Keys, Looked, ask};
use steadfast_core::oauth::bearer::{Jwt, Refusal};
use steadfast_core::{Fault, Kind, Millis, Mono};
use tokio::sync::Mutex;
use url::Url;

use super::{NotAccepted, metadata};
use crate::clock;
use crate::config;
use crate::perform::fetch::{Fetched, Fetcher};
use crate::perform::verify::is_signed_by;

/// The keys, and when they were asked for.
#[derive(Debug)]
pub(super) struct KeyRing {
    issuer: String,
    /// Where they are, where the operator says so.
    place: Option<Url>,
    /// How long the issuer is left in peace.
    pause: Millis,
    fetcher: Fetcher,
    kept: RwLock<Kept>,
    /// One asks; whoever else wants to know waits for what comes of it.
    asking: Mutex<()>,
}

#[derive(Clone, Debug, Default)]
struct Kept {
    /// None until they came for the first time.
    keys: Option<Arc<Keys>>,
    looked: Looked,
}

impl KeyRing {
    pub(super) fn new(config: &config::Issuer, fetcher: Fetcher) -> Self {
        Self {
            issuer: config.issuer.clone(),
            place: config.jwks_uri.clone(),
            pause: config.jwks_recheck.0,
            fetcher,
            kept: RwLock::default(),
            asking: Mutex::default(),
        }
    }

    /// That one of the issuer's keys made the signature of a token.
    pub(super) async fn verify(self: &Arc<Self>, jwt: &Jwt<'_>) -> Result<(), NotAccepted> {
        let kept = self.kept.read().clone();
        let is_known = kept.made(jwt);
        match ask(kept.looked, is_known, clock::mono(), self.pause) {
            Ask::Not => {}
            Ask::Beside => {
                let keys = Arc::clone(self);
                tokio::spawn(async move { keys.fetch(kept.looked.asked_at).await });
            }
            Ask::First => self.fetch(kept.looked.asked_at).await,
        }
        if is_known {
            return Ok(());
        }
        // A fetch that somebody else began is waited for, too.
        drop(self.asking.lock().await);
        let kept = self.kept.read().clone();
        match kept.keys {
            Some(_) if kept.made(jwt) => Ok(()),
            Some(_) => Err(Refusal::Signature.into()),
            None => Err(NotAccepted::Unavailable),
        }
    }

    /// Asks for the keys, unless somebody has done so since `before`.
    async fn fetch(&self, before: Option<Mono>) {
        let _one = self.asking.lock().await;
        if self.kept.read().looked.asked_at != before {
            return;
        }
        let fetched = self.ask().await;
        let now = clock::now();
        let mut kept = self.kept.write();
        kept.looked.asked_at = Some(now.mono);
        match fetched {
            Ok((keys, lasting)) => {
                kept.looked.fresh_until = Some(Mono(now.mono.0.saturating_add(lasting.0)));
                kept.keys = Some(Arc::new(keys));
            }
            Err(fault) => {
                let issuer = &self.issuer;
                tracing::warn!(%issuer, code = %fault.kind.code(), fault = %fault.message, "the keys of an issuer of agents' tokens cannot be fetched");
            }
        }
    }

    /// The keys, and how long they may be used without asking.
    async fn ask(&self) -> Result<(Keys, Millis), Fault> {
        let place = match &self.place {
            Some(place) => place.clone(),
            None => {
                let metadata = metadata(&self.fetcher, &self.issuer).await?;
                metadata.jwks_uri.ok_or_else(|| {
                    let message = "the issuer's metadata names no jwks_uri";
                    Fault::new(Kind::Misconfigured, message)
                })?
            }
        };
        let fetched = self.fetcher.get(&place).await;
        let fetched = fetched.map_err(|not| not.fault)?;
        let keys = read(&place, &fetched)?;
        self.fetcher.keep(&place, &fetched).await;
        Ok((keys, fetched.lifetime.left(clock::wall())))
    }
}

fn read(place: &Url, fetched: &Fetched) -> Result<Keys, Fault> {
    if fetched.status != 200 {
        let message = format!("{place} answered {}", fetched.status);
        return Err(Fault::new(Kind::ServerError, message));
    }
    Keys::read(&fetched.body).ok_or_else(|| {
        let message = format!("{place} is no set of keys");
        Fault::new(Kind::Misconfigured, message)
    })
}

impl Kept {
    /// Whether one of the keys made the signature of a token.
    fn made(&self, jwt: &Jwt<'_>) -> bool {
        let keys = self.keys.iter();
        keys.flat_map(|keys| keys.candidates(jwt.key_id.as_deref(), jwt.algorithm))
            .any(|key| is_signed_by(jwt, key))
    }
}
