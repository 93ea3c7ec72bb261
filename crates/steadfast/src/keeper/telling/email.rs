//! E-mail: one message when a notice is opened, and an answer to it when it is cleared.

use std::sync::Arc;
use std::time::Duration;

use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Mailboxes};
use sha2::{Digest as _, Sha256};
use steadfast_store::{Moment, NoticeRecord};

use super::{Message, NotTold};
use crate::config::{self, Network};
use crate::perform::mail::{self, NotSent, Relay};
use crate::secrets::Secrets;

/// `notify.email`.
pub(super) struct Email {
    pub(super) config: config::Email,
    pub(super) secrets: Arc<Secrets>,
    pub(super) network: Network,
    /// How long handing over one message may take.
    pub(super) limit: Duration,
}

impl Email {
    pub(super) async fn send(&self, message: &Message<'_>) -> Result<(), NotTold> {
        let place = "notify.email.smtp";
        let smtp = self.secrets.of_setting(&self.config.smtp, place);
        let smtp = smtp.map_err(|fault| NotTold::Now(fault.to_string()))?;
        let relay = Relay::read(&smtp).map_err(|why| NotTold::Now(format!("{place} {why}")))?;
        let message = self.message(message)?;
        let sent = mail::send(&relay, &self.network, self.limit, message).await;
        sent.map_err(|not| match not {
            NotSent::Now(why) => NotTold::Now(why),
            NotSent::Ever(why) => NotTold::Ever(why),
        })
    }

    fn message(&self, message: &Message<'_>) -> Result<lettre::Message, NotTold> {
        let wrong = |why: &str| NotTold::Ever(format!("notify.email {why}"));
        let from = self.config.sender().map_err(wrong)?;
        let to = self.config.recipients().map_err(wrong)?;
        written(message, from, to).map_err(|error| NotTold::Ever(error.to_string()))
    }
}

fn written(
    message: &Message<'_>,
    from: Mailbox,
    to: Mailboxes,
) -> Result<lettre::Message, lettre::error::Error> {
    let (notice, moment) = (message.notice, message.moment);
    let (agent, server) = (notice.agent.as_str(), notice.server.as_str());
    let subject = format!("Steadfast: the server {server} of the agent {agent} needs you");
    let id = |moment| id(notice, moment, from.email.domain());
    let mut builder = lettre::Message::builder()
        .message_id(Some(id(moment)))
        .header(ContentType::TEXT_PLAIN)
        // RFC 3834 section 5: no automatic answers to it.
        .raw_header(HeaderValue::new(
            HeaderName::new_from_ascii_str("Auto-Submitted"),
            "auto-generated".to_owned(),
        ));
    builder = match moment {
        Moment::Opened => builder.subject(subject),
        // Mail programs show it below the first one.
        Moment::Cleared => builder
            .subject(format!("Re: {subject}"))
            .in_reply_to(id(Moment::Opened))
            .references(id(Moment::Opened)),
    };
    for one in to {
        builder = builder.to(one);
    }
    let mut text = message.text();
    text.push_str(&format!("\n\nSince {}", message.opened_at()));
    if let Some(at) = message.cleared_at() {
        text.push_str(&format!(", until {at}"));
    }
    text.push_str(".\n");
    builder.from(from).body(text)
}

/// Named after what it is about: whoever gets it twice, by a server that lost its own answer, can tell
/// (RFC 5322 section 3.6.4).
fn id(notice: &NoticeRecord, moment: Moment, domain: &str) -> String {
    let event = match moment {
        Moment::Opened => "opened",
        Moment::Cleared => "cleared",
    };
    let opened_at = notice.opened_at.0;
    let about = format!("{}/{}/{opened_at}", notice.agent, notice.server);
    let digest = Sha256::digest(about);
    let name: String = digest
        .iter()
        .take(12)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("<{event}.{name}@{domain}>")
}

#[cfg(test)]
mod tests {
    use steadfast_core::{Fault, Kind, Wall};

    use super::*;

    fn text(moment: Moment) -> String {
        let notice = NoticeRecord {
            agent: "support".into(),
            server: "booking".into(),
            number: 2,
            fault: Fault::new(
                Kind::GrantRefused,
                "the provider refuses the grant: invalid_grant",
            ),
            opened_at: Wall(0),
            cleared_at: (moment == Moment::Cleared).then_some(Wall(60_000)),
            told: Vec::new(),
        };
        let from = "Steadfast <s@a.test>".parse().unwrap();
        let to = "ops@a.test, b@a.test".parse().unwrap();
        let message = Message {
            notice: &notice,
            moment,
            link: (moment == Moment::Opened).then(|| "https://s.test/oauth/sign-in?a=b".to_owned()),
        };
        let written = written(&message, from, to).unwrap();
        let text = String::from_utf8(written.formatted()).unwrap();
        // Quoted-printable (RFC 2045 section 6.7), as far as it comes here.
        text.replace("=\r\n", "").replace("=3D", "=")
    }

    #[test]
    fn a_message_says_whose_server_it_is_and_what_to_do() {
        let opened = text(Moment::Opened);
        for part in [
            "From: Steadfast <s@a.test>\r\n",
            "To: ops@a.test, b@a.test\r\n",
            "Subject: Steadfast: the server booking of the agent support needs you\r\n",
            "Auto-Submitted: auto-generated\r\n",
            "invalid_grant",
            "SF0037",
            "Reloading does not help",
            "https://s.test/oauth/sign-in?a=b",
            "Since 1970-01-01T00:00:00",
        ] {
            assert!(opened.contains(part), "{part}: {opened}");
        }
    }

    #[test]
    fn what_is_mended_answers_what_was_told() {
        let line = |text: &str, name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(": "));
            let found = lines.find(|(key, _)| *key == name);
            found.map(|(_, value)| value.to_owned())
        };
        let (opened, cleared) = (text(Moment::Opened), text(Moment::Cleared));
        assert!(cleared.contains("needs you no more"), "{cleared}");
        let first = line(&opened, "Message-ID");
        assert!(first.is_some() && first == line(&opened, "Message-ID"));
        assert_eq!(line(&cleared, "In-Reply-To"), first);
        assert_ne!(line(&cleared, "Message-ID"), first);
    }
}
