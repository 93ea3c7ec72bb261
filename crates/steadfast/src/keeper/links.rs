//! Links in messages about notices: they lead to the sign-in that clears the notice, for as long as it is open. A link
//! to an authorization server would not last until somebody reads the message.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use steadfast_core::{AgentName, ServerName};
use steadfast_store::{NoticeRecord, Vault};
use tokio::sync::SetOnce;
use url::Url;

use super::Keeper;
use crate::grants::{Doors, NotOffered, Offer};

/// What makes links.
#[derive(Debug)]
pub(super) struct Links {
    vault: Arc<Vault>,
    door: SetOnce<Url>,
}

/// The query of such a link. No `Debug` of the key: whoever has it can begin the sign-in.
#[derive(Deserialize)]
pub struct NoticeLink {
    agent: String,
    server: String,
    notice: u64,
    key: String,
}

impl fmt::Debug for NoticeLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NoticeLink")
            .field("agent", &self.agent)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl Links {
    pub(super) fn new(vault: Arc<Vault>) -> Self {
        Self {
            vault,
            door: SetOnce::new(),
        }
    }

    /// Browsers reach this daemon so. What is said first counts.
    pub(super) fn open(&self, doors: &Doors) {
        let _ = self.door.set(doors.sign_in.clone());
    }

    /// Waits until it is known how browsers reach this daemon: the gateway says so right after the start, and a keeper
    /// without one never hears of it.
    pub(super) async fn known(&self) {
        let _ = tokio::time::timeout(Duration::from_secs(1), self.door.wait()).await;
    }

    /// The link of a notice; `None` where signing in does not mend it, and where nobody said yet how browsers reach
    /// this daemon.
    pub(super) fn of(&self, notice: &NoticeRecord) -> Option<String> {
        if !notice.fault.kind.asks_to_sign_in() || notice.cleared_at.is_some() {
            return None;
        }
        let mut link = self.door.get()?.clone();
        let key = self.vault.sign_notice(notice).ok()?;
        link.query_pairs_mut()
            .append_pair("agent", notice.agent.as_str())
            .append_pair("server", notice.server.as_str())
            .append_pair("notice", &notice.number.to_string())
            .append_pair("key", &key);
        Some(link.into())
    }
}

impl Keeper {
    /// The link with which a person signs in to clear a notice, where that clears it.
    #[must_use]
    pub fn notice_link(&self, notice: &NoticeRecord) -> Option<String> {
        self.inner.links_of_notices.of(notice)
    }

    /// Follows such a link to the authorization server; `None` where it is none of ours, or its notice is not open any
    /// more.
    ///
    /// # Errors
    ///
    /// What discovery or registration met, and where the store refuses.
    pub async fn follow_notice(&self, link: &NoticeLink) -> Result<Option<Offer>, NotOffered> {
        let secrets = &self.inner.secrets;
        let (agent, server) = (
            AgentName::from(link.agent.as_str()),
            ServerName::from(link.server.as_str()),
        );
        let mut notices = secrets.store.notices().await?.into_iter();
        let is_meant = |notice: &NoticeRecord| {
            notice.agent == agent && notice.server == server && notice.number == link.notice
        };
        let open = notices.find(|notice| is_meant(notice) && notice.cleared_at.is_none());
        let open = open.filter(|notice| secrets.vault.has_signed_notice(notice, &link.key));
        match open.and_then(|_| self.link(&agent, &server)) {
            Some(link) => self.begin_sign_in(&link, false).await.map(Some),
            None => Ok(None),
        }
    }
}
