use async_trait::async_trait;
use sqlx::query;
use steadfast_core::operation::Fact;
use steadfast_core::{AgentName, OperationId, ServerName, Wall};

use super::SqliteRecords;
use super::rows::{self, Reader, Stored};
use super::statement::{Statement, Swapped, changed, count, number, server_text, swap, text};
use crate::error::Error;
use crate::operations::{Digest, HeldCount, OperationFilter, OperationRecord, Operations};
use crate::swap::{Swap, Version};
use crate::vault::Sealed;

impl Stored for OperationRecord {
    const TABLE: &'static str = "operations";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            id: row.get::<&str>("id").map(OperationId::from)?,
            version: row.version()?,
            agent: row.agent_name("agent")?,
            server: row.server_name("server")?,
            tool: row.get("tool")?,
            digest: row.present_hash("digest")?,
            call_digest: row.present_hash("call_digest")?,
            key_hash: row.hash("key_hash")?,
            leg_hash: row.hash("leg_hash")?,
            contract: row.json("contract")?,
            state: row.json("state")?,
            undelivered: row.get("undelivered")?,
            driver: row.get("driver")?,
            wake_at: row.maybe_wall("wake_at")?,
            intended_at: row.wall("intended_at")?,
            changed_at: row.wall("changed_at")?,
            sealed: row.sealed()?,
            result: row.get::<Option<Vec<u8>>>("result")?.map(Sealed::from),
        })
    }
}

struct StoredFact(Fact);

impl Stored for StoredFact {
    const TABLE: &'static str = "operation_facts";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        row.json("fact").map(Self)
    }
}

struct Due(OperationId);

impl Stored for Due {
    const TABLE: &'static str = "operations";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        row.get::<&str>("id").map(|id| Self(OperationId::from(id)))
    }
}

struct Wake(Option<Wall>);

impl Stored for Wake {
    const TABLE: &'static str = "operations";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        row.maybe_wall("wake_at").map(Self)
    }
}

struct Driver(String);

impl Stored for Driver {
    const TABLE: &'static str = "operations";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        row.get("driver").map(Self)
    }
}

impl Stored for HeldCount {
    const TABLE: &'static str = "operations";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            agent: row.agent_name("agent")?,
            server: row.server_name("server")?,
            count: row.number("held")?,
        })
    }
}

/// ?1 agent, ?2 server, ?3 the digest of the call, ?4 the hash of its key, ?5 how many.
pub(super) const SIMILAR: &str = "SELECT * FROM operations WHERE seq IN ( \
       SELECT seq FROM (SELECT seq FROM operations \
         WHERE agent = ?1 AND server = ?2 AND call_digest = ?3 AND is_open = 1 ORDER BY seq DESC LIMIT ?5) \
       UNION \
       SELECT seq FROM (SELECT seq FROM operations \
         WHERE agent = ?1 AND server = ?2 AND key_hash = ?4 AND state_name <> 'no_effect')) \
     ORDER BY seq DESC";

/// ?1 agent, ?2 server, ?3 state, ?4 the one to go on before, ?5 how many. One statement for each combination that an
/// index serves.
pub(super) fn list(filter: &OperationFilter) -> &'static str {
    macro_rules! list {
        ($where:literal) => {
            concat!(
                "SELECT * FROM operations WHERE ",
                $where,
                " AND (?1 IS NULL OR agent = ?1) AND (?2 IS NULL OR server = ?2) \
                 AND (?3 IS NULL OR state_name = ?3) \
                 AND seq < coalesce((SELECT seq FROM operations WHERE id = ?4), 9223372036854775807) \
                 ORDER BY seq DESC LIMIT ?5"
            )
        };
    }
    match filter {
        // Few are unresolved: their state finds them fastest.
        OperationFilter { state: Some(_), .. } => list!("state_name = ?3"),
        OperationFilter {
            agent: Some(_),
            server: Some(_),
            ..
        } => list!("agent = ?1 AND server = ?2"),
        OperationFilter {
            server: Some(_), ..
        } => list!("server = ?2"),
        OperationFilter { agent: Some(_), .. } => list!("agent = ?1"),
        OperationFilter { .. } => list!("seq > 0"),
    }
}

/// Appends facts, an array of texts, where the statement before it changed a row. Parameters of a second statement are
/// counted on from the first where they have no number; where they have one, the first must have had numbers, too.
macro_rules! and_append {
    ($change:literal, $facts:literal, $id:literal) => {
        concat!(
            $change,
            "; INSERT INTO operation_facts (operation, number, fact) \
             SELECT seq, \
               1 + key + coalesce((SELECT max(number) FROM operation_facts WHERE operation = seq), 0), value \
             FROM operations, json_each(",
            $facts,
            ") WHERE operations.id = ",
            $id,
            " AND changes() = 1"
        )
    };
}

const INSERT: &str = and_append!(
    "INSERT INTO operations (id, version, state, state_name, is_open, undelivered, driver, leg_hash, \
     wake_at, changed_at, result, agent, server, tool, digest, call_digest, key_hash, contract, \
     intended_at, sealed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
     ON CONFLICT DO NOTHING",
    "?",
    "?"
);

const UPDATE: &str = and_append!(
    "UPDATE operations SET version = ?2, state = ?3, state_name = ?4, is_open = ?5, undelivered = ?6, \
     driver = ?7, leg_hash = ?8, wake_at = ?9, changed_at = ?10, result = ?11 \
     WHERE id = ?1 AND version = ?2 - 1",
    "?12",
    "?1"
);

/// ?1 pairs of id and version, as JSON. What has an answer to give is open for nothing else.
pub(super) const GIVEN: &str = "UPDATE operations SET version = version + 1, undelivered = 0, is_open = 0, driver = NULL, \
     result = CASE WHEN key_hash IS NULL THEN NULL ELSE result END \
     WHERE undelivered = 1 \
     AND (id, version) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))";

fn find(id: &OperationId) -> Statement {
    query("SELECT * FROM operations WHERE id = ?").bind(id.as_str().to_owned())
}

fn by_key(operation: &OperationRecord) -> Statement {
    query(
        "SELECT * FROM operations WHERE agent = ? AND server = ? AND key_hash = ? AND state_name <> 'no_effect'",
    )
    .bind(text(&operation.agent))
    .bind(server_text(&operation.server))
    .bind(operation.key_hash.map(|hash| hash.to_vec()))
}

fn sealed(value: Option<&Sealed>) -> Option<Vec<u8>> {
    value.map(|sealed| sealed.as_bytes().to_vec())
}

impl SqliteRecords {
    /// An array of the texts of facts.
    fn fact_texts(&self, facts: &[Fact]) -> Result<String, Error> {
        let texts = facts.iter().map(|fact| self.json(fact));
        let texts: Vec<String> = texts.collect::<Result<_, Error>>()?;
        Ok(serde_json::json!(texts).to_string())
    }

    /// What changes, in the order in which both statements begin.
    fn changing(&self, sql: &'static str, operation: &OperationRecord) -> Result<Statement, Error> {
        Ok(query(sql)
            .bind(operation.id.as_str().to_owned())
            .bind(number(operation.version.next().0))
            .bind(self.json(&operation.state)?)
            .bind(operation.state.name())
            .bind(operation.is_open())
            .bind(operation.undelivered)
            .bind(operation.driver.clone())
            .bind(operation.leg_hash.map(|hash| hash.to_vec()))
            .bind(operation.wake_at.map(|at| at.0))
            .bind(operation.changed_at.0)
            .bind(sealed(operation.result.as_ref())))
    }

    /// What changes an operation and appends facts, and what reads it where that changed nothing.
    fn advancing(
        &self,
        operation: &OperationRecord,
        facts: &[Fact],
    ) -> Result<(Statement, Statement), Error> {
        let write = self.changing(UPDATE, operation)?;
        let write = write.bind(self.fact_texts(facts)?);
        Ok((write, find(&operation.id)))
    }

    fn appended(
        &self,
        operation: &OperationRecord,
        swapped: Swapped,
    ) -> Result<Swap<OperationRecord>, Error> {
        match swapped {
            Swapped::Stored => Ok(Swap::Stored(operation.version.next())),
            Swapped::Lost(row) => {
                let present = row.map(|row| rows::read(&row, &self.place)).transpose()?;
                Ok(Swap::Lost(present.map(Box::new)))
            }
        }
    }
}

#[async_trait]
impl Operations for SqliteRecords {
    async fn intend(
        &self,
        operation: &OperationRecord,
        facts: &[Fact],
    ) -> Result<Swap<OperationRecord>, Error> {
        let write = self
            .changing(INSERT, operation)?
            .bind(text(&operation.agent))
            .bind(server_text(&operation.server))
            .bind(operation.tool.clone())
            .bind(operation.digest.to_vec())
            .bind(operation.call_digest.to_vec())
            .bind(operation.key_hash.map(|hash| hash.to_vec()))
            .bind(self.json(&operation.contract)?)
            .bind(operation.intended_at.0)
            .bind(sealed(Some(&operation.sealed)))
            .bind(self.fact_texts(facts)?)
            .bind(operation.id.as_str().to_owned());
        let read = by_key(operation);
        let swapped = self.writer.write(|db| swap(db, write, read)).await?;
        self.appended(operation, swapped)
    }

    async fn advance(
        &self,
        operation: &OperationRecord,
        facts: &[Fact],
    ) -> Result<Swap<OperationRecord>, Error> {
        let (write, read) = self.advancing(operation, facts)?;
        let swapped = self.writer.write(|db| swap(db, write, read)).await?;
        self.appended(operation, swapped)
    }

    async fn advance_lazily(
        &self,
        operation: &OperationRecord,
        facts: &[Fact],
    ) -> Result<Swap<OperationRecord>, Error> {
        let (write, read) = self.advancing(operation, facts)?;
        let swapped = self.writer.write_lazily(|db| swap(db, write, read)).await?;
        self.appended(operation, swapped)
    }

    async fn answers_given(&self, operations: &[(OperationId, Version)]) -> Result<(), Error> {
        let pairs: Vec<_> = operations
            .iter()
            .map(|(id, version)| (id.as_str(), version.0))
            .collect();
        let write = query(GIVEN).bind(serde_json::json!(pairs).to_string());
        self.writer
            .write_lazily(|db| changed(db, write))
            .await
            .map(drop)
    }

    async fn operation(&self, id: &OperationId) -> Result<Option<OperationRecord>, Error> {
        self.one(find(id)).await
    }

    async fn operation_facts(&self, id: &OperationId) -> Result<Vec<Fact>, Error> {
        let statement = query(
            "SELECT fact FROM operation_facts WHERE operation = (SELECT seq FROM operations WHERE id = ?) \
             ORDER BY number",
        )
        .bind(id.as_str().to_owned());
        let facts = self.all(statement).await?;
        Ok(facts.into_iter().map(|StoredFact(fact)| fact).collect())
    }

    async fn similar_operations(
        &self,
        agent: &AgentName,
        server: &ServerName,
        call_digest: &Digest,
        key_hash: Option<&Digest>,
        limit: usize,
    ) -> Result<Vec<OperationRecord>, Error> {
        let statement = query(SIMILAR)
            .bind(text(agent))
            .bind(server_text(server))
            .bind(call_digest.to_vec())
            .bind(key_hash.map(|hash| hash.to_vec()))
            .bind(count(limit));
        self.all(statement).await
    }

    async fn operation_of_leg(&self, leg_hash: &Digest) -> Result<Option<OperationRecord>, Error> {
        let statement =
            query("SELECT * FROM operations WHERE leg_hash = ? ORDER BY seq DESC LIMIT 1")
                .bind(leg_hash.to_vec());
        self.one(statement).await
    }

    async fn operations(
        &self,
        filter: &OperationFilter,
        limit: usize,
    ) -> Result<Vec<OperationRecord>, Error> {
        let before = filter.before.as_ref().map(|id| id.as_str().to_owned());
        let statement = query(list(filter))
            .bind(filter.agent.as_ref().map(text))
            .bind(filter.server.as_ref().map(server_text))
            .bind(filter.state.clone())
            .bind(before)
            .bind(count(limit));
        self.all(statement).await
    }

    async fn due_operations(&self, now: Wall, limit: usize) -> Result<Vec<OperationId>, Error> {
        let statement =
            query("SELECT id FROM operations WHERE wake_at <= ? ORDER BY wake_at, seq LIMIT ?")
                .bind(now.0)
                .bind(count(limit));
        let due = self.all(statement).await?;
        Ok(due.into_iter().map(|Due(id)| id).collect())
    }

    async fn next_operation_wake(&self) -> Result<Option<Wall>, Error> {
        let statement =
            query("SELECT min(wake_at) AS wake_at FROM operations WHERE wake_at IS NOT NULL");
        let next: Option<Wake> = self.one(statement).await?;
        Ok(next.and_then(|Wake(at)| at))
    }

    async fn operation_drivers(&self) -> Result<Vec<String>, Error> {
        let statement = query(
            "SELECT DISTINCT driver FROM operations WHERE driver IS NOT NULL ORDER BY driver",
        );
        let drivers = self.all(statement).await?;
        Ok(drivers.into_iter().map(|Driver(name)| name).collect())
    }

    async fn driven_operations(
        &self,
        driver: &str,
        limit: usize,
    ) -> Result<Vec<OperationRecord>, Error> {
        let statement = query("SELECT * FROM operations WHERE driver = ? ORDER BY seq LIMIT ?")
            .bind(driver.to_owned())
            .bind(count(limit));
        self.all(statement).await
    }

    async fn held_operations(&self) -> Result<Vec<HeldCount>, Error> {
        let statement = query(
            "SELECT agent, server, count(*) AS held FROM operations WHERE state_name = 'held' \
             GROUP BY agent, server ORDER BY agent, server",
        );
        self.all(statement).await
    }
}
