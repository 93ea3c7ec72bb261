use async_trait::async_trait;
use sqlx::query;
use steadfast_core::grant::State;
use steadfast_core::identity::GrantGeneration;
use steadfast_core::oauth::step_up::StepUp;
use steadfast_core::{AgentName, ServerName, Wall};

use super::SqliteRecords;
use super::rows::{Reader, Stored};
use super::statement::{Statement, count, number, server_text, text};
use crate::error::Error;
use crate::grants::{DueGrant, DueSearch, GrantRecord, Grants};
use crate::swap::{Swap, Version};

/// Finds the issuers one after the other in the index, without reading the grants between them.
macro_rules! issuers {
    () => {
        "WITH RECURSIVE issuers (issuer) AS ( \
           SELECT min(issuer) FROM grants WHERE wake_at IS NOT NULL \
           UNION ALL \
           SELECT (SELECT min(issuer) FROM grants WHERE issuer > issuers.issuer AND wake_at IS NOT NULL) \
           FROM issuers WHERE issuers.issuer IS NOT NULL) "
    };
}

/// ?1 is now, ?2 how many of each issuer, ?3 how many in all, ?4 a JSON array of the servers, ?5 one of those
/// that are left out, each as agent and server. The index holds the grants of an issuer in the order
/// of `wake_at`, so that no more of them are read than are asked for, and those that are leased.
pub(super) const DUE: &str = concat!(
    issuers!(),
    ", due AS ( \
       SELECT g.agent, g.server, g.issuer, g.wake_at, row_number() \
         OVER (PARTITION BY g.issuer ORDER BY g.wake_at, g.agent, g.server) AS place \
       FROM issuers CROSS JOIN grants AS g WHERE g.rowid IN ( \
         SELECT d.rowid FROM grants AS d \
         WHERE d.issuer = issuers.issuer AND d.wake_at <= ?1 \
           AND d.server IN (SELECT value FROM json_each(?4)) AND NOT EXISTS ( \
           SELECT 1 FROM leases WHERE kind = 'renewal' \
           AND first = d.agent AND second = d.server AND until > ?1) \
           AND NOT EXISTS (SELECT 1 FROM json_each(?5) AS x \
           WHERE x.value ->> 0 = d.agent AND x.value ->> 1 = d.server) \
         ORDER BY d.wake_at, d.agent, d.server LIMIT ?2)) \
     SELECT agent, server, issuer, wake_at FROM due ORDER BY place, wake_at, agent, server LIMIT ?3"
);

pub(super) const NEXT_WAKE: &str = concat!(
    issuers!(),
    "SELECT min((SELECT min(wake_at) FROM grants AS g WHERE g.issuer = issuers.issuer \
       AND g.wake_at IS NOT NULL)) AS wake_at FROM issuers"
);

impl Stored for GrantRecord {
    const TABLE: &'static str = "grants";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            agent: row.agent_name("agent")?,
            server: row.server_name("server")?,
            version: row.version()?,
            generation: row.number("generation").map(GrantGeneration)?,
            state: row.json("state")?,
            wake_at: row.maybe_wall("wake_at")?,
            issuer: row.get("issuer")?,
            resource: row.get("resource")?,
            token_endpoint: row.get("token_endpoint")?,
            client: row.json("client")?,
            last_renewal: row.maybe_json("last_renewal")?,
            step_up: row.maybe_json("step_up")?.unwrap_or_default(),
            sealed: row.maybe_sealed()?,
        })
    }
}

impl Stored for DueGrant {
    const TABLE: &'static str = "grants";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            agent: row.agent_name("agent")?,
            server: row.server_name("server")?,
            issuer: row.get("issuer")?,
            wake_at: row.wall("wake_at")?,
        })
    }
}

struct NextWake(Option<Wall>);

impl Stored for NextWake {
    const TABLE: &'static str = "grants";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        row.maybe_wall("wake_at").map(Self)
    }
}

fn find(agent: &AgentName, server: &ServerName) -> Statement {
    query("SELECT * FROM grants WHERE agent = ? AND server = ?")
        .bind(text(agent))
        .bind(server_text(server))
}

impl SqliteRecords {
    /// The new values, in the order in which both statements of a swap begin.
    fn grant_values(&self, sql: &'static str, grant: &GrantRecord) -> Result<Statement, Error> {
        let last_renewal = grant.last_renewal.as_ref();
        let step_up = Some(&grant.step_up).filter(|it| **it != StepUp::default());
        Ok(query(sql)
            .bind(text(&grant.agent))
            .bind(server_text(&grant.server))
            .bind(number(grant.version.next().0))
            .bind(number(grant.generation.0))
            .bind(self.json(&grant.state)?)
            .bind(grant.wake_at.map(|at| at.0))
            .bind(grant.issuer.clone())
            .bind(grant.resource.clone())
            .bind(grant.token_endpoint.clone())
            .bind(self.json(&grant.client)?)
            .bind(last_renewal.map(|last| self.json(last)).transpose()?)
            .bind(step_up.map(|step_up| self.json(step_up)).transpose()?)
            .bind(grant.sealed.as_ref().map(|it| it.as_bytes().to_vec())))
    }
}

#[async_trait]
impl Grants for SqliteRecords {
    async fn grant(
        &self,
        agent: &AgentName,
        server: &ServerName,
    ) -> Result<Option<GrantRecord>, Error> {
        self.one(find(agent, server)).await
    }

    async fn grants(
        &self,
        after: Option<(&AgentName, &ServerName)>,
        limit: usize,
    ) -> Result<Vec<GrantRecord>, Error> {
        let statement = match after {
            Some((agent, server)) => query(
                "SELECT * FROM grants WHERE sealed IS NOT NULL AND (agent, server) > (?, ?) \
                 ORDER BY agent, server LIMIT ?",
            )
            .bind(text(agent))
            .bind(server_text(server)),
            None => query(
                "SELECT * FROM grants WHERE sealed IS NOT NULL ORDER BY agent, server LIMIT ?",
            ),
        };
        self.all(statement.bind(count(limit))).await
    }

    async fn swap_grant(&self, grant: &GrantRecord) -> Result<Swap<GrantRecord>, Error> {
        let write = if grant.version == Version::NONE {
            "INSERT INTO grants (agent, server, version, generation, state, wake_at, issuer, resource, \
             token_endpoint, client, last_renewal, step_up, sealed) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        } else {
            "UPDATE grants SET version = ?3, generation = ?4, state = ?5, wake_at = ?6, issuer = ?7, \
             resource = ?8, token_endpoint = ?9, client = ?10, last_renewal = ?11, step_up = ?12, \
             sealed = CASE WHEN generation < ?4 THEN ?13 ELSE sealed END \
             WHERE agent = ?1 AND server = ?2 AND version = ?3 - 1 AND generation <= ?4"
        };
        let write = self.grant_values(write, grant)?;
        self.swap(grant.version, write, find(&grant.agent, &grant.server))
            .await
    }

    async fn remove_grant(
        &self,
        agent: &AgentName,
        server: &ServerName,
        version: Version,
    ) -> Result<Swap<GrantRecord>, Error> {
        let write = query(
            "UPDATE grants SET version = version + 1, state = ?, wake_at = NULL, last_renewal = NULL, \
             step_up = NULL, sealed = NULL WHERE agent = ? AND server = ? AND version = ?",
        )
        .bind(self.json(&State::None)?)
        .bind(text(agent))
        .bind(server_text(server))
        .bind(number(version.0));
        self.swap(version, write, find(agent, server)).await
    }

    async fn due_grants(&self, search: DueSearch<'_>) -> Result<Vec<DueGrant>, Error> {
        // Plain arrays for SQLite to read, unlike what is kept, which says its version.
        let names: Vec<_> = search.servers.iter().map(ServerName::as_str).collect();
        let except = search.except.iter();
        let except: Vec<_> = except
            .map(|(agent, server)| vec![agent.as_str(), server.as_str()])
            .collect();
        let statement = query(DUE)
            .bind(search.now.0)
            .bind(count(search.per_issuer))
            .bind(count(search.limit))
            .bind(serde_json::Value::from(names).to_string())
            .bind(serde_json::Value::from(except).to_string());
        self.all(statement).await
    }

    async fn next_wake(&self) -> Result<Option<Wall>, Error> {
        let next: Option<NextWake> = self.one(query(NEXT_WAKE)).await?;
        Ok(next.and_then(|NextWake(at)| at))
    }
}
