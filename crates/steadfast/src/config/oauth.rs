//! `oauth = { … }` of a server.

use std::fmt;

use serde::{Deserialize, Serialize};
use steadfast_core::oauth::client::Credential;
use url::Url;

/// `oauth = { … }` of a server: as which client to ask for tokens, and for whom.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Oauth {
    /// Who gives the grant.
    pub grant: GrantType,
    /// The issuer at which the client is registered; it is used at no other.
    pub issuer: Option<String>,
    /// The client id.
    pub client_id: Option<String>,
    /// The client secret; may be `${vault:NAME}`.
    pub client_secret: Option<String>,
    /// The client's private key as PEM, in place of a secret; may be `${vault:NAME}`.
    pub private_key: Option<String>,
    /// Which of the client's keys it is (`kid`), where the provider knows several.
    pub key_id: Option<String>,
    /// Whom assertions are meant for, where the provider wants to be called otherwise than by its issuer identifier.
    pub audience: Option<String>,
    /// Scopes to ask for.
    pub scopes: Vec<String>,
    /// Further error codes with which this provider means "refused".
    pub dead_codes: Vec<String>,
}

/// Who gives the grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantType {
    /// A person, who signs in.
    #[default]
    AuthorizationCode,
    /// Nobody: the client asks for itself (RFC 6749 section 4.4).
    ClientCredentials,
}

impl fmt::Debug for Oauth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Oauth")
            .field("grant", &self.grant)
            .field("client_id", &self.client_id)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

impl Oauth {
    /// Whether the client asks for tokens for itself.
    #[must_use]
    pub fn asks_for_itself(&self) -> bool {
        self.grant == GrantType::ClientCredentials
    }

    /// What the client has to prove itself with.
    #[must_use]
    pub const fn credential(&self) -> Credential {
        match (&self.private_key, &self.client_secret) {
            (Some(_), _) => Credential::Key,
            (None, Some(_)) => Credential::Secret,
            (None, None) => Credential::Nothing,
        }
    }

    /// What cannot work in it: the key, and why.
    ///
    /// # Errors
    ///
    /// The first of it.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let has = Option::is_some;
        if has(&self.client_secret) && has(&self.private_key) {
            return Err(("private_key", "stands in place of client_secret: give one"));
        }
        if self.client_id.is_none() {
            for (key, value) in [
                ("client_secret", &self.client_secret),
                ("private_key", &self.private_key),
                ("issuer", &self.issuer),
            ] {
                if value.is_some() {
                    return Err((key, "belongs to a client: give its client_id, too"));
                }
            }
        }
        if self.private_key.is_none() {
            for (key, value) in [("key_id", &self.key_id), ("audience", &self.audience)] {
                if value.is_some() {
                    return Err((key, "is about private_key, which is missing"));
                }
            }
        }
        if let Some(issuer) = &self.issuer
            && !issuer.parse::<Url>().is_ok_and(|url| url.has_host())
        {
            return Err(("issuer", "is the url by which the provider calls itself"));
        }
        if self.asks_for_itself() {
            if self.client_id.is_none() {
                return Err(("client_id", "is needed for client_credentials"));
            }
            if self.credential() == Credential::Nothing {
                let why = "client_credentials needs a client_secret or a private_key";
                return Err(("grant", why));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn wrong(oauth: Value) -> Option<&'static str> {
        let oauth: Oauth = serde_json::from_value(oauth).unwrap();
        oauth.check().err().map(|(key, _)| key)
    }

    #[test]
    fn what_cannot_work_is_found_before_anybody_asks() {
        let machine = "client_credentials";
        for (oauth, key) in [
            (json!({}), None),
            (json!({"scopes": ["a"]}), None),
            (json!({"client_id": "a", "client_secret": "b"}), None),
            (
                json!({"grant": machine, "client_id": "a", "client_secret": "b"}),
                None,
            ),
            (
                json!({"grant": machine, "client_id": "a", "private_key": "b", "key_id": "k"}),
                None,
            ),
            (json!({"grant": machine, "client_id": "a"}), Some("grant")),
            (json!({"grant": machine}), Some("client_id")),
            (json!({"client_secret": "b"}), Some("client_secret")),
            (
                json!({"client_id": "a", "client_secret": "b", "private_key": "c"}),
                Some("private_key"),
            ),
            (
                json!({"client_id": "a", "client_secret": "b", "audience": "c"}),
                Some("audience"),
            ),
            (
                json!({"client_id": "a", "issuer": "provider"}),
                Some("issuer"),
            ),
            (json!({"client_id": "a", "issuer": "https://as.test"}), None),
        ] {
            assert_eq!(wrong(oauth.clone()), key, "{oauth}");
        }
    }

    #[test]
    fn secrets_do_not_print() {
        let oauth = Oauth {
            client_secret: Some("canary".into()),
            private_key: Some("canary".into()),
            ..Oauth::default()
        };
        assert!(!format!("{oauth:?}").contains("canary"));
    }
}
