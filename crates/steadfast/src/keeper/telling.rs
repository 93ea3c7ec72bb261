//! Tells people by the webhook: once when a notice is opened, once when it is cleared. A message is claimed in the
//! store before it is sent, so that of several daemons one sends it; what cannot be sent is given back and tried again.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use steadfast_core::backoff;
use steadfast_core::{Fault, Kind, Millis};
use steadfast_store::{Error, Moment, NoticeRecord, SharedStore, Telling};
use tokio::sync::Notify;
use url::Url;

use crate::clock;
use crate::perform::fetch::Fetcher;
use crate::report::{FaultReport, rfc3339};
use crate::wording;

const CHANNEL: &str = "webhook";

/// What tells.
pub(super) struct Teller {
    pub(super) store: SharedStore,
    pub(super) fetcher: Fetcher,
    pub(super) webhook: Url,
    /// The first and the longest delay while it fails.
    pub(super) delays: (Millis, Millis),
    /// How often it looks for what another daemon could not send.
    pub(super) every: Duration,
    /// A notice was opened or cleared.
    pub(super) news: Arc<Notify>,
}

impl Teller {
    /// Runs for ever.
    pub(super) async fn run(self) {
        let mut tries = 0;
        loop {
            match self.round().await {
                Ok(()) => tries = 0,
                Err(why) => {
                    tries += 1;
                    tracing::warn!(%why, tries, "a notice could not be told; it is tried again");
                }
            }
            if tries > 0 {
                let (first, max) = self.delays;
                let delay = backoff::delay(first, max, tries, clock::jitter());
                tokio::time::sleep(Duration::from_millis(delay.0)).await;
            } else {
                // A timeout only means that it is time to look again.
                let _ = tokio::time::timeout(self.every, self.news.notified()).await;
            }
        }
    }

    async fn round(&self) -> Result<(), String> {
        let read = |error: Error| error.to_string();
        let mut notices = self.store.notices().await.map_err(read)?;
        notices.reverse();
        for notice in &notices {
            let Some(moment) = due(notice) else {
                continue;
            };
            let telling = Telling {
                moment,
                channel: CHANNEL.to_owned(),
            };
            let (agent, server) = (&notice.agent, &notice.server);
            let claim = self
                .store
                .claim_telling(agent, server, notice.number, &telling);
            if !claim.await.map_err(read)? {
                continue;
            }
            if let Err(fault) = self.send(notice, moment).await {
                let back = self
                    .store
                    .release_telling(agent, server, notice.number, &telling);
                back.await.map_err(read)?;
                return Err(fault.to_string());
            }
        }
        Ok(())
    }

    async fn send(&self, notice: &NoticeRecord, moment: Moment) -> Result<(), Fault> {
        let event = match moment {
            Moment::Opened => "opened",
            Moment::Cleared => "cleared",
        };
        let body = json!({
            "text": wording::told(notice, moment),
            "event": event,
            "agent": notice.agent.as_str(),
            "server": notice.server.as_str(),
            "fault": FaultReport::from(&notice.fault),
            "reload_helps": !notice.fault.person_needed(),
            "opened_at": rfc3339(notice.opened_at),
            "cleared_at": notice.cleared_at.map(rfc3339),
        });
        let posted = self.fetcher.post_json(&self.webhook, &body).await;
        let fetched = posted.map_err(|lost| lost.fault)?;
        if (200..300).contains(&fetched.status) {
            return Ok(());
        }
        let message = format!("the webhook answered with status {}", fetched.status);
        Err(Fault::new(Kind::ServerError, message))
    }
}

/// What is to be told of a notice. One that was cleared before anybody heard of it needs no words.
fn due(notice: &NoticeRecord) -> Option<Moment> {
    let told = |moment| {
        let mut told = notice.told.iter();
        told.any(|it| it.moment == moment && it.channel == CHANNEL)
    };
    match (notice.cleared_at, told(Moment::Opened)) {
        (None, false) => Some(Moment::Opened),
        (Some(_), true) if !told(Moment::Cleared) => Some(Moment::Cleared),
        (None, true) | (Some(_), _) => None,
    }
}
