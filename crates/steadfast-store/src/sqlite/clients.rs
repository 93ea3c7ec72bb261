use async_trait::async_trait;
use sqlx::query;

use super::SqliteRecords;
use super::rows::{Reader, Stored};
use super::statement::{Statement, number};
use crate::clients::{ClientRecord, Clients};
use crate::error::Error;
use crate::swap::{Swap, Version};

impl Stored for ClientRecord {
    const TABLE: &'static str = "clients";

    fn read(row: &Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            issuer: row.get("issuer")?,
            redirect_uri: row.get("redirect_uri")?,
            version: row.version()?,
            client_id: row.get("client_id")?,
            sealed: row.maybe_sealed()?,
            auth: row.json("auth")?,
            expires_at: row.maybe_wall("expires_at")?,
            registered_at: row.wall("registered_at")?,
            doubtful: row.get("doubtful")?,
        })
    }
}

fn find(issuer: &str, redirect_uri: &str) -> Statement {
    query("SELECT * FROM clients WHERE issuer = ? AND redirect_uri = ?")
        .bind(issuer.to_owned())
        .bind(redirect_uri.to_owned())
}

#[async_trait]
impl Clients for SqliteRecords {
    async fn client(
        &self,
        issuer: &str,
        redirect_uri: &str,
    ) -> Result<Option<ClientRecord>, Error> {
        self.one(find(issuer, redirect_uri)).await
    }

    async fn swap_client(&self, client: &ClientRecord) -> Result<Swap<ClientRecord>, Error> {
        let write = if client.version == Version::NONE {
            "INSERT INTO clients (issuer, redirect_uri, version, client_id, sealed, auth, expires_at, \
             registered_at, doubtful) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        } else {
            "UPDATE clients SET version = ?3, client_id = ?4, sealed = ?5, auth = ?6, expires_at = ?7, \
             registered_at = ?8, doubtful = ?9 \
             WHERE issuer = ?1 AND redirect_uri = ?2 AND version = ?3 - 1"
        };
        let write = query(write)
            .bind(client.issuer.clone())
            .bind(client.redirect_uri.clone())
            .bind(number(client.version.next().0))
            .bind(client.client_id.clone())
            .bind(client.sealed.as_ref().map(|it| it.as_bytes().to_vec()))
            .bind(self.json(&client.auth)?)
            .bind(client.expires_at.map(|at| at.0))
            .bind(client.registered_at.0)
            .bind(client.doubtful);
        let find = find(&client.issuer, &client.redirect_uri);
        self.swap(client.version, write, find).await
    }

    async fn remove_client(
        &self,
        issuer: &str,
        redirect_uri: &str,
        version: Version,
    ) -> Result<bool, Error> {
        let statement =
            query("DELETE FROM clients WHERE issuer = ? AND redirect_uri = ? AND version = ?")
                .bind(issuer.to_owned())
                .bind(redirect_uri.to_owned())
                .bind(number(version.0));
        Ok(self.execute(statement).await? > 0)
    }
}
