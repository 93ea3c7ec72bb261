//! Opens connections: name, proxy, TCP, TLS. Counts every byte that is written to one.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use socket2::{SockRef, TcpKeepalive};
use steadfast_core::oauth::reach::{Reach, is_private};
use steadfast_core::{Fault, Kind};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Url;

use crate::config::{Network, Resolve};

/// Where a server is: the part of its URL that decides which connections it can share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Origin {
    /// The origin of an `http` or `https` URL.
    pub(crate) fn of(url: &Url) -> Result<Self, Fault> {
        let tls = match url.scheme() {
            "https" => true,
            "http" => false,
            other => {
                return Err(Fault::new(
                    Kind::Misconfigured,
                    format!("the url's scheme is `{other}`: use http or https"),
                ));
            }
        };
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(Fault::new(Kind::Misconfigured, "the url has no host"));
        };
        Ok(Self {
            tls,
            host: host.to_owned(),
            port,
        })
    }

    /// The value of the Host header: without the port where it is the scheme's own (RFC 9110 section 7.2).
    pub(crate) fn authority(&self) -> String {
        if self.port == if self.tls { 443 } else { 80 } {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Opens connections.
pub(crate) struct Dialer {
    tls: TlsConnector,
    network: Network,
    timeout: Duration,
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialer").finish_non_exhaustive()
    }
}

/// An open connection, and whether it speaks HTTP/2.
#[derive(Debug)]
pub(crate) struct Dialled {
    pub(crate) wire: Counted<Wire>,
    pub(crate) http2: bool,
}

impl Dialer {
    /// Loads the trusted roots: the system's, and those of `network.ca_file`.
    pub(crate) fn new(network: &Network, timeout: Duration) -> Result<Self, String> {
        let mut roots = rustls::RootCertStore::empty();
        // A machine without a certificate store can still reach servers on http and those of `ca_file`.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = &network.ca_file {
            let named = |error: &dyn std::fmt::Display| {
                format!("network.ca_file {}: {error}", path.display())
            };
            for certificate in CertificateDer::pem_file_iter(path).map_err(|e| named(&e))? {
                let certificate = certificate.map_err(|e| named(&e))?;
                roots.add(certificate).map_err(|e| named(&e))?;
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            tls: TlsConnector::from(Arc::new(tls)),
            network: network.clone(),
            timeout,
        })
    }

    /// Opens one connection within the connect timeout, as far as `reach` lets it.
    pub(crate) async fn dial(&self, origin: &Origin, reach: Reach) -> Result<Dialled, Fault> {
        match tokio::time::timeout(self.timeout, self.dial_unbounded(origin, reach)).await {
            Ok(result) => result,
            Err(_) => Err(Fault::new(
                Kind::Timeout,
                format!(
                    "no connection to {} within {} ms",
                    origin.authority(),
                    self.timeout.as_millis()
                ),
            )),
        }
    }

    async fn dial_unbounded(&self, origin: &Origin, reach: Reach) -> Result<Dialled, Fault> {
        let tcp = self.tcp(origin, reach).await.map_err(|error| {
            Fault::new(
                Kind::Network,
                format!(
                    "cannot connect to {}: {}",
                    origin.authority(),
                    plain(&error)
                ),
            )
        })?;
        // Small messages must leave at once: Nagle's algorithm would hold each for the peer's ACK.
        let _ = tcp.set_nodelay(true);
        keep_alive(&tcp);
        if !origin.tls {
            return Ok(Dialled {
                wire: Counted::new(Wire::Plain(tcp)),
                http2: false,
            });
        }
        let tls_fault = |error: &dyn std::fmt::Display| {
            Fault::new(
                Kind::Tls,
                format!("TLS with {} failed: {error}", origin.authority()),
            )
        };
        let name = ServerName::try_from(origin.host.trim_matches(['[', ']']).to_owned())
            .map_err(|error| tls_fault(&error))?;
        let stream = self
            .tls
            .connect(name, tcp)
            .await
            .map_err(|error| tls_fault(&plain(&error)))?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(Dialled {
            wire: Counted::new(Wire::Tls(Box::new(stream))),
            http2,
        })
    }

    async fn tcp(&self, origin: &Origin, reach: Reach) -> io::Result<TcpStream> {
        let host = origin.host.trim_matches(['[', ']']);
        if let Some(fixed) = self.network.resolve.get(host) {
            return TcpStream::connect((fixed.address(), origin.port)).await;
        }
        match (self.proxy_for(origin), reach) {
            // The proxy resolves the name, and decides where it leads.
            (Some(proxy), _) => through_proxy(&proxy, origin).await,
            (None, Reach::Anywhere) => TcpStream::connect((host, origin.port)).await,
            (None, Reach::Public) => to_public(host, origin.port).await,
        }
    }

    /// Where a name leads, in words, without connecting to it.
    pub(crate) async fn look_up(&self, origin: &Origin) -> Result<String, Fault> {
        let host = origin.host.trim_matches(['[', ']']);
        if let Some(fixed) = self.network.resolve.get(host) {
            return Ok(format!("network.resolve says {}", fixed.address()));
        }
        if host.parse::<std::net::IpAddr>().is_ok() {
            return Ok("an address, no name".to_owned());
        }
        if let Some(proxy) = self.proxy_for(origin) {
            let proxy = proxy.host_str().unwrap_or_default().to_owned();
            return Ok(format!("the proxy {proxy} looks it up"));
        }
        let found = tokio::net::lookup_host((host, origin.port));
        let addresses = match tokio::time::timeout(self.timeout, found).await {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(error)) => {
                let message = format!("the name {host} has no address: {}", plain(&error));
                return Err(Fault::new(Kind::Network, message));
            }
            Err(_) => {
                let message = format!("the name {host} was not found in time");
                return Err(Fault::new(Kind::Timeout, message));
            }
        };
        let addresses: Vec<String> = addresses.map(|found| found.ip().to_string()).collect();
        Ok(addresses.join(", "))
    }

    /// Whether a name or address is private by itself, or because the operator says where it is. `network.resolve`
    /// is trusted, unless its entry asks to be judged as a public name.
    pub(crate) fn is_private_place(&self, origin: &Origin) -> bool {
        let host = origin.host.trim_matches(['[', ']']);
        match self.network.resolve.get(host) {
            Some(Resolve::Judged { public: true, .. }) => false,
            Some(fixed) => is_private(fixed.address()),
            None => {
                host == "localhost"
                    || host.ends_with(".localhost")
                    || host.parse().is_ok_and(is_private)
            }
        }
    }

    /// The proxy for this origin: `network.proxy`, else the usual environment variables. Never for loopback.
    fn proxy_for(&self, origin: &Origin) -> Option<Url> {
        let host = origin.host.trim_matches(['[', ']']);
        let loopback = host == "localhost"
            || host
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback());
        if loopback {
            return None;
        }
        if let Some(proxy) = &self.network.proxy {
            return Some(proxy.clone());
        }
        let excluded = env(&["NO_PROXY", "no_proxy"]).unwrap_or_default();
        let is_excluded = excluded.split(',').map(str::trim).any(|entry| {
            entry == "*"
                || (!entry.is_empty()
                    && (host == entry.trim_start_matches('.')
                        || host.ends_with(&format!(".{}", entry.trim_start_matches('.')))))
        });
        if is_excluded {
            return None;
        }
        let names: &[&str] = if origin.tls {
            &["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]
        } else {
            &["http_proxy", "ALL_PROXY", "all_proxy"]
        };
        env(names)?.parse().ok()
    }
}

/// Connects to one of the public addresses of a host. Checked when it is connected to, so that a name that is
/// public when it is looked at and private a moment later gains nothing.
async fn to_public(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut refused = io::Error::other("the name has no address");
    for address in tokio::net::lookup_host((host, port)).await? {
        if is_private(address.ip()) {
            refused = io::Error::other("a public server leads to a private address");
            continue;
        }
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

fn env(names: &[&str]) -> Option<String> {
    names
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// Asks an HTTP proxy for a tunnel (RFC 9110 section 9.3.6), for http as for https: so what is
/// sent is the same with and without a proxy.
async fn through_proxy(proxy: &Url, origin: &Origin) -> io::Result<TcpStream> {
    let host = proxy.host_str().unwrap_or_default();
    let port = proxy.port_or_known_default().unwrap_or(3128);
    let mut stream = TcpStream::connect((host, port)).await?;
    let target = format!("{}:{}", origin.host, origin.port);
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    if !proxy.username().is_empty() {
        use base64::Engine as _;
        let pair = format!(
            "{}:{}",
            proxy.username(),
            proxy.password().unwrap_or_default()
        );
        let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
        request.push_str(&format!("Proxy-Authorization: Basic {encoded}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::with_capacity(256);
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() > 8 << 10 {
            return Err(io::Error::other("the proxy's answer is too long"));
        }
        answer.push(stream.read_u8().await?);
    }
    let status = answer
        .split(|byte| *byte == b' ')
        .nth(1)
        .unwrap_or_default();
    if status.first() == Some(&b'2') {
        Ok(stream)
    } else {
        let status = String::from_utf8_lossy(status).into_owned();
        Err(io::Error::other(format!(
            "the proxy refused the tunnel ({status})"
        )))
    }
}

/// An I/O error without the operating system's number: `Connection refused`.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}

/// How long a connection is silent before the system asks whether the peer is still there, and how
/// long it waits for the answer before it asks again.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_EVERY: Duration = Duration::from_secs(10);

/// A stream may be silent for days. What forgets silent connections without telling anyone is kept
/// from forgetting this one, or is found out (RFC 9293 section 3.8.4; ST-07). Best effort: a system
/// without it behaves as before.
fn keep_alive(tcp: &TcpStream) {
    let probes = TcpKeepalive::new()
        .with_time(PROBE_AFTER)
        .with_interval(PROBE_EVERY);
    if let Err(error) = SockRef::from(tcp).set_tcp_keepalive(&probes) {
        tracing::debug!(%error, "no TCP keep-alive");
    }
}

/// A TCP connection, with or without TLS.
#[derive(Debug)]
pub(crate) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Counts what is written, so that it is known whether a byte of a request left. Above TLS the count
/// is of plain text: at most what left, never more than was handed over.
#[derive(Debug)]
pub(crate) struct Counted<S> {
    inner: S,
    written: Arc<AtomicU64>,
}

impl<S> Counted<S> {
    fn new(inner: S) -> Self {
        Self {
            inner,
            written: Arc::default(),
        }
    }

    /// The running count.
    pub(crate) fn written(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.written)
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let poll = Pin::new(&mut this.inner).poll_write(cx, buf);
        this.count(&poll);
        poll
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let poll = Pin::new(&mut this.inner).poll_write_vectored(cx, bufs);
        this.count(&poll);
        poll
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

impl<S> Counted<S> {
    fn count(&self, poll: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = poll {
            self.written.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_system_probes_a_silent_connection() {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
            .await
            .unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let origin = Origin::of(&url.parse().unwrap()).unwrap();
        let dialer = Dialer::new(&Network::default(), Duration::from_secs(5)).unwrap();
        let dialled = dialer.dial(&origin, Reach::Anywhere).await.unwrap();
        let Wire::Plain(tcp) = &dialled.wire.inner else {
            panic!("no TLS was asked for");
        };
        let socket = SockRef::from(tcp);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), PROBE_AFTER);
    }
}
