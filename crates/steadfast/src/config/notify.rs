//! `[notify]`: who is told of notices, besides those who look.

use std::fmt;

use lettre::message::{Mailbox, Mailboxes};
use serde::{Deserialize, Serialize};
use steadfast_core::reference::Template;
use url::Url;

use crate::perform::mail::Relay;

/// `[notify]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notify {
    /// `notify.webhook`.
    pub webhook: Option<Webhook>,
    /// `notify.email`.
    pub email: Option<Email>,
}

/// Whoever knows the address can write there: it does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook(pub Url);

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Webhook(…)")
    }
}

/// `notify.email`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Email {
    /// Who is written to: one address, or several with commas between them.
    pub to: String,
    /// From whom; else from the first of those who are written to.
    #[serde(default)]
    pub from: Option<String>,
    /// Through which mail server: `smtps://user:password@host`, or `smtp://…`; may hold `${vault:NAME}`.
    pub smtp: String,
}

impl fmt::Debug for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Email").finish_non_exhaustive()
    }
}

impl Email {
    /// Those who are written to.
    pub(crate) fn recipients(&self) -> Result<Mailboxes, &'static str> {
        let parsed = self.to.parse::<Mailboxes>().ok();
        parsed
            .filter(|all| all.iter().next().is_some())
            .ok_or("is no e-mail address, nor several with commas between them")
    }

    /// From whom.
    pub(crate) fn sender(&self) -> Result<Mailbox, &'static str> {
        if let Some(from) = &self.from {
            return from.parse().map_err(|_| "is no e-mail address");
        }
        let mut to = self.recipients()?.into_iter();
        let first = to.next().ok_or("is no e-mail address")?;
        Ok(Mailbox::new(Some("Steadfast".to_owned()), first.email))
    }

    /// What cannot work in it: the key, and why.
    ///
    /// # Errors
    ///
    /// The first of it.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let at = |key| move |why: &str| (key, why.to_owned());
        self.recipients().map_err(at("to"))?;
        self.sender().map_err(at("from"))?;
        let template = Template::read(&self.smtp).map_err(|error| ("smtp", error.to_string()))?;
        if template.names().next().is_none() {
            Relay::read(&self.smtp).map_err(at("smtp"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn email(to: &str, from: Option<&str>, smtp: &str) -> Email {
        Email {
            to: to.to_owned(),
            from: from.map(str::to_owned),
            smtp: smtp.to_owned(),
        }
    }

    #[test]
    fn what_cannot_work_is_found_when_the_file_is_read() {
        let smtp = "${vault:SMTP_URL}";
        for (email, key) in [
            (email("ops@a.test", None, smtp), None),
            (
                email(
                    "Ops <ops@a.test>, b@a.test",
                    Some("S <s@a.test>"),
                    "smtp://mx.a.test",
                ),
                None,
            ),
            (email("ops", None, smtp), Some("to")),
            (email("", None, smtp), Some("to")),
            (email("ops@a.test", Some("me"), smtp), Some("from")),
            (email("ops@a.test", None, "${vault:}"), Some("smtp")),
            (email("ops@a.test", None, "http://mx.a.test"), Some("smtp")),
        ] {
            assert_eq!(email.check().err().map(|(key, _)| key), key, "{}", email.to);
        }
    }

    #[test]
    fn without_a_sender_it_comes_from_whom_it_goes_to() {
        let two = email("Ops <ops@a.test>, b@a.test", None, "smtp://mx.a.test");
        assert_eq!(two.sender().unwrap().to_string(), "Steadfast <ops@a.test>");
    }
}
