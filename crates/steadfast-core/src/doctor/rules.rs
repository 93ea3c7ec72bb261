//! Which of the things that were found is the fault. The first rule that speaks counts.

use super::advice::{advise, unrenewable_advice};
use super::{Check, Diagnosis, Findings, Subject, Who};
use crate::code;
use crate::connection::State as Connection;
use crate::fault::{Fault, Kind};
use crate::grant::{State as Grant, Tokens};

/// One rule.
type Rule = fn(&Findings) -> Option<Diagnosis>;

/// All of them, by what must be mended first.
pub(super) const RULES: &[Rule] = &[
    switched_off,
    misconfigured,
    out_of_reach,
    no_answer,
    refused_grant,
    nobody_signed_in,
    refused_credential,
    renewal_under_way,
    token_endpoint,
    lost_session,
    narrow_grant,
    no_refresh_token,
    down_all_the_same,
];

fn switched_off(findings: &Findings) -> Option<Diagnosis> {
    let Subject::Connection(_, server) = &findings.subject else {
        return None;
    };
    findings.disabled.then(|| Diagnosis {
        code: code::SERVER_DISABLED,
        message: format!("the server `{server}` is switched off"),
        at: Check::Configuration,
        who: Who::Operator,
        what: format!("Switch it on: `steadfast server enable {server}`, or `enabled = true` in servers.{server} of the file."),
        quote: None,
        overslept: false,
    })
}

fn misconfigured(findings: &Findings) -> Option<Diagnosis> {
    let fault = findings.configuration.as_ref()?;
    Some(advise(findings, Check::Configuration, fault))
}

fn out_of_reach(findings: &Findings) -> Option<Diagnosis> {
    let (at, fault) = findings.reach.as_ref()?;
    Some(advise(findings, *at, fault))
}

/// Without a credential some servers say all kinds of things: that counts only where they did not take one.
fn no_answer(findings: &Findings) -> Option<Diagnosis> {
    match (&findings.question, &findings.token) {
        (Some(Err(fault)), None) if fault.kind != Kind::SignInRequired => {
            Some(advise(findings, Check::Question, fault))
        }
        (Some(Err(fault)), Some(Err(with_token)))
            if fault.kind == with_token.kind && fault.kind != Kind::SignInRequired =>
        {
            Some(advise(findings, Check::Question, fault))
        }
        (None | Some(Ok(()) | Err(_)), _) => None,
    }
}

/// What is in the way of a sign-in, if a person needs one.
fn obstacle(findings: &Findings) -> Option<(Check, &Fault)> {
    match (&findings.sign_in, &findings.token_endpoint) {
        (Some((at, fault)), _) => Some((*at, fault)),
        (None, Some(fault)) if !findings.endpoint_elsewhere => Some((Check::TokenEndpoint, fault)),
        (None, Some(_) | None) => None,
    }
}

/// The provider withdrew its consent, or what it gave has ended. It stays the fault where a sign-in could not succeed
/// either: that is said with it.
fn refused_grant(findings: &Findings) -> Option<Diagnosis> {
    let Grant::Refused { tokens, fault, .. } = &findings.grant else {
        return None;
    };
    if let Some(changed) = changed_issuer(findings) {
        return Some(changed);
    }
    let mut diagnosis = advise(findings, Check::Grant, fault);
    diagnosis.overslept = slept_through(findings, tokens);
    if let Some((_, obstacle)) = obstacle(findings) {
        let before = format!(" Before that can work: {}.", obstacle.message);
        diagnosis.what.push_str(&before);
    }
    Some(diagnosis)
}

fn nobody_signed_in(findings: &Findings) -> Option<Diagnosis> {
    let wanted = match &findings.question {
        Some(Err(fault)) if fault.kind == Kind::SignInRequired => fault,
        Some(Ok(()) | Err(_)) | None => return None,
    };
    if findings.own_credential || findings.grant != Grant::None {
        return None;
    }
    match obstacle(findings) {
        // Nobody can sign in before this is mended.
        Some((at, fault)) => Some(advise(findings, at, fault)),
        None if findings.for_itself => {
            let message = "the client has no token yet: it is asked for by itself";
            let fault = Fault::new(Kind::RenewalDelayed, message);
            Some(advise(findings, Check::Question, &fault))
        }
        None => Some(advise(findings, Check::Question, wanted)),
    }
}

/// The server does not take what it is shown.
fn refused_credential(findings: &Findings) -> Option<Diagnosis> {
    let Some(Err(fault)) = &findings.token else {
        return None;
    };
    if fault.kind != Kind::SignInRequired || findings.own_credential {
        return Some(advise(findings, Check::Token, fault));
    }
    if let Some(changed) = changed_issuer(findings) {
        return Some(changed);
    }
    let tokens = findings.grant.tokens()?;
    let (kind, message) = if is_fresh(findings, tokens) {
        (
            Kind::FreshTokenRefused,
            "the server refuses an access token that was just issued",
        )
    } else if tokens.renewable {
        (
            Kind::RenewalDelayed,
            "the server refuses the access token, which should be good still: it is renewed at the next request",
        )
    } else {
        (
            Kind::SignInRequired,
            "the server refuses the access token, and there is no refresh token to renew it with",
        )
    };
    Some(advise(findings, Check::Token, &Fault::new(kind, message)))
}

/// Renewals were delayed, or are due and not done.
fn renewal_under_way(findings: &Findings) -> Option<Diagnosis> {
    let (tokens, fault) = match &findings.grant {
        Grant::Delayed { tokens, fault, .. } | Grant::Suspect { tokens, fault, .. } => {
            (tokens, fault.clone())
        }
        Grant::Due { tokens, fault, .. } | Grant::Renewing { tokens, fault, .. } => {
            let fault = fault.clone().or_else(|| ended(findings, tokens))?;
            (tokens, fault)
        }
        Grant::Valid { tokens, .. } => (tokens, ended(findings, tokens)?),
        Grant::None | Grant::Refused { .. } | Grant::Unrenewable { .. } => return None,
    };
    if let Some(changed) = changed_issuer(findings) {
        return Some(changed);
    }
    let mut diagnosis = match &findings.token_endpoint {
        // What was asked just now says more than what was tried then.
        Some(now) if !findings.endpoint_elsewhere => advise(findings, Check::TokenEndpoint, now),
        Some(_) | None => advise(findings, Check::Grant, &fault),
    };
    diagnosis.overslept = slept_through(findings, tokens);
    Some(diagnosis)
}

/// All is well still, and will not be at the next renewal.
fn token_endpoint(findings: &Findings) -> Option<Diagnosis> {
    let fault = findings.token_endpoint.as_ref()?;
    let is_renewed = findings
        .grant
        .tokens()
        .is_some_and(|tokens| tokens.renewable);
    (is_renewed && !findings.endpoint_elsewhere)
        .then(|| advise(findings, Check::TokenEndpoint, fault))
}

fn lost_session(findings: &Findings) -> Option<Diagnosis> {
    match &findings.session {
        Some(Err(fault)) => Some(advise(findings, Check::Session, fault)),
        Some(Ok(())) | None => None,
    }
}

/// The connection is up; some calls want more than is granted.
fn narrow_grant(findings: &Findings) -> Option<Diagnosis> {
    let fault = findings.scope.as_ref()?;
    Some(advise(findings, Check::Grant, fault))
}

fn no_refresh_token(findings: &Findings) -> Option<Diagnosis> {
    let Grant::Unrenewable { tokens } = &findings.grant else {
        return None;
    };
    if !tokens.good(findings.now) {
        let message = "the grant has ended, and there is no refresh token to renew it with";
        let mut diagnosis = advise(
            findings,
            Check::Grant,
            &Fault::new(Kind::SignInRequired, message),
        );
        diagnosis.overslept = false;
        return Some(diagnosis);
    }
    let (who, what, quote) = unrenewable_advice(&findings.subject);
    Some(Diagnosis {
        code: code::UNRENEWABLE,
        message: "the provider issued no refresh token: the grant ends with its access token"
            .to_owned(),
        at: Check::Grant,
        who,
        what,
        quote,
        overslept: false,
    })
}

/// Every question was answered well, and the connection is down: it has not tried again yet.
fn down_all_the_same(findings: &Findings) -> Option<Diagnosis> {
    match findings.connection.as_ref()? {
        Connection::Retrying { fault, .. }
        | Connection::AwaitingSignIn { fault }
        | Connection::Misconfigured { fault }
        | Connection::Connecting {
            fault: Some(fault), ..
        } => Some(advise(findings, Check::Connection, fault)),
        Connection::Disabled
        | Connection::Connecting { fault: None, .. }
        | Connection::Connected { .. } => None,
    }
}

/// A grant of the one authorization server is worth nothing at the other; as long as the server takes its token that is
/// no fault.
fn changed_issuer(findings: &Findings) -> Option<Diagnosis> {
    if matches!(findings.token, Some(Ok(()))) {
        return None;
    }
    let fault = findings.issuer_changed.as_ref()?;
    Some(advise(findings, Check::IssuerMetadata, fault))
}

fn ended(findings: &Findings, tokens: &Tokens) -> Option<Fault> {
    let message = "the access token has ended, and was not renewed yet";
    (!tokens.good(findings.now)).then(|| Fault::new(Kind::RenewalDelayed, message))
}

fn is_fresh(findings: &Findings, tokens: &Tokens) -> bool {
    let age = findings.now.0.saturating_sub(tokens.issued_at.0);
    u64::try_from(age).is_ok_and(|age| age < findings.policy.fresh_token_window.0)
}

fn slept_through(findings: &Findings, tokens: &Tokens) -> bool {
    findings
        .slept
        .is_some_and(|slept| slept.covers(tokens.expires_at))
}
