//! What a walk along the chain from a server's name to its answer found, and the one fault that follows. The keeper
//! asks, and changes nothing by it; here it is decided what that means and who must act.
//!
//! Of several things that are wrong the first counts that keeps the rest from working: a server that cannot be reached
//! before a grant that was refused, and that before a token endpoint that will be missed at the next renewal. The
//! order is a table, `rules`; what is to be done about each fault is another, `advice`.

mod advice;
mod rules;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::connection;
use crate::fault::{Fault, Verdict};
use crate::grant::{self, Policy};
use crate::identity::{AgentName, ServerName};
use crate::now::Wall;
use crate::sleep::Slept;

/// A part of the chain, in the order in which they are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// What the operator configured.
    Configuration,
    /// The name of the server.
    Name,
    /// A TCP connection to it.
    Connect,
    /// TLS on that.
    Tls,
    /// A harmless MCP request without a credential.
    Question,
    /// What its 401 asks for.
    Challenge,
    /// The metadata of the protected resource (RFC 9728).
    ResourceMetadata,
    /// The metadata of the authorization server (RFC 8414, OpenID Connect Discovery).
    IssuerMetadata,
    /// What a sign-in needs of it: PKCE and the endpoints.
    SignIn,
    /// As which client to sign in.
    Registration,
    /// The token endpoint.
    TokenEndpoint,
    /// The grant that is kept.
    Grant,
    /// Whether the machine slept.
    Sleep,
    /// A harmless MCP request with the credential.
    Token,
    /// The open session.
    Session,
    /// The connection as it is shown.
    Connection,
}

impl Check {
    /// As the API writes it, with blanks.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Name => "name",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Question => "question",
            Self::Challenge => "challenge",
            Self::ResourceMetadata => "resource metadata",
            Self::IssuerMetadata => "issuer metadata",
            Self::SignIn => "sign-in",
            Self::Registration => "registration",
            Self::TokenEndpoint => "token endpoint",
            Self::Grant => "grant",
            Self::Sleep => "sleep",
            Self::Token => "token",
            Self::Session => "session",
            Self::Connection => "connection",
        }
    }
}

/// Who is examined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An agent's connection to a server.
    Connection(AgentName, ServerName),
    /// An address that nobody is connected to.
    Address,
}

/// What was found. Nothing is found where it was not asked.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Who is examined.
    pub subject: Subject,
    /// Whether the operator switched the server off.
    pub disabled: bool,
    /// Why the configuration cannot work.
    pub configuration: Option<Fault>,
    /// What keeps the server from being reached: its name, TCP or TLS.
    pub reach: Option<(Check, Fault)>,
    /// How the server answered without a credential.
    pub question: Option<Result<(), Fault>>,
    /// What would keep a person from signing in.
    pub sign_in: Option<(Check, Fault)>,
    /// That the server names another authorization server than that of the grant.
    pub issuer_changed: Option<Fault>,
    /// What the token endpoint of the grant, or of the issuer where there is no grant, answered that it should not.
    pub token_endpoint: Option<Fault>,
    /// Whether the issuer names another token endpoint by now.
    pub endpoint_elsewhere: bool,
    /// The grant; [`grant::State::None`] where there is none.
    pub grant: grant::State,
    /// Whether the configuration has a credential of its own, which is sent instead of a grant's.
    pub own_credential: bool,
    /// Whether the client asks for tokens for itself: nobody signs in.
    pub for_itself: bool,
    /// How the server answered with the credential.
    pub token: Option<Result<(), Fault>>,
    /// That calls were refused for a scope which the grant lacks.
    pub scope: Option<Fault>,
    /// What the open session answered.
    pub session: Option<Result<(), Fault>>,
    /// The last sleep of the machine.
    pub slept: Option<Slept>,
    /// The connection.
    pub connection: Option<connection::State>,
    /// When all this was found.
    pub now: Wall,
    /// The windows and limits of grants.
    pub policy: Policy,
}

impl Findings {
    /// Nothing found yet.
    #[must_use]
    pub const fn new(subject: Subject, now: Wall, policy: Policy) -> Self {
        Self {
            subject,
            disabled: false,
            configuration: None,
            reach: None,
            question: None,
            sign_in: None,
            issuer_changed: None,
            token_endpoint: None,
            endpoint_elsewhere: false,
            grant: grant::State::None,
            own_credential: false,
            for_itself: false,
            token: None,
            scope: None,
            session: None,
            slept: None,
            connection: None,
            now,
            policy,
        }
    }
}

/// Who must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// Nobody: Steadfast goes on by itself.
    Nobody,
    /// A person signs in.
    Person,
    /// Whoever looks after the configuration of Steadfast, or its network.
    Operator,
    /// Whoever runs the server or its authorization server.
    Provider,
}

/// What is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// The named fault.
    pub code: Code,
    /// One sentence: what was seen.
    pub message: String,
    /// Where it was seen: the step that proves it.
    pub at: Check,
    /// Who must act.
    pub who: Who,
    /// What they must do.
    pub what: String,
    /// What a standard says about it, for whoever does not believe it.
    pub quote: Option<&'static str>,
    /// Whether the machine slept when the access token ended, unrenewed: then the provider is not to blame.
    pub overslept: bool,
}

impl Diagnosis {
    /// Whether only a person can mend it, as the connection object counts it.
    #[must_use]
    pub fn person_needed(&self) -> bool {
        self.code.verdict == Verdict::Person
    }
}

/// The one fault; `None` where nothing is wrong.
#[must_use]
pub fn diagnose(findings: &Findings) -> Option<Diagnosis> {
    rules::RULES.iter().find_map(|rule| rule(findings))
}
