//! The statements behind each method of [`Records`].

use async_trait::async_trait;
use sqlx::query;
use steadfast_core::connection::handshake::Known;
use steadfast_core::{AgentName, ServerName, SessionId, Wall};

use super::SqliteRecords;
use super::rows::Meta;
use super::statement::{changed, count, server_text, text};
use crate::error::Error;
use crate::keys::{IdHash, KeyHash};
use crate::model::{
    AgentRecord, AgentSessionRecord, ParkedCallRecord, ServerRecord, SessionRecord, Source,
    Transition,
};
use crate::records::Records;

fn source(source: Source) -> &'static str {
    match source {
        Source::File => "file",
        Source::Admin => "admin",
    }
}

const INSERT_HISTORY: &str = "INSERT INTO history \
     (at, agent, server, from_state, to_state, fault, reason) VALUES (?, ?, ?, ?, ?, ?, ?)";

#[async_trait]
impl Records for SqliteRecords {
    async fn put_agent(&self, agent: &AgentRecord) -> Result<(), Error> {
        let statement = query(
            "INSERT INTO agents (name, config, source, key_hash, created_at) VALUES (?, ?, ?, ?, ?) \
             ON CONFLICT (name) DO UPDATE SET config = excluded.config, source = excluded.source, \
             key_hash = coalesce(excluded.key_hash, agents.key_hash)",
        )
        .bind(text(&agent.name))
        .bind(self.json(&agent.config)?)
        .bind(source(agent.source))
        .bind(agent.key.map(|key| key.0.to_vec()))
        .bind(agent.created_at.0);
        self.execute(statement).await.map(|_| ())
    }

    async fn agents(&self) -> Result<Vec<AgentRecord>, Error> {
        let statement = query("SELECT * FROM agents ORDER BY name");
        self.all(statement).await
    }

    async fn agent(&self, name: &AgentName) -> Result<Option<AgentRecord>, Error> {
        let statement = query("SELECT * FROM agents WHERE name = ?").bind(text(name));
        self.one(statement).await
    }

    async fn agent_by_key(&self, key: &KeyHash) -> Result<Option<AgentRecord>, Error> {
        // The index may be searched in any time: it tells at most about the hash, never about the key.
        let statement = query("SELECT * FROM agents WHERE key_hash = ?").bind(key.0.to_vec());
        self.one(statement).await
    }

    async fn remove_agent(&self, name: &AgentName) -> Result<bool, Error> {
        let name = text(name);
        let removed = self.writer.write(|db| {
            Box::pin(async move {
                for statement in [
                    "DELETE FROM sessions WHERE agent = ?",
                    "DELETE FROM agent_sessions WHERE agent = ?",
                    "DELETE FROM parked_calls WHERE agent = ?",
                    "DELETE FROM sign_ins WHERE agent = ?",
                    "DELETE FROM notices WHERE agent = ?",
                    "DELETE FROM tellings WHERE agent = ?",
                ] {
                    query(statement)
                        .bind(name.clone())
                        .execute(&mut *db)
                        .await?;
                }
                changed(db, query("DELETE FROM agents WHERE name = ?").bind(name)).await
            })
        });
        Ok(removed.await? > 0)
    }

    async fn set_agent_key(&self, name: &AgentName, key: KeyHash) -> Result<bool, Error> {
        let statement = query("UPDATE agents SET key_hash = ? WHERE name = ?")
            .bind(key.0.to_vec())
            .bind(text(name));
        Ok(self.execute(statement).await? > 0)
    }

    async fn put_server(&self, server: &ServerRecord) -> Result<(), Error> {
        let statement = query(
            "INSERT INTO servers (name, config, source) VALUES (?, ?, ?) \
             ON CONFLICT (name) DO UPDATE SET config = excluded.config, source = excluded.source",
        )
        .bind(server_text(&server.name))
        .bind(self.json(&server.config)?)
        .bind(source(server.source));
        self.execute(statement).await.map(|_| ())
    }

    async fn servers(&self) -> Result<Vec<ServerRecord>, Error> {
        let statement = query("SELECT * FROM servers ORDER BY name");
        self.all(statement).await
    }

    async fn server(&self, name: &ServerName) -> Result<Option<ServerRecord>, Error> {
        let statement = query("SELECT * FROM servers WHERE name = ?").bind(server_text(name));
        self.one(statement).await
    }

    async fn remove_server(&self, name: &ServerName) -> Result<bool, Error> {
        let name = server_text(name);
        let removed = self.writer.write(|db| {
            Box::pin(async move {
                for statement in [
                    "DELETE FROM sessions WHERE server = ?",
                    "DELETE FROM agent_sessions WHERE server = ?",
                    "DELETE FROM parked_calls WHERE server = ?",
                    "DELETE FROM sign_ins WHERE server = ?",
                    "DELETE FROM notices WHERE server = ?",
                    "DELETE FROM tellings WHERE server = ?",
                ] {
                    query(statement)
                        .bind(name.clone())
                        .execute(&mut *db)
                        .await?;
                }
                changed(db, query("DELETE FROM servers WHERE name = ?").bind(name)).await
            })
        });
        Ok(removed.await? > 0)
    }

    async fn era(&self, address: &str) -> Result<Option<Known>, Error> {
        let statement = query("SELECT known FROM eras WHERE address = ?").bind(address.to_owned());
        self.one(statement).await
    }

    async fn put_era(&self, address: &str, known: &Known) -> Result<(), Error> {
        let statement = query("INSERT OR REPLACE INTO eras (address, known) VALUES (?, ?)")
            .bind(address.to_owned())
            .bind(self.json(known)?);
        self.execute(statement).await.map(|_| ())
    }

    async fn forget_era(&self, address: &str) -> Result<bool, Error> {
        let statement = query("DELETE FROM eras WHERE address = ?").bind(address.to_owned());
        Ok(self.execute(statement).await? > 0)
    }

    async fn session(
        &self,
        agent: &AgentName,
        server: &ServerName,
    ) -> Result<Option<SessionRecord>, Error> {
        let statement = query("SELECT * FROM sessions WHERE agent = ? AND server = ?")
            .bind(text(agent))
            .bind(server_text(server));
        self.one(statement).await
    }

    async fn put_session(&self, session: &SessionRecord) -> Result<(), Error> {
        let statement = query(
            "INSERT OR REPLACE INTO sessions (agent, server, address, id, revision, \
             initialize_result, opened_at, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(text(&session.agent))
        .bind(server_text(&session.server))
        .bind(session.address.clone())
        .bind(session.id.as_ref().map(|id| id.as_str().to_owned()))
        .bind(session.revision.as_str())
        .bind(session.initialize_result.clone())
        .bind(session.opened_at.0)
        .bind(self.json(&session.state)?);
        self.execute(statement).await.map(|_| ())
    }

    async fn remove_session(&self, agent: &AgentName, server: &ServerName) -> Result<bool, Error> {
        let statement = query("DELETE FROM sessions WHERE agent = ? AND server = ?")
            .bind(text(agent))
            .bind(server_text(server));
        Ok(self.execute(statement).await? > 0)
    }

    async fn append_history(&self, transitions: &[Transition]) -> Result<(), Error> {
        let mut statements = Vec::with_capacity(transitions.len());
        for transition in transitions {
            let fault = transition.fault.as_ref();
            let statement = query(INSERT_HISTORY)
                .bind(transition.at.0)
                .bind(text(&transition.agent))
                .bind(server_text(&transition.server))
                .bind(transition.from.clone())
                .bind(transition.to.clone())
                .bind(fault.map(|fault| self.json(fault)).transpose()?)
                .bind(transition.reason.clone());
            statements.push(statement);
        }
        let appended = self.writer.write(|db| {
            Box::pin(async move {
                for statement in statements {
                    statement.execute(&mut *db).await?;
                }
                Ok(())
            })
        });
        appended.await
    }

    async fn history(
        &self,
        agent: &AgentName,
        server: &ServerName,
        limit: usize,
    ) -> Result<Vec<Transition>, Error> {
        let statement =
            query("SELECT * FROM history WHERE agent = ? AND server = ? ORDER BY seq DESC LIMIT ?")
                .bind(text(agent))
                .bind(server_text(server))
                .bind(count(limit));
        self.all(statement).await
    }

    async fn trim_history(&self, keep_per_connection: usize) -> Result<u64, Error> {
        let statement = query(
            "DELETE FROM history WHERE seq IN (SELECT seq FROM (SELECT seq, row_number() OVER \
             (PARTITION BY agent, server ORDER BY seq DESC) AS age FROM history) WHERE age > ?)",
        )
        .bind(count(keep_per_connection));
        self.execute(statement).await
    }

    async fn put_agent_session(&self, session: &AgentSessionRecord) -> Result<(), Error> {
        let statement = query(
            "INSERT OR REPLACE INTO agent_sessions (id_hash, agent, server, revision, client_info, \
             capabilities, log_level, subscriptions, opened_at, used_at) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(session.id_hash.to_vec())
        .bind(text(&session.agent))
        .bind(session.server.as_ref().map(server_text))
        .bind(session.revision.as_str())
        .bind(session.client_info.clone())
        .bind(session.capabilities.clone())
        .bind(session.log_level.clone())
        .bind(self.json(&session.subscriptions)?)
        .bind(session.opened_at.0)
        .bind(session.used_at.0);
        self.execute(statement).await.map(|_| ())
    }

    async fn agent_session(&self, id_hash: &IdHash) -> Result<Option<AgentSessionRecord>, Error> {
        let statement =
            query("SELECT * FROM agent_sessions WHERE id_hash = ?").bind(id_hash.to_vec());
        self.one(statement).await
    }

    async fn agent_sessions(&self) -> Result<Vec<AgentSessionRecord>, Error> {
        let statement = query("SELECT * FROM agent_sessions ORDER BY id_hash");
        self.all(statement).await
    }

    async fn touch_agent_session(&self, id_hash: &IdHash, at: Wall) -> Result<bool, Error> {
        let statement =
            query("UPDATE agent_sessions SET used_at = max(used_at, ?) WHERE id_hash = ?")
                .bind(at.0)
                .bind(id_hash.to_vec());
        Ok(self.execute(statement).await? > 0)
    }

    async fn remove_agent_session(&self, id_hash: &IdHash) -> Result<bool, Error> {
        let statement =
            query("DELETE FROM agent_sessions WHERE id_hash = ?").bind(id_hash.to_vec());
        Ok(self.execute(statement).await? > 0)
    }

    async fn remove_idle_agent_sessions(&self, before: Wall) -> Result<u64, Error> {
        let statement = query("DELETE FROM agent_sessions WHERE used_at < ?").bind(before.0);
        self.execute(statement).await
    }

    async fn put_parked_call(&self, call: &ParkedCallRecord) -> Result<(), Error> {
        let statement = query(
            "INSERT OR REPLACE INTO parked_calls (state_hash, agent, server, session, rpc_id, cursor, \
             questions, method, tool, digest, sent_at, bytes_sent, expires_at) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(call.state_hash.to_vec())
        .bind(text(&call.agent))
        .bind(server_text(&call.server))
        .bind(call.session.as_ref().map(|id| id.as_str().to_owned()))
        .bind(call.rpc_id)
        .bind(call.cursor.as_ref().map(|cursor| cursor.as_str().to_owned()))
        .bind(self.json(&call.questions)?)
        .bind(call.method.clone())
        .bind(call.tool.clone())
        .bind(call.digest.to_vec())
        .bind(call.sent_at.0)
        .bind(call.bytes_sent)
        .bind(call.expires_at.0);
        self.execute(statement).await.map(|_| ())
    }

    async fn parked_call(&self, state_hash: &IdHash) -> Result<Option<ParkedCallRecord>, Error> {
        let statement =
            query("SELECT * FROM parked_calls WHERE state_hash = ?").bind(state_hash.to_vec());
        self.one(statement).await
    }

    async fn is_waited_for(
        &self,
        agent: &AgentName,
        server: &ServerName,
        session: &SessionId,
        now: Wall,
    ) -> Result<bool, Error> {
        let statement = query(
            "SELECT * FROM parked_calls WHERE agent = ? AND server = ? AND session = ? \
             AND expires_at >= ? LIMIT 1",
        )
        .bind(text(agent))
        .bind(server_text(server))
        .bind(session.as_str().to_owned())
        .bind(now.0);
        let call: Option<ParkedCallRecord> = self.one(statement).await?;
        Ok(call.is_some())
    }

    async fn remove_parked_call(&self, state_hash: &IdHash) -> Result<bool, Error> {
        let statement =
            query("DELETE FROM parked_calls WHERE state_hash = ?").bind(state_hash.to_vec());
        Ok(self.execute(statement).await? > 0)
    }

    async fn remove_expired_parked_calls(&self, before: Wall) -> Result<u64, Error> {
        let statement = query("DELETE FROM parked_calls WHERE expires_at < ?").bind(before.0);
        self.execute(statement).await
    }

    async fn meta(&self, key: &str) -> Result<Option<String>, Error> {
        let statement = query("SELECT value FROM meta WHERE key = ?").bind(key.to_owned());
        let value: Option<Meta> = self.one(statement).await?;
        Ok(value.map(|Meta(value)| value))
    }

    async fn put_meta(&self, key: &str, value: &str) -> Result<(), Error> {
        let statement = query("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)")
            .bind(key.to_owned())
            .bind(value.to_owned());
        self.execute(statement).await.map(|_| ())
    }

    async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}
