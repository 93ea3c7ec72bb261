//! Signing in: from the link that a person opens to the tokens that the callback brings.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`begin`] | discovery, scopes, and the link |
//! | [`client`] | which client to be at the issuer; registers one where it must |
//! | [`finish`] | the callback: checks the answer and redeems the code |
//! | [`out`] | signing out |

mod begin;
mod client;
mod finish;
mod out;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use steadfast_core::{Fault, Wall};
use steadfast_store::{Error, Problem};
use url::Url;

pub(super) use begin::challenged;
pub(crate) use begin::obstacle;
pub use finish::{Callback, Finished, NotSignedIn, SignedIn};
pub use out::{Revoked, SignedOut};

/// Where browsers reach this daemon.
#[derive(Clone, Debug)]
pub struct Doors {
    /// Where the authorization server sends the browser back to.
    pub callback: Url,
    /// Where the links in messages about notices lead.
    pub sign_in: Url,
    /// The address of our client-id metadata document, where it is https.
    pub document: Option<Url>,
}

/// A link for a person.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The link. It holds `state`: not for logs.
    pub url: String,
    /// The name of the attempt.
    pub attempt: String,
    /// When it ends.
    pub expires_at: Wall,
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub enum NotOffered {
    /// What discovery or registration met.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The store refuses.
    #[error(transparent)]
    Store(#[from] Error),
}

/// 256 random bits as 43 characters: good as `state`, and as a PKCE verifier (RFC 7636 section 4.1).
fn random_text() -> Result<String, Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        let place = "the system's random numbers";
        Error::new(Problem::Io, place, error.to_string())
    })?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
