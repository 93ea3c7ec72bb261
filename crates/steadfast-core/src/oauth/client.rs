//! Which client to be toward an authorization server, and how to prove it.

use url::{Host, Url};

use super::discovery::{Identity, identity};
use crate::now::{Millis, Wall};

/// How a client proves at the token endpoint who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// It does not: a public client with PKCE.
    None,
    /// The secret in the Authorization header (RFC 6749 section 2.3.1).
    ClientSecretBasic,
    /// The secret in the body.
    ClientSecretPost,
    /// A signed assertion (RFC 7523 section 2.2).
    PrivateKeyJwt,
}

impl Auth {
    /// As metadata writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }
}

/// What a client has to prove itself with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// Nothing.
    Nothing,
    /// A secret that the issuer knows, too.
    Secret,
    /// A private key, of which the issuer knows the public half.
    Key,
}

/// How a client proves itself, given `token_endpoint_auth_methods_supported`: where it is omitted the default is
/// `client_secret_basic` (RFC 8414 section 2). Of the two ways to send a secret, the one that the issuer names first:
/// the endpoints of the Python `mcp` SDK name `client_secret_basic` last, and do not take it. A secret goes nowhere
/// where the issuer takes public clients only.
#[must_use]
pub fn auth(credential: Credential, supported: Option<&[String]>) -> Auth {
    match credential {
        Credential::Nothing => return Auth::None,
        Credential::Key => return Auth::PrivateKeyJwt,
        Credential::Secret => {}
    }
    let supported = supported.unwrap_or_default();
    let ways = [Auth::ClientSecretBasic, Auth::ClientSecretPost];
    let way = |name: &String| ways.into_iter().find(|way| way.as_str() == name);
    let is_public_only = supported.iter().any(|name| name == Auth::None.as_str());
    match supported.iter().find_map(way) {
        Some(way) => way,
        None if is_public_only => Auth::None,
        None => Auth::ClientSecretBasic,
    }
}

/// Whether the operator's client may be used at an issuer. It belongs to the one at which it was registered: the
/// operator names that, or it is the one at which it was used before (2026-07-28 client-registration, "Authorization
/// Server Binding").
#[must_use]
pub fn may_be_used_at(issuer: &str, belongs_to: Option<&str>) -> bool {
    belongs_to.is_none_or(|known| identity(known, issuer) != Identity::Different)
}

/// The other way to send a secret, to be tried once where the provider did not accept the first and offers both
/// (TE-05); `None` where there is no other.
#[must_use]
pub fn other(tried: Auth, supported: Option<&[String]>) -> Option<Auth> {
    let other = match tried {
        Auth::ClientSecretBasic => Auth::ClientSecretPost,
        Auth::ClientSecretPost => Auth::ClientSecretBasic,
        Auth::None | Auth::PrivateKeyJwt => return None,
    };
    let offered = supported.is_none_or(|methods| methods.iter().any(|it| it == other.as_str()));
    offered.then_some(other)
}

/// What kind of client a browser comes back to there: loopback belongs to native ones, https to web ones (OpenID Connect
/// Dynamic Client Registration 1.0 section 2; 2026-07-28 client-registration, "Application Type and Redirect URI
/// Constraints").
#[must_use]
pub fn application_type(redirect_uri: &Url) -> &'static str {
    if redirect_uri.scheme() == "https" {
        "web"
    } else {
        "native"
    }
}

/// Whether a browser may come back there: by https, or to its own machine (2026-07-28
/// authorization/security-considerations, "Communication Security").
#[must_use]
pub fn may_come_back_to(redirect_uri: &Url) -> bool {
    match redirect_uri.host() {
        _ if redirect_uri.scheme() == "https" => true,
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// How a client id is come by, best first (2026-07-28 client-registration).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The operator configured one.
    Configured,
    /// The one that was registered at this issuer before.
    Registered,
    /// Our client-id metadata document.
    MetadataDocument,
    /// Dynamic registration (RFC 7591).
    Register,
    /// A person must enter one.
    Ask,
}

/// What is known when a client is chosen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// Whether the operator configured a client id.
    pub configured: bool,
    /// Whether one was registered at this issuer, for this redirect URI, and is still good.
    pub registered: bool,
    /// Whether the issuer takes client-id metadata documents, and ours is at an https address.
    pub metadata_document: bool,
    /// Whether the issuer has a registration endpoint.
    pub can_register: bool,
}

/// Chooses.
#[must_use]
pub const fn choose(known: Known) -> Choice {
    if known.configured {
        Choice::Configured
    } else if known.metadata_document {
        Choice::MetadataDocument
    } else if known.registered {
        Choice::Registered
    } else if known.can_register {
        Choice::Register
    } else {
        Choice::Ask
    }
}

/// Whether a registration can still be used for a new sign-in: not where its secret expires before the person
/// could be done (RFC 7591 section 3.2.1: zero is never).
#[must_use]
pub const fn is_good(secret_expires_at: Option<Wall>, now: Wall, needed: Millis) -> bool {
    match secret_expires_at {
        None | Some(Wall(0)) => true,
        Some(at) => at.0 > now.0.saturating_add_unsigned(needed.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn methods(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_secret_is_sent_as_the_issuer_takes_it() {
        let both = methods(&["none", "client_secret_basic", "client_secret_post"]);
        let post_first = methods(&["client_secret_post", "client_secret_basic"]);
        let post = methods(&["client_secret_post"]);
        let unknown = methods(&["tls_client_auth"]);
        let none = methods(&["none"]);
        let secret = |supported| auth(Credential::Secret, supported);
        assert_eq!(auth(Credential::Nothing, Some(&both)), Auth::None);
        assert_eq!(auth(Credential::Key, Some(&both)), Auth::PrivateKeyJwt);
        assert_eq!(secret(None), Auth::ClientSecretBasic);
        assert_eq!(secret(Some(&both)), Auth::ClientSecretBasic);
        assert_eq!(secret(Some(&post_first)), Auth::ClientSecretPost);
        assert_eq!(secret(Some(&post)), Auth::ClientSecretPost);
        assert_eq!(secret(Some(&none)), Auth::None);
        assert_eq!(secret(Some(&unknown)), Auth::ClientSecretBasic);
        assert_eq!(
            other(Auth::ClientSecretBasic, Some(&both)),
            Some(Auth::ClientSecretPost)
        );
        assert_eq!(other(Auth::ClientSecretPost, Some(&post)), None);
        assert_eq!(other(Auth::None, None), None);
    }

    #[test]
    fn browsers_come_back_by_https_or_to_their_own_machine() {
        for (address, expected) in [
            ("https://gateway.test/oauth/callback", true),
            ("http://localhost:7420/oauth/callback", true),
            ("http://127.0.0.1:7420/oauth/callback", true),
            ("http://[::1]:7420/oauth/callback", true),
            ("http://gateway.test/oauth/callback", false),
            ("http://10.0.0.1/oauth/callback", false),
            ("http://localhost.test/oauth/callback", false),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(may_come_back_to(&address), expected, "{address}");
        }
    }

    #[test]
    fn a_configured_client_belongs_to_one_issuer() {
        let at = |belongs_to| may_be_used_at("https://as.test", belongs_to);
        assert!(at(None) && at(Some("https://as.test")) && at(Some("https://as.test/")));
        assert!(!at(Some("https://other.test")) && !at(Some("https://as.test/t1")));
    }

    #[test]
    fn clients_are_chosen_in_the_order_of_the_specification() {
        let mut known = Known {
            configured: true,
            registered: true,
            metadata_document: true,
            can_register: true,
        };
        let mut chosen = Vec::new();
        for forget in [
            (|known: &mut Known| known.configured = false) as fn(&mut Known),
            |known| known.metadata_document = false,
            |known| known.registered = false,
            |known| known.can_register = false,
            |_| (),
        ] {
            chosen.push(choose(known));
            forget(&mut known);
        }
        assert_eq!(
            chosen,
            [
                Choice::Configured,
                Choice::MetadataDocument,
                Choice::Registered,
                Choice::Register,
                Choice::Ask,
            ]
        );
    }

    #[test]
    fn cr_01_a_registration_that_is_about_to_expire_is_not_used() {
        let now = Wall(1_000_000);
        let good = |at| is_good(at, now, Millis(10_000));
        assert!(good(None) && good(Some(Wall(0))) && good(Some(Wall(1_010_001))));
        assert!(!good(Some(Wall(1_010_000))) && !good(Some(Wall(5))));
    }
}
