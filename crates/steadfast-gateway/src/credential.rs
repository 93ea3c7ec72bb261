//! Which agent a request comes from: its credential decides, on every request.

use std::collections::HashMap;

use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use parking_lot::RwLock;
use steadfast_core::{AgentName, code};
use steadfast_store::KeyHash;

use crate::body::Body;
use crate::problem::{INVALID_REQUEST, Problem};

/// The agents by the hash of their keys. Lookups by a hash tell nothing about the key.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    by_key: RwLock<HashMap<[u8; 32], AgentName>>,
    /// Who a request without a credential is.
    anonymous: Option<AgentName>,
}

/// Why a request comes from nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// There is no credential.
    Missing,
    /// There is one, and it is nobody's.
    Unknown,
}

impl Credentials {
    /// `anonymous` is who a request without a credential is.
    pub(crate) fn new(anonymous: Option<AgentName>) -> Self {
        Self {
            by_key: RwLock::default(),
            anonymous,
        }
    }

    /// Gives an agent its key; the one before is worth nothing from now on.
    pub(crate) fn set(&self, agent: &AgentName, key: Option<KeyHash>) {
        let mut by_key = self.by_key.write();
        by_key.retain(|_, owner| owner != agent);
        if let Some(key) = key {
            by_key.insert(key.0, agent.clone());
        }
    }

    /// Who sent this.
    pub(crate) fn agent(&self, headers: &HeaderMap) -> Result<AgentName, Refused> {
        let Some(value) = headers.get(AUTHORIZATION) else {
            return self.anonymous.clone().ok_or(Refused::Missing);
        };
        let key = bearer(value).ok_or(Refused::Unknown)?;
        let hash = KeyHash::of(key);
        self.by_key
            .read()
            .get(&hash.0)
            .cloned()
            .ok_or(Refused::Unknown)
    }
}

/// The token of `Authorization: Bearer …`. The scheme's name has no case (RFC 9110 section 11.1).
pub(crate) fn bearer(value: &HeaderValue) -> Option<&str> {
    let value = value.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim_matches(' '))
}

impl Refused {
    /// 401 with a challenge (RFC 6750 section 3: no error code where no credential was sent).
    pub(crate) fn response(self) -> Response<Body> {
        let (detail, challenge) = match self {
            Self::Missing => ("a credential is needed", "Bearer"),
            Self::Unknown => (
                "the credential is not known here",
                r#"Bearer error="invalid_token""#,
            ),
        };
        let problem = Problem::new(StatusCode::UNAUTHORIZED, code::BAD_CREDENTIAL, detail);
        let mut response = problem.rpc(None, INVALID_REQUEST);
        let challenge = HeaderValue::from_static(challenge);
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        response
    }
}

#[cfg(test)]
mod tests {
    use steadfast_store::make_key;

    use super::*;

    fn with(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        headers
    }

    #[test]
    fn a_key_is_its_agent_and_nobody_elses() {
        let credentials = Credentials::new(None);
        let (key, hash) = make_key().unwrap();
        let agent = AgentName::from("support");
        credentials.set(&agent, Some(hash));
        let header = format!("Bearer {}", key.reveal());
        assert_eq!(credentials.agent(&with(&header)), Ok(agent.clone()));
        assert_eq!(
            credentials.agent(&with(&header.replace("Bearer", "bEARER"))),
            Ok(agent.clone())
        );
        assert_eq!(
            credentials.agent(&with("Bearer sfk_x")),
            Err(Refused::Unknown)
        );
        assert_eq!(
            credentials.agent(&with(key.reveal())),
            Err(Refused::Unknown)
        );
        assert_eq!(credentials.agent(&HeaderMap::new()), Err(Refused::Missing));

        let (_, second) = make_key().unwrap();
        credentials.set(&agent, Some(second));
        assert_eq!(credentials.agent(&with(&header)), Err(Refused::Unknown));
    }

    #[test]
    fn the_anonymous_agent_is_only_for_requests_without_a_credential() {
        let credentials = Credentials::new(Some(AgentName::from("dev")));
        assert_eq!(
            credentials.agent(&HeaderMap::new()),
            Ok(AgentName::from("dev"))
        );
        assert_eq!(
            credentials.agent(&with("Bearer wrong")),
            Err(Refused::Unknown)
        );
        assert_eq!(
            credentials.agent(&with("Basic ZGV2")),
            Err(Refused::Unknown)
        );
    }

    #[test]
    fn a_refusal_challenges() {
        let response = Refused::Unknown.response();
        assert_eq!(response.status(), 401);
        assert_eq!(
            response.headers()[WWW_AUTHENTICATE],
            r#"Bearer error="invalid_token""#
        );
        assert_eq!(
            Refused::Missing.response().headers()[WWW_AUTHENTICATE],
            "Bearer"
        );
    }
}
