//! `oauth = { … }` of a server.

use std::fmt;

use serde::{Deserialize, Serialize};
use steadfast_core::oauth::client::Credential;
use url::Url;

/// `oauth = { … }` of a server: as which client to ask for tokens, and for whom.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
    /// Who vouches for the person, with [`GrantType::IdentityAssertion`].
    pub identity: Option<Identity>,
    /// Scopes to ask for.
    pub scopes: Vec<String>,
    /// Further error codes with which this provider means "refused".
    pub dead_codes: Vec<String>,
}

/// Who gives the grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum GrantType {
    /// A person, who signs in.
    #[default]
    AuthorizationCode,
    /// Nobody: the client asks for itself (RFC 6749 section 4.4).
    ClientCredentials,
    /// An organisation, whose identity provider vouches for a person who is signed in there (the extension
    /// `io.modelcontextprotocol/enterprise-managed-authorization`).
    IdentityAssertion,
}

/// `oauth.identity = { … }`: the identity provider of an organisation, and the person whom it vouches for.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The identity provider.
    pub issuer: String,
    /// Our client there: the one that the assertion was issued to.
    pub client_id: String,
    /// Its secret, if it has one; may be `${vault:NAME}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// What the identity provider issued when the person signed in there; may be `${vault:NAME}`.
    pub assertion: String,
    /// What that is.
    #[serde(default)]
    pub assertion_type: AssertionType,
}

/// What an identity provider issues when somebody signs in there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AssertionType {
    /// An ID token (OpenID Connect Core 1.0 section 2).
    #[default]
    IdToken,
    /// A SAML 2.0 assertion.
    Saml2,
    /// A refresh token, which outlives both.
    RefreshToken,
}

impl AssertionType {
    /// As a token exchange names it (RFC 8693 section 3).
    #[must_use]
    pub const fn urn(self) -> &'static str {
        match self {
            Self::IdToken => "urn:ietf:params:oauth:token-type:id_token",
            Self::Saml2 => "urn:ietf:params:oauth:token-type:saml2",
            Self::RefreshToken => "urn:ietf:params:oauth:token-type:refresh_token",
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
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
    /// Whether the client asks for tokens by itself: nobody signs in.
    #[must_use]
    pub fn asks_for_itself(&self) -> bool {
        match self.grant {
            GrantType::AuthorizationCode => false,
            GrantType::ClientCredentials | GrantType::IdentityAssertion => true,
        }
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
        if self
            .issuer
            .as_deref()
            .is_some_and(|issuer| !is_issuer(issuer))
        {
            return Err(("issuer", "is the url by which the provider calls itself"));
        }
        self.check_grant()
    }

    fn check_grant(&self) -> Result<(), (&'static str, &'static str)> {
        if self.asks_for_itself() && self.client_id.is_none() {
            return Err(("client_id", "is needed where nobody signs in"));
        }
        match (self.grant, &self.identity) {
            (GrantType::ClientCredentials, None) if self.credential() == Credential::Nothing => {
                let why = "client_credentials needs a client_secret or a private_key";
                Err(("grant", why))
            }
            (GrantType::AuthorizationCode | GrantType::ClientCredentials, Some(_)) => {
                Err(("identity", "belongs to the grant identity_assertion"))
            }
            (GrantType::IdentityAssertion, None) => {
                Err(("identity", "is needed: who vouches for the person"))
            }
            (GrantType::IdentityAssertion, Some(identity)) if !is_issuer(&identity.issuer) => {
                Err((
                    "identity",
                    "needs the url by which the identity provider calls itself",
                ))
            }
            (_, None | Some(_)) => Ok(()),
        }
    }
}

fn is_issuer(text: &str) -> bool {
    text.parse::<Url>().is_ok_and(|url| url.has_host())
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
    fn an_identity_provider_belongs_to_the_grant_that_needs_it() {
        let identity = json!({"issuer": "https://idp.test", "client_id": "b", "assertion": "c"});
        let with = |grant: &str, identity: &Value| {
            wrong(json!({"grant": grant, "client_id": "a", "identity": identity}))
        };
        assert_eq!(with("identity_assertion", &identity), None);
        assert_eq!(with("identity_assertion", &Value::Null), Some("identity"));
        assert_eq!(with("authorization_code", &identity), Some("identity"));
        let nowhere = json!({"issuer": "idp", "client_id": "b", "assertion": "c"});
        assert_eq!(with("identity_assertion", &nowhere), Some("identity"));
        let nobody = json!({"grant": "identity_assertion", "identity": identity});
        assert_eq!(wrong(nobody), Some("client_id"));
    }

    #[test]
    fn secrets_do_not_print() {
        let oauth = Oauth {
            client_secret: Some("canary".into()),
            private_key: Some("canary".into()),
            identity: Some(Identity {
                issuer: "https://idp.test".into(),
                client_id: "b".into(),
                client_secret: Some("canary".into()),
                assertion: "canary".into(),
                assertion_type: AssertionType::IdToken,
            }),
            ..Oauth::default()
        };
        assert!(!format!("{oauth:?}").contains("canary"));
    }
}
