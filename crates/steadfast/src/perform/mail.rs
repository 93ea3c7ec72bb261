//! Hands e-mails to a mail server (RFC 6409).

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};
use percent_encoding::percent_decode_str;
use url::Url;

use crate::config::Network;

/// A mail server, as its address says. No `Debug`: it holds a password.
pub(crate) struct Relay {
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
    security: Security,
    credentials: Option<Credentials>,
}

/// How the way there is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Security {
    /// TLS from the beginning (RFC 8314 section 3.3).
    Tls,
    /// By STARTTLS; nothing is said where the server has none (RFC 3207).
    StartTls,
    /// Not at all.
    Plain,
}

impl Relay {
    /// Reads an address: `smtps://user:password@host[:465]`, or `smtp://…[:587]`, which wants STARTTLS unless the
    /// host is this machine or `?tls=none` is said.
    ///
    /// # Errors
    ///
    /// Why it is none; says nothing of its text.
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        let url: Url = text
            .parse()
            .map_err(|_| "is no address such as smtps://user:password@host")?;
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or("has no host")?.trim_matches(['[', ']']);
        let address = host.parse::<IpAddr>();
        let is_here = host == "localhost" || address.is_ok_and(|it| it.is_loopback());
        let security = match (url.scheme(), url.query()) {
            ("smtps", None) => Security::Tls,
            ("smtp", None) if !is_here => Security::StartTls,
            ("smtp", Some("tls=required")) => Security::StartTls,
            ("smtp", None | Some("tls=none")) => Security::Plain,
            ("smtp" | "smtps", Some(_)) => return Err("knows no other option than tls=none"),
            (_, _) => return Err("begins with smtps:// or smtp://"),
        };
        let decoded = |text: &str| {
            let text = percent_decode_str(text).decode_utf8();
            text.map(|text| text.into_owned())
                .map_err(|_| "has a user or password that is not UTF-8")
        };
        let credentials = match (url.username(), url.password()) {
            ("", None) => None,
            (_, None) => return Err("has a user and no password"),
            (user, Some(password)) => Some(Credentials::new(decoded(user)?, decoded(password)?)),
        };
        if security == Security::Plain && !is_here && credentials.is_some() {
            return Err("would send its password in the clear: take away tls=none");
        }
        let port = match security {
            // RFC 8314 section 3.3, RFC 6409 section 3.1.
            Security::Tls => 465,
            Security::StartTls => 587,
            Security::Plain => 25,
        };
        Ok(Self {
            host: host.to_owned(),
            port: url.port().unwrap_or(port),
            security,
            credentials,
        })
    }

    fn tls(&self, network: &Network) -> Result<Tls, String> {
        if self.security == Security::Plain {
            return Ok(Tls::None);
        }
        let mut parameters = TlsParameters::builder(self.host.clone());
        if let Some(path) = &network.ca_file {
            parameters = parameters.add_root_certificate(certificates(path)?);
        }
        let parameters = parameters
            .build_rustls()
            .map_err(|error| error.to_string())?;
        Ok(match self.security {
            Security::Tls => Tls::Wrapper(parameters),
            Security::StartTls | Security::Plain => Tls::Required(parameters),
        })
    }
}

fn certificates(path: &Path) -> Result<Certificate, String> {
    let named = |why: &dyn std::fmt::Display| format!("network.ca_file {}: {why}", path.display());
    let pem = std::fs::read(path).map_err(|error| named(&error))?;
    Certificate::from_pem(&pem).map_err(|error| named(&error))
}

/// An e-mail was not taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotSent {
    /// For a reason that may pass.
    Now(String),
    /// The server will not have it: the same message is not sent again (RFC 5321 section 4.2.1).
    Ever(String),
}

/// Hands over one e-mail.
pub(crate) async fn send(
    relay: &Relay,
    network: &Network,
    limit: Duration,
    message: Message,
) -> Result<(), NotSent> {
    let tls = relay.tls(network).map_err(NotSent::Now)?;
    let fixed = network.resolve.get(&relay.host);
    let place = fixed.map_or_else(|| relay.host.clone(), |it| it.address().to_string());
    let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(place)
        .port(relay.port)
        .tls(tls)
        .timeout(Some(limit));
    if let Some(credentials) = &relay.credentials {
        transport = transport.credentials(credentials.clone());
    }
    let transport = transport.build();
    // lettre's limit is one of each command.
    match tokio::time::timeout(limit, transport.send(message)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(not_sent(&error)),
        Err(_) => Err(NotSent::Now(format!(
            "the mail server has not answered within {} ms",
            limit.as_millis()
        ))),
    }
}

/// The server's own words are left out: they may repeat what was said to it.
fn not_sent(error: &lettre::transport::smtp::Error) -> NotSent {
    let Some(status) = error.status() else {
        return NotSent::Now(format!("the mail server: {error}"));
    };
    let status = u16::from(status);
    let why = format!("the mail server answers {status}");
    // RFC 4954 section 6: these are about who hands it over, whose password is corrected, and not about the message.
    if error.is_permanent() && !matches!(status, 530 | 534 | 535 | 538) {
        NotSent::Ever(why)
    } else {
        NotSent::Now(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, u16, Security, bool), &'static str> {
        let relay = Relay::read(text)?;
        let has_credentials = relay.credentials.is_some();
        Ok((relay.host, relay.port, relay.security, has_credentials))
    }

    #[test]
    fn the_way_to_a_mail_server_is_protected_unless_it_is_here() {
        for (text, host, port, security, has_credentials) in [
            (
                "smtps://u%40a:p@mx.a.test",
                "mx.a.test",
                465,
                Security::Tls,
                true,
            ),
            (
                "smtp://u:p@mx.a.test",
                "mx.a.test",
                587,
                Security::StartTls,
                true,
            ),
            (
                "smtp://mx.a.test:25?tls=none",
                "mx.a.test",
                25,
                Security::Plain,
                false,
            ),
            (
                "smtp://u:p@127.0.0.1:2525",
                "127.0.0.1",
                2525,
                Security::Plain,
                true,
            ),
            (
                "smtp://localhost?tls=required",
                "localhost",
                587,
                Security::StartTls,
                false,
            ),
            ("smtp://[::1]", "::1", 25, Security::Plain, false),
        ] {
            let expected = Ok((host.to_owned(), port, security, has_credentials));
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_not_quoted() {
        for text in [
            "canary",
            "https://canary@mx.a.test",
            "smtp://canary@mx.a.test",
            "smtp://u:canary@mx.a.test?tls=none",
            "smtp://u:p@mx.a.test?canary",
            "smtp:canary",
        ] {
            let why = read(text).unwrap_err();
            assert!(!why.contains("canary"), "{why}");
        }
    }
}
