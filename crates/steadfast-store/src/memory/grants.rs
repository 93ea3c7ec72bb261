use std::collections::BTreeMap;
use std::ops::Bound;

use async_trait::async_trait;
use steadfast_core::grant::State as GrantState;
use steadfast_core::oauth::step_up::StepUp;
use steadfast_core::{AgentName, ServerName, Wall};

use super::{MemoryRecords, State};
use crate::error::Error;
use crate::grants::{DueGrant, DueSearch, GrantRecord, Grants};
use crate::leases::LeaseKey;
use crate::swap::{Swap, Version};

impl State {
    fn is_leased(&self, grant: &GrantRecord, now: Wall) -> bool {
        let key = LeaseKey::Renewal {
            agent: grant.agent.clone(),
            server: grant.server.clone(),
        };
        self.leases.get(&key).is_some_and(|held| held.until > now)
    }
}

#[async_trait]
impl Grants for MemoryRecords {
    async fn grant(
        &self,
        agent: &AgentName,
        server: &ServerName,
    ) -> Result<Option<GrantRecord>, Error> {
        let connection = (agent.clone(), server.clone());
        self.with(|state| state.grants.get(&connection).cloned())
    }

    async fn grants(
        &self,
        after: Option<(&AgentName, &ServerName)>,
        limit: usize,
    ) -> Result<Vec<GrantRecord>, Error> {
        let from = match after {
            Some((agent, server)) => Bound::Excluded((agent.clone(), server.clone())),
            None => Bound::Unbounded,
        };
        self.with(|state| {
            let grants = state.grants.range((from, Bound::Unbounded));
            let held = grants.filter(|(_, grant)| grant.sealed.is_some());
            held.take(limit).map(|(_, grant)| grant.clone()).collect()
        })
    }

    async fn swap_grant(&self, grant: &GrantRecord) -> Result<Swap<GrantRecord>, Error> {
        let connection = (grant.agent.clone(), grant.server.clone());
        self.with(|state| {
            let present = state.grants.get(&connection);
            let version = present.map_or(Version::NONE, |present| present.version);
            let behind = present.is_some_and(|present| grant.generation < present.generation);
            if version != grant.version || behind {
                return Swap::Lost(present.cloned().map(Box::new));
            }
            let mut next = grant.clone();
            next.version = version.next();
            if let Some(present) = present
                && grant.generation == present.generation
            {
                next.sealed = present.sealed.clone();
            }
            state.grants.insert(connection, next);
            Swap::Stored(version.next())
        })
    }

    async fn remove_grant(
        &self,
        agent: &AgentName,
        server: &ServerName,
        version: Version,
    ) -> Result<Swap<GrantRecord>, Error> {
        let connection = (agent.clone(), server.clone());
        self.with(|state| match state.grants.get_mut(&connection) {
            Some(grant) if grant.version == version => {
                grant.version = version.next();
                grant.state = GrantState::None;
                grant.wake_at = None;
                grant.last_renewal = None;
                grant.step_up = StepUp::default();
                grant.sealed = None;
                Swap::Stored(grant.version)
            }
            present => Swap::Lost(present.map(|grant| Box::new(grant.clone()))),
        })
    }

    async fn due_grants(&self, search: DueSearch<'_>) -> Result<Vec<DueGrant>, Error> {
        self.with(|state| {
            let mut due = Vec::new();
            for (owner, grant) in &state.grants {
                if let Some(wake_at) = grant.wake_at.filter(|at| *at <= search.now)
                    && search.servers.contains(&grant.server)
                    && !search.except.contains(owner)
                    && !state.is_leased(grant, search.now)
                {
                    due.push(DueGrant {
                        agent: grant.agent.clone(),
                        server: grant.server.clone(),
                        issuer: grant.issuer.clone(),
                        wake_at,
                    });
                }
            }
            // Stable: those that wait equally long stay in the order of agent and server.
            due.sort_by_key(|grant| grant.wake_at);
            let mut places = BTreeMap::<String, usize>::new();
            let mut placed: Vec<_> = due
                .into_iter()
                .map(|grant| {
                    let place = places.entry(grant.issuer.clone()).or_default();
                    *place += 1;
                    (*place, grant)
                })
                .filter(|(place, _)| *place <= search.per_issuer)
                .collect();
            placed.sort_by_key(|(place, _)| *place);
            placed.truncate(search.limit);
            placed.into_iter().map(|(_, grant)| grant).collect()
        })
    }

    async fn next_wake(&self) -> Result<Option<Wall>, Error> {
        self.with(|state| state.grants.values().filter_map(|it| it.wake_at).min())
    }
}
