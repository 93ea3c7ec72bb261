//! One request to an authorization server, or for a metadata document: small, sent once, never redirected.
//!
//! It goes the same way as an MCP exchange, so that it is known whether anything of it left: a renewal whose
//! answer is lost is another matter than one that never began (architecture, grants 1).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method};
use parking_lot::Mutex;
use steadfast_core::oauth::reach::Reach;
use steadfast_core::quirks::Media;
use steadfast_core::{Fault, Kind, Millis, Revision};
use steadfast_store::SharedStore;
use url::Url;

use super::ask::{media_of, retry_after};
use super::dial::{Dialer, Origin};
use super::documents::{Kept, Lifetime};
use super::exchange::{Cut, Outgoing, Terms, exchange};
use super::pool::Pool;
use crate::clock;
use crate::route::{PROTOCOL_VERSION, USER_AGENT_VALUE, path_of};

/// Metadata and token answers are small; more than this is none.
const LARGEST: usize = 1 << 20;

/// Fetches.
#[derive(Clone, Debug)]
pub(crate) struct Fetcher {
    dialer: Arc<Dialer>,
    reach: Reach,
    limit: Duration,
    kept: Kept,
    trail: Option<Trail>,
}

/// What was asked and what came back, for whoever wants to show it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trail(Arc<Mutex<Vec<Asked>>>);

/// One request of a trail.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) url: Url,
    pub(crate) status: Option<u16>,
    /// The request and its answer, in words.
    pub(crate) line: String,
}

impl Trail {
    /// What came since it was last taken.
    pub(crate) fn take(&self) -> Vec<Asked> {
        std::mem::take(&mut self.0.lock())
    }

    fn add(&self, method: &Method, url: &Url, outcome: &Result<Fetched, NotFetched>) {
        let (status, answer) = match outcome {
            Ok(fetched) => (Some(fetched.status), fetched.status.to_string()),
            Err(not) => (None, not.fault.message.clone()),
        };
        self.0.lock().push(Asked {
            url: url.clone(),
            status,
            line: format!("{method} {url}: {answer}"),
        });
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Fetched {
    pub(crate) status: u16,
    pub(crate) media: Media,
    pub(crate) retry_after: Option<Millis>,
    /// The lines of `WWW-Authenticate`.
    pub(crate) challenges: Vec<String>,
    /// How long it may be used.
    pub(crate) lifetime: Lifetime,
    pub(crate) body: Bytes,
}

/// Nothing came back.
#[derive(Clone, Debug)]
pub(crate) struct NotFetched {
    pub(crate) fault: Fault,
    /// Whether it is proven that the peer did not read the request.
    pub(crate) proven_unsent: bool,
}

impl Fetcher {
    /// For what a server leads to. A public server leads nobody to private addresses or plain http, unless its
    /// operator allows it; a server that is on one itself may.
    pub(crate) fn for_server(
        dialer: &Arc<Dialer>,
        server: &Url,
        allow_private: bool,
        limit: Duration,
    ) -> Self {
        let is_private = server.scheme() == "http"
            || Origin::of(server).is_ok_and(|origin| dialer.is_private_place(&origin));
        let reach = if allow_private || is_private {
            Reach::Anywhere
        } else {
            Reach::Public
        };
        Self {
            dialer: Arc::clone(dialer),
            reach,
            limit,
            kept: Kept::default(),
            trail: None,
        }
    }

    /// With metadata documents that are kept from one sign-in to the next.
    pub(crate) fn with_documents(mut self, store: SharedStore) -> Self {
        self.kept = Kept::in_store(store);
        self
    }

    /// The same, for whoever knows better than what is kept.
    pub(crate) fn anew(mut self) -> Self {
        self.kept.forget_first();
        self
    }

    /// The same, leaving a trail.
    pub(crate) fn trailing(mut self) -> (Self, Trail) {
        let trail = Trail::default();
        self.trail = Some(trail.clone());
        (self, trail)
    }

    /// For an address that the operator configured: it may be anywhere.
    pub(crate) fn for_operator(dialer: &Arc<Dialer>, limit: Duration) -> Self {
        Self {
            dialer: Arc::clone(dialer),
            reach: Reach::Anywhere,
            limit,
            kept: Kept::default(),
            trail: None,
        }
    }

    /// Whether an address may be asked at all.
    pub(crate) fn allows(&self, url: &Url) -> Result<(), Fault> {
        let refused = |why: &str| {
            let place = url.host_str().unwrap_or("it");
            let message = format!("a public server leads to {place}, {why}");
            Err(Fault::new(Kind::Misconfigured, message))
        };
        let origin = Origin::of(url)?;
        match self.reach {
            Reach::Anywhere => Ok(()),
            Reach::Public if !origin.tls => refused("which is not https"),
            Reach::Public if self.dialer.is_private_place(&origin) => {
                refused("which is a private address")
            }
            Reach::Public => Ok(()),
        }
    }

    /// A metadata document that need not be asked for.
    pub(crate) async fn fresh(&self, url: &Url) -> Option<Fetched> {
        self.allows(url).ok()?;
        self.kept.fresh(url).await
    }

    /// GET for a metadata document; only whether it has changed, where an older one is kept.
    pub(crate) async fn get(&self, url: &Url) -> Result<Fetched, NotFetched> {
        let headers = self.kept.conditions(url).await;
        let fetched = self.send(Method::GET, url, headers, Bytes::new()).await?;
        Ok(self.kept.or_unchanged(url, fetched).await)
    }

    /// Keeps a document that was found to be good.
    pub(crate) async fn keep(&self, url: &Url, fetched: &Fetched) {
        self.kept.keep(url, fetched).await;
    }

    /// POST of a form (RFC 6749 appendix B).
    pub(crate) async fn post_form(
        &self,
        url: &Url,
        fields: &[(&str, &str)],
        mut headers: HeaderMap,
    ) -> Result<Fetched, NotFetched> {
        let form = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields)
            .finish();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/x-www-form-urlencoded"),
        );
        self.send(Method::POST, url, headers, form.into()).await
    }

    /// POST of a JSON document.
    pub(crate) async fn post_json(
        &self,
        url: &Url,
        body: &serde_json::Value,
    ) -> Result<Fetched, NotFetched> {
        self.post_json_with(url, HeaderMap::new(), body).await
    }

    /// The same with headers of the operator's.
    pub(crate) async fn post_json_with(
        &self,
        url: &Url,
        mut headers: HeaderMap,
        body: &serde_json::Value,
    ) -> Result<Fetched, NotFetched> {
        let json = HeaderValue::from_static("application/json");
        headers.insert(CONTENT_TYPE, json);
        let body = body.to_string().into();
        self.send(Method::POST, url, headers, body).await
    }

    /// A harmless question to an MCP server, without a credential: what is of interest is its challenge. The other
    /// headers are those that the operator configured for the server: some answer nobody without them.
    pub(crate) async fn knock(
        &self,
        url: &Url,
        mut headers: HeaderMap,
    ) -> Result<Fetched, NotFetched> {
        headers.remove(AUTHORIZATION);
        let json = HeaderValue::from_static("application/json");
        let accepts = HeaderValue::from_static("application/json, text/event-stream");
        headers.extend([(CONTENT_TYPE, json), (ACCEPT, accepts)]);
        let ping = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        self.send(Method::POST, url, headers, ping).await
    }

    async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Fetched, NotFetched> {
        let outcome = self.send_once(method.clone(), url, headers, body).await;
        if let Some(trail) = &self.trail {
            trail.add(&method, url, &outcome);
        }
        outcome
    }

    async fn send_once(
        &self,
        method: Method,
        url: &Url,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<Fetched, NotFetched> {
        let unsent = |fault| NotFetched {
            fault,
            proven_unsent: true,
        };
        self.allows(url).map_err(unsent)?;
        let origin = Origin::of(url).map_err(unsent)?;
        // Asked for by name: without it some providers answer with a form (TE-06).
        headers
            .entry(ACCEPT)
            .or_insert(HeaderValue::from_static("application/json"));
        headers.insert(http::header::USER_AGENT, USER_AGENT_VALUE);
        if method == Method::GET {
            // 2025-03-26 basic/authorization, "Server Metadata Discovery Headers".
            let revision = HeaderValue::from_static(Revision::LATEST_LEGACY.as_str());
            headers.insert(PROTOCOL_VERSION, revision);
        }
        let outgoing = Outgoing {
            method,
            path: path_of(url),
            headers,
            body,
            token: None,
        };
        // A pool of its own, for one exchange: requests are rare, and one that goes out on a connection that died
        // while idle would be one more case.
        let pool = Arc::new(Pool::new(Arc::clone(&self.dialer), origin, self.reach));
        let terms = Terms {
            max_idle: None,
            headers_within: self.limit,
        };
        let asked = clock::wall();
        let reply = exchange(&pool, outgoing, terms)
            .await
            .map_err(|unanswered| NotFetched {
                fault: unanswered.fault,
                proven_unsent: unanswered.proven_unsent,
            })?;
        let (status, headers) = (reply.status.as_u16(), reply.headers);
        let lost = |fault| NotFetched {
            fault,
            proven_unsent: false,
        };
        let body = match tokio::time::timeout(self.limit, reply.body.collect(LARGEST)).await {
            Ok(Ok(body)) => body,
            Ok(Err(Cut::TooLarge)) => {
                let message = "the answer is larger than any token or metadata document";
                return Err(lost(Fault::new(Kind::NotAnMcpAnswer, message)));
            }
            Ok(Err(Cut::Broken(how))) => {
                return Err(lost(Fault::new(Kind::Network, how.evidence())));
            }
            Err(_) => {
                let message = format!("no whole answer within {} ms", self.limit.as_millis());
                return Err(lost(Fault::new(Kind::Timeout, message)));
            }
        };
        Ok(Fetched {
            status,
            media: media_of(&headers),
            retry_after: retry_after(&headers),
            challenges: headers
                .get_all(WWW_AUTHENTICATE)
                .iter()
                .filter_map(|line| line.to_str().ok().map(str::to_owned))
                .collect(),
            lifetime: Lifetime::of(&headers, asked),
            body,
        })
    }
}
