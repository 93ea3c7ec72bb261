//! A client of the running daemon: one request per connection, nothing sent twice.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use serde_json::Value;
use steadfast_core::code::{self, Code};
use steadfast_core::wire::sse::{Decoder, Event, Item};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;

use crate::failure::Failure;

/// How long opening a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer of the admin API may take; a reload answers within 30 s.
const ANSWER: Duration = Duration::from_secs(45);
/// The largest answer that is read.
const LARGEST: usize = 1 << 30;

/// The daemon at an address, with a credential.
pub(crate) struct Client {
    base: Url,
    authorization: HeaderValue,
}

impl Client {
    /// For the daemon at `base`, such as `http://127.0.0.1:7420`.
    pub(crate) fn new(base: Url, token: &str) -> Result<Self, Failure> {
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            let message = format!("`{base}` is not the address of a daemon");
            return Err(Failure::hinted(
                code::CONFIG_BAD_VALUE,
                message,
                "Write it as http://host:port.",
            )
            .usage());
        }
        let mut authorization = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
            Failure::new(
                code::BAD_ADMIN_TOKEN,
                "the token has characters that a header cannot carry",
            )
        })?;
        authorization.set_sensitive(true);
        Ok(Self {
            base,
            authorization,
        })
    }

    /// GET of the admin API; `path` comes after `/api/v1`.
    pub(crate) async fn get(&self, path: &[&str]) -> Result<Value, Failure> {
        self.admin(Method::GET, path, None).await
    }

    /// GET of the admin API with a query.
    pub(crate) async fn get_with(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<Value, Failure> {
        let pairs = query
            .iter()
            .map(|(name, value)| format!("{name}={}", escaped(value)));
        let query = pairs.collect::<Vec<_>>().join("&");
        let path = format!("{}?{query}", admin_path(path));
        self.admin_at(Method::GET, &path, None).await
    }

    /// POST to the admin API.
    pub(crate) async fn post(&self, path: &[&str], body: Option<&Value>) -> Result<Value, Failure> {
        self.admin(Method::POST, path, body).await
    }

    /// PUT to the admin API.
    pub(crate) async fn put(&self, path: &[&str], body: &Value) -> Result<Value, Failure> {
        self.admin(Method::PUT, path, Some(body)).await
    }

    /// DELETE of the admin API.
    pub(crate) async fn delete(&self, path: &[&str]) -> Result<Value, Failure> {
        self.admin(Method::DELETE, path, None).await
    }

    async fn admin(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        self.admin_at(method, &admin_path(path), body).await
    }

    async fn admin_at(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let body = body.map(|body| Bytes::from(body.to_string()));
        let exchange = async {
            let response = self.send(method, path, HeaderMap::new(), body).await?;
            self.whole(response).await
        };
        let limited = tokio::time::timeout(ANSWER, exchange).await;
        let (status, body) = limited.map_err(|_| self.silent())??;
        self.admin_answer(status, &body)
    }

    fn silent(&self) -> Failure {
        let message = format!(
            "the daemon at {} took the request and does not answer",
            self.base
        );
        Failure::new(code::NO_DAEMON, message)
    }

    fn admin_answer(&self, status: StatusCode, body: &[u8]) -> Result<Value, Failure> {
        if status == StatusCode::UNAUTHORIZED {
            let message = format!("the daemon at {} refused the admin token", self.base);
            return Err(Failure::new(code::BAD_ADMIN_TOKEN, message));
        }
        if status.is_success() && body.is_empty() {
            return Ok(Value::Null);
        }
        match serde_json::from_slice::<Value>(body) {
            Ok(value) if status.is_success() => Ok(value),
            Ok(problem) => Err(told(status, &problem)),
            Err(_) => {
                let message = format!(
                    "what answers at {} with status {status} is not Steadfast",
                    self.base
                );
                Err(Failure::new(code::NO_DAEMON, message))
            }
        }
    }

    /// A POST to the admin API that may take as long as a tool takes; the answer as it came.
    pub(crate) async fn post_patiently(
        &self,
        path: &[&str],
        body: Bytes,
    ) -> Result<Bytes, Failure> {
        let response = self
            .send(
                Method::POST,
                &admin_path(path),
                HeaderMap::new(),
                Some(body),
            )
            .await?;
        let (status, body) = self.whole(response).await?;
        self.admin_answer(status, &body).map(|_| body)
    }

    /// The changes of the admin API, as they happen.
    pub(crate) async fn changes(&self) -> Result<Events, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let response = self
            .send(Method::GET, &admin_path(&["changes"]), headers, None)
            .await?;
        if response.status() == StatusCode::OK {
            return Ok(Events::of(response));
        }
        let (status, body) = self.whole(response).await?;
        Err(self
            .admin_answer(status, &body)
            .err()
            .unwrap_or_else(|| self.silent()))
    }

    /// One request, to any path.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Option<Bytes>,
    ) -> Result<Response<Incoming>, Failure> {
        let line = self.dial().await?;
        self.send_on(line, method, path, headers, body).await
    }

    /// A connection on which nothing was sent yet.
    pub(crate) async fn dial(&self) -> Result<Line, Failure> {
        let opened = tokio::time::timeout(CONNECT, self.open()).await;
        let wire = match opened {
            Ok(Ok(wire)) => wire,
            Ok(Err(error)) => return Err(self.unreachable(&error.to_string())),
            Err(_) => return Err(self.unreachable("no connection in time")),
        };
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(wire))
            .await
            .map_err(|error| self.unreachable(&error.to_string()))?;
        // Ends with the response, or when the response is dropped.
        tokio::spawn(connection);
        Ok(sender)
    }

    /// One request on a connection of its own. Where it fails, it may have been taken.
    pub(crate) async fn send_on(
        &self,
        mut line: Line,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Option<Bytes>,
    ) -> Result<Response<Incoming>, Failure> {
        let request = self.request(method, path, headers, body)?;
        let sent = line.send_request(request).await;
        sent.map_err(|error| self.unreachable(&error.to_string()))
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Option<Bytes>,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let path = format!("{}{path}", self.base.path().trim_end_matches('/'));
        let has_body = body.is_some();
        let mut request = Request::new(Full::new(body.unwrap_or_default()));
        *request.method_mut() = method;
        *request.uri_mut() = path
            .parse()
            .map_err(|_| Failure::new(code::NOT_FOUND, format!("`{path}` is not a path")))?;
        let own = request.headers_mut();
        *own = headers;
        own.insert(AUTHORIZATION, self.authorization.clone());
        own.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("steadfast-cli/", env!("CARGO_PKG_VERSION"))),
        );
        // For the record of changes: the admin token names nobody.
        if let Some(user) = user() {
            own.insert("steadfast-user", user);
        }
        if let Ok(host) = HeaderValue::from_str(self.base.authority()) {
            own.insert(HOST, host);
        }
        if has_body {
            own.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        Ok(request)
    }

    async fn open(&self) -> std::io::Result<Box<dyn Wire>> {
        let host = self.base.host_str().unwrap_or_default();
        let port = self.base.port_or_known_default().unwrap_or(80);
        let tcp = TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
        if self.base.scheme() == "http" {
            return Ok(Box::new(tcp));
        }
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(std::io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(host.to_owned()).map_err(std::io::Error::other)?;
        let tls = TlsConnector::from(Arc::new(config))
            .connect(name, tcp)
            .await?;
        Ok(Box::new(tls))
    }

    fn unreachable(&self, why: &str) -> Failure {
        Failure::new(
            code::NO_DAEMON,
            format!("no daemon answers at {}: {why}", self.base),
        )
    }

    /// Reads a whole answer.
    pub(crate) async fn whole(
        &self,
        response: Response<Incoming>,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST).collect().await;
        let body = body.map_err(|error| {
            let message = format!(
                "the answer of the daemon at {} broke off: {error}",
                self.base
            );
            Failure::new(code::NO_DAEMON, message)
        })?;
        Ok((status, body.to_bytes()))
    }
}

/// A connection to the daemon.
pub(crate) type Line = hyper::client::conn::http1::SendRequest<Full<Bytes>>;

trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// The user of this machine who runs the command, as far as it is known.
pub(crate) fn user() -> Option<HeaderValue> {
    let user = ["USER", "LOGNAME"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|user| !user.is_empty()))?;
    HeaderValue::from_str(&user).ok()
}

fn admin_path(path: &[&str]) -> String {
    path.iter().fold(String::from("/api/v1"), |path, part| {
        path + "/" + &escaped(part)
    })
}

/// One part of a path (RFC 3986 section 3.3): everything else than what never needs it is escaped.
pub(crate) fn escaped(part: &str) -> String {
    let mut text = String::with_capacity(part.len());
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// What problem details (RFC 9457) tell.
fn told(status: StatusCode, problem: &Value) -> Failure {
    let known = problem["code"]
        .as_str()
        .and_then(Code::find)
        .unwrap_or(code::INTERNAL);
    let message = problem["detail"]
        .as_str()
        .map_or_else(|| format!("the daemon answered {status}"), str::to_owned);
    match problem["hint"].as_str() {
        Some(hint) => Failure::hinted(known, message, hint.to_owned()),
        None => Failure::new(known, message),
    }
}

/// Server-sent events, as they come.
pub(crate) struct Events {
    body: Incoming,
    decoder: Decoder,
    found: std::collections::VecDeque<Item>,
}

impl Events {
    /// Those of a response.
    pub(crate) fn of(response: Response<Incoming>) -> Self {
        Self {
            body: response.into_body(),
            decoder: Decoder::new(LARGEST),
            found: std::collections::VecDeque::new(),
        }
    }

    /// The next event with data, as its name and its JSON; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            let (name, data) = self.next_data().await?;
            if let Ok(value) = serde_json::from_slice(&data) {
                return Some((name, value));
            }
        }
    }

    /// The next event with data, as its name and its bytes; `None` at the end of the stream.
    pub(crate) async fn next_data(&mut self) -> Option<(String, Vec<u8>)> {
        loop {
            let Event { name, data, .. } = self.next_event().await?;
            if let Some(data) = data {
                return Some((name, data));
            }
        }
    }

    /// The next event, also one that has an id and nothing else; `None` at the end of the stream.
    pub(crate) async fn next_event(&mut self) -> Option<Event> {
        loop {
            while let Some(item) = self.found.pop_front() {
                if let Item::Event(event) = item {
                    return Some(event);
                }
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(chunk) = frame.into_data() {
                let mut items = Vec::new();
                self.decoder.feed(&chunk, &mut items);
                self.found.extend(items);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_path_cannot_leave_it() {
        assert_eq!(
            admin_path(&["agents", "a b/../c?#"]),
            "/api/v1/agents/a%20b%2F..%2Fc%3F%23"
        );
    }

    #[test]
    fn problems_are_told_in_the_daemons_words() {
        let problem =
            serde_json::json!({"code": "SF0008", "detail": "it is there", "hint": "Rename it."});
        let Failure::Said(said) = told(StatusCode::CONFLICT, &problem) else {
            panic!("a failure with something to say");
        };
        assert_eq!(
            (said.code, said.message.as_str()),
            (code::CONFLICT, "it is there")
        );
        assert_eq!(said.hint, "Rename it.");
        let Failure::Said(said) = told(StatusCode::BAD_GATEWAY, &Value::Null) else {
            panic!("a failure with something to say");
        };
        assert_eq!(said.message, "the daemon answered 502 Bad Gateway");
    }
}
