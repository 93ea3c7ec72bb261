//! From rows to records. A row that cannot be understood is an error, never a row less.

use serde::de::DeserializeOwned;
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Row as _, Sqlite, Type};
use steadfast_core::connection::handshake::Known;
use steadfast_core::{AgentName, EventCursor, Revision, ServerName, SessionId, Wall};

use super::fault;
use crate::error::{Error, Problem};
use crate::keys::KeyHash;
use crate::model::{
    AgentRecord, AgentSessionRecord, ParkedCallRecord, ServerRecord, SessionRecord, Source,
    Transition,
};
use crate::place::Place;
use crate::swap::Version;
use crate::vault::Sealed;
use crate::versioned;

/// What is stored as a row of a table.
pub(super) trait Stored: Sized {
    const TABLE: &'static str;

    fn read(row: &Reader<'_>) -> Result<Self, Error>;
}

/// A row with the names that an error needs.
pub(super) struct Reader<'r> {
    row: &'r SqliteRow,
    table: &'static str,
    place: &'r Place,
}

/// Reads a row.
pub(super) fn read<T: Stored>(row: &SqliteRow, place: &Place) -> Result<T, Error> {
    T::read(&Reader {
        row,
        table: T::TABLE,
        place,
    })
}

impl<'r> Reader<'r> {
    pub(super) fn get<T>(&self, column: &'static str) -> Result<T, Error>
    where
        T: Decode<'r, Sqlite> + Type<Sqlite>,
    {
        self.row
            .try_get(column)
            .map_err(|error| fault::classify(self.place, &error))
    }

    pub(super) fn unreadable(&self, problem: Problem, column: &str) -> Error {
        self.place.error(
            problem,
            format!(
                "column {column} of table {} holds what cannot be understood",
                self.table
            ),
        )
    }

    pub(super) fn json<T: DeserializeOwned>(&self, column: &'static str) -> Result<T, Error> {
        versioned::decode(self.get(column)?).map_err(|problem| self.unreadable(problem, column))
    }

    pub(super) fn hash(&self, column: &'static str) -> Result<Option<[u8; 32]>, Error> {
        let bytes: Option<&[u8]> = self.get(column)?;
        bytes
            .map(<[u8; 32]>::try_from)
            .transpose()
            .map_err(|_| self.unreadable(Problem::Damaged, column))
    }

    pub(super) fn present_hash(&self, column: &'static str) -> Result<[u8; 32], Error> {
        self.hash(column)?
            .ok_or_else(|| self.unreadable(Problem::Damaged, column))
    }

    fn source(&self) -> Result<Source, Error> {
        match self.get("source")? {
            "file" => Ok(Source::File),
            "admin" => Ok(Source::Admin),
            _ => Err(self.unreadable(Problem::Damaged, "source")),
        }
    }

    fn revision(&self) -> Result<Revision, Error> {
        // A revision that we do not speak was written by a version that does.
        Revision::parse(self.get("revision")?)
            .ok_or_else(|| self.unreadable(Problem::Newer, "revision"))
    }

    pub(super) fn wall(&self, column: &'static str) -> Result<Wall, Error> {
        self.get(column).map(Wall)
    }

    pub(super) fn maybe_wall(&self, column: &'static str) -> Result<Option<Wall>, Error> {
        Ok(self.get::<Option<i64>>(column)?.map(Wall))
    }

    pub(super) fn maybe_json<T: DeserializeOwned>(
        &self,
        column: &'static str,
    ) -> Result<Option<T>, Error> {
        let text: Option<&str> = self.get(column)?;
        text.map(|_| self.json(column)).transpose()
    }

    /// A whole number that is not below nothing.
    pub(super) fn number(&self, column: &'static str) -> Result<u64, Error> {
        u64::try_from(self.get::<i64>(column)?)
            .map_err(|_| self.unreadable(Problem::Damaged, column))
    }

    pub(super) fn version(&self) -> Result<Version, Error> {
        self.number("version").map(Version)
    }

    pub(super) fn sealed(&self) -> Result<Sealed, Error> {
        self.get::<Vec<u8>>("sealed").map(Sealed::from)
    }

    pub(super) fn maybe_sealed(&self) -> Result<Option<Sealed>, Error> {
        Ok(self.get::<Option<Vec<u8>>>("sealed")?.map(Sealed::from))
    }

    pub(super) fn agent_name(&self, column: &'static str) -> Result<AgentName, Error> {
        self.get::<&str>(column).map(AgentName::from)
    }

    pub(super) fn server_name(&self, column: &'static str) -> Result<ServerName, Error> {
        self.get::<&str>(column).map(ServerName::from)
    }
}

impl Stored for AgentRecord {
    const TABLE: &'static str = "agents";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            name: row.agent_name("name")?,
            config: row.json("config")?,
            source: row.source()?,
            key: row.hash("key_hash")?.map(KeyHash),
            created_at: row.wall("created_at")?,
        })
    }
}

impl Stored for ServerRecord {
    const TABLE: &'static str = "servers";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            name: row.server_name("name")?,
            config: row.json("config")?,
            source: row.source()?,
        })
    }
}

impl Stored for Known {
    const TABLE: &'static str = "eras";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        row.json("known")
    }
}

impl Stored for SessionRecord {
    const TABLE: &'static str = "sessions";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            agent: row.agent_name("agent")?,
            server: row.server_name("server")?,
            address: row.get("address")?,
            id: row.get::<Option<&str>>("id")?.map(SessionId::from),
            revision: row.revision()?,
            initialize_result: row.get("initialize_result")?,
            opened_at: row.wall("opened_at")?,
            state: row.json("state")?,
        })
    }
}

impl Stored for Transition {
    const TABLE: &'static str = "history";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            at: row.wall("at")?,
            agent: row.agent_name("agent")?,
            server: row.server_name("server")?,
            from: row.get("from_state")?,
            to: row.get("to_state")?,
            fault: row.maybe_json("fault")?,
            reason: row.get("reason")?,
        })
    }
}

impl Stored for AgentSessionRecord {
    const TABLE: &'static str = "agent_sessions";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            id_hash: row.present_hash("id_hash")?,
            agent: row.agent_name("agent")?,
            server: row.get::<Option<&str>>("server")?.map(ServerName::from),
            revision: row.revision()?,
            client_info: row.get("client_info")?,
            capabilities: row.get("capabilities")?,
            log_level: row.get("log_level")?,
            subscriptions: row.json("subscriptions")?,
            opened_at: row.wall("opened_at")?,
            used_at: row.wall("used_at")?,
        })
    }
}

impl Stored for ParkedCallRecord {
    const TABLE: &'static str = "parked_calls";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            state_hash: row.present_hash("state_hash")?,
            agent: row.agent_name("agent")?,
            server: row.server_name("server")?,
            session: row.get::<Option<&str>>("session")?.map(SessionId::from),
            rpc_id: row.get("rpc_id")?,
            cursor: row.get::<Option<&str>>("cursor")?.map(EventCursor::from),
            questions: row.json("questions")?,
            method: row.get("method")?,
            tool: row.get("tool")?,
            digest: row.present_hash("digest")?,
            sent_at: row.wall("sent_at")?,
            bytes_sent: row.get("bytes_sent")?,
            expires_at: row.wall("expires_at")?,
        })
    }
}

/// The value of a setting.
pub(super) struct Meta(pub(super) String);

impl Stored for Meta {
    const TABLE: &'static str = "meta";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        row.get("value").map(Self)
    }
}
