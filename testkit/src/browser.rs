//! A person's browser without JavaScript: follows a link to where it leads, and presses a button.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use parking_lot::Mutex;
use tokio::net::TcpStream;
use url::{Url, form_urlencoded};

use crate::client::{self, Headers};
use crate::html;
use crate::stream::Stream;
use crate::tls::Tls;

/// So many redirects in a row are a loop.
const REDIRECTS: usize = 20;

/// A browser with cookies. Every host name is the loopback to it: nothing leaves the machine.
#[derive(Debug, Default)]
pub struct Browser {
    tls: Option<Tls>,
    stops: Vec<String>,
    /// By host, as browsers keep them: the port does not matter.
    cookies: Mutex<BTreeMap<String, BTreeMap<String, String>>>,
}

/// Where a link led.
#[derive(Clone, Debug)]
pub struct Page {
    /// Its address.
    pub url: String,
    /// HTTP status; 0 where the browser was told to stop before this address.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: Headers,
    /// The body.
    pub body: String,
    /// Every address on the way, this one last.
    pub visited: Vec<String>,
}

impl Page {
    /// A parameter of the address's query, decoded.
    #[must_use]
    pub fn query(&self, name: &str) -> Option<String> {
        let url = Url::parse(&self.url).ok()?;
        let mut pairs = url.query_pairs();
        pairs
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
    }
}

struct Visit {
    method: &'static str,
    url: Url,
    form: Option<String>,
    /// The page that the form was on.
    from: Option<Url>,
}

impl Browser {
    /// A browser without cookies.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts this certificate authority.
    #[must_use]
    pub fn trust(mut self, tls: &Tls) -> Self {
        self.tls = Some(tls.clone());
        self
    }

    /// Stops before an address that begins so, instead of going there.
    #[must_use]
    pub fn stop_at(mut self, start: &str) -> Self {
        self.stops.push(start.to_owned());
        self
    }

    /// Follows a link through all redirects to a page, whatever its status.
    pub async fn open(&self, link: &str) -> io::Result<Page> {
        self.follow(Visit {
            method: "GET",
            url: Url::parse(link).map_err(io::Error::other)?,
            form: None,
            from: None,
        })
        .await
    }

    /// Presses the button with this id (or else value) on a page, and follows where its form leads.
    pub async fn press(&self, page: &Page, button: &str) -> io::Result<Page> {
        let form = html::form_with(&page.body, button)
            .ok_or_else(|| io::Error::other(format!("no button {button} on {page:?}")))?;
        let from = Url::parse(&page.url).map_err(io::Error::other)?;
        let mut url = from.join(&form.action).map_err(io::Error::other)?;
        let fields = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(&form.fields)
            .finish();
        if form.is_post {
            return self
                .follow(Visit {
                    method: "POST",
                    url,
                    form: Some(fields),
                    from: Some(from),
                })
                .await;
        }
        url.set_query(Some(&fields));
        self.open(url.as_str()).await
    }

    async fn follow(&self, mut visit: Visit) -> io::Result<Page> {
        let mut visited = Vec::new();
        while visited.len() <= REDIRECTS {
            let address = visit.url.to_string();
            visited.push(address.clone());
            if self.stops.iter().any(|stop| address.starts_with(stop)) {
                return Ok(Page {
                    url: address,
                    status: 0,
                    headers: Vec::new(),
                    body: String::new(),
                    visited,
                });
            }
            let mut response = self.send(&visit).await?;
            self.keep_cookies(&visit.url, &response.headers);
            let location = response.header("location").map(str::to_owned);
            match (response.status, location) {
                (301..=303, Some(location)) => {
                    visit = Visit {
                        method: "GET",
                        url: visit.url.join(&location).map_err(io::Error::other)?,
                        form: None,
                        from: None,
                    };
                }
                // RFC 9110 section 15.4.8: method and body stay.
                (307 | 308, Some(location)) => {
                    visit.url = visit.url.join(&location).map_err(io::Error::other)?;
                }
                (status, _) => {
                    let body = response.bytes().await?;
                    return Ok(Page {
                        url: address,
                        status,
                        headers: response.headers,
                        body: String::from_utf8_lossy(&body).into_owned(),
                        visited,
                    });
                }
            }
        }
        Err(io::Error::other(format!(
            "redirected in a circle: {visited:?}"
        )))
    }

    async fn send(&self, visit: &Visit) -> io::Result<client::Response> {
        let (url, authority) = (&visit.url, visit.url.authority());
        let mut headers = vec![("Accept", "text/html,*/*;q=0.8".to_owned())];
        if let Some(cookies) = self.cookies(url) {
            headers.push(("Cookie", cookies));
        }
        if let Some(from) = &visit.from {
            headers.push(("Origin", from.origin().ascii_serialization()));
        }
        if visit.form.is_some() {
            let form = "application/x-www-form-urlencoded".to_owned();
            headers.push(("Content-Type", form));
        }
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let body = visit.form.as_deref().unwrap_or_default().as_bytes();
        let stream = self.connect(url).await?;
        client::send_over(stream, authority, visit.method, path, &headers, body)
            .await?
            .response()
            .await
    }

    async fn connect(&self, url: &Url) -> io::Result<Stream> {
        let host = url.host_str().unwrap_or_default();
        let literal = host.trim_matches(['[', ']']).parse::<IpAddr>();
        let ip = literal.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let port = url.port_or_known_default().unwrap_or_default();
        let tcp = TcpStream::connect(SocketAddr::new(ip, port)).await?;
        match (url.scheme(), &self.tls) {
            ("https", Some(tls)) => Ok(Stream::Tls(Box::new(tls.connect(host, tcp).await?))),
            ("https", None) => Err(io::Error::other("no certificate authority is trusted")),
            _ => Ok(Stream::Plain(tcp)),
        }
    }

    fn cookies(&self, url: &Url) -> Option<String> {
        let cookies = self.cookies.lock();
        let ours = cookies.get(url.host_str()?)?;
        let pairs: Vec<_> = ours
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }

    fn keep_cookies(&self, url: &Url, headers: &Headers) {
        let host = url.host_str().unwrap_or_default().to_owned();
        let mut cookies = self.cookies.lock();
        let ours = cookies.entry(host).or_default();
        for (_, value) in headers.iter().filter(|(name, _)| name == "set-cookie") {
            let mut parts = value.split(';').map(str::trim);
            let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else {
                continue;
            };
            if parts.any(|part| part.eq_ignore_ascii_case("max-age=0")) {
                ours.remove(name);
            } else {
                ours.insert(name.to_owned(), value.to_owned());
            }
        }
    }
}
