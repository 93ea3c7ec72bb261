//! Our resources, for agents that come with access tokens: what their metadata says (RFC 9728), and the challenges
//! that lead to it. Without configured issuers there is neither: nothing would be at the end of that way.

use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, Method, Response, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::json;
use steadfast::Issuers;
use steadfast_core::oauth::bearer::Refusal;
use steadfast_core::oauth::discovery::resource_metadata_urls;
use steadfast_core::replay::Resource;
use steadfast_core::{ServerName, code};
use url::Url;

use crate::body::Body;
use crate::credential::Refused;
use crate::directory::is_name;
use crate::problem::{INTERNAL_ERROR, INVALID_REQUEST, Problem, code_data, rpc_error, whole};

/// Where metadata stands (RFC 9728 section 3).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// What is said of our resources.
#[derive(Debug)]
pub(crate) struct Protected {
    /// Where we are reached: the resources are under it.
    pub(crate) public_url: Url,
    issuers: Vec<String>,
    scopes: Vec<String>,
}

impl Protected {
    pub(crate) fn new(public_url: Url, issuers: &Issuers) -> Self {
        Self {
            public_url,
            issuers: issuers.identifiers().map(str::to_owned).collect(),
            scopes: issuers.scopes().into_iter().map(str::to_owned).collect(),
        }
    }

    /// The metadata that a path is about; `None` where it is about none. It is told for every name alike: that an agent has
    /// a server is nobody else's business.
    pub(crate) fn metadata(&self, method: &Method, path: &str) -> Option<Response<Body>> {
        let at = path.strip_prefix(WELL_KNOWN)?;
        if self.issuers.is_empty() || !matches!(*method, Method::GET | Method::HEAD) {
            return None;
        }
        let resource = self.resource(at)?;
        let mut document = json!({
            "resource": resource.as_str(),
            "authorization_servers": self.issuers,
            "bearer_methods_supported": ["header"],
            "resource_name": "Steadfast",
        });
        if !self.scopes.is_empty() {
            document["scopes_supported"] = json!(self.scopes);
        }
        let document = document.to_string().into();
        Some(whole(StatusCode::OK, "application/json", document))
    }

    /// The resource at a path of ours, with or without the path that the public address has: a proxy may take it away.
    pub(crate) fn resource(&self, path: &str) -> Option<Resource> {
        let base = self.public_url.path().trim_end_matches('/');
        let path = path.strip_prefix(base).unwrap_or(path);
        let segments: Option<Vec<_>> = path
            .trim_matches('/')
            .split('/')
            .map(|segment| percent_decode_str(segment).decode_utf8().ok())
            .collect();
        let segments = segments?;
        let segments: Vec<&str> = segments.iter().map(|it| &**it).collect();
        let server = |name: &str| is_name(name).then(|| ServerName::from(name));
        match segments.as_slice() {
            ["mcp"] => Some(Resource::everything(&self.public_url)),
            ["mcp", name] => Some(Resource::server(&self.public_url, &server(name)?)),
            ["mcp", name, "tools", tool] => {
                Some(Resource::tool(&self.public_url, &server(name)?, tool))
            }
            _ => None,
        }
    }

    /// The answer to a request whose credential says nobody. `path` is what it asked for.
    pub(crate) fn refused(&self, refused: &Refused, path: &str) -> Response<Body> {
        let scopes: &[String] = match refused {
            Refused::Token(Refusal::Scopes(lacking)) => lacking,
            Refused::Missing | Refused::Unknown | Refused::Token(_) | Refused::Unavailable => {
                &self.scopes
            }
        };
        let (status, code, error) = match refused {
            Refused::Unavailable => {
                let detail = "the issuer of the access token cannot be asked now";
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let problem = Problem::new(status, code::ISSUER_UNAVAILABLE, detail);
                return problem.rpc(None, INTERNAL_ERROR);
            }
            // RFC 6750 section 3.1: no error code where no credential was sent.
            Refused::Missing => (StatusCode::UNAUTHORIZED, code::BAD_CREDENTIAL, None),
            Refused::Unknown => (
                StatusCode::UNAUTHORIZED,
                code::BAD_CREDENTIAL,
                Some("invalid_token"),
            ),
            Refused::Token(Refusal::Scopes(_)) => (
                StatusCode::FORBIDDEN,
                code::NOT_COVERED,
                Some("insufficient_scope"),
            ),
            // A good token: another one for the same client would be refused as well.
            Refused::Token(Refusal::NoAgent) => {
                let detail = refused.detail();
                let problem = Problem::new(StatusCode::FORBIDDEN, code::BAD_CREDENTIAL, detail);
                return problem.rpc(None, INVALID_REQUEST);
            }
            Refused::Token(_) => (
                StatusCode::UNAUTHORIZED,
                code::BAD_CREDENTIAL,
                Some("invalid_token"),
            ),
        };
        let detail = refused.detail();
        let everything = || Resource::everything(&self.public_url);
        let resource = self.resource(path).unwrap_or_else(everything);
        let described = error.map(|error| (error, detail));
        let challenge = self.challenge(described, scopes, &[resource]);
        let mut response = Problem::new(status, code, detail).rpc(None, INVALID_REQUEST);
        response
            .headers_mut()
            .extend(challenge.map(|it| (WWW_AUTHENTICATE, it)));
        response
    }

    /// 403 that names what a token that is good would have to cover as well (2026-07-28 basic/authorization, "Runtime
    /// Insufficient Scope Errors"; RFC 6750 section 3.1, RFC 9728 section 5.1). `id` is that of the request.
    pub(crate) fn lacking(&self, missing: &[Resource], id: Option<&[u8]>) -> Response<Body> {
        let detail = "the access token does not cover all that is asked for";
        let mut data = code_data(code::NOT_COVERED);
        let names: Vec<_> = missing.iter().map(Resource::as_str).collect();
        data["missing"] = json!(names);
        let message = rpc_error(id, INVALID_REQUEST, detail, Some(&data));
        let mut response = whole(StatusCode::FORBIDDEN, "application/json", message);
        let error = Some(("insufficient_scope", detail));
        let challenge = self.challenge(error, &self.scopes, missing);
        response
            .headers_mut()
            .extend(challenge.map(|it| (WWW_AUTHENTICATE, it)));
        response
    }

    /// RFC 6750 section 3, with `resource_metadata` of RFC 9728 section 5.1.
    fn challenge(
        &self,
        error: Option<(&str, &str)>,
        scopes: &[String],
        resources: &[Resource],
    ) -> Option<HeaderValue> {
        let mut parameters = Vec::new();
        if let Some((error, description)) = error {
            parameters.push(format!(r#"error="{error}""#));
            parameters.push(format!(r#"error_description="{description}""#));
        }
        if !self.issuers.is_empty() {
            if !scopes.is_empty() {
                parameters.push(format!(r#"scope="{}""#, scopes.join(" ")));
            }
            // Identifiers have neither quotes nor spaces: both are escaped in a URL.
            let first = resources.first();
            let places = first.map(|it| resource_metadata_urls(it.url()));
            let place = places.and_then(|places| places.into_iter().next());
            parameters.extend(place.map(|place| format!(r#"resource_metadata="{place}""#)));
            if resources.len() > 1 {
                let names: Vec<_> = resources.iter().map(Resource::as_str).collect();
                parameters.push(format!(r#"resource="{}""#, names.join(" ")));
            }
        }
        let challenge = match parameters.is_empty() {
            true => "Bearer".to_owned(),
            false => format!("Bearer {}", parameters.join(", ")),
        };
        HeaderValue::try_from(challenge).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protected(issuers: &[&str], scopes: &[&str]) -> Protected {
        let owned = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect();
        Protected {
            public_url: "https://gw.test/base/".parse().unwrap(),
            issuers: owned(issuers),
            scopes: owned(scopes),
        }
    }

    fn challenge(response: &Response<Body>) -> &str {
        response.headers()[WWW_AUTHENTICATE].to_str().unwrap()
    }

    #[test]
    fn every_resource_is_found_at_its_own_place() {
        let protected = protected(&["https://as.test"], &[]);
        for (path, expected) in [
            ("/base/mcp", Some("https://gw.test/base/mcp")),
            ("/mcp", Some("https://gw.test/base/mcp")),
            ("/mcp/", Some("https://gw.test/base/mcp")),
            ("/base/mcp/a", Some("https://gw.test/base/mcp/a")),
            (
                "/mcp/a/tools/b%2Fc",
                Some("https://gw.test/base/mcp/a/tools/b%2Fc"),
            ),
            ("/mcp/a/tools", None),
            ("/mcp/a/b/c", None),
            ("/mcp/a__b", None),
            ("/mcpx", None),
            ("", None),
        ] {
            let found = protected.resource(path);
            let found = found.as_ref().map(Resource::as_str);
            assert_eq!(found, expected, "{path}");
        }
        let at = "/.well-known/oauth-protected-resource/base/mcp/a";
        assert!(protected.metadata(&Method::GET, at).is_some());
        assert!(protected.metadata(&Method::POST, at).is_none());
        assert!(protected.metadata(&Method::GET, "/base/mcp/a").is_none());
    }

    #[test]
    fn a_challenge_leads_to_the_metadata_of_what_was_asked_for() {
        let protected = protected(&["https://as.test"], &["mcp", "x"]);
        let response = protected.refused(&Refused::Missing, "/mcp/a");
        assert_eq!(response.status(), 401);
        assert_eq!(
            challenge(&response),
            r#"Bearer scope="mcp x", resource_metadata="https://gw.test/.well-known/oauth-protected-resource/base/mcp/a""#
        );
        let response = protected.refused(&Refused::Token(Refusal::Expired), "/mcp");
        assert_eq!(response.status(), 401);
        assert_eq!(
            challenge(&response),
            r#"Bearer error="invalid_token", error_description="the access token expired", scope="mcp x", resource_metadata="https://gw.test/.well-known/oauth-protected-resource/base/mcp""#
        );
        let lacking = Refused::Token(Refusal::Scopes(vec!["x".to_owned()]));
        let response = protected.refused(&lacking, "/mcp");
        assert_eq!(response.status(), 403);
        assert!(challenge(&response).contains(r#"error="insufficient_scope""#));
        assert!(challenge(&response).contains(r#"scope="x""#));
        let unavailable = protected.refused(&Refused::Unavailable, "/mcp");
        assert_eq!(unavailable.status(), 503);
        let nobody = protected.refused(&Refused::Token(Refusal::NoAgent), "/mcp");
        assert_eq!(nobody.status(), 403);
        assert!(!nobody.headers().contains_key(WWW_AUTHENTICATE));
    }

    #[test]
    fn without_issuers_nothing_leads_anywhere() {
        let protected = protected(&[], &[]);
        let at = "/.well-known/oauth-protected-resource/base/mcp";
        assert!(protected.metadata(&Method::GET, at).is_none());
        let missing = protected.refused(&Refused::Missing, "/mcp");
        assert_eq!(challenge(&missing), "Bearer");
        let unknown = protected.refused(&Refused::Unknown, "/mcp");
        assert_eq!(
            challenge(&unknown),
            r#"Bearer error="invalid_token", error_description="the credential is not known here""#
        );
    }

    #[test]
    fn everything_that_is_missing_is_named() {
        let protected = protected(&["https://as.test"], &[]);
        let missing = [
            "https://gw.test/base/mcp/a",
            "https://gw.test/base/mcp/b/tools/t",
        ];
        let missing = missing.map(|it| Resource::parse(it).unwrap());
        let response = protected.lacking(&missing, Some(b"1"));
        assert_eq!(response.status(), 403);
        assert_eq!(
            challenge(&response),
            "Bearer error=\"insufficient_scope\", \
             error_description=\"the access token does not cover all that is asked for\", \
             resource_metadata=\"https://gw.test/.well-known/oauth-protected-resource/base/mcp/a\", \
             resource=\"https://gw.test/base/mcp/a https://gw.test/base/mcp/b/tools/t\""
        );
        let Body::Whole(body) = response.into_body() else {
            panic!("a refusal is whole");
        };
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (&body["id"], &body["error"]["data"]["code"]),
            (&json!(1), &json!("SF0072"))
        );
        assert_eq!(
            body["error"]["data"]["missing"],
            json!([
                "https://gw.test/base/mcp/a",
                "https://gw.test/base/mcp/b/tools/t"
            ])
        );
    }
}
