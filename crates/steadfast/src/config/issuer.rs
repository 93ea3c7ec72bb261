//! `[[gateway.issuers]]`: who may issue access tokens to agents.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use steadfast_core::reference::Template;
use url::Url;

use super::Span;

/// One issuer of access tokens. Its keys are in its metadata, unless they are said to be elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issuer {
    /// Its identifier, letter by letter as its tokens write it (`iss`).
    pub issuer: String,
    /// Where its keys are; none for the place that its metadata names (RFC 8414).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<Url>,
    /// What it writes as audience where it cannot write our resources; each stands for all of them.
    #[serde(default)]
    pub audiences: Vec<String>,
    /// The claim that says which agent a token is.
    #[serde(default = "client_id")]
    pub agent_claim: String,
    /// The agents by the values of that claim; where it is empty, the value is the agent's name.
    #[serde(default)]
    pub agents: BTreeMap<String, String>,
    /// The scopes that a token must have; named in metadata and challenges.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// What its tokens look like.
    #[serde(default)]
    pub profile: Profile,
    /// How far its clock may be from ours.
    #[serde(default = "half_a_minute")]
    pub clock_skew: Span,
    /// How long it is left in peace after it was asked for its keys.
    #[serde(default = "half_a_minute")]
    pub jwks_recheck: Span,
    /// How it is asked about each token (RFC 7662), where that has to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub introspection: Option<Introspection>,
}

/// What the access tokens of an issuer look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// As RFC 9068 wants them.
    #[default]
    Rfc9068,
    /// JWTs of any `typ`, which need no more than `iss`, `aud` and `exp`.
    Jwt,
}

/// `introspection = { … }` of an issuer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Introspection {
    /// Where it is asked; none for the place that its metadata names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Url>,
    /// As whom we ask.
    pub client_id: String,
    /// The secret of that client; may be `${vault:NAME}`.
    pub client_secret: String,
    /// How long an answer is used again: a token that is revoked stays good for so long.
    #[serde(default = "ten_seconds")]
    pub cache: Span,
}

impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection")
            .field("endpoint", &self.endpoint)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

fn client_id() -> String {
    "client_id".to_owned()
}

fn half_a_minute() -> Span {
    Span::secs(30)
}

fn ten_seconds() -> Span {
    Span::secs(10)
}

impl Issuer {
    /// What cannot work in it: the key, and why.
    ///
    /// # Errors
    ///
    /// The first of it.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let refuse = |key, why: &str| Err((key, why.to_owned()));
        let is_web = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        // RFC 8414 section 2: no query, no fragment.
        let is_issuer = self
            .issuer
            .parse::<Url>()
            .is_ok_and(|url| is_web(&url) && url.query().is_none() && url.fragment().is_none());
        if !is_issuer {
            return refuse(
                "issuer",
                "is the url by which the issuer calls itself in `iss`",
            );
        }
        if self.jwks_uri.as_ref().is_some_and(|url| !is_web(url)) {
            return refuse("jwks_uri", "use http or https");
        }
        if self.audiences.iter().any(String::is_empty) {
            return refuse("audiences", "an empty audience would be everybody's");
        }
        if self.agent_claim.is_empty() {
            return refuse("agent_claim", "names no claim; client_id is the usual one");
        }
        if self.agents.values().any(String::is_empty) {
            return refuse("agents", "write the claim's value = the agent's name");
        }
        let is_scope = |scope: &String| {
            // RFC 6749 section 3.3.
            let is_fit = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
            !scope.is_empty() && scope.bytes().all(is_fit)
        };
        if !self.scopes.iter().all(is_scope) {
            return refuse(
                "scopes",
                "a scope is printable ASCII without spaces and quotes",
            );
        }
        if self.jwks_recheck == Span::default() {
            let why = "must be longer than zero: anybody can write an unknown key into a token";
            return refuse("jwks_recheck", why);
        }
        self.introspection
            .as_ref()
            .map_or(Ok(()), Introspection::check)
    }
}

impl Introspection {
    fn check(&self) -> Result<(), (&'static str, String)> {
        let refuse = |why: String| Err(("introspection", why));
        let endpoint = self.endpoint.as_ref();
        if endpoint.is_some_and(|url| !matches!(url.scheme(), "http" | "https")) {
            return refuse("endpoint: use http or https".to_owned());
        }
        if self.client_id.is_empty() {
            return refuse("client_id: an issuer answers only clients that it knows".to_owned());
        }
        match Template::read(&self.client_secret) {
            Ok(_) => Ok(()),
            Err(why) => refuse(format!("client_secret: {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn wrong(bent: Value) -> Option<&'static str> {
        let mut issuer = json!({"issuer": "https://as.test"});
        for (key, value) in bent.as_object().unwrap() {
            issuer[key] = value.clone();
        }
        let issuer: Issuer = serde_json::from_value(issuer).unwrap();
        issuer.check().err().map(|(key, _)| key)
    }

    #[test]
    fn what_cannot_work_is_found_before_any_token_comes() {
        for (bent, key) in [
            (json!({}), None),
            (json!({"issuer": "https://as.test/tenant/"}), None),
            (json!({"issuer": "as.test"}), Some("issuer")),
            (json!({"issuer": "https://as.test?a"}), Some("issuer")),
            (json!({"jwks_uri": "file:///keys"}), Some("jwks_uri")),
            (json!({"audiences": [""]}), Some("audiences")),
            (json!({"agent_claim": ""}), Some("agent_claim")),
            (json!({"agents": {"a": ""}}), Some("agents")),
            (json!({"scopes": ["a b"]}), Some("scopes")),
            (json!({"jwks_recheck": "0s"}), Some("jwks_recheck")),
            (
                json!({"introspection": {"client_id": "", "client_secret": "s"}}),
                Some("introspection"),
            ),
            (
                json!({"introspection": {"client_id": "g", "client_secret": "${vault:}"}}),
                Some("introspection"),
            ),
            (
                json!({"introspection": {"client_id": "g", "client_secret": "${vault:S}"}}),
                None,
            ),
        ] {
            assert_eq!(wrong(bent.clone()), key, "{bent}");
        }
    }

    #[test]
    fn the_secret_does_not_print() {
        let asked = Introspection {
            endpoint: None,
            client_id: "g".into(),
            client_secret: "canary".into(),
            cache: Span::default(),
        };
        assert!(!format!("{asked:?}").contains("canary"));
    }
}
