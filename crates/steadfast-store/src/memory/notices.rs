use std::cmp::Reverse;

use async_trait::async_trait;
use steadfast_core::{AgentName, Fault, ServerName, Wall};

use super::MemoryRecords;
use crate::error::Error;
use crate::notices::{NoticeRecord, Notices, Opening, Telling};

#[async_trait]
impl Notices for MemoryRecords {
    async fn open_notice(
        &self,
        agent: &AgentName,
        server: &ServerName,
        fault: &Fault,
        at: Wall,
    ) -> Result<Opening, Error> {
        let connection = (agent.clone(), server.clone());
        self.with(|state| {
            let present = state.notices.get_mut(&connection);
            let number = present.as_ref().map_or(1, |notice| notice.number + 1);
            if let Some(notice) = present
                && notice.cleared_at.is_none()
            {
                if notice.fault == *fault {
                    return Opening::Unchanged;
                }
                notice.fault = fault.clone();
                return Opening::Changed;
            }
            let notice = NoticeRecord {
                agent: agent.clone(),
                server: server.clone(),
                number,
                fault: fault.clone(),
                opened_at: at,
                cleared_at: None,
                told: Vec::new(),
            };
            state.notices.insert(connection, notice);
            Opening::Opened
        })
    }

    async fn clear_notice(
        &self,
        agent: &AgentName,
        server: &ServerName,
        at: Wall,
    ) -> Result<bool, Error> {
        let connection = (agent.clone(), server.clone());
        self.with(|state| match state.notices.get_mut(&connection) {
            Some(notice) if notice.cleared_at.is_none() => {
                notice.cleared_at = Some(at);
                true
            }
            Some(_) | None => false,
        })
    }

    async fn notices(&self) -> Result<Vec<NoticeRecord>, Error> {
        self.with(|state| {
            let mut notices: Vec<_> = state.notices.values().cloned().collect();
            notices.sort_by_key(|notice| Reverse(notice.opened_at));
            notices
        })
    }

    async fn claim_telling(
        &self,
        agent: &AgentName,
        server: &ServerName,
        number: u64,
        telling: &Telling,
    ) -> Result<bool, Error> {
        let connection = (agent.clone(), server.clone());
        self.with(|state| match state.notices.get_mut(&connection) {
            Some(notice) if notice.number == number && !notice.told.contains(telling) => {
                notice.told.push(telling.clone());
                notice.told.sort();
                true
            }
            Some(_) | None => false,
        })
    }

    async fn release_telling(
        &self,
        agent: &AgentName,
        server: &ServerName,
        number: u64,
        telling: &Telling,
    ) -> Result<bool, Error> {
        let connection = (agent.clone(), server.clone());
        self.with(|state| match state.notices.get_mut(&connection) {
            Some(notice) if notice.number == number => {
                let told = notice.told.len();
                notice.told.retain(|it| it != telling);
                notice.told.len() < told
            }
            Some(_) | None => false,
        })
    }

    async fn remove_notice(&self, agent: &AgentName, server: &ServerName) -> Result<bool, Error> {
        let connection = (agent.clone(), server.clone());
        self.with(|state| state.notices.remove(&connection).is_some())
    }

    async fn remove_cleared_notices(&self, before: Wall) -> Result<u64, Error> {
        self.with(|state| {
            let count = state.notices.len();
            state
                .notices
                .retain(|_, notice| notice.cleared_at.is_none_or(|at| at >= before));
            (count - state.notices.len()) as u64
        })
    }
}
