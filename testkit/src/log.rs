//! What the server saw, in order, with monotonic times.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

/// One HTTP request as it arrived.
#[derive(Clone, Debug)]
pub struct Request {
    /// Position in the log.
    pub index: usize,
    /// Time since the server was made, when the last byte of the request had arrived.
    pub at: Duration,
    /// Number of the connection that carried it, from 1.
    pub connection: u64,
    /// Whether it came by HTTP/2.
    pub http2: bool,
    /// HTTP method.
    pub method: String,
    /// Path with its query.
    pub path: String,
    /// Headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body bytes.
    pub body: Bytes,
    /// The body, where it is JSON.
    pub json: Option<Value>,
}

impl Request {
    /// First value of a header; the name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// The session id that the request carries.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.header("mcp-session-id")
    }

    /// The bearer token that the request carries; the scheme in any case (RFC 9110 section 11.1).
    #[must_use]
    pub fn bearer(&self) -> Option<&str> {
        let (scheme, token) = self.header("authorization")?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token)
    }

    /// Method of the JSON-RPC message in the body.
    #[must_use]
    pub fn rpc_method(&self) -> Option<&str> {
        self.json.as_ref()?.get("method")?.as_str()
    }

    /// Id of the JSON-RPC message in the body.
    #[must_use]
    pub fn rpc_id(&self) -> Option<&Value> {
        self.json.as_ref()?.get("id")
    }

    /// A value in the body by JSON pointer, as in `"/params/name"`.
    #[must_use]
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        self.json.as_ref()?.pointer(pointer)
    }

    /// The tool that a `tools/call` names.
    #[must_use]
    pub fn tool(&self) -> Option<&str> {
        if self.rpc_method() == Some("tools/call") {
            self.pointer("/params/name")?.as_str()
        } else {
            None
        }
    }

    /// The arguments of a `tools/call`; null if it has none.
    #[must_use]
    pub fn arguments(&self) -> &Value {
        self.pointer("/params/arguments").unwrap_or(&Value::Null)
    }

    /// Path without its query.
    #[must_use]
    pub fn path_only(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// The parameters of the query, decoded.
    #[must_use]
    pub fn query(&self) -> Parameters {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        Parameters::parse(query.as_bytes())
    }

    /// The parameters of a form in the body, decoded; none where the body is no form.
    #[must_use]
    pub fn form(&self) -> Parameters {
        match self.header("content-type") {
            Some(value) if value.starts_with("application/x-www-form-urlencoded") => {
                Parameters::parse(&self.body)
            }
            Some(_) | None => Parameters::default(),
        }
    }
}

/// Decoded parameters of a query or a form, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters(pub Vec<(String, String)>);

impl Parameters {
    fn parse(text: &[u8]) -> Self {
        Self(url::form_urlencoded::parse(text).into_owned().collect())
    }

    /// The first value of a parameter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// A parameter whose value is a list with spaces, such as `scope`; empty where it is absent.
    #[must_use]
    pub fn list(&self, name: &str) -> Vec<String> {
        words(self.get(name).unwrap_or_default())
    }
}

pub(crate) fn words(list: &str) -> Vec<String> {
    list.split_ascii_whitespace().map(str::to_owned).collect()
}

/// How a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Sent to its end.
    Complete,
    /// The peer closed the connection or the stream before the end.
    PeerGone,
    /// The script cut it off.
    Cut,
}

/// Something that the server saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection was accepted.
    Opened {
        /// Its number, from 1.
        connection: u64,
    },
    /// A request had arrived.
    Request {
        /// Its position among the requests.
        index: usize,
    },
    /// The response to a request ended.
    Ended {
        /// Position of the request.
        index: usize,
        /// How.
        ending: Ending,
    },
    /// A run of a tool was stopped because its client cancelled it.
    Cancelled {
        /// Position of the request whose run it was.
        index: usize,
    },
    /// A connection was closed, by whichever side.
    Closed {
        /// Its number.
        connection: u64,
    },
}

/// The log of one server; a cheap handle.
#[derive(Clone)]
pub struct RequestLog {
    inner: Arc<Inner>,
}

struct Inner {
    started: Instant,
    entries: Mutex<Entries>,
    changed: Notify,
}

#[derive(Default)]
struct Entries {
    requests: Vec<Arc<Request>>,
    events: Vec<(Duration, Event)>,
}

impl Default for RequestLog {
    fn default() -> Self {
        let entries = Mutex::new(Entries::default());
        Self {
            inner: Arc::new(Inner {
                started: Instant::now(),
                entries,
                changed: Notify::new(),
            }),
        }
    }
}

impl RequestLog {
    /// Time since the log was started; the clock of every time in it.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.inner.started.elapsed()
    }

    pub(crate) fn request(&self, make: impl FnOnce(usize, Duration) -> Request) -> Arc<Request> {
        let mut entries = self.inner.entries.lock();
        let (index, at) = (entries.requests.len(), self.now());
        let request = Arc::new(make(index, at));
        entries.requests.push(Arc::clone(&request));
        entries.events.push((at, Event::Request { index }));
        drop(entries);
        self.inner.changed.notify_waiters();
        request
    }

    pub(crate) fn event(&self, event: Event) {
        let mut entries = self.inner.entries.lock();
        entries.events.push((self.now(), event));
        drop(entries);
        self.inner.changed.notify_waiters();
    }

    /// All requests in order of arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<Arc<Request>> {
        self.inner.entries.lock().requests.clone()
    }

    /// All events in order, with times.
    #[must_use]
    pub fn events(&self) -> Vec<(Duration, Event)> {
        self.inner.entries.lock().events.clone()
    }

    /// The requests that satisfy a condition.
    pub fn matching(&self, condition: impl Fn(&Request) -> bool) -> Vec<Arc<Request>> {
        self.inner
            .entries
            .lock()
            .requests
            .iter()
            .filter(|request| condition(request))
            .cloned()
            .collect()
    }

    /// The POSTs with this JSON-RPC method.
    #[must_use]
    pub fn posts(&self, rpc_method: &str) -> Vec<Arc<Request>> {
        self.matching(|request| {
            request.method == "POST" && request.rpc_method() == Some(rpc_method)
        })
    }

    /// The `tools/call` requests that name this tool.
    #[must_use]
    pub fn calls(&self, tool: &str) -> Vec<Arc<Request>> {
        self.matching(|request| request.tool() == Some(tool))
    }

    /// The requests with this HTTP method.
    #[must_use]
    pub fn http(&self, method: &str) -> Vec<Arc<Request>> {
        self.matching(|request| request.method == method)
    }

    /// How many POSTs had this JSON-RPC method.
    #[must_use]
    pub fn count(&self, rpc_method: &str) -> usize {
        self.posts(rpc_method).len()
    }

    /// When and how the response to a request ended, if it has.
    #[must_use]
    pub fn ending(&self, index: usize) -> Option<(Duration, Ending)> {
        self.inner
            .entries
            .lock()
            .events
            .iter()
            .find_map(|(at, event)| match event {
                Event::Ended {
                    index: ended,
                    ending,
                } if *ended == index => Some((*at, *ending)),
                _ => None,
            })
    }

    /// Whether the run of a request's tool was stopped by a cancellation.
    #[must_use]
    pub fn cancelled(&self, index: usize) -> bool {
        self.events()
            .iter()
            .any(|(_, event)| *event == Event::Cancelled { index })
    }

    /// A short name of every request in order, such as `POST initialize`, `GET` or `POST response`: for comparing
    /// the order on the wire.
    #[must_use]
    pub fn order(&self) -> Vec<String> {
        self.requests()
            .iter()
            .map(|request| label(request))
            .collect()
    }

    /// Waits until the log satisfies a condition; looks again at each change, and gives up after `limit`.
    pub async fn wait_for(
        &self,
        condition: impl Fn(&RequestLog) -> bool,
        limit: Duration,
    ) -> Result<(), NotSeen> {
        let seen = async {
            loop {
                let changed = self.inner.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if condition(self) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(limit, seen)
            .await
            .map_err(|_| NotSeen {
                limit,
                log: self.to_string(),
            })
    }
}

fn label(request: &Request) -> String {
    match (request.rpc_method(), request.tool()) {
        (_, Some(tool)) => format!("{} tools/call {tool}", request.method),
        (Some(method), None) => format!("{} {method}", request.method),
        (None, None)
            if request
                .json
                .as_ref()
                .is_some_and(|json| json.get("id").is_some()) =>
        {
            format!("{} response", request.method)
        }
        (None, None) => request.method.clone(),
    }
}

impl fmt::Display for RequestLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.inner.entries.lock();
        for (at, event) in &entries.events {
            write!(f, "{:>9.3}s ", at.as_secs_f64())?;
            match event {
                Event::Request { index } => {
                    let request = &entries.requests[*index];
                    let session = request.session().unwrap_or("-");
                    writeln!(
                        f,
                        "#{index} {} {} on {} session {session}",
                        label(request),
                        request.path_only(),
                        request.connection
                    )?;
                }
                other => writeln!(f, "{other:?}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for RequestLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What was waited for did not happen in time; shows what did.
pub struct NotSeen {
    limit: Duration,
    log: String,
}

impl fmt::Display for NotSeen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "not seen within {:?}; the log is:\n{}",
            self.limit, self.log
        )
    }
}

impl fmt::Debug for NotSeen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NotSeen {}
