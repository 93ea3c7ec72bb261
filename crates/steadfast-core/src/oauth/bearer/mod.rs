//! Whose an access token is that an agent sends, and how far it reaches (RFC 9068 section 4; 2026-07-28
//! basic/authorization, "Access Token Usage"). Signatures are verified, and issuers asked, elsewhere.

mod jwt;
pub mod keys;

pub use jwt::{Algorithm, Jwt};

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use url::Url;

use crate::identity::AgentName;
use crate::now::{Millis, Wall};
use crate::replay::{Access, Audiences, Reach, Resource};

/// What is expected of the tokens of one issuer.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'r> {
    /// Its identifier, as its tokens write it.
    pub issuer: &'r str,
    /// Where the gateway is reached: our resources are under it.
    pub public_url: &'r Url,
    /// What this issuer writes as audience in place of all our resources together.
    pub audiences: &'r [String],
    /// The claim that says which agent it is.
    pub agent_claim: &'r str,
    /// The agents by the values of that claim; where there are none, the value is the agent's name.
    pub agents: &'r BTreeMap<String, String>,
    /// The scopes that a token must have.
    pub scopes: &'r [String],
    /// How far the issuer's clock may be from ours.
    pub clock_skew: Millis,
    /// Where the claims come from.
    pub source: Source,
}

/// Where claims come from: what they must hold depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From an access token of RFC 9068, which says everything.
    AccessToken,
    /// From a JWT of an issuer whose access tokens are older than RFC 9068.
    OtherJwt,
    /// From the issuer itself (RFC 7662 section 2.2), which leaves out what it likes.
    Introspection,
}

/// What a token says.
#[derive(Clone, PartialEq, Eq)]
pub struct Claims(pub Map<String, Value>);

impl std::fmt::Debug for Claims {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Claims(…)")
    }
}

impl Claims {
    /// The text of a claim.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// The texts of a claim that may have several: one text, or a list.
    fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        let value = self.0.get(name);
        let one = value.and_then(Value::as_str);
        let many = value.and_then(Value::as_array).into_iter().flatten();
        one.into_iter().chain(many.filter_map(Value::as_str))
    }

    /// A time (RFC 7519 section 2, "NumericDate"): seconds since 1970, also with a fraction.
    fn time(&self, name: &str) -> Option<Wall> {
        let number = self.0.get(name)?;
        let millis = match number.as_i64() {
            Some(seconds) => seconds.checked_mul(1_000)?,
            // Beyond what a clock can show is cut off by the conversion.
            None => (number.as_f64()? * 1_000.0) as i64,
        };
        Some(Wall(millis))
    }
}

/// Why a token is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is no token, or none that can be read.
    Malformed,
    /// It is signed in a way that is not accepted from anybody.
    Algorithm,
    /// It is not of the kind `at+jwt`.
    Kind,
    /// Nobody here relies on its issuer.
    Issuer,
    /// No key of its issuer made the signature.
    Signature,
    /// The issuer says that it is not good, or no longer.
    Inactive,
    /// It says too little.
    Missing(&'static str),
    /// It has expired.
    Expired,
    /// It is not good yet.
    TooEarly,
    /// It is for somebody else.
    Audience,
    /// It lacks these scopes.
    Scopes(Vec<String>),
    /// It is good, and no agent is meant by it.
    NoAgent,
}

impl Refusal {
    /// In words: nothing of the token itself (RFC 6750 section 3 for its characters).
    #[must_use]
    pub fn description(&self) -> &'static str {
        match self {
            Self::Malformed => "the access token cannot be read",
            Self::Algorithm => "the access token is signed in a way that is not accepted",
            Self::Kind => "the token is no access token (typ at+jwt)",
            Self::Issuer => "the issuer of the access token is not accepted here",
            Self::Signature => "the signature of the access token is not its issuer's",
            Self::Inactive => "the issuer says that the access token is not active",
            Self::Missing("exp") => "the access token does not say when it expires",
            Self::Missing("aud") => "the access token does not say for whom it is",
            Self::Missing(_) => "the access token lacks a claim of RFC 9068",
            Self::Expired => "the access token expired",
            Self::TooEarly => "the access token is not valid yet",
            Self::Audience => "the access token is not for this gateway",
            Self::Scopes(_) => "the access token lacks a scope",
            Self::NoAgent => "the access token is no agent's",
        }
    }
}

/// Decides whose request it is and what it may reach, from claims that are known to be the issuer's.
///
/// # Errors
///
/// Why the token is not accepted.
pub fn accept(claims: &Claims, rules: &Rules<'_>, now: Wall) -> Result<Access, Refusal> {
    check_complete(claims, rules.source)?;
    // RFC 9068 section 4: "MUST exactly match". Introspection may leave it out: the issuer itself answered.
    if claims.0.contains_key("iss") && claims.text("iss") != Some(rules.issuer) {
        return Err(Refusal::Issuer);
    }
    let expires_at = check_times(claims, rules, now)?;
    let reach = Reach::Only(audiences(claims, rules)?);
    let granted: BTreeSet<&str> = claims
        .texts("scope")
        .flat_map(str::split_ascii_whitespace)
        .collect();
    let lacking = rules.scopes.iter();
    let lacking: Vec<_> = lacking
        .filter(|scope| !granted.contains(scope.as_str()))
        .cloned()
        .collect();
    if !lacking.is_empty() {
        return Err(Refusal::Scopes(lacking));
    }
    Ok(Access {
        agent: agent(claims, rules)?,
        reach,
        expires_at,
    })
}

/// RFC 9068 section 2.2: what an access token must say.
fn check_complete(claims: &Claims, source: Source) -> Result<(), Refusal> {
    let required: &[&'static str] = match source {
        Source::AccessToken => &["iss", "exp", "aud", "sub", "client_id", "iat", "jti"],
        Source::OtherJwt => &["iss", "exp", "aud"],
        Source::Introspection => &["aud"],
    };
    match required.iter().find(|name| !claims.0.contains_key(**name)) {
        Some(missing) => Err(Refusal::Missing(missing)),
        None => Ok(()),
    }
}

/// When it stops to be good, if it is good now.
fn check_times(claims: &Claims, rules: &Rules<'_>, now: Wall) -> Result<Option<Wall>, Refusal> {
    let skew = rules.clock_skew.0;
    let time = |name: &'static str| match (claims.0.contains_key(name), claims.time(name)) {
        (true, None) => Err(Refusal::Malformed),
        (_, time) => Ok(time),
    };
    // RFC 7519 section 4.1.4: "some small leeway" for both ends.
    let expires_at = time("exp")?.map(|at| Wall(at.0.saturating_add_unsigned(skew)));
    if expires_at.is_some_and(|at| at <= now) {
        return Err(Refusal::Expired);
    }
    for begins in [time("nbf")?, time("iat")?].into_iter().flatten() {
        if begins.0 > now.0.saturating_add_unsigned(skew) {
            return Err(Refusal::TooEarly);
        }
    }
    Ok(expires_at)
}

/// For which of our resources it is. What it is for elsewhere is nothing to us (2026-07-28 basic/authorization,
/// "Token Audience Binding and Validation").
fn audiences(claims: &Claims, rules: &Rules<'_>) -> Result<Audiences, Refusal> {
    let everything = Resource::everything(rules.public_url);
    let ours = |text: &str| {
        if rules.audiences.iter().any(|other| other == text) {
            return Some(everything.clone());
        }
        Resource::parse(text).filter(|resource| is_ours(resource, &everything))
    };
    let found: Audiences = claims.texts("aud").filter_map(ours).collect();
    if found.is_empty() {
        return Err(Refusal::Audience);
    }
    Ok(found)
}

/// Whether a resource is `/mcp`, `/mcp/{server}` or `/mcp/{server}/tools/{tool}` of ours.
fn is_ours(resource: &Resource, everything: &Resource) -> bool {
    if resource.url().query().is_some() || !everything.covers(resource) {
        return false;
    }
    let rest = resource.as_str().strip_prefix(everything.as_str());
    let rest: Vec<_> = rest.unwrap_or_default().split('/').skip(1).collect();
    match rest.as_slice() {
        [] | [_] => true,
        [_, tools, tool] => *tools == "tools" && !tool.is_empty(),
        _ => false,
    }
}

/// The one agent that the claim means. One that means several means none.
fn agent(claims: &Claims, rules: &Rules<'_>) -> Result<AgentName, Refusal> {
    let values = claims.texts(rules.agent_claim);
    let meant: BTreeSet<&str> = if rules.agents.is_empty() {
        values.collect()
    } else {
        let named = values.filter_map(|value| rules.agents.get(value));
        named.map(String::as_str).collect()
    };
    let mut meant = meant.into_iter();
    match (meant.next(), meant.next()) {
        (Some(only), None) => Ok(AgentName::from(only)),
        (None, _) | (Some(_), Some(_)) => Err(Refusal::NoAgent),
    }
}

#[cfg(test)]
mod tests;
