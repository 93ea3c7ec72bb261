//! The settings of an authorization server; a test may change them while it runs.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::document::Document;

/// Everything that an authorization server may be told, see [`crate::Issuer::change`].
#[derive(Clone, Debug)]
pub struct Policy {
    /// Paths of the endpoints, under the issuer's own path.
    pub paths: Paths,
    /// Where the metadata stands.
    pub served_at: Vec<Well>,
    /// What is bent in the metadata.
    pub metadata: Document,
    /// Registration of clients.
    pub registration: Registration,
    /// What becomes of an authorization request.
    pub authorization: Authorization,
    /// Which tokens are issued, and for how long.
    pub tokens: Tokens,
    /// How the token endpoint answers.
    pub answers: Answers,
    /// Whether there is a revocation endpoint.
    pub revocation: bool,
    /// The public keys at `/keys` (RFC 7517); where there are none, there is no such place.
    pub keys: Vec<Value>,
    /// `Cache-Control` of the keys.
    pub keys_last: Option<String>,
    /// What is said of tokens at `/introspect` (RFC 7662), by token; of all others that they are not active.
    pub introspection: Option<BTreeMap<String, Value>>,
}

/// Paths of the endpoints. What is not given answers 404.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Authorization endpoint.
    pub authorize: String,
    /// Token endpoint.
    pub token: String,
    /// Registration endpoint.
    pub register: String,
    /// Revocation endpoint.
    pub revoke: String,
    /// Paths that were left, with the status of whatever comes there.
    pub gone: BTreeMap<String, u16>,
}

/// A place of the metadata, seen from the issuer identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Well {
    /// `/.well-known/oauth-authorization-server` before the path (RFC 8414 section 3.1).
    OAuth,
    /// `/.well-known/openid-configuration` before the path.
    OpenIdInserted,
    /// `/.well-known/openid-configuration` after the path (OpenID Connect Discovery 1.0 section 4).
    OpenIdAppended,
    /// This path.
    At(String),
}

/// What a client may register, and for how long it lasts.
#[derive(Clone, Debug)]
pub struct Registration {
    /// Whether there is a registration endpoint (RFC 7591).
    pub open: bool,
    /// How long a registered client lasts; `None` is for ever.
    pub lifetime: Option<Duration>,
    /// Methods of client authentication that the metadata names.
    pub auth_methods: Vec<String>,
    /// Methods that are accepted in truth; `None` is what the metadata names.
    pub accepts_auth: Option<Vec<String>>,
    /// Registered clients get this method, whatever they ask for.
    pub assigns_auth: Option<String>,
    /// Whether a client id may be the address of a client's metadata document.
    pub documents: bool,
    /// The documents that are known without being fetched, by address.
    pub known_documents: BTreeMap<String, Value>,
}

/// What the person does who is sent to the authorization endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Has agreed already: the answer is a redirect.
    Approves,
    /// Refuses, with this error code.
    Denies(String),
    /// Gets a page with two buttons, whose ids are `approve` and `deny`.
    Form,
    /// Gets a page from which nothing leads on.
    Abandons,
}

/// The `iss` of an authorization response (RFC 9207).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Iss {
    /// The issuer identifier, and the metadata says so.
    Sent,
    /// None, and the metadata says nothing of it.
    Omitted,
    /// This value; the metadata says that there is one.
    Is(String),
}

/// What becomes of an authorization request.
#[derive(Clone, Debug)]
pub struct Authorization {
    /// What the person does.
    pub consent: Consent,
    /// The `iss` of the response.
    pub iss: Iss,
    /// Whether a request without an S256 challenge is refused.
    pub pkce: bool,
    /// `code_challenge_methods_supported`; empty leaves it out.
    pub pkce_methods: Vec<String>,
    /// The resources that tokens are issued for (RFC 8707); `None` is any.
    pub resources: Option<Vec<String>>,
    /// Whether a request without `resource` is refused, here and at the token endpoint.
    pub resource_required: bool,
    /// `scopes_supported`; empty leaves it out.
    pub scopes_supported: Vec<String>,
    /// Whether a scope that is not supported is refused with `invalid_scope` instead of granted.
    pub scopes_strict: bool,
    /// No other scopes than these are granted, whatever is asked for.
    pub scopes_granted: Option<Vec<String>>,
    /// What is granted where no scope is asked for.
    pub scopes_default: Vec<String>,
    /// Whether the port of a loopback redirect URI may differ from the registered one (RFC 8252 section 7.3).
    pub loopback_port_free: bool,
    /// Status of the page that an unknown client gets.
    pub unknown_client_status: u16,
    /// How long a code may be redeemed.
    pub code_lifetime: Duration,
}

/// When a refresh token is issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefreshTokens {
    /// With every authorization.
    Always,
    /// Where the scope `offline_access` was granted.
    WithOfflineAccess,
    /// Where the authorization request had this parameter with this value.
    WithParameter(String, String),
    /// Never.
    Never,
}

/// What a renewal does to the refresh token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// It is spent, and the answer has a new one.
    Rotates,
    /// It stays, and the answer repeats it.
    Repeats,
    /// It stays, and the answer does not mention it.
    Omits,
}

/// What happens when a spent refresh token is presented again. It is counted in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// `invalid_grant`, and every token of the family is revoked (RFC 9700 section 4.14.2).
    RevokesFamily,
    /// `invalid_grant`, and nothing else.
    Refused,
}

/// Which tokens are issued, and for how long.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// Life of an access token; `None` is for ever.
    pub lifetime: Option<Duration>,
    /// When a refresh token is issued.
    pub refresh: RefreshTokens,
    /// What a renewal does to it.
    pub rotation: Rotation,
    /// What a spent one does.
    pub reuse: Reuse,
    /// A spent one is taken once more within this time, without being counted.
    pub reuse_grace: Duration,
    /// A refresh token that is not used for so long is dead.
    pub refresh_idle: Option<Duration>,
    /// A refresh token that is so old is dead.
    pub refresh_lifetime: Option<Duration>,
    /// Whether a renewal ends the access tokens before it.
    pub renewal_ends_previous: bool,
    /// Whether values have 128 random bits behind their readable part: for searches after canaries.
    pub unguessable: bool,
}

/// The `expires_in` of a token answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ExpiresIn {
    /// The lifetime in whole seconds, rounded down, at least 1; absent where there is no end.
    True,
    /// Absent.
    Omitted,
    /// This JSON value.
    Is(Value),
}

/// The `scope` of a token answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// What is granted.
    True,
    /// Absent.
    Omitted,
    /// This value.
    Is(String),
}

/// How errors of the token endpoint look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errors {
    /// RFC 6749 section 5.2.
    Standard,
    /// The same with status 200.
    WithStatus200,
    /// Status 200 and `"ok":false`.
    NotOk,
}

/// When a token answer is form-encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormEncoded {
    /// Never.
    Never,
    /// Unless `Accept` lists `application/json`.
    UnlessJsonAccepted,
    /// Always.
    Always,
}

/// How the token endpoint answers.
#[derive(Clone, Debug)]
pub struct Answers {
    /// `expires_in`.
    pub expires_in: ExpiresIn,
    /// `scope`.
    pub scope: Scope,
    /// `token_type`.
    pub token_type: String,
    /// Further members of a success.
    pub extra: Map<String, Value>,
    /// When an answer is a form.
    pub form_encoded: FormEncoded,
    /// Content type of such an answer.
    pub form_content_type: String,
    /// How errors look.
    pub errors: Errors,
    /// Other names for error codes, such as `bad_refresh_token` for `invalid_grant`.
    pub error_names: BTreeMap<String, String>,
    /// Status of `invalid_client`: 401 or 400.
    pub invalid_client_status: u16,
    /// Whether the description of an error repeats the secrets of the request.
    pub echoes: bool,
    /// The endpoint decides at once and answers so much later.
    pub delay: Duration,
    /// The endpoint answers 429 to more requests than this within a second.
    pub rate_limit: Option<u32>,
}

impl Default for Policy {
    /// A good server of today: PKCE, `iss`, registration, one hour, rotation with reuse detection.
    fn default() -> Self {
        Self {
            paths: Paths {
                authorize: "/authorize".to_owned(),
                token: "/token".to_owned(),
                register: "/register".to_owned(),
                revoke: "/revoke".to_owned(),
                gone: BTreeMap::new(),
            },
            served_at: vec![Well::OAuth],
            metadata: Document::default(),
            registration: Registration::default(),
            authorization: Authorization::default(),
            tokens: Tokens::default(),
            answers: Answers::default(),
            revocation: true,
            keys: Vec::new(),
            keys_last: None,
            introspection: None,
        }
    }
}

impl Default for Registration {
    fn default() -> Self {
        let methods = [
            "none",
            "client_secret_basic",
            "client_secret_post",
            "private_key_jwt",
        ];
        Self {
            open: true,
            lifetime: None,
            auth_methods: methods.map(str::to_owned).into(),
            accepts_auth: None,
            assigns_auth: None,
            documents: false,
            known_documents: BTreeMap::new(),
        }
    }
}

impl Default for Authorization {
    fn default() -> Self {
        Self {
            consent: Consent::Approves,
            iss: Iss::Sent,
            pkce: true,
            pkce_methods: vec!["S256".to_owned()],
            resources: None,
            resource_required: false,
            scopes_supported: Vec::new(),
            scopes_strict: false,
            scopes_granted: None,
            scopes_default: Vec::new(),
            loopback_port_free: false,
            unknown_client_status: 400,
            code_lifetime: Duration::from_secs(60),
        }
    }
}

impl Default for Tokens {
    fn default() -> Self {
        Self {
            lifetime: Some(Duration::from_secs(3600)),
            refresh: RefreshTokens::Always,
            rotation: Rotation::Rotates,
            reuse: Reuse::RevokesFamily,
            reuse_grace: Duration::ZERO,
            refresh_idle: None,
            refresh_lifetime: None,
            renewal_ends_previous: false,
            unguessable: false,
        }
    }
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            expires_in: ExpiresIn::True,
            scope: Scope::True,
            token_type: "Bearer".to_owned(),
            extra: Map::new(),
            form_encoded: FormEncoded::Never,
            form_content_type: "application/x-www-form-urlencoded".to_owned(),
            errors: Errors::Standard,
            error_names: BTreeMap::new(),
            invalid_client_status: 401,
            echoes: false,
            delay: Duration::ZERO,
            rate_limit: None,
        }
    }
}

impl Authorization {
    /// The scopes that a request for these gets.
    pub(super) fn grants(&self, asked: &[String]) -> Vec<String> {
        let asked = if asked.is_empty() {
            &self.scopes_default
        } else {
            asked
        };
        let may = |scope: &&String| {
            self.scopes_granted
                .as_ref()
                .is_none_or(|granted| granted.contains(scope))
        };
        asked.iter().filter(may).cloned().collect()
    }

    /// The first scope that makes a request invalid.
    pub(super) fn refused_scope<'a>(&self, asked: &'a [String]) -> Option<&'a String> {
        asked
            .iter()
            .find(|scope| self.scopes_strict && !self.scopes_supported.contains(scope))
    }
}
