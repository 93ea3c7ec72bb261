//! Where metadata may stand, and whether it is about whom it should be about.

use url::Url;

/// Where the protected resource metadata of a server may stand, best first (RFC 9728 section 3.1; 2026-07-28
/// authorization-server-discovery, "Protected Resource Metadata Discovery Requirements").
#[must_use]
pub fn resource_metadata_urls(server: &Url) -> Vec<Url> {
    well_known(server, "oauth-protected-resource", true)
}

/// Where the metadata of an authorization server may stand, best first (2026-07-28
/// authorization-server-discovery, "Authorization Server Metadata Discovery").
#[must_use]
pub fn issuer_metadata_urls(issuer: &Url) -> Vec<Url> {
    let mut urls = well_known(issuer, "oauth-authorization-server", false);
    urls.extend(well_known(issuer, "openid-configuration", false));
    if has_path(issuer) {
        let mut appended = bare(issuer);
        let path = issuer.path().trim_end_matches('/');
        appended.set_path(&format!("{path}/.well-known/openid-configuration"));
        urls.push(appended);
    }
    urls
}

/// The base address of a server of 2025-03-26, which is its own authorization server where it names none
/// (2025-03-26 basic/authorization, "Authorization Base URL").
#[must_use]
pub fn base_url(server: &Url) -> Url {
    let mut base = bare(server);
    base.set_path("/");
    base
}

/// With the path put behind the well-known part; then, where `root` says so, without it.
fn well_known(of: &Url, suffix: &str, root: bool) -> Vec<Url> {
    let mut urls = Vec::new();
    if has_path(of) {
        let mut inserted = bare(of);
        let path = of.path().trim_end_matches('/');
        inserted.set_path(&format!("/.well-known/{suffix}{path}"));
        // RFC 9728 section 3.1: the query of a resource identifier stays.
        if root {
            inserted.set_query(of.query());
        }
        urls.push(inserted);
    }
    if root || urls.is_empty() {
        let mut at_root = bare(of);
        at_root.set_path(&format!("/.well-known/{suffix}"));
        urls.push(at_root);
    }
    urls
}

fn has_path(url: &Url) -> bool {
    !url.path().trim_end_matches('/').is_empty()
}

fn bare(url: &Url) -> Url {
    let mut bare = url.clone();
    bare.set_query(None);
    bare.set_fragment(None);
    bare
}

/// Whether two issuer identifiers are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Character by character (RFC 8414 section 3.3).
    Same,
    /// But for the slash of an empty path: tolerated, and recorded (DS-04).
    EmptyPathSlash,
    /// They are not.
    Different,
}

/// Compares the issuer that was asked for with the one that its metadata names.
#[must_use]
pub fn identity(asked: &str, named: &str) -> Identity {
    if asked == named {
        return Identity::Same;
    }
    let (longer, shorter) = if asked.len() > named.len() {
        (asked, named)
    } else {
        (named, asked)
    };
    let is_slash = longer.strip_suffix('/') == Some(shorter);
    let has_no_path = Url::parse(longer)
        .is_ok_and(|url| url.path() == "/" && url.query().is_none() && url.fragment().is_none());
    if is_slash && has_no_path {
        Identity::EmptyPathSlash
    } else {
        Identity::Different
    }
}

/// The one spelling under which what belongs to an issuer is kept: without the slash of an empty path.
#[must_use]
pub fn canonical(issuer: &str) -> &str {
    match issuer.strip_suffix('/') {
        Some(bare) if identity(issuer, bare) == Identity::EmptyPathSlash => bare,
        Some(_) | None => issuer,
    }
}

/// Whether metadata whose `resource` is this may speak for a server at that address: the same origin, and
/// the same path or one above it. RFC 9728 section 3.3 wants identity; servers name their parent, and write
/// slashes and queries as they like (DS-05).
#[must_use]
pub fn covers(resource: &Url, server: &Url) -> bool {
    let is_parent = || {
        let resource = resource.path().trim_end_matches('/');
        server
            .path()
            .trim_end_matches('/')
            .strip_prefix(resource)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    resource.origin() == server.origin() && resource.fragment().is_none() && is_parent()
}

/// Whether a grant is good for its server at this address. It is for what is under its resource; where it names none, for
/// the origin at which it was used `before`, as far as that is known.
#[must_use]
pub fn still_covers(resource: Option<&str>, before: Option<&Url>, server: &Url) -> bool {
    match resource {
        Some(resource) => resource.parse().is_ok_and(|it| covers(&it, server)),
        None => before.is_none_or(|before| before.origin() == server.origin()),
    }
}

/// What to do with the `iss` of an authorization response (RFC 9207 section 2.4; 2026-07-28
/// basic/authorization, "Authorization Response Validation"): compared as it is, character by character.
#[must_use]
pub fn response_is_from(issuer: &str, announced: bool, iss: Option<&str>) -> bool {
    match iss {
        Some(iss) => iss == issuer,
        None => !announced,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    fn texts(urls: &[Url]) -> Vec<&str> {
        urls.iter().map(Url::as_str).collect()
    }

    #[test]
    fn candidates_stand_in_the_order_of_the_specification() {
        assert_eq!(
            texts(&resource_metadata_urls(&url("https://rs.test/public/mcp"))),
            [
                "https://rs.test/.well-known/oauth-protected-resource/public/mcp",
                "https://rs.test/.well-known/oauth-protected-resource",
            ]
        );
        assert_eq!(
            texts(&resource_metadata_urls(&url("https://rs.test"))),
            ["https://rs.test/.well-known/oauth-protected-resource"]
        );
        assert_eq!(
            texts(&issuer_metadata_urls(&url("https://as.test/t1"))),
            [
                "https://as.test/.well-known/oauth-authorization-server/t1",
                "https://as.test/.well-known/openid-configuration/t1",
                "https://as.test/t1/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            texts(&issuer_metadata_urls(&url("https://as.test/"))),
            [
                "https://as.test/.well-known/oauth-authorization-server",
                "https://as.test/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            base_url(&url("https://rs.test:8443/a/b?c=d")).as_str(),
            "https://rs.test:8443/"
        );
    }

    #[test]
    fn ds_04_only_the_slash_of_an_empty_path_is_tolerated() {
        for (asked, named, expected) in [
            ("https://as.test", "https://as.test", Identity::Same),
            (
                "https://as.test",
                "https://as.test/",
                Identity::EmptyPathSlash,
            ),
            (
                "https://as.test/",
                "https://as.test",
                Identity::EmptyPathSlash,
            ),
            (
                "https://as.test/t1",
                "https://as.test/t1/",
                Identity::Different,
            ),
            ("https://as.test", "https://other.test", Identity::Different),
            ("https://as.test", "https://AS.test", Identity::Different),
            (
                "https://as.test",
                "https://as.test:443",
                Identity::Different,
            ),
            (
                "https://as.test?a=b",
                "https://as.test?a=b/",
                Identity::Different,
            ),
            ("https://as.test", "https://as.test//", Identity::Different),
            ("", "/", Identity::Different),
        ] {
            assert_eq!(identity(asked, named), expected, "{asked} {named}");
        }
        assert_eq!(canonical("https://as.test/"), canonical("https://as.test"));
        assert_ne!(
            canonical("https://as.test/t1/"),
            canonical("https://as.test/t1")
        );
    }

    #[test]
    fn ds_05_a_resource_covers_what_is_at_and_under_it() {
        for (resource, server, expected) in [
            (
                "https://rs.test/mcp",
                "https://rs.test/mcp?oauth=initialize",
                true,
            ),
            ("https://rs.test", "https://rs.test", true),
            ("https://rs.test", "https://rs.test/mcp", true),
            ("https://rs.test/", "https://rs.test/mcp", true),
            ("https://rs.test/mcp/", "https://rs.test/mcp", true),
            ("https://evil.test/mcp", "https://rs.test/mcp", false),
            ("https://rs.test/mcp2", "https://rs.test/mcp", false),
            ("https://rs.test/mc", "https://rs.test/mcp", false),
            ("https://rs.test/mcp/deep", "https://rs.test/mcp", false),
            ("http://rs.test/mcp", "https://rs.test/mcp", false),
            ("https://rs.test:8443/mcp", "https://rs.test/mcp", false),
        ] {
            assert_eq!(
                covers(&url(resource), &url(server)),
                expected,
                "{resource} {server}"
            );
        }
    }

    #[test]
    fn a_grant_goes_along_to_what_is_under_its_resource_only() {
        let still = |resource, before, server: &str| {
            still_covers(resource, Some(&url(before)), &url(server))
        };
        let (here, there) = ("https://rs.test/mcp", "https://other.test/mcp");
        assert!(still(Some(here), here, "https://rs.test/mcp/v2?x=1"));
        assert!(!still(Some(here), here, "https://rs.test/v2"));
        assert!(!still(Some(here), here, there));
        assert!(!still(Some("rs.test"), here, here));
        assert!(still(None, here, "https://rs.test/v2"));
        assert!(!still(None, here, there));
        assert!(still_covers(None, None, &url(here)));
    }

    #[test]
    fn the_table_of_rfc_9207() {
        assert!(response_is_from(
            "https://as.test",
            true,
            Some("https://as.test")
        ));
        assert!(!response_is_from(
            "https://as.test",
            true,
            Some("https://as.test/")
        ));
        assert!(!response_is_from("https://as.test", true, None));
        assert!(!response_is_from(
            "https://as.test",
            false,
            Some("https://evil.test")
        ));
        assert!(response_is_from("https://as.test", false, None));
    }
}
