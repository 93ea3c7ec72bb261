//! Who must do what about a fault, and what the standard says that the other side may be shown.

use super::{Check, Diagnosis, Findings, Subject, Who};
use crate::fault::{Fault, Kind};
use crate::identity::{AgentName, ServerName};

/// RFC 8414 section 3.3.
const ISSUER: &str = "RFC 8414 section 3.3: \"The 'issuer' value returned MUST be identical to the authorization server's issuer identifier value into which the well-known URI string was inserted to create the URL used to retrieve the metadata. If these values are not identical, the data contained in the response MUST NOT be used.\"";
/// RFC 9728 section 3.3.
const RESOURCE: &str = "RFC 9728 section 3.3: \"The 'resource' value returned MUST be identical to the protected resource's resource identifier value into which the well-known URI path suffix was inserted to create the URL used to retrieve the metadata. If these values are not identical, the data contained in the response MUST NOT be used.\"";
/// 2026-07-28 basic/authorization, "Authorization Code Protection".
const PKCE: &str = "MCP 2026-07-28, authorization: \"If `code_challenge_methods_supported` is absent, the authorization server does not support PKCE and MCP clients MUST refuse to proceed.\"";
/// RFC 8414 section 2.
const TOKEN_ENDPOINT: &str = "RFC 8414 section 2: \"token_endpoint: URL of the authorization server's token endpoint [RFC6749]. This is REQUIRED unless only the implicit grant type is supported.\"";
/// 2026-07-28 basic/authorization, "Token Handling".
const AUDIENCE: &str = "MCP 2026-07-28, authorization: \"MCP servers MUST validate that access tokens were issued specifically for them as the intended audience\"; the token was asked for with the `resource` that the server's own metadata names.";

/// Whom to send where: who, what, and what to quote.
type Advice = (Who, String, Option<&'static str>);

/// The diagnosis of a fault that was seen at a place.
pub(super) fn advise(findings: &Findings, at: Check, fault: &Fault) -> Diagnosis {
    let (who, what, quote) = match &findings.subject {
        Subject::Connection(agent, server) => of_connection(findings, at, fault, (agent, server)),
        Subject::Address => of_address(at, fault),
    };
    Diagnosis {
        code: fault.kind.code(),
        message: fault.message.clone(),
        at,
        who,
        what,
        quote,
        overslept: false,
    }
}

/// Whether a step is about the authorization server, and not about the server itself.
const fn is_of_issuer(at: Check) -> bool {
    match at {
        Check::ResourceMetadata
        | Check::IssuerMetadata
        | Check::SignIn
        | Check::Registration
        | Check::TokenEndpoint => true,
        Check::Configuration
        | Check::Name
        | Check::Connect
        | Check::Tls
        | Check::Question
        | Check::Challenge
        | Check::Grant
        | Check::Sleep
        | Check::Token
        | Check::Session
        | Check::Connection => false,
    }
}

fn of_connection(
    findings: &Findings,
    at: Check,
    fault: &Fault,
    (agent, server): (&AgentName, &ServerName),
) -> Advice {
    let sign_in = format!("`steadfast sign-in {agent} {server}`");
    match fault.kind {
        _ if is_of_issuer(at) => of_issuer(findings, at, fault, (agent, server)),
        Kind::Timeout | Kind::Network => nobody(format!(
            "Steadfast tries again by itself. If it stays: check servers.{server}.url, the name and the firewalls in between."
        )),
        Kind::Tls => of_certificate(fault),
        Kind::ServerError => nobody(
            "Steadfast tries again by itself. If it stays, tell the operator of the server."
                .to_owned(),
        ),
        Kind::RateLimited => nobody(
            "Steadfast waits as long as the server asks for, and tries again by itself.".to_owned(),
        ),
        Kind::SessionLost => {
            nobody("Steadfast opens a new session at the next request.".to_owned())
        }
        Kind::UnstableSessions => operator(format!(
            "If the server is behind a load balancer, try servers.{server}.cookies = true."
        )),
        Kind::ProtocolMismatch | Kind::NotAnMcpAnswer | Kind::Redirected => operator(format!(
            "Check servers.{server}.url: something else than the MCP server answers there."
        )),
        Kind::SignInRequired if findings.own_credential => operator(format!(
            "Correct the header Authorization in servers.{server}.headers, or take it out so that people can sign in."
        )),
        Kind::SignInRequired
        | Kind::GrantRefused
        | Kind::ScopeInsufficient
        | Kind::FreshTokenRefused
            if findings.for_itself =>
        {
            client_refused(server)
        }
        Kind::ClientRefused => client_refused(server),
        Kind::SignInRequired | Kind::GrantRefused => {
            person(format!("Sign in: {sign_in}. Reloading does not help."))
        }
        Kind::ScopeInsufficient => person(format!(
            "Sign in again, with the scope that the server names: {sign_in}."
        )),
        Kind::Forbidden => operator(format!(
            "Check servers.{server}.headers, and ask the operator of the server why it refuses."
        )),
        Kind::Misconfigured => operator(format!("Correct servers.{server}: {}.", fault.message)),
        Kind::VaultReference => {
            operator("Set the secret that is named: `steadfast vault set NAME`.".to_owned())
        }
        Kind::TokenEndpointMoved | Kind::RenewalDelayed | Kind::RenewalOutcomeLost => {
            nobody("The grant is kept, and Steadfast renews it by itself.".to_owned())
        }
        Kind::FreshTokenRefused => (
            Who::Person,
            format!("Sign in again: {sign_in}. If that does not help, tell the provider."),
            Some(AUDIENCE),
        ),
        Kind::IssuerChanged => issuer_changed(&sign_in),
        Kind::StoreUnavailable => operator("Mend the store of Steadfast.".to_owned()),
        Kind::OperationsHeld => {
            operator("Settle what is held: `steadfast operations list`.".to_owned())
        }
    }
}

/// What the authorization server, or what the server says about it, does wrong.
fn of_issuer(
    findings: &Findings,
    at: Check,
    fault: &Fault,
    (agent, server): (&AgentName, &ServerName),
) -> Advice {
    let holds_grant = findings.grant.tokens().is_some();
    match fault.kind {
        Kind::Misconfigured if at == Check::Registration => (
            Who::Operator,
            format!("Register a client at the provider, and set servers.{server}.oauth with its `client_id`."),
            None,
        ),
        Kind::Misconfigured => (
            Who::Operator,
            format!("Only if you trust that server: set servers.{server}.allow_private_network = true."),
            None,
        ),
        Kind::ClientRefused => client_refused(server),
        Kind::SignInRequired if findings.for_itself => client_refused(server),
        Kind::IssuerChanged => issuer_changed(&format!("`steadfast sign-in {agent} {server}`")),
        Kind::SignInRequired => (
            Who::Person,
            format!("Sign in again, as a new client: `steadfast sign-in {agent} {server}`."),
            None,
        ),
        Kind::TokenEndpointMoved | Kind::ProtocolMismatch | Kind::NotAnMcpAnswer => {
            provider(at, fault)
        }
        Kind::Timeout
        | Kind::Network
        | Kind::Tls
        | Kind::ServerError
        | Kind::RateLimited
        | Kind::RenewalDelayed
        | Kind::RenewalOutcomeLost
            if holds_grant =>
        {
            nobody("The grant is kept, and Steadfast tries again by itself. If it stays, tell the provider.".to_owned())
        }
        Kind::Timeout
        | Kind::Network
        | Kind::Tls
        | Kind::ServerError
        | Kind::RateLimited
        | Kind::RenewalDelayed
        | Kind::RenewalOutcomeLost
        | Kind::SessionLost
        | Kind::UnstableSessions
        | Kind::Redirected
        | Kind::ScopeInsufficient
        | Kind::Forbidden
        | Kind::VaultReference
        | Kind::GrantRefused
        | Kind::FreshTokenRefused
        | Kind::StoreUnavailable
        | Kind::OperationsHeld => (
            Who::Provider,
            format!("Nobody can sign in before the authorization server answers; then: `steadfast sign-in {agent} {server}`."),
            None,
        ),
    }
}

/// Nobody is connected: nothing is tried again by itself.
fn of_address(at: Check, fault: &Fault) -> Advice {
    let operator = |what: &str| (Who::Operator, what.to_owned(), None);
    match fault.kind {
        Kind::Misconfigured if at == Check::Registration => operator(
            "Register a client at the provider, and give its `client_id` in `oauth` of the server.",
        ),
        Kind::Misconfigured if is_of_issuer(at) => {
            operator("Only if you trust that server: give it `allow_private_network = true`.")
        }
        Kind::ProtocolMismatch | Kind::NotAnMcpAnswer | Kind::TokenEndpointMoved
            if is_of_issuer(at) =>
        {
            provider(at, fault)
        }
        Kind::Tls => of_certificate(fault),
        Kind::SignInRequired => (
            Who::Person,
            "Add the server with `steadfast server add`, and sign in with `steadfast sign-in AGENT SERVER`."
                .to_owned(),
            None,
        ),
        Kind::Timeout | Kind::Network if !is_of_issuer(at) => {
            operator("Check the address, the name and the firewalls in between.")
        }
        Kind::ProtocolMismatch
        | Kind::NotAnMcpAnswer
        | Kind::Redirected
        | Kind::Misconfigured
        | Kind::VaultReference => {
            operator("Check the address: something else than an MCP server answers there.")
        }
        Kind::Timeout
        | Kind::Network
        | Kind::ServerError
        | Kind::RateLimited
        | Kind::SessionLost
        | Kind::UnstableSessions
        | Kind::ScopeInsufficient
        | Kind::Forbidden
        | Kind::TokenEndpointMoved
        | Kind::RenewalDelayed
        | Kind::RenewalOutcomeLost
        | Kind::GrantRefused
        | Kind::FreshTokenRefused
        | Kind::IssuerChanged
        | Kind::ClientRefused
        | Kind::StoreUnavailable
        | Kind::OperationsHeld => (
            Who::Provider,
            "Try again later. If it stays, tell the operator of the server.".to_owned(),
            None,
        ),
    }
}

/// What a provider must mend, in the words of the standard.
fn provider(at: Check, fault: &Fault) -> Advice {
    let (what, quote) = match at {
        Check::ResourceMetadata => (
            "Tell the operator of the server: its resource metadata must be about this address.",
            Some(RESOURCE),
        ),
        Check::IssuerMetadata => (
            "Tell the provider: its metadata must be at one of the places that were asked, and name the issuer that it is asked for.",
            Some(ISSUER),
        ),
        Check::SignIn if fault.message.contains("PKCE") => (
            "Tell the provider: its metadata must announce PKCE with S256.",
            Some(PKCE),
        ),
        Check::SignIn => (
            "Tell the provider: its metadata must name an authorization endpoint and a token endpoint.",
            Some(TOKEN_ENDPOINT),
        ),
        Check::TokenEndpoint => (
            "Tell the provider: its metadata must name a token endpoint that is there.",
            Some(TOKEN_ENDPOINT),
        ),
        Check::Configuration
        | Check::Name
        | Check::Connect
        | Check::Tls
        | Check::Question
        | Check::Challenge
        | Check::Registration
        | Check::Grant
        | Check::Sleep
        | Check::Token
        | Check::Session
        | Check::Connection => ("Tell the provider.", None),
    };
    (Who::Provider, what.to_owned(), quote)
}

/// A certificate that nobody here vouches for is for us to trust; one that is wrong is for them to mend.
fn of_certificate(fault: &Fault) -> Advice {
    if fault.message.contains("UnknownIssuer") {
        let what = "If the certificate is of an authority of your own, name it with network.ca_file; if not, do not trust it.";
        return (Who::Operator, what.to_owned(), None);
    }
    let what = "Tell the operator of the server: its certificate must be valid, and be for the name in the address.";
    (Who::Provider, what.to_owned(), None)
}

fn issuer_changed(sign_in: &str) -> Advice {
    let what = format!(
        "Sign in at the new authorization server, if you trust it: {sign_in}. The old grant is never sent there."
    );
    (Who::Person, what, None)
}

/// Nobody can sign in for a client that the provider does not take.
fn client_refused(server: &ServerName) -> Advice {
    operator(format!(
        "Compare servers.{server}.oauth with what the provider has registered. Signing in does not help."
    ))
}

fn nobody(what: String) -> Advice {
    (Who::Nobody, what, None)
}

fn person(what: String) -> Advice {
    (Who::Person, what, None)
}

fn operator(what: String) -> Advice {
    (Who::Operator, what, None)
}

/// What to do about a grant that cannot be renewed.
pub(super) fn unrenewable_advice(subject: &Subject) -> Advice {
    let what = match subject {
        Subject::Connection(agent, server) => format!(
            "Sign in again before it ends: `steadfast sign-in {agent} {server}`. Ask the provider for refresh tokens; \
             where it offers the scope offline_access, add that to servers.{server}.oauth.scopes."
        ),
        Subject::Address => "Ask the provider for refresh tokens.".to_owned(),
    };
    (Who::Person, what, None)
}
