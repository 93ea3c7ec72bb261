//! The webhook: JSON with a `text` that Slack and what is like it show.

use serde_json::json;
use steadfast_store::{Moment, NoticeRecord};
use url::Url;

use super::NotTold;
use crate::perform::fetch::Fetcher;
use crate::report::{FaultReport, rfc3339};
use crate::wording;

/// `notify.webhook`.
pub(super) struct Webhook {
    pub(super) fetcher: Fetcher,
    pub(super) url: Url,
}

impl Webhook {
    pub(super) async fn send(&self, notice: &NoticeRecord, moment: Moment) -> Result<(), NotTold> {
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
        let posted = self.fetcher.post_json(&self.url, &body).await;
        let fetched = posted.map_err(|lost| NotTold::Now(lost.fault.to_string()))?;
        if (200..300).contains(&fetched.status) {
            return Ok(());
        }
        let message = format!("the webhook answered with status {}", fetched.status);
        Err(NotTold::Now(message))
    }
}
