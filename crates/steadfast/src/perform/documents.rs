//! Metadata documents, kept by the rules of HTTP: used while they are fresh, and then asked for with their ETag.
//!
//! What cannot be kept or read costs a request, and nothing else.

use bytes::Bytes;
use http::header::{AGE, CACHE_CONTROL, DATE, ETAG, EXPIRES, HeaderName, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue};
use steadfast_core::quirks::Media;
use steadfast_core::wire::caching::{Said, fresh_until};
use steadfast_core::{Millis, Wall};
use steadfast_store::{DocumentRecord, SharedStore};
use url::Url;

use super::fetch::Fetched;
use crate::clock;

/// No document is used for longer without being asked for, whatever its server says of it.
const LONGEST: Millis = Millis::mins(24 * 60);
/// What nobody has asked for so long is forgotten.
const UNUSED: Millis = Millis::mins(30 * 24 * 60);

/// The documents that are kept; none, unless there is a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    store: Option<SharedStore>,
    /// What is there is wrong: it is forgotten before it is asked for.
    forget_first: bool,
}

/// How long an answer may be used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lifetime {
    asked: Wall,
    /// `None` where it must not be kept.
    fresh_until: Option<Wall>,
    etag: Option<String>,
}

impl Lifetime {
    /// Of an answer whose request left at `asked`.
    pub(super) fn of(headers: &HeaderMap, asked: Wall) -> Self {
        let text = |name: &HeaderName| headers.get(name)?.to_str().ok();
        let lines = headers.get_all(CACHE_CONTROL).iter();
        let lines: Vec<&str> = lines.filter_map(|line| line.to_str().ok()).collect();
        let control = lines.join(",");
        let said = Said {
            cache_control: (!lines.is_empty()).then_some(control.as_str()),
            expires: headers.get(EXPIRES).map(|_| text(&EXPIRES).and_then(date)),
            date: text(&DATE).and_then(date),
            age: text(&AGE).and_then(|age| age.trim().parse().ok()),
            varies: text(&VARY).is_some_and(|vary| vary.trim() == "*"),
        };
        Self {
            asked,
            fresh_until: fresh_until(&said, asked, LONGEST),
            etag: text(&ETAG).map(str::to_owned),
        }
    }
}

impl Lifetime {
    /// How long it may still be used without asking.
    pub(crate) fn left(&self, now: Wall) -> Millis {
        self.fresh_until
            .map_or(Millis::ZERO, |until| until.until(now))
    }
}

/// An HTTP date (RFC 9110 section 5.6.7).
fn date(text: &str) -> Option<Wall> {
    let at = jiff::fmt::rfc2822::parse(text.trim()).ok()?.timestamp();
    Some(Wall(at.as_millisecond()))
}

impl Kept {
    pub(super) const fn in_store(store: SharedStore) -> Self {
        Self {
            store: Some(store),
            forget_first: false,
        }
    }

    pub(super) const fn forget_first(&mut self) {
        self.forget_first = true;
    }

    async fn read(&self, url: &Url) -> Option<DocumentRecord> {
        let store = self.store.as_ref().filter(|_| !self.forget_first)?;
        store.document(url.as_str()).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "a document that is kept cannot be read");
            None
        })
    }

    /// A document that need not be asked for.
    pub(super) async fn fresh(&self, url: &Url) -> Option<Fetched> {
        let (record, now) = (self.read(url).await?, clock::wall());
        // From the future: the clock was set back, and nobody knows how old it is.
        let is_fresh = record.fetched_at <= now && now < record.fresh_until;
        is_fresh.then(|| fetched(record, Lifetime::default()))
    }

    /// The headers of a request for it.
    pub(super) async fn conditions(&self, url: &Url) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.forget_first {
            self.forget(url).await;
            // Also in front of the server (RFC 9111 section 5.2.1.4).
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        let etag = self.read(url).await.and_then(|record| record.etag);
        if let Some(etag) = etag.and_then(|etag| HeaderValue::try_from(etag).ok()) {
            headers.insert(IF_NONE_MATCH, etag);
        }
        headers
    }

    /// What came; what is kept, where that has not changed (RFC 9111 section 4.3.3).
    pub(super) async fn or_unchanged(&self, url: &Url, came: Fetched) -> Fetched {
        if came.status != 304 {
            return came;
        }
        match self.read(url).await {
            Some(record) => {
                let mut lifetime = came.lifetime;
                lifetime.etag = lifetime.etag.or_else(|| record.etag.clone());
                fetched(record, lifetime)
            }
            None => came,
        }
    }

    /// Keeps a document that was found to be good.
    pub(super) async fn keep(&self, url: &Url, fetched: &Fetched) {
        let Some(store) = &self.store else {
            return;
        };
        let lifetime = &fetched.lifetime;
        let is_of_use = |until: &Wall| *until > lifetime.asked || lifetime.etag.is_some();
        let Some(until) = lifetime.fresh_until.filter(is_of_use) else {
            return self.forget(url).await;
        };
        let record = DocumentRecord {
            url: url.as_str().to_owned(),
            body: fetched.body.to_vec(),
            etag: lifetime.etag.clone(),
            fetched_at: lifetime.asked,
            fresh_until: until,
        };
        let before = Wall(lifetime.asked.0.saturating_sub_unsigned(UNUSED.0));
        let kept = match store.put_document(&record).await {
            Ok(()) => store.remove_old_documents(before).await.map(|_| ()),
            Err(error) => Err(error),
        };
        if let Err(error) = kept {
            tracing::debug!(%error, "a document cannot be kept");
        }
    }

    async fn forget(&self, url: &Url) {
        let Some(store) = &self.store else {
            return;
        };
        if let Err(error) = store.remove_document(url.as_str()).await {
            tracing::debug!(%error, "a document cannot be forgotten");
        }
    }
}

/// A document that is kept, as if it had come.
fn fetched(record: DocumentRecord, lifetime: Lifetime) -> Fetched {
    Fetched {
        status: 200,
        media: Media::Json,
        retry_after: None,
        challenges: Vec::new(),
        lifetime,
        body: Bytes::from(record.body),
    }
}
