//! Which Host and Origin headers are served, before anything else is looked at: a web page that
//! reaches this port by DNS rebinding must not reach what is behind it (2025-11-25 transports,
//! "Security Warning"; 2026-07-28 streamable-http, "Security & Endpoint").

use std::net::SocketAddr;

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, StatusCode, Uri};
use steadfast_core::code;

use crate::problem::{Problem, sanitised};
use crate::settings::Settings;

/// Decides by Host and Origin.
#[derive(Debug)]
pub(crate) struct Guard {
    /// `host:port`, in lower case.
    hosts: Vec<String>,
    /// Hosts that an operator named without a port, in lower case.
    portless: Vec<String>,
    /// `scheme://host:port`, in lower case.
    origins: Vec<String>,
    /// `*` was listed, and every request must carry a credential.
    any_host: bool,
}

impl Guard {
    /// `local` is the address really listened on.
    pub(crate) fn new(settings: &Settings, local: SocketAddr) -> Self {
        let port = local.port();
        let mut guard = Self {
            hosts: Vec::new(),
            portless: Vec::new(),
            origins: Vec::new(),
            any_host: false,
        };
        let names = [
            local.to_string(),
            format!("localhost:{port}"),
            format!("127.0.0.1:{port}"),
            format!("[::1]:{port}"),
        ];
        for name in names {
            guard.own(&name, "http");
        }
        if let Some(url) = &settings.public_url {
            // The ASCII form: without the default port, as browsers and clients send it.
            guard.origins.push(url.origin().ascii_serialization());
            if let Some(host) = url.host_str() {
                let host = host.to_ascii_lowercase();
                if let Some(port) = url.port_or_known_default() {
                    guard.hosts.push(format!("{host}:{port}"));
                }
                if url.port().is_none() {
                    guard.hosts.push(host);
                }
            }
        }
        for host in &settings.allowed_hosts {
            let host = host.trim().to_ascii_lowercase();
            if host == "*" {
                // Without a credential the Host header is all that stands between a page and the tools.
                guard.any_host = settings.anonymous_agent.is_none();
            } else if has_port(&host) {
                guard.hosts.push(host);
            } else {
                guard.portless.push(host);
            }
        }
        for origin in &settings.allowed_origins {
            let origin = origin.trim().trim_end_matches('/').to_ascii_lowercase();
            guard.origins.push(origin);
        }
        guard
    }

    fn own(&mut self, authority: &str, scheme: &str) {
        self.hosts.push(authority.to_owned());
        self.origins.push(format!("{scheme}://{authority}"));
        // The default port of http is left out by those who send it (RFC 9110 section 4.2.3).
        if let Some(host) = authority.strip_suffix(":80") {
            self.hosts.push(host.to_owned());
            self.origins.push(format!("{scheme}://{host}"));
        }
    }

    /// Whether a request may go on.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        // HTTP/2 carries the host as `:authority`; HTTP/1.1 may have one in the request target, which
        // then counts (RFC 9112 section 3.2.2). Every host that is named must be one of ours.
        let mut named = false;
        if let Some(authority) = uri.authority() {
            self.check_host(authority.as_str().as_bytes())?;
            named = true;
        }
        for host in headers.get_all(HOST) {
            self.check_host(host.as_bytes())?;
            named = true;
        }
        if !named {
            return Err(bad_host("a request without a Host header"));
        }
        headers
            .get_all(ORIGIN)
            .into_iter()
            .try_for_each(|origin| self.check_origin(origin.as_bytes()))
    }

    fn check_host(&self, seen: &[u8]) -> Result<(), Problem> {
        let listed = |hosts: &[String], seen: &[u8]| {
            hosts
                .iter()
                .any(|host| host.as_bytes().eq_ignore_ascii_case(seen))
        };
        if listed(&self.hosts, seen) || self.any_host || listed(&self.portless, without_port(seen))
        {
            return Ok(());
        }
        Err(bad_host(&format!("the host `{}`", sanitised(seen))))
    }

    fn check_origin(&self, seen: &[u8]) -> Result<(), Problem> {
        // `null` stands for "not told": a sandboxed frame of any site sends it.
        let known = !seen.eq_ignore_ascii_case(b"null")
            && self
                .origins
                .iter()
                .any(|origin| origin.as_bytes().eq_ignore_ascii_case(seen));
        if known {
            return Ok(());
        }
        Err(Problem::new(
            StatusCode::FORBIDDEN,
            code::BAD_ORIGIN,
            format!(
                "the origin `{}` is not served here; `gateway.allowed_origins` lists further ones",
                sanitised(seen)
            ),
        ))
    }
}

fn bad_host(what: &str) -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        code::BAD_HOST,
        format!("{what} is not served here; `gateway.allowed_hosts` lists further ones"),
    )
}

/// Whether there is a port after the host; the colons of `[::1]` are no port.
fn has_port(host: &str) -> bool {
    without_port(host.as_bytes()).len() < host.len()
}

fn without_port(host: &[u8]) -> &[u8] {
    let digits = host
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let rest = host.len() - digits;
    match host.get(..rest) {
        Some([name @ .., b':'])
            if digits > 0 && (name.last() == Some(&b']') || !name.contains(&b':')) =>
        {
            name
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use steadfast_core::AgentName;

    use super::*;
    use crate::settings::AdminToken;

    fn settings() -> Settings {
        Settings::new(SocketAddr::from(([127, 0, 0, 1], 0)), AdminToken::new("t"))
    }

    fn guard(settings: &Settings) -> Guard {
        Guard::new(settings, SocketAddr::from(([127, 0, 0, 1], 7420)))
    }

    fn check(guard: &Guard, host: &str, origin: Option<&str>) -> Result<(), Problem> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        guard.check(&Uri::from_static("/mcp/x"), &headers)
    }

    #[test]
    fn our_own_names_are_served_in_any_case() {
        let guard = guard(&settings());
        for host in [
            "127.0.0.1:7420",
            "localhost:7420",
            "LocalHost:7420",
            "[::1]:7420",
        ] {
            assert_eq!(check(&guard, host, None), Ok(()), "{host}");
            assert_eq!(
                check(&guard, host, Some(&format!("http://{host}"))),
                Ok(()),
                "{host}"
            );
        }
    }

    #[test]
    fn other_hosts_are_refused_and_named() {
        let guard = guard(&settings());
        for host in [
            "evil.test",
            "localhost",
            "localhost:7421",
            "127.0.0.1",
            "evil.test:7420",
            "localhost:7420.evil.test",
            "",
        ] {
            let refused = check(&guard, host, None).unwrap_err();
            assert_eq!(refused.status, 403, "{host}");
            assert_eq!(refused.code, code::BAD_HOST);
            assert!(
                refused.detail.contains(host) && refused.detail.contains("gateway.allowed_hosts")
            );
        }
    }

    #[test]
    fn other_origins_are_refused_and_null_always_is() {
        let mut with_null = settings();
        with_null.allowed_origins = vec!["null".into(), "https://pages.test/".into()];
        let guard = guard(&with_null);
        for origin in [
            "https://evil.test",
            "null",
            "NULL",
            "https://127.0.0.1:7420",
            "http://localhost",
            "",
        ] {
            let refused = check(&guard, "127.0.0.1:7420", Some(origin)).unwrap_err();
            assert_eq!(
                (refused.status.as_u16(), refused.code),
                (403, code::BAD_ORIGIN),
                "{origin}"
            );
            assert!(refused.detail.contains("gateway.allowed_origins"));
        }
        assert_eq!(
            check(&guard, "127.0.0.1:7420", Some("https://PAGES.test")),
            Ok(())
        );
    }

    #[test]
    fn a_reverse_proxy_works_once_it_is_listed() {
        let mut proxied = settings();
        assert!(check(&guard(&proxied), "mcp.corp.test", None).is_err());
        proxied.allowed_hosts = vec![
            "MCP.corp.test".into(),
            "other.test:8443".into(),
            "[fe80::1]".into(),
        ];
        let guard = guard(&proxied);
        for host in [
            "mcp.corp.test",
            "mcp.corp.test:443",
            "other.test:8443",
            "[fe80::1]:9",
        ] {
            assert_eq!(check(&guard, host, None), Ok(()), "{host}");
        }
        for host in ["other.test", "other.test:8444", "x.mcp.corp.test"] {
            assert!(check(&guard, host, None).is_err(), "{host}");
        }
    }

    #[test]
    fn the_public_url_is_served_with_its_origin() {
        let mut public = settings();
        public.public_url = Some("https://Gateway.example.com/base".parse().unwrap());
        let guard = guard(&public);
        assert_eq!(
            check(
                &guard,
                "gateway.example.com",
                Some("https://gateway.example.com")
            ),
            Ok(())
        );
        assert_eq!(check(&guard, "gateway.example.com:443", None), Ok(()));
        assert!(check(&guard, "gateway.example.com:80", None).is_err());
        assert!(
            check(
                &guard,
                "gateway.example.com",
                Some("http://gateway.example.com")
            )
            .is_err()
        );
    }

    #[test]
    fn any_host_needs_credentials() {
        let mut open = settings();
        open.allowed_hosts = vec!["*".into()];
        assert_eq!(check(&guard(&open), "whatever.test", None), Ok(()));
        open.anonymous_agent = Some(AgentName::from("dev"));
        assert!(check(&guard(&open), "whatever.test", None).is_err());
    }

    #[test]
    fn every_host_that_is_named_must_be_ours() {
        let guard = guard(&settings());
        let mut headers = HeaderMap::new();
        let served = Uri::from_static("http://127.0.0.1:7420/mcp/x");
        assert_eq!(
            guard.check(&served, &headers),
            Ok(()),
            "HTTP/2 has no Host header"
        );
        assert!(guard.check(&Uri::from_static("/mcp/x"), &headers).is_err());
        headers.insert(HOST, "127.0.0.1:7420".parse().unwrap());
        let foreign = Uri::from_static("http://evil.test/mcp/x");
        assert!(guard.check(&foreign, &headers).is_err());
        headers.append(HOST, "evil.test".parse().unwrap());
        assert!(guard.check(&Uri::from_static("/mcp/x"), &headers).is_err());
    }
}
