//! Protected resources, and how far the audience of a token reaches.

use std::collections::BTreeSet;
use std::fmt;

use percent_encoding::percent_decode_str;
use url::Url;

use crate::identity::ServerName;
use crate::oauth::discovery;

/// A protected resource, by its identifier (RFC 8707 section 2, RFC 9728 section 1.2). Ours are
/// `{public_url}/mcp`, `{public_url}/mcp/{server}` and `{public_url}/mcp/{server}/tools/{tool}`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource(Url);

impl Resource {
    /// Reads an identifier. `None` where it cannot be one: RFC 8707 section 2 wants an absolute URI without
    /// a fragment, and one that carries a user's name or password names no resource.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let url: Url = text.parse().ok()?;
        let is_plain = url.fragment().is_none() && url.username().is_empty();
        (is_plain && url.password().is_none() && url.has_host()).then(|| Self(canonical(url)))
    }

    /// All servers of an agent. `public_url` is where the gateway is reached.
    #[must_use]
    pub fn everything(public_url: &Url) -> Self {
        Self::under(public_url, &["mcp"])
    }

    /// One server, with all that it offers.
    #[must_use]
    pub fn server(public_url: &Url, server: &ServerName) -> Self {
        Self::under(public_url, &["mcp", server.as_str()])
    }

    /// One tool of a server, by the server's own name of it. A name that cannot be the last segment of a
    /// path has no resource of its own: the server's covers it.
    #[must_use]
    pub fn tool(public_url: &Url, server: &ServerName, tool: &str) -> Self {
        if matches!(tool, "" | "." | "..") {
            return Self::server(public_url, server);
        }
        Self::under(public_url, &["mcp", server.as_str(), "tools", tool])
    }

    fn under(public_url: &Url, path: &[&str]) -> Self {
        let mut url = public_url.clone();
        url.set_query(None);
        url.set_fragment(None);
        // Fails only for addresses without a host, which `parse` and the settings refuse.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        Self(canonical(url))
    }

    /// Its identifier.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Its identifier, parsed.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.0
    }

    /// Whether who may use this may use the other: it is the same, or the other is under it. Compared by
    /// whole segments of the path; a query makes it one resource, with nothing under it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match self.0.query() {
            Some(_) => self == other,
            None => discovery::covers(&self.0, &other.0),
        }
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resource({})", self.as_str())
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The one spelling of an address: no slash at the end, and each segment escaped where it must be and
/// nowhere else (RFC 3986 section 6.2.2.2).
fn canonical(mut url: Url) -> Url {
    let decoded: Option<Vec<String>> = url.path_segments().and_then(|segments| {
        let decoded = segments.map(|it| percent_decode_str(it).decode_utf8().ok());
        decoded.map(|it| it.map(String::from)).collect()
    });
    // Where a segment is no text, only its own spelling is it.
    if let Some(decoded) = decoded
        && let Ok(mut segments) = url.path_segments_mut()
    {
        segments.clear().extend(decoded).pop_if_empty();
    }
    url
}

/// The resources that a token is for: its `aud` (RFC 9068 section 3, RFC 8707 section 2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audiences(BTreeSet<Resource>);

impl Audiences {
    /// Whether one of them covers this resource.
    #[must_use]
    pub fn cover(&self, resource: &Resource) -> bool {
        self.0.iter().any(|audience| audience.covers(resource))
    }

    /// Each of them, in the order of their identifiers.
    pub fn iter(&self) -> impl Iterator<Item = &Resource> {
        self.0.iter()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<Resource> for Audiences {
    fn from_iter<I: IntoIterator<Item = Resource>>(resources: I) -> Self {
        Self(resources.into_iter().collect())
    }
}

/// How far a credential reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To everything of its agent: a key does.
    All,
    /// To what its audience covers: an access token does.
    Only(Audiences),
}

impl Reach {
    /// Whether it reaches this resource.
    #[must_use]
    pub fn covers(&self, resource: &Resource) -> bool {
        match self {
            Self::All => true,
            Self::Only(audiences) => audiences.cover(resource),
        }
    }

    /// Whether it reaches this resource, or anything under it.
    #[must_use]
    pub fn touches(&self, resource: &Resource) -> bool {
        match self {
            Self::All => true,
            Self::Only(audiences) => {
                let mut all = audiences.iter();
                all.any(|audience| audience.covers(resource) || resource.covers(audience))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway() -> Url {
        "https://gw.test/steadfast/".parse().unwrap()
    }

    fn named(text: &str) -> Resource {
        Resource::parse(text).unwrap()
    }

    #[test]
    fn ours_are_under_the_public_address() {
        let (url, server) = (gateway(), ServerName::from("booking"));
        for (resource, expected) in [
            (Resource::everything(&url), "https://gw.test/steadfast/mcp"),
            (
                Resource::server(&url, &server),
                "https://gw.test/steadfast/mcp/booking",
            ),
            (
                Resource::tool(&url, &server, "find"),
                "https://gw.test/steadfast/mcp/booking/tools/find",
            ),
            (
                Resource::tool(&url, &server, "a/b c"),
                "https://gw.test/steadfast/mcp/booking/tools/a%2Fb%20c",
            ),
            (
                Resource::tool(&url, &server, ".."),
                "https://gw.test/steadfast/mcp/booking",
            ),
        ] {
            assert_eq!(resource.as_str(), expected);
            assert_eq!(named(expected), resource);
        }
    }

    #[test]
    fn a_broader_one_covers_what_is_under_it_and_nothing_else() {
        for (audience, resource, expected) in [
            ("https://gw.test/mcp", "https://gw.test/mcp", true),
            ("https://gw.test/mcp/", "https://gw.test/mcp", true),
            ("https://GW.test:443/mcp", "https://gw.test/mcp/b", true),
            (
                "https://gw.test/mcp/b",
                "https://gw.test/mcp/b/tools/t",
                true,
            ),
            ("https://gw.test/%6dcp", "https://gw.test/mcp/b", true),
            (
                "https://gw.test/mcp/b/tools/a%2fb",
                "https://gw.test/mcp/b/tools/a%2Fb",
                true,
            ),
            // The aggregate resource of a provider whose tools are right under it.
            ("https://gw.test", "https://gw.test/tools/search", true),
            ("https://gw.test/mcp/b", "https://gw.test/mcp", false),
            ("https://gw.test/mcp/b", "https://gw.test/mcp/bc", false),
            ("https://gw.test/mcp/b", "https://gw.test/mcp/a/../c", false),
            (
                "https://gw.test/mcp/b/tools/a",
                "https://gw.test/mcp/b/tools/a%2Fb",
                false,
            ),
            ("https://gw.test/mcp?all", "https://gw.test/mcp/b", false),
            ("https://gw.test/mcp?all", "https://gw.test/mcp?all", true),
            ("http://gw.test/mcp", "https://gw.test/mcp", false),
            ("https://gw.test:8443/mcp", "https://gw.test/mcp", false),
            ("https://evil.test/mcp", "https://gw.test/mcp", false),
        ] {
            let covered = named(audience).covers(&named(resource));
            assert_eq!(covered, expected, "{audience} {resource}");
            let reach = Reach::Only(std::iter::once(named(audience)).collect());
            assert_eq!(reach.covers(&named(resource)), expected);
            assert!(Reach::All.covers(&named(resource)));
        }
        assert!(!Audiences::default().cover(&named("https://gw.test/mcp")));
    }

    #[test]
    fn what_cannot_be_an_identifier_is_none() {
        for text in [
            "",
            "mcp",
            "/mcp",
            "urn:example:mcp",
            "https://gw.test/mcp#part",
            "https://me@gw.test/mcp",
            "https://:secret@gw.test/mcp",
        ] {
            assert_eq!(Resource::parse(text), None, "{text}");
        }
    }
}
