//! The connection object: what `status --json`, the admin API and `_meta` show of one connection.

use serde::{Deserialize, Serialize};
use steadfast_core::now::Wall;
use steadfast_core::{Deadline, Fault, Reason, connection};

use crate::grants::Held;

/// One connection, as people and agents see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Report {
    /// The agent.
    pub agent: String,
    /// The server.
    pub server: String,
    /// `connecting`, `connected`, `retrying`, `awaiting_sign_in`, `disabled`, `misconfigured`.
    pub state: String,
    /// Since when it has been in that state (RFC 3339).
    pub since: String,
    /// What is wrong, if anything.
    pub fault: Option<FaultReport>,
    /// What happens next; null where only a person can act, or nothing is planned.
    pub next: Option<NextReport>,
    /// The negotiated revision.
    pub revision: Option<String>,
    /// `legacy` or `modern`.
    pub era: Option<String>,
    /// How old the legacy session is, in seconds.
    pub session_age_s: Option<u64>,
    /// How many tools the server lists; null before the list was seen.
    pub tools: Option<usize>,
    /// When the server last answered anything.
    pub last_answer_at: Option<String>,
    /// What there is to say about the server's own stream, where it is not simply open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// The grant; `{"state":"none"}` while none is kept.
    pub grant: GrantReport,
    /// Where a person signs in, if that is needed.
    pub sign_in_url: Option<String>,
}

/// `fault`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FaultReport {
    /// `SF0021`.
    pub code: String,
    /// `timeout`.
    pub kind: String,
    /// One sentence.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// Whether only a person can mend it.
    pub person_needed: bool,
}

/// `next`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NextReport {
    /// When (RFC 3339).
    pub at: String,
    /// `reconnect`, `reopen_stream`, `recheck`.
    pub kind: String,
    /// `reconnect, attempt 4`.
    pub reason: String,
}

/// `grant`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct GrantReport {
    /// `none`, `valid`, `due`, `renewing`, `delayed`, `suspect`, `refused`, `unrenewable`.
    pub state: String,
    /// The issuer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// When the access token ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When it is renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renews_at: Option<String>,
    /// The scopes that are granted now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// Whether it can be renewed without a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renewable: Option<bool>,
    /// When the registration of our client ends, and with it every renewal: known ahead where the issuer said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_expires_at: Option<String>,
    /// How the last renewal ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_renewal: Option<LastRenewalReport>,
}

/// `grant.last_renewal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LastRenewalReport {
    /// When (RFC 3339).
    pub at: String,
    /// `renewed`, or the kind of the fault.
    pub outcome: String,
}

impl From<&Held> for GrantReport {
    fn from(held: &Held) -> Self {
        let state = held.state.name().to_owned();
        let Some(tokens) = held.state.tokens() else {
            return Self {
                state,
                ..Self::default()
            };
        };
        Self {
            state,
            issuer: Some(held.issuer.clone()).filter(|issuer| !issuer.is_empty()),
            expires_at: Some(rfc3339(tokens.expires_at)),
            renews_at: held.state.renews_at().map(rfc3339),
            scopes: Some(tokens.scopes.clone()),
            renewable: Some(tokens.renewable),
            client_expires_at: held.client_expires_at.map(rfc3339),
            last_renewal: held.last_renewal.as_ref().map(|last| LastRenewalReport {
                at: rfc3339(last.at),
                outcome: last.outcome.clone(),
            }),
        }
    }
}

impl From<&Fault> for FaultReport {
    fn from(fault: &Fault) -> Self {
        let code = fault.kind.code();
        Self {
            code: code.to_string(),
            kind: fault.kind.as_str().to_owned(),
            message: fault.message.clone(),
            hint: code.hint.to_owned(),
            person_needed: fault.person_needed(),
        }
    }
}

/// RFC 3339 in UTC, to the millisecond.
#[must_use]
pub fn rfc3339(at: Wall) -> String {
    at.to_string()
}

/// `next` for a deadline of the connection or of its stream. Health checks and limits are no news.
#[must_use]
pub fn next(deadline: Deadline, at: Wall, state: &connection::State) -> Option<NextReport> {
    let (kind, reason) = match deadline.reason {
        Reason::Reconnect | Reason::Turn => {
            let tries = match state {
                connection::State::Retrying { tries, .. } => tries + 1,
                connection::State::Disabled
                | connection::State::Misconfigured { .. }
                | connection::State::Connecting { .. }
                | connection::State::Connected { .. }
                | connection::State::AwaitingSignIn { .. } => 1,
            };
            let held = match deadline.reason {
                Reason::Turn => " (held: this server is reconnecting too often)",
                _ => "",
            };
            ("reconnect", format!("reconnect, attempt {tries}{held}"))
        }
        Reason::ReopenStream => ("reopen_stream", "open the server's stream again".to_owned()),
        Reason::RecheckStream => (
            "recheck",
            "ask again whether the server offers a stream".to_owned(),
        ),
        Reason::RenewGrant | Reason::RetryRenewal | Reason::RecheckGrant => {
            ("renew", "renew the grant".to_owned())
        }
        Reason::AwaitLease
        | Reason::RenewalLimit
        | Reason::GrantEnds
        | Reason::AttemptLimit
        | Reason::CheckHealth
        | Reason::OpenLimit
        | Reason::RenewStream
        | Reason::ResumeAnswer
        | Reason::Silence
        | Reason::RepeatCall
        | Reason::LookUp
        | Reason::LookupLimit => return None,
    };
    Some(NextReport {
        at: rfc3339(at),
        kind: kind.to_owned(),
        reason,
    })
}
