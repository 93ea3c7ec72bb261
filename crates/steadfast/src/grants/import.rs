//! Tokens from elsewhere: another client's store, an SDK's, `mcp-remote`'s (`PUT …/grant`).

use std::fmt;

use serde::Deserialize;
use serde_json::Value;
use steadfast_core::Wall;
use steadfast_core::grant::{Event, State, schedule};
use steadfast_core::identity::GrantGeneration;
use steadfast_core::oauth::client::Auth;
use steadfast_core::oauth::discovery::canonical;
use steadfast_core::oauth::step_up::StepUp;
use steadfast_core::wire::token::scopes;
use steadfast_store::{
    ClientOrigin, Error, GrantClient, GrantRecord, GrantSecrets, Problem, Version,
};
use url::Url;

use super::{Along, Grants, Owner, tokens};
use crate::clock;

/// A grant as it is imported. No `Debug`: it holds tokens.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Import {
    access_token: String,
    refresh_token: Option<String>,
    expires_at: Option<Value>,
    expires_in: Option<i64>,
    issued_at: Option<Value>,
    scope: Option<String>,
    issuer: Option<String>,
    token_endpoint: Option<String>,
    client_id: Option<String>,
    client_secret: Option<String>,
    resource: Option<String>,
}

impl fmt::Debug for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Import").finish_non_exhaustive()
    }
}

/// Why a grant cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum BadImport {
    /// A member is wrong or missing.
    #[error("{0}")]
    Member(String),
    /// The store refuses.
    #[error(transparent)]
    Store(#[from] Error),
}

impl Grants {
    /// Takes over tokens from elsewhere, in place of what is held.
    pub(crate) async fn import(
        self: &std::sync::Arc<Self>,
        owner: &Owner,
        import: Import,
    ) -> Result<(), BadImport> {
        self.left(owner).await;
        let read = Read::of(import, self.settings.assumed_lifetime.0, clock::wall())?;
        let Read {
            secrets,
            issued_at,
            expires_at,
            scopes,
            issuer,
            token_endpoint,
            resource,
            client,
        } = read;
        let fresh = secrets.clone();
        let event = move |record: Option<&GrantRecord>| Event::Loaded {
            tokens: tokens(
                record
                    .map(|record| record.generation)
                    .unwrap_or_default()
                    .next(),
                issued_at,
                expires_at,
                &fresh,
                scopes.clone(),
            ),
        };
        let along = Along {
            secrets: Some(secrets),
            edit: Some(Box::new(move |record| {
                record.issuer.clone_from(&issuer);
                record.token_endpoint.clone_from(&token_endpoint);
                record.resource.clone_from(&resource);
                record.client = client.clone();
                record.last_renewal = None;
                // What they were asked for is not known.
                record.step_up.signed_in(&[], &[]);
            })),
        };
        let fed = self.feed(owner, event, along).await?;
        self.follow(owner, &fed);
        self.leave_if_gone(owner);
        Ok(())
    }
}

/// An import whose members were understood.
struct Read {
    secrets: GrantSecrets,
    issued_at: Wall,
    expires_at: Wall,
    scopes: Vec<String>,
    issuer: String,
    token_endpoint: Option<String>,
    resource: Option<String>,
    client: GrantClient,
}

impl Read {
    fn of(import: Import, assumed: steadfast_core::Millis, now: Wall) -> Result<Self, BadImport> {
        let bad = |message: &str| BadImport::Member(message.to_owned());
        if import.access_token.is_empty() {
            return Err(bad("`access_token` is empty"));
        }
        let refresh_token = import.refresh_token.filter(|token| !token.is_empty());
        let issued_at = import.issued_at.as_ref();
        let issued_at = issued_at.map(|at| time("issued_at", at)).transpose()?;
        let expires_at = match (&import.expires_at, import.expires_in) {
            (Some(at), _) => time("expires_at", at)?,
            // Relative to when it was issued. Where nobody knows when that was, it counts as expired (EX-01).
            (None, Some(seconds)) => match issued_at {
                Some(issued_at) => schedule::expires_at(issued_at, Some(seconds), assumed),
                None => now,
            },
            (None, None) => schedule::expires_at(issued_at.unwrap_or(now), None, assumed),
        };
        let issuer = import.issuer.ok_or_else(|| {
            bad("`issuer` is missing: a refresh token is only ever sent to the issuer that issued it")
        })?;
        for (name, text) in [
            ("issuer", Some(&issuer)),
            ("token_endpoint", import.token_endpoint.as_ref()),
        ] {
            if text.is_some_and(|text| text.parse::<Url>().is_err()) {
                return Err(BadImport::Member(format!("`{name}` is no url")));
            }
        }
        if refresh_token.is_some() && import.client_id.is_none() {
            return Err(bad(
                "`client_id` is missing: a refresh token is bound to the client that it was issued to",
            ));
        }
        let auth = if import.client_secret.is_some() {
            Auth::ClientSecretBasic
        } else {
            Auth::None
        };
        Ok(Self {
            issued_at: issued_at.unwrap_or(now),
            expires_at,
            scopes: import.scope.as_deref().map(scopes).unwrap_or_default(),
            issuer: canonical(&issuer).to_owned(),
            token_endpoint: import.token_endpoint,
            resource: import.resource,
            client: GrantClient::new(
                import.client_id.unwrap_or_default(),
                auth,
                ClientOrigin::Imported,
            ),
            secrets: GrantSecrets {
                access_token: import.access_token.into(),
                refresh_token: refresh_token.map(Into::into),
                client_secret: import.client_secret.map(Into::into),
            },
        })
    }
}

/// RFC 3339, or seconds since 1970 with or without a fraction. The value is not quoted: in the wrong place it may be a token.
fn time(name: &str, value: &Value) -> Result<Wall, BadImport> {
    let read = match value {
        Value::String(text) => text
            .parse::<jiff::Timestamp>()
            .ok()
            .map(|at| at.as_millisecond()),
        // The cast saturates; no sensible time comes near that.
        Value::Number(number) => number.as_f64().map(|seconds| (seconds * 1_000.0) as i64),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    read.map(Wall).ok_or_else(|| {
        BadImport::Member(format!(
            "`{name}` is no time: write RFC 3339 or seconds since 1970"
        ))
    })
}

/// What stands for a grant that was never written.
pub(super) fn blank(owner: &Owner) -> GrantRecord {
    GrantRecord {
        agent: owner.0.clone(),
        server: owner.1.clone(),
        version: Version::NONE,
        generation: GrantGeneration::default(),
        state: State::None,
        wake_at: None,
        issuer: String::new(),
        resource: None,
        token_endpoint: None,
        client: GrantClient::new(String::new(), Auth::None, ClientOrigin::Imported),
        last_renewal: None,
        step_up: StepUp::default(),
        sealed: None,
    }
}

pub(super) fn contended(owner: &Owner) -> Error {
    let place = format!("the grant of {} for {}", owner.0, owner.1);
    Error::new(Problem::Io, place, "others write it all the time")
}

#[cfg(test)]
mod tests {
    use super::*;
    use steadfast_core::Millis;

    fn read(json: &str) -> Result<Read, BadImport> {
        Read::of(
            serde_json::from_str(json).unwrap(),
            Millis(5_000),
            Wall(1_000_000),
        )
    }

    #[test]
    fn ex_01_a_lifetime_without_a_beginning_has_ended() {
        let at = |members: &str| {
            let json = format!(r#"{{"access_token":"AT","issuer":"https://as.test",{members}}}"#);
            read(&json).unwrap().expires_at.0
        };
        assert_eq!(at(r#""expires_in":3600"#), 1_000_000);
        assert_eq!(at(r#""expires_in":3600,"issued_at":100"#), 3_700_000);
        assert_eq!(at(r#""expires_at":2000"#), 2_000_000);
        assert_eq!(at(r#""expires_at":"1970-01-01T00:00:02Z""#), 2_000);
        assert_eq!(at(r#""scope":"a b""#), 1_005_000);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (json, named) in [
            (r#"{"access_token":"AT"}"#, "issuer"),
            (
                r#"{"access_token":"","issuer":"https://as.test"}"#,
                "access_token",
            ),
            (r#"{"access_token":"AT","issuer":"nowhere"}"#, "issuer"),
            (
                r#"{"access_token":"AT","refresh_token":"RT","issuer":"https://as.test"}"#,
                "client_id",
            ),
            (
                r#"{"access_token":"AT","issuer":"https://as.test","expires_at":"soon"}"#,
                // Named, and not quoted: what stands in the wrong place may be a secret.
                "`expires_at` is no time",
            ),
        ] {
            let error = read(json).err().unwrap().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
