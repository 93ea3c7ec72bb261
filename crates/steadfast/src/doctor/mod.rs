//! The doctor: walks from the server's name to its answer, asks at each place what a connection would ask there, and
//! says which fault it is and who must act. What it means is decided in [`steadfast_core::doctor`].
//!
//! It changes nothing: nobody is registered, no refresh token is presented, no notice is opened, and a session that a
//! question opened is ended again.
//!
//! | module | what it does |
//! | --- | --- |
//! | `walk` | the order of the walk, and what is said in the end |
//! | `server` | configuration, name, TCP, TLS, and the server's answers |
//! | `kept` | what is kept here: grant, sleep, connection |
//! | `question` | harmless MCP requests, without and with the credential |
//! | `chain` | the challenge, metadata, sign-in and the token endpoint |
//! | `redact` | no secret is shown, also where a peer repeats one |

mod chain;
mod kept;
mod question;
mod redact;
mod server;
mod walk;

use serde::{Deserialize, Serialize};
use steadfast_core::doctor::{Check, Who};

pub(crate) use walk::{Instruments, Patient, examine};

use crate::report::{FaultReport, NextReport};

/// What an examination found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Examination {
    /// The agent, where a connection was examined.
    pub agent: Option<String>,
    /// The server, likewise.
    pub server: Option<String>,
    /// The address, without what may be a secret in it.
    pub url: String,
    /// When (RFC 3339).
    pub examined_at: String,
    /// What was asked and what came back, in order.
    pub steps: Vec<Step>,
    /// The one fault; null where nothing is wrong.
    pub fault: Option<FaultReport>,
    /// What proves it.
    pub proof: Option<Proof>,
    /// Who must do what.
    pub act: Option<Act>,
    /// What Steadfast does next by itself, if anything is planned.
    pub next: Option<NextReport>,
    /// Where a person signs in, while a link is open.
    pub sign_in_url: Option<String>,
}

/// One step of the walk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = DoctorStep))]
pub struct Step {
    /// What was looked at.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub check: Check,
    /// How it went.
    pub outcome: Outcome,
    /// What was asked.
    pub asked: String,
    /// What came back.
    pub answered: String,
    /// The single questions and answers, and what else is worth knowing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

/// How a step went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = DoctorOutcome))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// As it should be.
    Passed,
    /// Not as it should be.
    Failed,
    /// Worth knowing.
    Noted,
    /// Not asked: there was no need, or no way.
    Skipped,
}

/// What proves a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = DoctorProof))]
pub struct Proof {
    /// Where it was seen.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub check: Check,
    /// What was asked.
    pub asked: String,
    /// What came back.
    pub answered: String,
}

/// Who must do what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = DoctorAct))]
pub struct Act {
    /// `nobody`, `person`, `operator` or `provider`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub who: Who,
    /// What to do.
    pub what: String,
    /// What the standard asks, to be shown to a provider.
    pub quote: Option<String>,
}
