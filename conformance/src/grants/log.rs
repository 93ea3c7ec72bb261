//! What an authorization server saw: its peer writes one line of JSON for each thing that a person or a client makes it do.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::Instant;

use crate::Failure;

const POLL: Duration = Duration::from_millis(50);

/// One line. Tokens are told apart by a mark.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Line {
    /// A client was registered.
    Registered,
    /// A person was asked something.
    Prompted { prompt: String },
    /// A person was sent back with a code.
    Authorized,
    /// The token endpoint has answered.
    Token {
        grant: String,
        presented: Option<String>,
        issued: Option<String>,
        error: Option<String>,
    },
    /// The revocation endpoint has answered.
    Revoked {
        status: u16,
        /// How many tokens are good after that.
        live: usize,
    },
}

impl Line {
    pub(super) fn is_renewal(&self) -> bool {
        matches!(self, Self::Token { grant, .. } if grant == "refresh_token")
    }
}

/// The file that they are in.
#[derive(Debug)]
pub(super) struct Log(pub(super) PathBuf);

impl Log {
    /// Everything so far.
    pub(super) fn lines(&self) -> Result<Vec<Line>, Failure> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        // What does not end in a line break is being written.
        let lines = text.split_inclusive('\n').filter(|it| it.ends_with('\n'));
        let read = |line: &str| serde_json::from_str(line).map_err(|it| format!("{it}: {line}"));
        Ok(lines.map(read).collect::<Result<_, _>>()?)
    }

    /// How many renewals there were, whatever came of them.
    pub(super) fn renewals(&self) -> Result<usize, Failure> {
        Ok(self.lines()?.iter().filter(|it| it.is_renewal()).count())
    }

    /// Waits until a line has come that is wanted.
    pub(super) async fn wait(
        &self,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&[Line]) -> bool,
    ) -> Result<(), Failure> {
        let deadline = Instant::now() + limit;
        let mut clock = tokio::time::interval(POLL);
        loop {
            clock.tick().await;
            let lines = self.lines()?;
            if wanted(&lines) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let last = lines.last();
                return Err(format!("no {what} within {limit:?}; the last was {last:?}").into());
            }
        }
    }
}

/// Whether one person was asked once, and each token led to the next: none was refused, none was presented again after it
/// was spent.
pub(super) fn judge(lines: &[Line], prompts: &[&str]) -> Result<(), String> {
    let mut asked = Vec::new();
    let (mut registered, mut authorized) = (0, 0);
    let mut newest: Option<&String> = None;
    for line in lines {
        match line {
            Line::Registered => registered += 1,
            Line::Prompted { prompt } => asked.push(prompt.as_str()),
            Line::Authorized => authorized += 1,
            Line::Token {
                error: Some(error), ..
            } => return Err(format!("a token request was refused: {error}")),
            Line::Token {
                presented, issued, ..
            } => {
                if presented.as_ref() != newest {
                    return Err(format!("{presented:?} was presented, not {newest:?}"));
                }
                newest = issued.as_ref();
            }
            Line::Revoked { .. } => return Err("something was revoked".to_owned()),
        }
    }
    let counts = (registered, authorized, asked.as_slice());
    if counts == (1, 1, prompts) {
        Ok(())
    } else {
        Err(format!(
            "{registered} registrations, {authorized} authorizations, prompts: {asked:?}"
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn signed_in() -> Vec<Line> {
        let prompted = Line::Prompted {
            prompt: "consent".to_owned(),
        };
        let mut lines = vec![Line::Registered, prompted, Line::Authorized];
        lines.push(token("authorization_code", None, Some("1")));
        lines.push(token("refresh_token", Some("1"), Some("2")));
        lines.push(token("refresh_token", Some("2"), Some("3")));
        lines
    }

    fn token(grant: &str, presented: Option<&str>, issued: Option<&str>) -> Line {
        Line::Token {
            grant: grant.to_owned(),
            presented: presented.map(str::to_owned),
            issued: issued.map(str::to_owned),
            error: issued.is_none().then(|| "invalid_grant".to_owned()),
        }
    }

    fn holds(lines: &[Line]) -> bool {
        judge(lines, &["consent"]).is_ok()
    }

    #[test]
    fn one_sign_in_and_a_chain_of_renewals_is_what_is_wanted() {
        assert!(holds(&signed_in()));
        assert!(!holds(&signed_in()[1..]), "nothing was registered");
    }

    #[test]
    fn whatever_happens_besides_does_not_pass() {
        for further in [
            Line::Registered,
            Line::Authorized,
            Line::Prompted {
                prompt: "login".to_owned(),
            },
            Line::Revoked {
                status: 200,
                live: 0,
            },
            // A spent token, even where it is taken; and one that is refused.
            token("refresh_token", Some("2"), Some("4")),
            token("refresh_token", Some("3"), None),
            token("authorization_code", None, Some("4")),
        ] {
            let mut lines = signed_in();
            lines.push(further.clone());
            assert!(!holds(&lines), "{further:?}");
        }
    }

    #[test]
    fn a_line_that_is_being_written_is_read_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log(folder.path().join("log"));
        assert_eq!(log.lines().unwrap(), [], "nothing was written yet");
        std::fs::write(&log.0, "{\"event\":\"registered\"}\n{\"eve").unwrap();
        assert_eq!(log.lines().unwrap(), [Line::Registered]);
        std::fs::write(&log.0, "{\"event\":\"unheard-of\"}\n").unwrap();
        assert!(log.lines().is_err());
    }
}
