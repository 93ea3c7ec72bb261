//! The webhook: JSON with a `text` that Slack and what is like it show.

use serde_json::json;
use url::Url;

use super::{Message, NotTold};
use crate::perform::fetch::Fetcher;
use crate::report::FaultReport;

/// `notify.webhook`.
pub(super) struct Webhook {
    pub(super) fetcher: Fetcher,
    pub(super) url: Url,
}

impl Webhook {
    pub(super) async fn send(&self, message: &Message<'_>) -> Result<(), NotTold> {
        let notice = message.notice;
        let body = json!({
            "text": message.text(),
            "event": message.event(),
            "agent": notice.agent.as_str(),
            "server": notice.server.as_str(),
            "fault": FaultReport::from(&notice.fault),
            "reload_helps": !notice.fault.person_needed(),
            "link": message.link,
            "opened_at": message.opened_at(),
            "cleared_at": message.cleared_at(),
        });
        let posted = self.fetcher.post_json(&self.url, &body).await;
        let fetched = posted.map_err(|lost| NotTold::Now(lost.fault.to_string()))?;
        if (200..300).contains(&fetched.status) {
            return Ok(());
        }
        let why = format!("the webhook answered with status {}", fetched.status);
        Err(NotTold::Now(why))
    }
}
