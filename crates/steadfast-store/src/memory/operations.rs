use async_trait::async_trait;
use steadfast_core::operation::{Fact, State as Standing};
use steadfast_core::{AgentName, OperationId, ServerName, Wall};

use super::{MemoryRecords, State};
use crate::error::Error;
use crate::operations::{Digest, HeldCount, OperationFilter, OperationRecord, Operations};
use crate::swap::{Swap, Version};

/// An operation with what is on record about it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) record: OperationRecord,
    facts: Vec<Fact>,
}

impl Entry {
    fn has_key(&self, agent: &AgentName, server: &ServerName, key: &Digest) -> bool {
        let record = &self.record;
        record.agent == *agent
            && record.server == *server
            && record.key_hash.as_ref() == Some(key)
            && !matches!(record.state, Standing::NoEffect { .. })
    }
}

impl State {
    fn select(
        &self,
        limit: usize,
        wanted: impl Fn(&OperationRecord) -> bool,
    ) -> Vec<OperationRecord> {
        let newest_first = self.operations.iter().rev().map(|entry| &entry.record);
        let wanted = newest_first.filter(|record| wanted(record));
        wanted.take(limit).cloned().collect()
    }

    fn entry(&self, id: &OperationId) -> Option<&Entry> {
        self.operations.iter().find(|entry| entry.record.id == *id)
    }
}

#[async_trait]
impl Operations for MemoryRecords {
    async fn intend(
        &self,
        operation: &OperationRecord,
        facts: &[Fact],
    ) -> Result<Swap<OperationRecord>, Error> {
        self.with(|state| {
            let taken = state.operations.iter().find(|entry| {
                operation
                    .key_hash
                    .is_some_and(|key| entry.has_key(&operation.agent, &operation.server, &key))
            });
            if let Some(taken) = taken {
                return Swap::Lost(Some(Box::new(taken.record.clone())));
            }
            let mut record = operation.clone();
            record.version = Version::NONE.next();
            let version = record.version;
            let facts = facts.to_vec();
            state.operations.push(Entry { record, facts });
            Swap::Stored(version)
        })
    }

    async fn advance(
        &self,
        operation: &OperationRecord,
        facts: &[Fact],
    ) -> Result<Swap<OperationRecord>, Error> {
        self.with(|state| {
            let mut entries = state.operations.iter_mut();
            let Some(entry) = entries.find(|entry| entry.record.id == operation.id) else {
                return Swap::Lost(None);
            };
            if entry.record.version != operation.version {
                return Swap::Lost(Some(Box::new(entry.record.clone())));
            }
            let record = &mut entry.record;
            record.version = operation.version.next();
            record.state = operation.state.clone();
            record.undelivered = operation.undelivered;
            record.driver.clone_from(&operation.driver);
            record.leg_hash = operation.leg_hash;
            record.wake_at = operation.wake_at;
            record.changed_at = operation.changed_at;
            record.result.clone_from(&operation.result);
            entry.facts.extend_from_slice(facts);
            Swap::Stored(entry.record.version)
        })
    }

    async fn advance_lazily(
        &self,
        operation: &OperationRecord,
        facts: &[Fact],
    ) -> Result<Swap<OperationRecord>, Error> {
        self.advance(operation, facts).await
    }

    async fn answers_given(&self, operations: &[(OperationId, Version)]) -> Result<(), Error> {
        self.with(|state| {
            for entry in &mut state.operations {
                let record = &mut entry.record;
                let is_given = |(id, version): &(OperationId, Version)| {
                    *id == record.id && *version == record.version
                };
                if operations.iter().any(is_given) {
                    record.version = record.version.next();
                    record.undelivered = false;
                    record.driver = None;
                    if record.key_hash.is_none() {
                        record.result = None;
                    }
                }
            }
        })
    }

    async fn operation(&self, id: &OperationId) -> Result<Option<OperationRecord>, Error> {
        self.with(|state| state.entry(id).map(|entry| entry.record.clone()))
    }

    async fn operation_facts(&self, id: &OperationId) -> Result<Vec<Fact>, Error> {
        self.with(|state| {
            let entry = state.entry(id);
            entry.map(|entry| entry.facts.clone()).unwrap_or_default()
        })
    }

    async fn similar_operations(
        &self,
        agent: &AgentName,
        server: &ServerName,
        call_digest: &Digest,
        key_hash: Option<&Digest>,
        limit: usize,
    ) -> Result<Vec<OperationRecord>, Error> {
        self.with(|state| {
            let mut left = limit;
            let entries = state.operations.iter().rev();
            let similar = entries.filter(|entry| {
                let record = &entry.record;
                let is_same = record.agent == *agent
                    && record.server == *server
                    && record.call_digest == *call_digest
                    && record.is_open()
                    && left > 0;
                left -= usize::from(is_same);
                is_same || key_hash.is_some_and(|key| entry.has_key(agent, server, key))
            });
            similar.map(|entry| entry.record.clone()).collect()
        })
    }

    async fn operation_of_leg(&self, leg_hash: &Digest) -> Result<Option<OperationRecord>, Error> {
        self.with(|state| {
            let found = state.select(1, |record| record.leg_hash.as_ref() == Some(leg_hash));
            found.into_iter().next()
        })
    }

    async fn operations(
        &self,
        filter: &OperationFilter,
        limit: usize,
    ) -> Result<Vec<OperationRecord>, Error> {
        self.with(|state| {
            let before = filter.before.as_ref().and_then(|id| {
                let mut entries = state.operations.iter();
                entries.position(|entry| entry.record.id == *id)
            });
            let end = before.unwrap_or(state.operations.len());
            let entries = state.operations.iter().take(end).rev();
            let wanted = entries.map(|entry| &entry.record).filter(|record| {
                filter.agent.as_ref().is_none_or(|it| *it == record.agent)
                    && filter.server.as_ref().is_none_or(|it| *it == record.server)
                    && filter
                        .state
                        .as_ref()
                        .is_none_or(|it| it == record.state.name())
            });
            wanted.take(limit).cloned().collect()
        })
    }

    async fn due_operations(&self, now: Wall, limit: usize) -> Result<Vec<OperationId>, Error> {
        self.with(|state| {
            let records = state.operations.iter().map(|entry| &entry.record);
            let mut due: Vec<_> = records
                .filter_map(|record| Some((record.wake_at.filter(|at| *at <= now)?, &record.id)))
                .collect();
            due.sort_by_key(|(at, _)| *at);
            due.into_iter()
                .take(limit)
                .map(|(_, id)| id.clone())
                .collect()
        })
    }

    async fn next_operation_wake(&self) -> Result<Option<Wall>, Error> {
        self.with(|state| {
            let wakes = state.operations.iter();
            wakes.filter_map(|entry| entry.record.wake_at).min()
        })
    }

    async fn operation_drivers(&self) -> Result<Vec<String>, Error> {
        self.with(|state| {
            let drivers = state.operations.iter();
            let mut drivers: Vec<_> = drivers
                .filter_map(|entry| entry.record.driver.clone())
                .collect();
            drivers.sort();
            drivers.dedup();
            drivers
        })
    }

    async fn driven_operations(
        &self,
        driver: &str,
        limit: usize,
    ) -> Result<Vec<OperationRecord>, Error> {
        self.with(|state| {
            let records = state.operations.iter().map(|entry| &entry.record);
            let driven = records.filter(|record| record.driver.as_deref() == Some(driver));
            driven.take(limit).cloned().collect()
        })
    }

    async fn held_operations(&self) -> Result<Vec<HeldCount>, Error> {
        self.with(|state| {
            let mut counts = std::collections::BTreeMap::new();
            for entry in &state.operations {
                if let Standing::Held { .. } = entry.record.state {
                    let record = &entry.record;
                    let connection = (record.agent.clone(), record.server.clone());
                    *counts.entry(connection).or_insert(0) += 1;
                }
            }
            counts
                .into_iter()
                .map(|((agent, server), count)| HeldCount {
                    agent,
                    server,
                    count,
                })
                .collect()
        })
    }
}
