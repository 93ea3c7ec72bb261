use async_trait::async_trait;
use sqlx::query;
use steadfast_core::Wall;

use super::SqliteRecords;
use super::rows;
use super::rows::{Reader, Stored};
use super::statement::{Statement, Swapped, number, swap};
use crate::error::{Error, Problem};
use crate::leases::{self, Lease, LeaseKey, Leases, Taken};

struct Held {
    holder: String,
    until: Wall,
}

impl Stored for Held {
    const TABLE: &'static str = "leases";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            holder: row.get("holder")?,
            until: row.wall("until")?,
        })
    }
}

/// With the key of the lease as the first three values.
fn keyed(sql: &'static str, key: &LeaseKey) -> Statement {
    let (kind, first, second) = match key {
        LeaseKey::Renewal { agent, server } => ("renewal", agent.as_str(), server.as_str()),
        LeaseKey::Registration {
            issuer,
            redirect_uri,
        } => ("registration", issuer.as_str(), redirect_uri.as_str()),
    };
    query(sql)
        .bind(kind)
        .bind(first.to_owned())
        .bind(second.to_owned())
}

const FIND: &str = "SELECT holder, until FROM leases WHERE kind = ? AND first = ? AND second = ?";

#[async_trait]
impl Leases for SqliteRecords {
    async fn take_lease(
        &self,
        key: &LeaseKey,
        holder: &str,
        now: Wall,
        until: Wall,
    ) -> Result<Taken, Error> {
        let lease = Lease {
            key: key.clone(),
            number: leases::draw()?,
        };
        let take = keyed(
            "INSERT INTO leases (kind, first, second, number, holder, until) VALUES (?, ?, ?, ?, ?, ?) \
             ON CONFLICT (kind, first, second) DO UPDATE SET number = excluded.number, \
             holder = excluded.holder, until = excluded.until WHERE leases.until <= ?",
            key,
        )
        .bind(number(lease.number))
        .bind(holder.to_owned())
        .bind(until.0)
        .bind(now.0);
        let find = keyed(FIND, key);
        match self.writer.write(|db| swap(db, take, find)).await? {
            Swapped::Stored => Ok(Taken::Yes(lease)),
            Swapped::Lost(Some(row)) => {
                let Held { holder, until } = rows::read(&row, &self.place)?;
                Ok(Taken::No { holder, until })
            }
            Swapped::Lost(None) => Err(self
                .place
                .error(Problem::Io, "a lease could neither be taken nor found")),
        }
    }

    async fn renew_lease(&self, lease: &Lease, until: Wall) -> Result<bool, Error> {
        let statement = keyed(
            "UPDATE leases SET until = ?5 WHERE kind = ?1 AND first = ?2 AND second = ?3 AND number = ?4",
            &lease.key,
        )
        .bind(number(lease.number))
        .bind(until.0);
        Ok(self.execute(statement).await? > 0)
    }

    async fn release_lease(&self, lease: &Lease) -> Result<bool, Error> {
        let statement = keyed(
            "DELETE FROM leases WHERE kind = ? AND first = ? AND second = ? AND number = ?",
            &lease.key,
        )
        .bind(number(lease.number));
        Ok(self.execute(statement).await? > 0)
    }

    async fn lease_holder(&self, key: &LeaseKey) -> Result<Option<(String, Wall)>, Error> {
        let held: Option<Held> = self.one(keyed(FIND, key)).await?;
        Ok(held.map(|held| (held.holder, held.until)))
    }
}
