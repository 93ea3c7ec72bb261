//! Tells people of notices, by every channel that is configured: once when one is opened, once when it is cleared. A
//! message is claimed in the store before it is sent, so that of several daemons one sends it; what cannot be sent is
//! given back and tried again.

mod email;
mod webhook;

use std::sync::Arc;
use std::time::Duration;

use steadfast_core::{Millis, backoff};
use steadfast_store::{Error, Moment, NoticeRecord, SharedStore, Telling};
use tokio::sync::watch;

use crate::clock;
use crate::perform::fetch::Fetcher;
use crate::report::rfc3339;
use crate::wording;

use super::Inner;
use super::links::Links;
use email::Email;
use webhook::Webhook;

/// How people are told.
enum Channel {
    /// `notify.webhook`.
    Webhook(Webhook),
    /// `notify.email`.
    Email(Email),
}

/// What is told.
struct Message<'a> {
    notice: &'a NoticeRecord,
    moment: Moment,
    /// Where a person signs in, where that is what is needed.
    link: Option<String>,
}

impl Message<'_> {
    /// In a paragraph.
    fn text(&self) -> String {
        wording::told(self.notice, self.moment, self.link.as_deref())
    }

    const fn event(&self) -> &'static str {
        match self.moment {
            Moment::Opened => "opened",
            Moment::Cleared => "cleared",
        }
    }

    fn opened_at(&self) -> String {
        rfc3339(self.notice.opened_at)
    }

    fn cleared_at(&self) -> Option<String> {
        self.notice.cleared_at.map(rfc3339)
    }
}

/// A message that was not told.
#[derive(Debug, PartialEq, Eq)]
enum NotTold {
    /// It is tried again.
    Now(String),
    /// It is given up: the same message would be refused again.
    Ever(String),
}

impl Channel {
    /// As the store names it.
    const fn name(&self) -> &'static str {
        match self {
            Self::Webhook(_) => "webhook",
            Self::Email(_) => "email",
        }
    }

    async fn send(&self, message: &Message<'_>) -> Result<(), NotTold> {
        match self {
            Self::Webhook(webhook) => webhook.send(message).await,
            Self::Email(email) => email.send(message).await,
        }
    }
}

/// What tells by one channel: each goes its own pace.
pub(super) struct Teller {
    store: SharedStore,
    links: Arc<Links>,
    channel: Channel,
    /// The first and the longest delay while it fails.
    delays: (Millis, Millis),
    /// How often it looks for what another daemon could not send.
    every: Duration,
    /// A notice was opened or cleared.
    news: watch::Receiver<()>,
}

impl Teller {
    /// One for each channel that is configured.
    pub(super) fn all(inner: &Inner, store: &SharedStore, news: &watch::Sender<()>) -> Vec<Self> {
        let settings = &inner.settings;
        let retry = &settings.retry;
        let limit = retry.request_timeout.duration();
        let webhook = settings.notify.webhook.as_ref().map(|webhook| {
            Channel::Webhook(Webhook {
                fetcher: Fetcher::for_operator(&inner.dialer, limit),
                url: webhook.0.clone(),
            })
        });
        let email = settings.notify.email.as_ref().map(|email| {
            Channel::Email(Email {
                config: email.clone(),
                secrets: Arc::clone(&inner.secrets),
                network: settings.network.clone(),
                limit,
            })
        });
        let teller = |channel| Self {
            store: Arc::clone(store),
            links: Arc::clone(&inner.links_of_notices),
            channel,
            delays: (retry.first.0, retry.max.0),
            every: settings.renewal.check_every.duration(),
            news: news.subscribe(),
        };
        webhook.into_iter().chain(email).map(teller).collect()
    }

    /// Runs for as long as there may be news.
    pub(super) async fn run(mut self) {
        let mut tries = 0;
        self.links.known().await;
        loop {
            match self.round().await {
                Ok(()) => tries = 0,
                Err(why) => {
                    tries += 1;
                    let channel = self.channel.name();
                    tracing::warn!(%why, channel, tries, "a notice could not be told; it is tried again");
                }
            }
            if tries > 0 {
                let (first, max) = self.delays;
                let delay = backoff::delay(first, max, tries, clock::jitter());
                tokio::time::sleep(Duration::from_millis(delay.0)).await;
            } else if let Ok(Err(_)) = tokio::time::timeout(self.every, self.news.changed()).await {
                return;
            }
        }
    }

    async fn round(&self) -> Result<(), String> {
        let read = |error: Error| error.to_string();
        let mut notices = self.store.notices().await.map_err(read)?;
        notices.reverse();
        let channel = self.channel.name();
        for notice in &notices {
            let Some(moment) = due(notice, channel) else {
                continue;
            };
            let telling = Telling {
                moment,
                channel: channel.to_owned(),
            };
            let (agent, server) = (&notice.agent, &notice.server);
            let claim = self
                .store
                .claim_telling(agent, server, notice.number, &telling);
            if !claim.await.map_err(read)? {
                continue;
            }
            let message = Message {
                notice,
                moment,
                link: self.links.of(notice),
            };
            match self.channel.send(&message).await {
                Ok(()) => {}
                Err(NotTold::Ever(why)) => {
                    tracing::error!(%why, channel, %agent, %server, "a notice cannot be told, and is not tried again");
                }
                Err(NotTold::Now(why)) => {
                    let back = self
                        .store
                        .release_telling(agent, server, notice.number, &telling);
                    back.await.map_err(read)?;
                    return Err(why);
                }
            }
        }
        Ok(())
    }
}

/// What is to be told of a notice. One that was cleared before anybody heard of it needs no words.
fn due(notice: &NoticeRecord, channel: &str) -> Option<Moment> {
    let told = |moment| {
        let mut told = notice.told.iter();
        told.any(|it| it.moment == moment && it.channel == channel)
    };
    match (notice.cleared_at, told(Moment::Opened)) {
        (None, false) => Some(Moment::Opened),
        (Some(_), true) if !told(Moment::Cleared) => Some(Moment::Cleared),
        (None, true) | (Some(_), _) => None,
    }
}
