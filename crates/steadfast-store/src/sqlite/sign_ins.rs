use async_trait::async_trait;
use sqlx::query;
use sqlx::sqlite::SqliteRow;
use steadfast_core::{AgentName, ServerName, Wall};

use super::SqliteRecords;
use super::rows::{self, Reader, Stored};
use super::statement::{Statement, server_text, text};
use crate::error::{Error, Problem};
use crate::keys::IdHash;
use crate::sign_ins::{SignInRecord, SignIns, Started};

impl Stored for SignInRecord {
    const TABLE: &'static str = "sign_ins";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            agent: row.agent_name("agent")?,
            server: row.server_name("server")?,
            id: row.get("id")?,
            state_hash: row
                .hash("state_hash")?
                .ok_or_else(|| row.unreadable(Problem::Damaged, "state_hash"))?,
            issuer: row.get("issuer")?,
            token_endpoint: row.get("token_endpoint")?,
            redirect_uri: row.get("redirect_uri")?,
            client: row.json("client")?,
            scopes: row.json("scopes")?,
            resource: row.get("resource")?,
            sealed: row.sealed()?,
            started_at: row.wall("started_at")?,
            expires_at: row.wall("expires_at")?,
        })
    }
}

impl SqliteRecords {
    fn put_sign_in(&self, sign_in: &SignInRecord) -> Result<Statement, Error> {
        Ok(query(
            "INSERT OR REPLACE INTO sign_ins (agent, server, id, state_hash, issuer, token_endpoint, \
             redirect_uri, client, scopes, resource, sealed, started_at, expires_at) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(text(&sign_in.agent))
        .bind(server_text(&sign_in.server))
        .bind(sign_in.id.clone())
        .bind(sign_in.state_hash.to_vec())
        .bind(sign_in.issuer.clone())
        .bind(sign_in.token_endpoint.clone())
        .bind(sign_in.redirect_uri.clone())
        .bind(self.json(&sign_in.client)?)
        .bind(self.json(&sign_in.scopes)?)
        .bind(sign_in.resource.clone())
        .bind(sign_in.sealed.as_bytes().to_vec())
        .bind(sign_in.started_at.0)
        .bind(sign_in.expires_at.0))
    }

    /// Deletes and returns what it deleted.
    async fn taken(&self, statement: Statement) -> Result<Vec<SignInRecord>, Error> {
        let taken = self.writer.write(|db| Box::pin(statement.fetch_all(db)));
        let rows: Vec<SqliteRow> = taken.await?;
        rows.iter()
            .map(|row| rows::read(row, &self.place))
            .collect()
    }
}

#[async_trait]
impl SignIns for SqliteRecords {
    async fn start_sign_in(
        &self,
        sign_in: &SignInRecord,
        now: Wall,
        restart: bool,
    ) -> Result<Started, Error> {
        let open =
            query("SELECT * FROM sign_ins WHERE agent = ? AND server = ? AND expires_at > ?")
                .bind(text(&sign_in.agent))
                .bind(server_text(&sign_in.server))
                .bind(now.0);
        let put = self.put_sign_in(sign_in)?;
        let started = self.writer.write(move |db| {
            Box::pin(async move {
                if !restart && let Some(row) = open.fetch_optional(&mut *db).await? {
                    return Ok(Some(row));
                }
                put.execute(db).await?;
                Ok(None)
            })
        });
        match started.await? {
            Some(row) => Ok(Started::Open(Box::new(rows::read(&row, &self.place)?))),
            None => Ok(Started::New),
        }
    }

    async fn sign_in(
        &self,
        agent: &AgentName,
        server: &ServerName,
    ) -> Result<Option<SignInRecord>, Error> {
        let statement = query("SELECT * FROM sign_ins WHERE agent = ? AND server = ?")
            .bind(text(agent))
            .bind(server_text(server));
        self.one(statement).await
    }

    async fn take_sign_in(&self, state_hash: &IdHash) -> Result<Option<SignInRecord>, Error> {
        // The index may be searched in any time: it tells at most about the hash, never about `state`.
        let statement = query("DELETE FROM sign_ins WHERE state_hash = ? RETURNING *")
            .bind(state_hash.to_vec());
        Ok(self.taken(statement).await?.pop())
    }

    async fn remove_sign_in(&self, agent: &AgentName, server: &ServerName) -> Result<bool, Error> {
        let statement = query("DELETE FROM sign_ins WHERE agent = ? AND server = ?")
            .bind(text(agent))
            .bind(server_text(server));
        Ok(self.execute(statement).await? > 0)
    }

    async fn take_expired_sign_ins(&self, before: Wall) -> Result<Vec<SignInRecord>, Error> {
        let statement =
            query("DELETE FROM sign_ins WHERE expires_at < ? RETURNING *").bind(before.0);
        let mut taken = self.taken(statement).await?;
        // SQLite promises no order of what RETURNING gives.
        taken.sort_by(|a, b| (&a.agent, &a.server).cmp(&(&b.agent, &b.server)));
        Ok(taken)
    }
}
